"""What there is to say about a pipeline, a stage, a hook point or a value, as values with a JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bub.base.diagnostics import Place
from bub.pipeline.plan.origins import (
    Origin,
)


@dataclass(frozen=True, slots=True)
class Implementer:
    """A plugin's function for a hook point, and the place it is written at if Python knows it."""

    plugin: str
    hook: str
    file: str | None = None
    line: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"plugin": self.plugin, "hook": self.hook, "file": self.file, "line": self.line}


@dataclass(frozen=True, slots=True)
class Implementers:
    """Who implements the stages and the hook points of a profile, in call order."""

    stages: Mapping[str, tuple[Implementer, ...]]
    hooks: Mapping[str, tuple[Implementer, ...]]


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a stage or hook point: its `value` as text, what it means, and every place that set it.

    Without origins nobody set it, and `value` is what holds by default.
    """

    name: str
    value: str
    meaning: str
    origins: tuple[Origin, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "value": self.origins[-1].value.plain() if self.origins else None,
            "default": None if self.origins else self.value,
            "meaning": self.meaning,
            "origins": _origins(self.origins),
        }


@dataclass(frozen=True, slots=True)
class StageFacts:
    """One stage as it runs. `asked` are its implementers in call order, None if plugins are not loaded.

    `takes` says of each value it may name who makes it (() for one that is there from the start, None for one that
    nobody makes), `makes` who takes it. `beside` are the stages that may run at the same time; `shown` says when
    the words of a stream are shown, "" if that is as they come.
    """

    id: str
    kind: str
    hook: str
    place: Place
    doc: str
    enabled: str
    replaced_by: tuple[str, ...]
    timeout: str
    on_failure: str
    marks: tuple[str, ...]
    takes: Mapping[str, tuple[str, ...] | None]
    makes: Mapping[str, tuple[str, ...]]
    waits_for: tuple[str, ...]
    before: tuple[str, ...]
    beside: tuple[str, ...]
    shown: str
    cleaned_by: tuple[str, ...]
    asked: tuple[Implementer, ...] | None
    keys: tuple[Key, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind or None,
            "hook": self.hook,
            "place": _place(self.place),
            "enabled": {"true": True, "false": False}.get(self.enabled, self.enabled),
            "replaced_by": list(self.replaced_by),
            "timeout": self.timeout or None,
            "on_failure": self.on_failure,
            "takes": {name: None if makers is None else list(makers) for name, makers in self.takes.items()},
            "makes": {name: list(takers) for name, takers in self.makes.items()},
            "waits_for": list(self.waits_for),
            "beside": list(self.beside),
            "shown": self.shown or None,
            "cleaned_up_by": list(self.cleaned_by),
            "implementations": _implementers(self.asked),
            "keys": {key.name: key.as_dict() for key in self.keys},
        }


@dataclass(frozen=True, slots=True)
class HookFacts:
    """One hook point: the kind it has here, its arguments, the stages that call it, who implements it."""

    name: str
    kind: str
    takes: tuple[str, ...]
    doc: str
    place: Place | None
    timeout: str
    on_failure: str
    called_by: tuple[str, ...]
    called: str
    asked: tuple[Implementer, ...] | None
    keys: tuple[Key, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind or None,
            "takes": list(self.takes),
            "description": self.doc,
            "place": _place(self.place) if self.place is not None else None,
            "timeout": self.timeout or None,
            "on_failure": self.on_failure,
            "called_by": list(self.called_by),
            "implementations": _implementers(self.asked),
            "keys": {key.name: key.as_dict() for key in self.keys},
        }


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """What is at a path: what it means, every place that set it, and what is `below` it if it is a mapping.

    `default` is said if nobody set it, `note` what else the reader has to know.
    """

    path: str
    meaning: str
    allowed: tuple[str, ...]
    origins: tuple[Origin, ...]
    below: tuple[tuple[str, Origin], ...]
    default: str
    note: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "set": bool(self.origins or self.below),
            "value": self.origins[-1].value.plain() if self.origins else None,
            "secret": bool(self.origins) and self.origins[-1].secret,
            "default": self.default or None,
            "meaning": self.meaning,
            "allowed": list(self.allowed),
            "note": self.note or None,
            "origins": _origins(self.origins),
            "below": {path: _origins((origin,))[0] for path, origin in self.below},
        }


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """The whole pipeline of a profile; `plugins` are its allowlist, lowest priority first, and what is said of each.

    `servers` are those that its agent may use, each with its command or address.
    """

    file: str
    parents: tuple[str, ...]
    profile: str
    bases: tuple[str, ...]
    description: str
    stages: tuple[StageFacts, ...]
    fired: tuple[HookFacts, ...]
    plugins: Mapping[str, str]
    tools: Mapping[str, tuple[str, ...]] | None
    servers: Mapping[str, str]
    routes: tuple[tuple[str, str], ...]
    schedules: Mapping[str, str]
    limits: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "extends": list(self.parents),
            "profile": self.profile,
            "profile_extends": list(self.bases),
            "description": self.description or None,
            "stages": [stage.as_dict() for stage in self.stages],
            "hooks": [hook.as_dict() for hook in self.fired],
            "plugins": [{"name": name, "note": note or None} for name, note in self.plugins.items()],
            "tools": {name: list(tools) for name, tools in self.tools.items()} if self.tools is not None else None,
            "servers": dict(self.servers),
            "routes": [{"match": match, "profile": profile} for match, profile in self.routes],
            "schedules": dict(self.schedules),
            "limits": dict(self.limits),
        }


@dataclass(frozen=True, slots=True)
class CodePage:
    """What a code of a finding means, as `docs/diagnostics.md` says it."""

    code: str
    text: str

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "page": self.text}


Facts: TypeAlias = PipelineFacts | StageFacts | HookFacts | ValueFacts
ABOUT: Mapping[type, str] = {
    PipelineFacts: "pipeline",
    StageFacts: "stage",
    HookFacts: "hook",
    ValueFacts: "value",
    CodePage: "code",
}
"""What a JSON answer is about, by the facts it holds."""


def _place(place: Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.range.start.line, "column": place.range.start.column}


def _origins(origins: tuple[Origin, ...]) -> list[dict[str, Any]]:
    return [
        {
            "value": origin.value.plain(),
            "secret": origin.secret,
            "path": origin.path,
            **(_place(origin.place) if origin.place is not None else {"file": None, "line": None, "column": None}),
            "layer": origin.layer,
            "variable": origin.variable or None,
            "counts": origin is origins[-1],
        }
        for origin in origins
    ]


def _implementers(asked: tuple[Implementer, ...] | None) -> list[dict[str, Any]] | None:
    return [one.as_dict() for one in asked] if asked is not None else None
