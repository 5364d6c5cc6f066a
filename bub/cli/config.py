"""`bub config`: reading and changing single values of the pipeline file, one line at a time."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bub.asking import Choice, Query
from bub.base.diagnostics import PipelineError, did_you_mean
from bub.base.failures import explain_os_error
from bub.base.locate import FILE_NAME, bub_home, find_pipeline
from bub.base.rewrite import write_private
from bub.cli.exits import FAILED
from bub.cli.findings import ShownPipelineError, render_error
from bub.cli.options import Options, options_of, workspace_of
from bub.cli.output import show_json
from bub.cli.prompts import can_ask, require_person
from bub.cli.questions import TerminalVoice
from bub.cli.reading import read_plan
from bub.cli.terminal import for_reader, printable
from bub.errors import BubError, UsageError
from bub.pipeline.check.validate import profiles_of
from bub.pipeline.edit.amend import amend
from bub.pipeline.edit.choices import below_profile, keys_of, value_of, variable_for, with_section
from bub.pipeline.edit.dotenv import keep_secrets
from bub.pipeline.edit.own_file import (
    OwnFile,
    check_change,
    count_errors,
    describe_backup,
    findings_in,
    new_own,
    read_own,
    write_change,
)
from bub.pipeline.edit.paths import REMOVED, Keys
from bub.pipeline.plan.layers.person import read_person
from bub.pipeline.plan.origins import Lookup, flow, leaves_of, lookup_of, origins_of, schema_at
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import DEFAULT_PROFILE, SHIPPED, load_document

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="Read and change settings in the pipeline file.")

_PATH = typer.Argument(metavar="PATH", help="Such as settings.model, or model alone; profiles.default.plugins.")
_PERSON = typer.Option("--person", help="In your own file, whose model and keys hold in every folder.")
_WAYS_ON = (
    Choice("again", "edit it again"),
    Choice("leave", "leave the file as it was"),
    Choice("keep", "keep it with its errors"),
)
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


@app.callback()
def config() -> None:
    """Read and change settings in the pipeline file."""


@app.command("get")
def get(
    ctx: typer.Context,
    path: Annotated[str, _PATH],
    as_json: Annotated[bool, typer.Option("--json", help="Print the value as JSON.")] = False,
    person: Annotated[bool, _PERSON] = False,
) -> None:
    """Print the value that counts, whatever sets it; of a secret only the reference, as it is written."""
    lookup = _lookup(options_of(ctx), person=person, effective=True)
    keys = keys_of(lookup, path)
    found = [(leaf[len(keys) :], origin.value.plain()) for leaf, origin in leaves_of(lookup, keys)]
    default = (schema_at(lookup, keys) or {}).get("default")
    if not found and default is None:
        raise BubError(f"`{'.'.join(keys)}` is not set", help=f"`bub explain {'.'.join(keys)}` says what holds then")
    if as_json:
        show_json(_tree(found) if found else default, ensure_ascii=False)
    elif not found or found[0][0] == ():
        value = found[0][1] if found else default
        print(for_reader(value if isinstance(value, str) else flow(value)))
    else:
        for below, value in found:
            print(for_reader(f"{'.'.join(map(str, (*keys, *below)))}: {flow(value)}"))


@app.command("set")
def set_value(
    ctx: typer.Context,
    path: Annotated[str, _PATH],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="A list as a,b or as several values.")
    ] = None,
    variable: Annotated[
        str | None, typer.Option("--env", metavar="NAME", help="Refer to a variable, which holds a secret.")
    ] = None,
    secret: Annotated[
        bool, typer.Option("--secret", help="Ask for a secret, keep it in .env, and refer to that.")
    ] = False,
    person: Annotated[bool, _PERSON] = False,
) -> None:
    """Set a value in the file; with --profile, in that profile.

    One line of the file changes. If you have no file yet, Bub makes one in $BUB_HOME.
    """
    require_person()
    options = options_of(ctx)
    if bool(words) == (secret or variable is not None):
        raise UsageError("give VALUE, --secret or --env NAME", help="`bub config set model local:smollm2`")
    if variable is not None and not _VARIABLE.fullmatch(variable):
        raise UsageError(
            f"`{variable}` is not the name of a variable", help="use letters, digits and `_`, as in MY_KEY"
        )
    lookup, keys = _locate(options, path, person=person)
    own = _own(options, made=True, person=person)
    given = words or [f"${{env:{variable or variable_for(lookup, keys)}}}"]
    text = amend(own.text, {keys: value_of(lookup, keys, given)}, file=own.file)
    if secret:
        _check(own, text)  # nothing is kept for a change that cannot be made
        _keep_secret(own, keys, given[0])
    elif variable is not None:
        _warn_if_unset(own, variable)
    _write(own, text, f"set {'.'.join(keys)} in", f"{'.'.join(keys)} has this value already in")
    _warn_if_new_profile(lookup, keys)
    _warn_if_overridden(options, own, keys)


@app.command("unset")
def unset(ctx: typer.Context, path: Annotated[str, _PATH], person: Annotated[bool, _PERSON] = False) -> None:
    """Remove a value from the file, or with --profile from that profile, so that its parent or a default counts."""
    require_person()
    options = options_of(ctx)
    _, keys = _locate(options, path, person=person)
    own = _own(options, person=person)
    text = amend(own.text, {keys: REMOVED}, file=own.file)
    _write(own, text, f"removed {'.'.join(keys)} from", f"{'.'.join(keys)} is not set in")


@app.command("path")
def path(ctx: typer.Context) -> None:
    """Print which file is used; standard error says why that one."""
    options = options_of(ctx)
    if str(options.config).startswith(SHIPPED):
        print(options.config)
        return
    found = find_pipeline(options.config, workspace_of(options), os.environ)
    if found.path is None:
        _say(f"there is no file of yours, so Bub uses the shipped default; `bub config set` makes {_home_file()}")
        print(f"{SHIPPED}default")
        return
    if options.config is not None:
        why = "named with --config"
    elif os.environ.get("BUB_CONFIG"):
        why = "named in BUB_CONFIG"
    elif found.path == _home_file():
        why = "your own, since the workspace has none"
    else:
        why = "the workspace's"
    _say(why)
    print(for_reader(str(found.path.absolute())))


@app.command("edit")
def edit(ctx: typer.Context) -> int:
    """Open the file in $VISUAL or $EDITOR, and check what you wrote before it counts."""
    require_person()
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not can_ask():
        raise UsageError("there is no terminal to edit in", help="`bub config set PATH VALUE` changes one value")
    if not editor:
        raise UsageError("no editor is chosen", help="set EDITOR, as in EDITOR=nano")
    own = _own(options_of(ctx), made=True, even_broken=True)
    draft = own.path.with_name(f".bub-{os.urandom(4).hex()}.yaml")  # beside it: editors look for the schema there
    try:
        write_private(draft, None, own.text.encode())
        return _edit_until_right(own, draft, editor)
    finally:
        draft.unlink(missing_ok=True)


def _edit_until_right(own: OwnFile, draft: Path, editor: list[str]) -> int:
    """Let a person edit the draft until it is right, kept as it is, or given up."""
    while True:
        try:
            ended = subprocess.run([*editor, str(draft)], check=False).returncode
        except OSError as error:
            raise UsageError(
                f"{editor[0]} cannot be run: {explain_os_error(error)}", help="set EDITOR to another"
            ) from None
        if ended != 0:
            raise BubError(f"{editor[0]} ended with {ended}", help=f"{own.file} is as it was")
        try:
            text = draft.read_bytes().decode()
        except UnicodeDecodeError:
            raise BubError("what was saved is not UTF-8", help=f"{own.file} is as it was") from None
        findings = findings_in(own, text)
        if text == own.text or not count_errors(findings):
            _write(own, text, "wrote what you changed to", "nothing was changed in", even_broken=True)
            return 0
        print(render_error(ShownPipelineError(PipelineError(findings), {own.file: text}), color=False), file=sys.stderr)
        match TerminalVoice().put(Query("edit", "select", "What now?", "again", _WAYS_ON)):
            case "keep":
                _write(
                    own, text, "wrote what you changed, errors and all, to", "nothing was changed in", even_broken=True
                )
                return FAILED
            case "leave":
                _say(f"{own.file} is as it was")
                return FAILED


# What a command works on


def _lookup(options: Options, *, person: bool, effective: bool = False) -> Lookup:
    """Return what the file says, or the person's own; if it is to be `effective`, with what holds in every folder."""
    home = _home_file() if person else None
    if home is not None and options.config is not None:
        raise UsageError("--person means your own file, and --config another", help="leave one of them out")
    plan, _ = read_plan(options, home if home is None or home.exists() else Path(f"{SHIPPED}{DEFAULT_PROFILE}"))
    return lookup_of(plan, os.environ, read_person(plan.document, os.environ) if effective and not person else None)


