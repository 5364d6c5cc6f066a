"""A set-up from the first question to the text that the file will have: what `bub onboard` does before it writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bub.asking import Choice
from bub.base.diagnostics import PipelineError, did_you_mean
from bub.channels.enabling import ProfileChannels
from bub.configure import merge
from bub.errors import UsageError
from bub.framework import load_pipeline
from bub.hooks.facts import BUILTIN
from bub.pipeline.check.validate import check_loaded, declared_plugins, profiles_of
from bub.pipeline.edit.amend import amend
from bub.pipeline.edit.paths import Keys
from bub.pipeline.plan.plan import make_plan
from bub.pipeline.plan.routes import routes_of
from bub.pipeline.plan.settings import environment_settings
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document, load_shipped, load_text
from bub.pipeline.source.profiles import effective
from bub.pipeline.source.schemas import shipped_sections, whole_settings_schema
from bub.plugins.finding import installed_plugins
from bub.plugins.schemas import Schema, installed_section
from bub.runtime.bootstrap import check_channels, collect_onboard_config, provide_channels
from bub.runtime.runtime import Runtime
from bub.runtime.snapshot import Profile
from bub.secrets.redactor import Redactor
from bub.setup.changes import changes_of, setting_changes
from bub.setup.channels import ask_for_channels, ask_for_profiles, open_channels
from bub.setup.person import PersonsFile
from bub.setup.prompter import Prompter
from bub.setup.sections import ONBOARD, ask_for_section
from bub.setup.served_tools import ServedTools

_NOT_INSTALLED = "B160"
"""The finding that a listed plugin is not there."""


class Wizard:
    """Asks what there is to ask about one pipeline file, and says what the file should be then; it writes nothing.

    `file` is what people call the file, `base` its folder, `text` what it says now. The answers hold for `profile`.
    What is asked of the model is for `person`, the person's own file, if that is another one. `sources` are the files
    that findings point into, `mask` covers the secrets of all of them, `model` is the one that was chosen ("" if nobody
    asked), `channels` are those that were chosen to run. `runtimes` are the loops that plugins need, if it is another
    than Bub's own. `served` asks about the tools of servers; None if nobody is there to look at them.
    """

    def __init__(
        self,
        ask: Prompter,
        *,
        file: str,
        base: Path,
        text: str,
        profile: str,
        workspace: Path,
        person: PersonsFile | None = None,
        runtimes: Mapping[str, str] = MappingProxyType({}),
        served: ServedTools | None = None,
    ) -> None:
        self.text = text
        self.person = person
        self.sources: dict[str, str] = {}
        self.mask = Redactor(())
        self.model = ""
        self.channels: Sequence[str] = ()
        self._ask = ask
        self._file = file
        self._base = base
        self._profile = profile
        self._workspace = workspace
        self._runtimes = runtimes
        self._served = served

    def check(self) -> None:
        """Raise `PipelineError` when the file is broken as it is: what nobody can read for sure, nobody changes.

        A plugin that is listed but not installed is let pass here, since it can be taken off the list by the answers.
        """
        _check(self._read(self.text), self._profile)
        if self.person is not None:
            document = self.person.read()
            self.sources.update(document.sources)
            _check(document, DEFAULT_PROFILE)

    def run(self, named: Sequence[str]) -> str:
        """Ask, and return the text that says what was answered; it has been compiled with its plugins.

        With plugins that are `named`, only these ask, and the profile lists them from then on (naming one is consent to
        load it). Raises `UsageError` for one that is not there, and `PipelineError` when the answers make no
        pipeline.
        """
        if not named or BUILTIN in named:
            self._ask_for_model()
        text = self._with_plugins(named)
        before = self._read(text)
        with self._open_profile(before) as profile:
            old = self._settings(before)
            with redirect_stdout(sys.stderr):
                channels = _channels_of(profile)
                chosen = self.channels = self._choose_channels(channels, before, named)
                new = self._ask_for_settings(
                    profile, old, named, but=() if named else channels.find_unused_plugins(chosen)
                )
            changes = changes_of(before, self._profile, old, new)
            self._tell_overridden(old, new)
            changes.update(self._change_channels(channels, chosen, before, named))
            if not named or BUILTIN in named:
                changes.update(self._change_tools(profile, before))
                allowed = self._served.ask(self._ask, profile, before) if self._served is not None else None
                changes.update({("profiles", self._profile, "tools", "allow"): allowed} if allowed is not None else {})
        after = amend(text, changes, file=self._file)
        with self._open_profile(self._read(after)) as profile:
            check_channels(profile)
            return after

    def _ask_for_model(self) -> None:
        """Ask which model answers: first of all, and with the plugins that are listed by now."""
        document = self._read(self.text)
        there = self._list_plugins(document, installed=True)
        as_far = self.text
        if there != self._list_plugins(document):
            as_far = amend(self.text, {("profiles", self._profile, "plugins"): there}, file=self._file)
        with self._open_profile(self._read(as_far)) as profile, redirect_stdout(sys.stderr):
            if self.person is not None:
                self.person.ask_for_model(profile)
                self.model = str(self.person.after.get("model") or "")
                self.mask = self.mask.beside(self.person.mask)
                self._tell_overridden(self.person.before, self.person.after, document)
                return
            old = self._settings(document)
            new = collect_onboard_config(profile, old, ask=self._ask, only={BUILTIN})
            self.model = str(new.get("model") or "")
        self._tell_overridden(old, new)
        self.text = amend(self.text, changes_of(document, self._profile, old, new), file=self._file)

    def _read(self, text: str) -> Document:
        document = load_text(text, file=self._file, base=self._base)
        self.sources.update(document.sources)
        return document

    @contextmanager
    def _open_profile(self, document: Document) -> Iterator[Profile]:
        """The profile of a text that is not in its file yet, loaded as a run would load it."""
        load = partial(load_pipeline, profile=self._profile, workspace=self._workspace, environ=dict(os.environ))
        runtime = Runtime(self._workspace, read=lambda: document, load=load)
        with redirect_stdout(sys.stderr):  # what a plugin prints is no result of ours
            runtime.load()
        snapshot = runtime.loaded.current.snapshot
        try:
            given = Redactor.of(self._ask.secrets.values())
            self.mask = self.mask.beside(runtime.mask).beside(given)
            yield snapshot.profiles[self._profile]
        finally:
            snapshot.let_go()  # the files of its plugins are loaded afresh the next time

    def _settings(self, document: Document) -> dict[str, Any]:
        node = effective(document, self._profile).root.get("settings")
        plain = node.plain() if node is not None else {}
        return plain if isinstance(plain, dict) else {}

    # Plugins

    def _with_plugins(self, named: Sequence[str]) -> str:
        """The text with the profile's list of plugins: those that were named are on it, or those that are chosen."""
        document = self._read(self.text)
        plan = make_plan(document, self._profile)
        listed = self._list_plugins(document)
        from_files = [name for name, said in declared_plugins(plan).items() if said.path is not None]
        installed = installed_plugins()
        known = list(dict.fromkeys([*listed, *from_files, *sorted(installed)]))
        for name in named:
            if name not in (BUILTIN, *known):
                there = f"there are {', '.join([BUILTIN, *known])}"
                raise UsageError(f"there is no plugin `{name}`", help=did_you_mean(name, known) or there)
        if named:
            chosen = [*listed, *(name for name in dict.fromkeys(named) if name not in (BUILTIN, *listed))]
        elif known:
            absent = set(known) - {*from_files, *installed}
            choices = [
                Choice(name, f"{name}: not installed" if name in absent else _describe_plugin(name, name in from_files))
                for name in known
            ]
            chosen = self._ask.checkbox("plugins", "Which plugins may run?", choices, default=listed)
        else:
            return self.text
        changes: dict[Keys, Any] = {
            ("plugins", name, "runtime"): runtime
            for name, runtime in self._runtimes.items()
            if runtime and name in chosen and document.root.get("plugins", name, "runtime") is None
        }
        if chosen != listed:
            changes["profiles", self._profile, "plugins"] = chosen
        return amend(self.text, changes, file=self._file) if changes else self.text

    def _list_plugins(self, document: Document, *, installed: bool = False) -> list[str]:
        """The plugins that the profile lists; those of them that are there, if they have to be `installed`."""
        plan = make_plan(document, self._profile)
        listed = [name for name, _ in plan.allowlist]
        if not installed:
            return listed
        there = {
            *installed_plugins(),
            *(name for name, said in declared_plugins(plan).items() if said.path is not None),
        }
        return [name for name in listed if name in there]

    # Channels

    def _choose_channels(self, channels: ProfileChannels, document: Document, named: Sequence[str]) -> list[str]:
        """The channels that are to run. Who names a plugin, lists it or answers its questions wants its channels."""
        if named:
            return channels.include_plugins(named)
        new = set(self._list_plugins(document)) - set(self._list_plugins(self._read(self.text)))
        plugins = {plugin for plugin, _ in channels.brought.values()}
        answered = {plugin for plugin in plugins if self._ask.knows(f"{plugin}.")}
        return ask_for_channels(self._ask, channels, {*new, *answered})

    def _change_channels(
        self, channels: ProfileChannels, chosen: Sequence[str], document: Document, named: Sequence[str]
    ) -> dict[Keys, Any]:
        """What changes of the profile's `channels:` and of the routes."""
        opened = open_channels(channels, chosen)
        environment, _ = read_environment(document.base, os.environ)
        routed = [name for name in chosen if not named or channels.brought[name][0] in named]
        return {
            **({("profiles", self._profile, "channels"): opened} if opened is not None else {}),
            **ask_for_profiles(
                self._ask,
                routed,
                list(dict.fromkeys([self._profile, *profiles_of(document)])),
                document=document,
                routes=routes_of(document, environment),
                chosen_at_start=self._profile,
            ),
        }

    # Settings

    def _ask_for_settings(
        self, profile: Profile, old: Mapping[str, Any], named: Sequence[str], but: Collection[str]
    ) -> dict[str, Any]:
        """The settings with the answers over them: plugins with the hook first, then those that have but a schema.

        Without plugins that are `named` all are asked `but` some. Bub itself has asked before them.
        """
        loaded = [status for status in profile.plugins.statuses if status.state == "loaded"]
        asked = (set(named) or {status.name for status in loaded} - set(but)) - {BUILTIN}
        new = collect_onboard_config(profile, old, ask=self._ask, only=asked)
        asking = profile.hooks.hook_report().get("onboard_config", [])
        for status in loaded:
            plugin = status.name
            if plugin in asking or plugin not in asked:
                continue
            schema = _section_schema(plugin, from_file=status.source.startswith("path "))
            if schema is None and named:
                self._ask.say(f"The plugin `{plugin}` has nothing to ask.")
            if schema is None or (not named and schema.get(ONBOARD) is False):
                continue
            section = new.get(plugin)
            changed = ask_for_section(plugin, schema, section if isinstance(section, Mapping) else {}, self._ask)
            new = merge(new, {plugin: changed} if changed else {})
        return new

    def _tell_overridden(self, old: Mapping[str, Any], new: Mapping[str, Any], folder: Document | None = None) -> None:
        """Say what counts before what was just answered, so that nobody wonders why it has no effect.

        That is a variable, and what the file of the folder says if the answer is for the person's own.
        """
        environment, _ = read_environment(self._base, os.environ)
        layers = effective(folder, self._profile).layers if folder is not None else ()
        for path in dict.fromkeys(path[:2] for path in setting_changes(old, new)):
            said = [node for layer in layers if not layer.shipped and (node := layer.root.get("settings", *path))]
            if said:
                name = ".".join(path)
                self._ask.say(f"{said[-1].where} says `settings.{name}`, too, and counts before it in this folder.")
        for path, variable in environment_settings(environment, whole_settings_schema(), new):
            if _at(old, path) != _at(new, path):
                self._ask.say(f"The variable {variable} is set, and counts before `settings.{'.'.join(path)}`.")

    # Tools

    def _change_tools(self, profile: Profile, document: Document) -> dict[Keys, Any]:
        """The change of the profile's list of tools that a person is asked about."""
        asked = _find_asked_tools(document, self._profile)
        usable = profile.tools.usable()
        usual = _find_asked_tools(load_shipped("default"), "default")
        names = [name for name in dict.fromkeys([*usual, *asked]) if any(fnmatchcase(tool, name) for tool in usable)]
        if not names:
            return {}
        before = [name for name in names if name not in asked]
        freed = self._ask.checkbox(
            "tools.unasked", "Which of these tools may run without asking you first?", names, default=before
        )
        if freed == before:
            return {}
        kept = [name for name in dict.fromkeys([*asked, *names]) if name not in freed]
        return {("profiles", self._profile, "tools", "ask"): kept}


