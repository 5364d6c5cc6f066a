"""What a pipeline comes to for one profile, and where each part of it was said: the facts behind `bub explain`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bub.diagnostics import Place, did_you_mean
from bub.errors import UsageError
from bub.hookspecs import HOOK_POINTS
from bub.kinds import HOOK_KEYS, KIND_KEYS, KINDS, STAGE_KEYS, START_VALUES
from bub.pipeline.document import Node
from bub.pipeline.handbook import codes, page_of
from bub.pipeline.merge import DEFAULT_PROFILE
from bub.pipeline.origins import (
    Origin,
    Scope,
    Steps,
    dotted,
    flow,
    given_for_another,
    is_variable,
    leaves_of,
    origins_of,
    schema_at,
    value_at,
)
from bub.pipeline.plan import EMPTY_VALUES, HookPlan, Plan, StagePlan, flag_of, names_of, text_of
from bub.pipeline.schema import pipeline_schema
from bub.pipeline.waits import Waits, waits_of
from bub.settings import GENERAL, variable_of

_FROM_HOOK = ("kind", "timeout", "on_failure", "only", "thread")
"""What a stage takes from its hook point where it says nothing itself."""

_NAMED = ("stages", "hooks", "plugins", "profiles", "tests")
"""Sections whose keys are names: what nobody wrote there does not exist."""


@dataclass(frozen=True, slots=True)
class Implementer:
    """A plugin's function for a hook point, and the place it is written at where Python knows it."""

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
    """One stage as it runs. `asked` are its implementers in call order, None where plugins are not loaded.

    `takes` says of each value it may name who makes it (() for one that is there from the start, None for one that
    nobody makes), `makes` who takes it. `beside` are the stages that may run at the same time.
    """

    id: str
    kind: str
    hook: str
    place: Place
    doc: str
    enabled: str
    timeout: str
    on_failure: str
    marks: tuple[str, ...]
    takes: Mapping[str, tuple[str, ...] | None]
    makes: Mapping[str, tuple[str, ...]]
    waits_for: tuple[str, ...]
    before: tuple[str, ...]
    beside: tuple[str, ...]
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
            "timeout": self.timeout or None,
            "on_failure": self.on_failure,
            "takes": {name: None if makers is None else list(makers) for name, makers in self.takes.items()},
            "makes": {name: list(takers) for name, takers in self.makes.items()},
            "waits_for": list(self.waits_for),
            "beside": list(self.beside),
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
    """What stands at a path: what it means, every place that set it, and what is `below` it where it is a mapping.

    `default` is said where nobody set it, `note` what else the reader has to know.
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
    """The whole pipeline of a profile; `plugins` are its allowlist, lowest priority first, and what is said of each."""

    file: str
    parents: tuple[str, ...]
    profile: str
    bases: tuple[str, ...]
    description: str
    stages: tuple[StageFacts, ...]
    fired: tuple[HookFacts, ...]
    plugins: Mapping[str, str]
    tools: Mapping[str, tuple[str, ...]] | None
    routes: tuple[tuple[str, str], ...]
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
            "routes": [{"match": match, "profile": profile} for match, profile in self.routes],
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


def about_code(topic: str) -> CodePage | None:
    """The page of a code such as `B120`, in any case; None when `topic` is no code. UsageError for one nobody has."""
    if not re.fullmatch(r"[Bb][0-9]{3}", topic):
        return None
    code = topic.upper()
    text = page_of(code)
    if text is None:
        known = list(codes())
        hint = f"codes are {known[0]} to {known[-1]}" if known else None
        raise UsageError(f"there is no finding `{code}`", help=did_you_mean(code, known) or hint)
    return CodePage(code, text)


def needs_plugins(scope: Scope, topic: str | None) -> bool:
    """Whether what is asked for shows implementations: the pipeline itself, a stage or a hook point."""
    return topic is None or _stage_named(scope.plan, topic) is not None or _hook_named(scope.plan, topic) is not None


def explain(scope: Scope, topic: str | None, implementers: Implementers | None) -> Facts:
    """The facts about a stage, a hook point or a path, or about the whole pipeline where nothing is named.

    Raises `UsageError`, with what was probably meant, for what this pipeline does not have.
    """
    if topic is None:
        return _about_pipeline(scope, implementers)
    stage = _stage_named(scope.plan, topic)
    if stage is not None:
        return _about_stage(scope, stage, waits_of(scope.plan), implementers)
    hook = _hook_named(scope.plan, topic)
    if hook is not None:
        return _about_hook(scope, hook, implementers)
    return _about_value(scope, _steps(scope, topic))


def _stage_named(plan: Plan, topic: str) -> StagePlan | None:
    name = topic.removeprefix("stages.")
    return next((stage for stage in plan.stages if stage.id == name), None)


def _hook_named(plan: Plan, topic: str) -> HookPlan | None:
    name = topic.removeprefix("hooks.")
    said = plan.hooks.get(name) or next((stage.hook for stage in plan.stages if stage.hook.point.name == name), None)
    known = HOOK_POINTS.get(name)
    if said is not None or known is None:
        return said
    return HookPlan(known, None, None, known.takes, narrowed=False, known=True)


# The pipeline


def _about_pipeline(scope: Scope, implementers: Implementers | None) -> PipelineFacts:
    plan, document = scope.plan, scope.document
    waits = waits_of(plan)
    fired = [hook for name, hook in plan.hooks.items() if name not in plan.callers and not hook.point.bootstrap]
    profile = scope.covered(plan.effective.profile_node or Node({}, Place(document.file)), ("profiles", plan.profile))
    tools = profile.get("tools")
    section = plan.root.get("routes")
    routes = section.elements() if section is not None else ()
    return PipelineFacts(
        file=document.file,
        parents=tuple(layer.name for layer in reversed(document.layers[:-1])),
        profile=plan.profile,
        bases=tuple(reversed(plan.effective.chain[:-1])),
        description=_text(profile.get("description")) or _text(plan.root.get("description")),
        stages=tuple(_about_stage(scope, stage, waits, implementers) for stage in plan.stages),
        fired=tuple(_about_hook(scope, hook, implementers) for hook in fired),
        plugins={"builtin": "", **{name: _said_of_plugin(plan, name) for name, _ in plan.allowlist}},
        tools=None
        if tools is None
        else {name: tuple(value for value, _ in names_of(listed)) for name, listed in tools.items()},
        routes=tuple(_route(route) for route in routes if route.is_mapping),
        limits={
            name: flow(node.plain()) for name, node in profile.items() if name in ("concurrency", "budget", "channels")
        },
    )


def _said_of_plugin(plan: Plan, name: str) -> str:
    path = text_of(plan.root.get("plugins", name, "path"))
    optional = "optional" if flag_of(plan.root.get("plugins", name, "optional")) else None
    return ", ".join(part for part in (path, optional) if part)


def _route(route: Node) -> tuple[str, str]:
    match, profile = route.get("match"), route.get("profile")
    fields = [f"{name}: {flow(node.plain())}" for name, node in match.items()] if match is not None else []
    return ", ".join(fields) or "every message", _text(profile) or "?"


# Stages and hook points


def _about_stage(scope: Scope, stage: StagePlan, waits: Waits, implementers: Implementers | None) -> StageFacts:
    plan, hook = scope.plan, stage.hook.point.name
    keys = {name: _stage_key(scope, stage, name) for name in _keys_of(stage)}
    at = plan.position[stage.id]
    return StageFacts(
        id=stage.id,
        kind=stage.kind.name if stage.kind is not None else "",
        hook=hook,
        place=stage.where,
        doc=_doc(stage.hook),
        enabled=keys["enabled"].value,
        timeout=keys["timeout"].value if keys["timeout"].origins else "",
        on_failure=keys["on_failure"].value,
        marks=tuple(_marks(stage, keys, waits.beside[stage.id])),
        takes={name: _makers(plan, stage, name) for name in dict.fromkeys(stage.taken)},
        makes={
            name: tuple(other.id for other in plan.flow.takers.get(name, ()) if plan.position[other.id] > at)
            for name in dict.fromkeys(stage.makes)
        },
        waits_for=waits.directly[stage.id],
        before=waits.before[stage.id],
        beside=waits.beside[stage.id],
        cleaned_by=tuple(other.id for other in plan.stages if other.cleanup_for == stage.id),
        asked=implementers.stages.get(stage.id, ()) if implementers is not None else None,
        keys=tuple(keys.values()),
    )


def _makers(plan: Plan, stage: StagePlan, name: str) -> tuple[str, ...] | None:
    at = plan.position[stage.id]
    makers = tuple(other.id for other in plan.flow.makers.get(name, ()) if plan.position[other.id] < at)
    return makers or (() if name in START_VALUES else None)


def _keys_of(stage: StagePlan) -> Iterable[str]:
    """The keys that the stage has or could have, by its kind."""
    known = [name for name in STAGE_KEYS if stage.kind is None or name not in KIND_KEYS or name in stage.kind.keys]
    return dict.fromkeys([*known, *(name for name, _ in stage.node.items())])


def _marks(stage: StagePlan, keys: Mapping[str, Key], beside: tuple[str, ...]) -> Iterable[str]:
    """What is special about a stage, in a few words each."""
    if not stage.enabled:
        yield "off"
    elif "${" in keys["enabled"].value:
        yield f"on if {keys['enabled'].value}"
    if stage.hook.point.name != stage.id:
        yield f"calls {stage.hook.point.name}"
    if keys["when"].origins:
        yield f"when {keys['when'].value.strip('{}')}"
    if stage.each is not None:
        yield f"for each of {stage.each}"
    if stage.cleanup_for is not None:
        yield f"cleans up after {stage.cleanup_for}"
    if stage.needs is not None:
        yield f"needs {', '.join(stage.needs) or 'nothing'}"
    if beside:
        yield f"side by side with {', '.join(beside[:3])}{', …' if beside[3:] else ''}"
    if "retry" in keys and keys["retry"].origins:
        yield f"retry {keys['retry'].value}"
    if keys["only"].origins:
        yield f"only {keys['only'].value.strip('[]')}"
    if keys["thread"].value == "true":
        yield "in a thread"


def _stage_key(scope: Scope, stage: StagePlan, name: str) -> Key:
    steps: Steps = ("stages", stage.id, name)
    origins = _stage_origins(scope, stage, name)
    if origins:
        return Key(name, flow(origins[-1].value.plain()), _meaning(scope, steps, origins[-1].value), origins)
    return Key(name, _stage_default(stage, name), _meaning(scope, steps), ())


def _stage_origins(scope: Scope, stage: StagePlan, name: str) -> tuple[Origin, ...]:
    """Who sets a key of a stage: the pipeline for its kind, its hook point, then the stage itself."""
    hook = origins_of(scope, ("hooks", stage.hook.point.name, name)) if name in _FROM_HOOK else ()
    return (*_general_policy(scope, stage, name), *hook, *origins_of(scope, ("stages", stage.id, name)))


def _general_policy(scope: Scope, what: StagePlan | HookPlan, name: str) -> tuple[Origin, ...]:
    tunable = name == "on_failure" and what.kind is not None and what.kind.tunable
    return origins_of(scope, ("on_failure",)) if tunable else ()


def _stage_default(stage: StagePlan, name: str) -> str:
    combine = text_of(stage.node.get("combine")) or "list"
    empty = flow(EMPTY_VALUES[combine]()) if combine in EMPTY_VALUES else "nothing"
    return {
        "kind": "none, and a stage needs one",
        "hook": stage.id,
        "needs": "all stages above",
        "before": "nothing",
        "after": "nothing",
        "into": "nothing",
        "default": empty if stage.kind is not None and stage.kind.name == "broadcast" else "nothing",
        "default_if": "none",
        "combine": "list",
        "changes": "nothing",
        "for_each": "nothing",
        "cleanup_for": "nothing",
        "retry": "no",
        "when": "every message",
        "enabled": "true",
        "timeout": "none",
        "on_failure": stage.on_failure,
        "only": "all plugins of the profile",
        "thread": "false",
    }.get(name, "nothing")


def _about_hook(scope: Scope, hook: HookPlan, implementers: Implementers | None) -> HookFacts:
    plan, name = scope.plan, hook.point.name
    keys = tuple(_hook_key(scope, hook, key) for key in HOOK_KEYS)
    named = {key.name: key for key in keys}
    called_by = tuple(stage.id for stage in plan.callers.get(name, ()))
    if called_by:
        called = f"stage {', '.join(called_by)}"
    elif hook.point.bootstrap:
        called = "Bub itself, outside the stages"
    elif hook.node is not None:
        called = "whoever fires it, inside a stage"
    else:
        called = "nobody in this pipeline"
    return HookFacts(
        name=name,
        kind=named["kind"].value,
        takes=hook.takes,
        doc=_doc(hook),
        place=hook.node.where if hook.node is not None else None,
        timeout=named["timeout"].value if named["timeout"].origins else "",
        on_failure=named["on_failure"].value,
        called_by=called_by,
        called=called,
        asked=implementers.hooks.get(name, ()) if implementers is not None else None,
        keys=keys,
    )


def _hook_key(scope: Scope, hook: HookPlan, name: str) -> Key:
    steps: Steps = ("hooks", hook.point.name, name)
    origins = (*_general_policy(scope, hook, name), *origins_of(scope, steps))
    if origins:
        return Key(name, flow(origins[-1].value.plain()), _meaning(scope, steps, origins[-1].value), origins)
    usual = hook.point.kinds[0]
    default = {
        "kind": usual or "none, and a hook point needs one",
        "takes": flow(list(hook.takes)),
        "timeout": "none",
        "on_failure": _policy_of(hook),
        "only": "all plugins of the profile",
        "thread": "false",
    }
    return Key(name, default.get(name) or "nothing", _meaning(scope, steps), ())


def _policy_of(hook: HookPlan) -> str:
    """What a failure does at a point that says nothing of it."""
    kind = hook.kind or KINDS.get(hook.point.kinds[0])
    return kind.policies[0] if kind is not None else ""


def _doc(hook: HookPlan) -> str:
    said = hook.node.get("description") if hook.node is not None else None
    return _text(said) or hook.point.doc


def _text(node: Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


# Values


def _about_value(scope: Scope, steps: Steps) -> ValueFacts:
    origins, default = origins_of(scope, steps), ""
    stage = _stage_named(scope.plan, str(steps[1])) if steps[0] == "stages" and len(steps) == 3 else None
    hook = _hook_named(scope.plan, str(steps[1])) if steps[0] == "hooks" and len(steps) == 3 else None
    if stage is not None:
        key = _stage_key(scope, stage, str(steps[2]))
        origins, default = key.origins, key.value
    elif hook is not None:
        key = _hook_key(scope, hook, str(steps[2]))
        origins, default = key.origins, key.value
    node = value_at(scope, steps)
    leaves = leaves_of(scope, steps) if node is None or node.is_mapping else []
    below = tuple((dotted(inner), origin) for inner, origin in leaves if inner != steps)
    schema = schema_at(scope, steps) or {}
    return ValueFacts(
        path=dotted(steps),
        meaning=_meaning(scope, steps, origins[-1].value if origins else None),
        allowed=tuple(str(value) for value in schema.get("enum", ())),
        origins=origins,
        below=below,
        default="" if origins or below else default or _default(steps, schema),
        note=_note(scope, steps, bool(below)),
    )


def _default(steps: Steps, schema: Mapping[str, Any]) -> str:
    if "default" in schema:
        return flow(schema["default"])
    last = steps[-1]
    if steps[0] == "profiles" and len(steps) == 3:
        return {"plugins": "[], so only builtin", "tools": "the read-only ones"}.get(str(last), "nothing")
    return {"extends": "no parent", "on_failure": "what each kind does", "optional": "false"}.get(str(last), "nothing")


def _note(scope: Scope, steps: Steps, has_more: bool) -> str:
    if steps[0] != "settings" or len(steps) == 1 or has_more:
        return ""
    name = str(steps[-1])
    if len(steps) == 2 and name in GENERAL and given_for_another(scope, name):
        return f"It is left out: `{name}` was given for another provider than that of `settings.model`."
    variable = variable_of(str(step) for step in steps[1:])
    if not is_variable(scope, steps, variable):
        return ""
    return f"`{variable}` in the environment, or in `.env` beside the file, beats every file."


def _meaning(scope: Scope, steps: Steps, value: Node | None = None) -> str:
    """What the schema says a value is for, and what this one of several does."""
    schema = schema_at(scope, steps) or {}
    said = str(schema.get("description", ""))
    each = schema.get("markdownEnumDescriptions", ())
    chosen = dict(zip(schema.get("enum", ()), each, strict=False)) if value is not None else {}
    more = chosen.get(value.value) if value is not None and isinstance(value.value, str) else None
    return f"{said} `{value.value}`: {more}." if more and value is not None else said


# From a topic to a path


def _steps(scope: Scope, topic: str) -> Steps:
    """The path that a topic means; UsageError, with the nearest one there is, for a path of nothing."""
    steps: list[str | int] = []
    rest = topic
    while rest:
        index = re.match(r"\[([0-9]{1,6})\]\.?", rest) if steps else None
        if index:
            steps.append(int(index[1]))
            rest = rest[index.end() :]
            if value_at(scope, tuple(steps)) is None:
                raise UsageError(f"there is no `{dotted(tuple(steps))}`", help=f"look at `{dotted(tuple(steps[:-1]))}`")
            continue
        # A name may have dots in it, as those of plugins do.
        names = [name for name in _names_at(scope, tuple(steps)) if re.match(re.escape(name) + r"(?:$|[.\[])", rest)]
        name = max(names, key=len) if names else re.split(r"[.\[]", rest)[0]
        if not name or not _is_there(scope, (*steps, name)):
            raise _unknown(scope, topic, tuple(steps), name, rest[len(name) :])
        steps.append(name)
        rest = rest[len(name) :].removeprefix(".")
    if not steps:
        raise _unknown(scope, topic, (), topic, "")
    return tuple(steps)


def _names_at(scope: Scope, steps: Steps) -> list[str]:
    """The keys that there are, or could be, at a path."""
    node = value_at(scope, steps) if steps else scope.plan.effective.root
    schema = schema_at(scope, steps) or {}
    written = [name for name, _ in node.items()] if node is not None else []
    own = {"stages": [stage.id for stage in scope.plan.stages], "hooks": list(HOOK_POINTS)}
    points = own.get(str(steps[0]), []) if len(steps) == 1 else []
    return list(dict.fromkeys([*written, *schema.get("properties", ()), *points]))


def _is_there(scope: Scope, steps: Steps) -> bool:
    if value_at(scope, steps) is not None or origins_of(scope, steps):
        return True
    if len(steps) == 2 and steps[0] in _NAMED:
        return steps[1] in _names_at(scope, steps[:1]) or steps == ("profiles", DEFAULT_PROFILE)
    schema = schema_at(scope, steps)
    return schema is not None and "description" in schema and schema.get("title") != "plugin section"


def _unknown(scope: Scope, topic: str, above: Steps, name: str, rest: str) -> UsageError:
    known = _names_at(scope, above)
    if above:
        near = did_you_mean(name, known)
        if near is not None:
            near = near.replace("`", f"`{dotted(above)}.", 1).replace("`?", f"{rest}`?")
        listed = ", ".join(f"`{one}`" for one in known[:20])
        hint = near or (f"known there: {listed}" if known else "`bub explain` shows the whole pipeline")
        return UsageError(f"`{dotted(above)}` has no `{name}`", help=hint)
    stages = [stage.id for stage in scope.plan.stages]
    profiles = scope.document.root.get("profiles")
    if profiles is not None and profiles.get(name) is not None:
        return UsageError(f"`{topic}` is a profile", help=f"explain `profiles.{topic}`, or `--profile {name}`")
    known = [*stages, *scope.plan.hooks, *HOOK_POINTS, *pipeline_schema()["properties"]]
    hint = did_you_mean(name, known) or f"stages are {', '.join(f'`{one}`' for one in stages)}"
    return UsageError(f"this pipeline has no stage, hook point or path `{topic}`", help=hint)


# As JSON


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