def _locate(options: Options, path: str, *, person: bool) -> tuple[Lookup, Keys]:
    """Return what the file says, and the keys of the value that a path means there."""
    lookup = _lookup(options, person=person)
    keys = keys_of(lookup, path)
    if options.profile is not None and keys[0] != "profiles":
        keys = below_profile(keys, options.profile)
    return with_section(lookup, keys), keys


def _own(options: Options, *, made: bool = False, even_broken: bool = False, person: bool = False) -> OwnFile:
    """Return the file that a run would use, or the person's own; `made` is one to be made in $BUB_HOME if none is."""
    if str(options.config).startswith(SHIPPED):
        raise UsageError(
            f"{options.config} is one of Bub's own files, which are not changed", help="leave out --config"
        )
    if person:
        there = _home_file() if _home_file().exists() else None
    else:
        there = find_pipeline(options.config, workspace_of(options), os.environ).path
    if there is not None:
        return read_own(there, even_broken=even_broken)
    if not made:
        raise UsageError("there is no pipeline file of yours yet", help="`bub config set PATH VALUE` makes one")
    return new_own(_home_file())


def _home_file() -> Path:
    return bub_home(os.environ) / FILE_NAME


# Secrets


def _keep_secret(own: OwnFile, keys: Keys, reference: str) -> None:
    """Ask for a secret, and keep it in `.env`, so that the reference finds it."""
    variable = reference.removeprefix("${env:").removesuffix("}")
    name = ".".join(keys)
    if can_ask():
        given = str(TerminalVoice().put(Query(name, "secret", name))).strip()
    else:
        given = "" if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not given:
        raise UsageError("no secret was given, so nothing is changed", help="type it, or pipe it in")
    kept = keep_secrets(own.path.parent, {variable: given})
    _say(f"kept in {kept} as {variable}")
    if os.environ.get(variable) not in (None, "", given):
        _say(f"{variable} has another value in the environment, which counts before .env")