def _check(document: Document, profile: str) -> None:
    findings = check_loaded(document, profiles=[profile]).diagnostics
    if any(finding.severity == "error" and finding.code != _NOT_INSTALLED for finding in findings):
        raise PipelineError(findings)


def _channels_of(profile: Profile) -> ProfileChannels:
    is_complete = all(status.state == "loaded" for status in profile.plugins.statuses)
    return ProfileChannels(provide_channels(profile, _nobody), profile.channels, complete=is_complete)


async def _nobody(message: object) -> None:
    """Takes the messages of channels that are only looked at."""


def _find_asked_tools(document: Document, profile: str) -> list[str]:
    node = effective(document, profile).profile_node
    asked = node.get("tools", "ask") if node is not None else None
    return [str(item.value) for item in asked.elements()] if asked is not None else []


def _section_schema(plugin: str, *, from_file: bool) -> Schema | None:
    if from_file:
        return None
    shipped = shipped_sections().get(plugin)
    if shipped is not None:
        return shipped
    found = installed_section(plugin)
    return found.schema if found is not None else None


def _describe_plugin(plugin: str, from_file: bool) -> str:
    schema = _section_schema(plugin, from_file=from_file)
    said = schema.get("description") if schema is not None else None
    return f"{plugin}: {said}" if said else plugin


def _at(settings: Any, path: Sequence[str]) -> Any:
    for name in path:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings
