"""`bub onboard`: a set-up by answering questions, at a terminal or from a script."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, TextIO

import typer

from bub.agent.local.parts import status
from bub.asking import Voice
from bub.base.diagnostics import PipelineError
from bub.base.locate import FILE_NAME, bub_home
from bub.base.rewrite import require_writable
from bub.cli.exits import INTERRUPTED
from bub.cli.findings import ShownPipelineError
from bub.cli.opening import usual_file
from bub.cli.options import Options, options_of, workspace_of
from bub.cli.prompts import can_ask
from bub.cli.questions import TerminalVoice
from bub.cli.terminal import printable
from bub.errors import BubError, UsageError
from bub.inbox.started import is_started_by_bub
from bub.pipeline.check.editor_schema import editor_schema
from bub.pipeline.check.validate import profiles_of
from bub.pipeline.edit.dotenv import FILE_NAME as DOTENV
from bub.pipeline.edit.dotenv import keep_secrets
from bub.pipeline.edit.modeline import SCHEMA_FILE, with_modeline, write_schema_beside
from bub.pipeline.edit.own_file import OwnFile, describe_backup, new_own, read_own, write_change
from bub.pipeline.plan.providers import LOCAL
from bub.pipeline.source.merge import DEFAULT_PROFILE, SHIPPED, load_text
from bub.secrets.redactor import Redactor
from bub.setup.changes import difference
from bub.setup.person import PersonsFile
from bub.setup.prompter import Prompter
from bub.setup.rewinding import Rewinding
from bub.setup.script import Script
from bub.setup.served_tools import ServedTools
from bub.setup.wizard import Wizard


def onboard(
    ctx: typer.Context,
    plugins: Annotated[
        list[str] | None, typer.Argument(metavar="[PLUGIN]…", help="Ask only about these plugins; all by default.")
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the answers from a YAML file, by the names of the questions."),
    ] = None,
    non_interactive: Annotated[
        bool, typer.Option("--non-interactive", help="Take the answers from BUB_ONBOARD_… variables and the defaults.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and write nothing.")] = False,
) -> int:
    """Set Bub up by answering a few questions; the next time, keep the answers with Enter or change some.

    Bub writes only what your answers change, after it has compiled the new file and shown the difference.
    """
    is_script = non_interactive or answers is not None
    if not is_script and not can_ask():
        raise UsageError(
            "there is no terminal to ask questions at",
            help="type `bub onboard --answers FILE`, or `bub onboard --non-interactive` for the defaults",
        )
    script = Script.of(answers, os.environ, _tell) if is_script else None
    return set_up(options_of(ctx), plugins or (), script=script, dry_run=dry_run)


def set_up(
    options: Options,
    plugins: Sequence[str],
    *,
    script: Script | None,
    dry_run: bool = False,
    runtimes: Mapping[str, str] | None = None,
) -> int:
    """Ask about the whole pipeline file, or some plugins of it, write what changes, and return the exit code.

    With `runtimes`, the loops of plugins that were just added, a person is asked which profile is to list them.
    """
    rewinding = Rewinding(script or TerminalVoice())
    is_person = script is None and not is_started_by_bub(os.environ)
    served = ServedTools(workspace_of(options)) if is_person else None
    if script is None:
        _tell("Shift-Tab goes back a question; Esc leaves, and nothing is written")
    try:
        change = rewinding.run(
            lambda: _change(
                options, rewinding, plugins, script=script, dry_run=dry_run, runtimes=runtimes, served=served
            )
        )
    except KeyboardInterrupt:
        _tell("stopped; nothing was written")
        return INTERRUPTED
    if change is not None:
        change.write()
    return 0


class FileChange(NamedTuple):
    """What is to be written to one file: another text, and the secrets that it refers to, which go to its `.env`."""

    own: OwnFile
    text: str
    secrets: Mapping[str, str]

    @property
    def is_none(self) -> bool:
        """Whether everything stays as it is."""
        return self.text == self.own.text and not self.secrets

    def show(self, mask: Redactor, stream: TextIO) -> None:
        """Print what changes, secrets covered."""
        before = self.own.text if self.own.data is not None else ""
        for line in difference(self.own.file, before, self.text):
            print(printable(mask.text(line)), file=stream)
        for variable in self.secrets:
            print(printable(f"+{variable}=*** (in {self.own.path.with_name(DOTENV)})"), file=stream)

    def require_writable(self) -> None:
        """Raise `BubError` if it is known beforehand that it cannot be written: nobody says yes to it for nothing."""
        require_writable(self.own.path)
        if self.secrets:
            require_writable(self.own.path.with_name(DOTENV))

    def write(self) -> None:
        """Keep the secrets, then write the file that refers to them; say what was written."""
        own, text, secrets = self
        kept = keep_secrets(own.path.parent, secrets) if secrets else None
        try:
            backup = write_change(own, text)
        except PipelineError:
            raise
        except BubError as error:
            if kept is None:
                raise
            raise BubError(f"{error}; but {kept} holds the new secrets", help=error.help) from error
        except KeyboardInterrupt as stop:
            if kept is not None:
                stop.add_note(f"{kept} holds the new secrets")
            raise
        if own.data is None:
            _help_editors(own.path)
        if text != own.text:
            _tell(f"wrote {own.file}{f' ({describe_backup(own, text, backup)})' if backup is not None else ''}")
        if kept is not None:
            _tell(f"wrote {', '.join(secrets)} to {kept}, which only you can read")


class _Change(NamedTuple):
    """What is to be written, a file after the other; the channels that are to run, and what is left to do before.

    The person's own file comes first. If the second is never written, the next set-up begins with what the first says.
    """

    files: Sequence[FileChange]
    channels: Sequence[str]
    first: str

    def write(self) -> None:
        """Write each file as a whole or not at all; say what was written, and what one can do now."""
        for file in self.files:
            file.write()
        gateway = f", or `bub gateway` for {', '.join(self.channels)}" if self.channels else ""
        _tell(f"{self.first}talk to it with `bub chat`{gateway}")


def _help_editors(path: Path) -> None:
    """Put the schema that the first line names beside the new file; the file works without it."""
    try:
        write_schema_beside(path, json.dumps(editor_schema(), indent=2) + "\n")
    except BubError as error:
        _tell(f"editors will not know the keys of the file: {error}")


def _change(
    options: Options,
    voice: Voice,
    plugins: Sequence[str],
    *,
    script: Script | None,
    dry_run: bool,
    runtimes: Mapping[str, str] | None,
    served: ServedTools | None,
) -> _Change | None:
    """Ask, and return what is to be written; None if there is nothing to write."""
    own = _own_file(options)
    ask = Prompter(voice, os.environ, own.path.parent)
    profile = options.profile or os.environ.get("BUB_PROFILE") or ""
    if not profile:
        profile = _ask_for_profile(ask, own, plugins) if runtimes is not None else DEFAULT_PROFILE
    home = bub_home(os.environ) / FILE_NAME
    persons: OwnFile | None = None
    person, for_person = None, ask
    if profile == DEFAULT_PROFILE and os.path.realpath(own.path) != os.path.realpath(home):
        persons = read_own(home) if home.exists() else new_own(home)
        for_person = Prompter(voice, os.environ, home.parent)
        person = PersonsFile(for_person, file=persons.file, base=home.parent, text=_text_of(persons))
    wizard = Wizard(
        ask,
        file=own.file,
        base=own.path.parent,
        text=_text_of(own),
        profile=profile,
        workspace=workspace_of(options),
        person=person,
        runtimes=runtimes or {},
        served=served,
    )
    try:
        wizard.check()
        changed = [FileChange(own, wizard.run(plugins), ask.secrets)]
    except PipelineError as error:
        raise ShownPipelineError(error, wizard.sources) from error
    if person is not None and persons is not None and (person.text != _text_of(persons) or for_person.secrets):
        changed.insert(0, FileChange(persons, person.text, for_person.secrets))
    if script is not None:
        script.finish()
    changed = [file for file in changed if not file.is_none]
    if not changed:
        _tell(f"everything stays as it is in {own.file}")
        return None
    if not dry_run:
        for file in changed:
            file.require_writable()
    for file in changed:
        file.show(wizard.mask, sys.stdout if dry_run else sys.stderr)
    if dry_run:
        return None
    names = " and ".join(file.own.file for file in changed)
    if script is None and not ask.confirm("write", f"Write this to {names}?"):
        _tell("nothing was written")
        return None
    return _Change(changed, wizard.channels, _left_to_do(wizard.model))


def _ask_for_profile(ask: Prompter, own: OwnFile, plugins: Sequence[str]) -> str:
    """Ask which profile is to list plugins, if there are several."""
    names = list(profiles_of(load_text(_text_of(own), file=own.file, base=own.path.parent)))
    if len(names) < 2:
        return next(iter(names), DEFAULT_PROFILE)
    usual = DEFAULT_PROFILE if DEFAULT_PROFILE in names else names[0]
    return ask.select("profile", f"Which profile should list {', '.join(plugins)}?", names, default=usual)


def _left_to_do(model: str) -> str:
    """Return what to do before the chosen model can answer, as the beginning of a sentence; "" for nothing."""
    is_local = model.partition(":")[0].lower() == LOCAL
    return "run `bub local install`, then " if is_local and not status(bub_home(os.environ)).ready else ""


def _text_of(own: OwnFile) -> str:
    """The text that questions begin with: that of the file, else of the one that is to be made."""
    return own.text if own.data is not None else with_modeline(own.text, SCHEMA_FILE)


def _own_file(options: Options) -> OwnFile:
    """Return the file that a run would use, else the one to make in Bub's own folder."""
    if str(options.config).startswith(SHIPPED):
        raise UsageError(
            f"{options.config} is shipped with Bub, so it is not changed",
            help="leave --config out, or name a file of your own",
        )
    there = usual_file(options)
    if there is not None:
        return read_own(there)
    return new_own(bub_home(os.environ) / FILE_NAME)


def _tell(text: str) -> None:
    for line in text.splitlines():
        print(printable(f"bub: {line}"), file=sys.stderr)