def _warn_if_unset(own: OwnFile, variable: str) -> None:
    environment, _ = read_environment(own.path.parent, os.environ)
    if not environment.get(variable):
        _say(f"{variable} is not set yet: set it in the environment, or in .env beside {own.file}")


# Writing


def _check(own: OwnFile, text: str) -> None:
    try:
        check_change(own, text)
    except PipelineError as error:
        _say(f"Bub changes nothing, because {own.file} would get errors:")
        raise ShownPipelineError(error, {own.file: text}) from None


def _write(own: OwnFile, text: str, done: str, nothing: str, *, even_broken: bool = False) -> None:
    """Write the file, checked unless it may be broken, and say what was done."""
    if text == own.text:
        print(for_reader(f"{nothing} {own.file}"))
        return
    if not even_broken:
        _check(own, text)
    backup = write_change(own, text, even_broken=True)
    print(for_reader(f"{done} {own.file} ({describe_backup(own, text, backup)})"))


def _warn_if_new_profile(lookup: Lookup, keys: Keys) -> None:
    """Say that a profile is new: its name may be a slip."""
    profiles = profiles_of(lookup.document)
    if keys[0] == "profiles" and keys[1] not in profiles:
        meant = did_you_mean(keys[1], profiles)
        _say(f"profile `{keys[1]}` is new{f' ({meant})' if meant else ''}")


def _warn_if_overridden(options: Options, own: OwnFile, keys: Keys) -> None:
    """Say which setting overrides the value that was just set, so that nobody wonders why it has no effect."""
    profile = keys[1] if keys[0] == "profiles" else options.profile or os.environ.get("BUB_PROFILE") or DEFAULT_PROFILE
    document = load_document(own.path)
    node = document.layers[-1].root.get(*keys)
    shared = keys[2:] if keys[0] == "profiles" else keys
    origins = origins_of(lookup_of(make_plan(document, profile), os.environ), shared) if shared else ()
    if node is None or not origins or shared[0] != "settings":
        return
    place = origins[-1].place
    if place is None or (place.file, place.range) != (node.place.file, node.place.range):
        _say(f"{origins[-1].where} counts before it")


def _tree(leaves: list[tuple[Any, Any]]) -> Any:
    """Put values by their paths together into one value."""
    tree: dict[str, Any] = {}
    for path, value in leaves:
        if not path:
            return value
        here = tree
        for step in path[:-1]:
            here = here.setdefault(step, {})
        here[path[-1]] = value
    return tree


def _say(text: str) -> None:
    print(printable(f"bub: {text}"), file=sys.stderr)
