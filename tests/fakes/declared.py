"""What a generated file declares for a profile, and which messages reach it, read from its text alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from fakes.toy_files import Function, PipelineCase, ToyPlugin
from fakes.toy_words import CHANNELS, FIRED, IDS

Message = dict[str, Any]
Rule = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """A gate, claim or amendment that a file declares for a profile: as a stage, or under `hooks:` (no `stage`)."""

    name: str
    hook: str
    stage: Rule | None
    asked: frozenset[str]
    """The plugins that a reader of the file and of the plugins expects to be asked."""
    said: Rule
    """What is said of it, by the stage or by its hook."""

    @property
    def when(self) -> Mapping[str, str]:
        return (self.stage or {}).get("when", {})

    @property
    def each(self) -> str | None:
        return (self.stage or {}).get("for_each")

    @property
    def changes_output(self) -> bool:
        """Whether it may put something else in the place of what the model said."""
        return self.each == "outbounds" or "model_output" in self.said.get("changes", ())

    @property
    def looks_at_output(self) -> bool:
        """Whether what the model said is what it looks at."""
        return self.each == "outbounds" or not {"model_output", "outbounds"}.isdisjoint(self.said.get("takes", ()))


def merged(*layers: Any) -> Any:
    """Lay mappings over each other, as the page of the pipeline file says."""
    result: Any = {}
    for layer in layers:
        if not isinstance(layer, dict) or not isinstance(result, dict):
            result = layer
        else:
            result = {
                **result,
                **{key: merged(result[key], item) if key in result else item for key, item in layer.items()},
            }
    return result


class Declared:
    """What a generated file declares for one profile."""

    def __init__(self, case: PipelineCase, profile: str) -> None:
        whole = merged(*case.layers)
        self.profile = profile
        self.profiles = list(whole["profiles"])
        self.routes: list[Rule] = whole.get("routes", [])
        chain = [whole["profiles"].get(profile, {})]
        while "extends" in chain[0]:
            chain.insert(0, whole["profiles"].get(chain[0]["extends"], {}))
        said = merged(*chain)
        laid = {key: said.get(key, {}) for key in ("stages", "hooks")}
        self.stages: dict[str, Rule] = merged(whole["stages"], laid["stages"])
        self.hooks: dict[str, Rule] = merged(whole.get("hooks", {}), laid["hooks"])
        every = [whole["stages"], *(one.get("stages", {}) for one in whole["profiles"].values())]
        self.called = {stage.get("hook", name) for stages in every for name, stage in stages.items()}
        self.plugins: list[ToyPlugin] = [one for one in case.plugins if one.name in said.get("plugins", ())]

    def checks(self, kind: str) -> Iterator[Check]:
        """Every check of a kind but those that are off, and those of a shipped pipeline that no plugin is about."""
        for name, stage in self.stages.items():
            hook = stage.get("hook", name)
            said = self.hooks.get(hook, {})
            if (stage.get("kind") or said.get("kind")) == kind and stage.get("enabled") is not False:
                only = stage.get("only", said.get("only"))
                yield Check(name, hook, stage, self._implementers(hook, only), {**said, **stage})
        for hook, said in self.hooks.items():
            if said.get("kind") == kind and hook not in self.called:
                asked = self._implementers(hook, said.get("only"))
                if asked or hook in (FIRED, *itertools.chain(*IDS.values())):
                    yield Check(hook, hook, None, asked, said)

    def _implementers(self, hook: str, only: Sequence[str] | None) -> frozenset[str]:
        named = {plugin.name for plugin in self.plugins if not plugin.is_missing and self.function(plugin, hook)}
        return frozenset(named if only is None else named.intersection(only))

    @staticmethod
    def function(plugin: ToyPlugin, hook: str) -> Function | None:
        return next((one for one in plugin.functions if one.hook == hook), None)

    def functions(self, hook: str) -> Iterator[tuple[str, Function]]:
        """Every function of a listed plugin that has the name of a hook."""
        for plugin in self.plugins:
            function = self.function(plugin, hook)
            if function is not None and not plugin.is_missing:
                yield plugin.name, function

    def is_fired(self, hook: str) -> bool:
        """Whether a reader expects that a hook is fired: not if who would do so is missing, or its stage is off."""
        firing = {"run_model", "run_model_stream"} if hook == "tool_gate" else set()
        firing |= {one.hook for plugin in self.plugins for one in plugin.functions if one.fires == hook}
        off = {stage.get("hook", name) for name, stage in self.stages.items() if stage.get("enabled") is False}
        return not firing & off and not any(plugin.is_missing for plugin in self.plugins)

    def gets_turns(self) -> bool:
        """Whether there is a message for the profile, whatever profile is chosen at start."""
        return any(
            route_of(self.routes, message, start) == self.profile for start in self.profiles for message in messages()
        )

    def cleaning(self) -> set[str]:
        """The hooks of clean-ups."""
        return {stage.get("hook", name) for name, stage in self.stages.items() if "cleanup_for" in stage}

    def run_for_each(self, value: str) -> set[str]:
        """The hooks that are called for each item of a value."""
        return {stage.get("hook", name) for name, stage in self.stages.items() if stage.get("for_each") == value}

    def callers(self, hook: str) -> list[str]:
        """The stages that ask a hook."""
        return [name for name, stage in self.stages.items() if stage.get("hook", name) == hook]


def messages() -> Iterator[Message]:
    """Messages of every sort that generated conditions know."""
    for channel, chat, sender, content in itertools.product(
        CHANNELS, ("local", "42"), ("ann", "bob"), ("hello", "/go", ",help")
    ):
        yield {"channel": channel, "chat_id": chat, "sender_id": sender, "content": content}


def matches(condition: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    return all(name in fields and fnmatchcase(fields[name], glob) for name, glob in condition.items())


def route_of(routes: Sequence[Rule], message: Message, start: str) -> str:
    """The profile that a message gets in a runtime that was started with the profile `start`."""
    return next((route["profile"] for route in routes if matches(route["match"], message)), start)
