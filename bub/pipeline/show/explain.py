"""What a pipeline is for one profile, and the place each part of it is set at: the facts behind `bub explain`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from bub.base.diagnostics import Place, did_you_mean
from bub.base.json_schema import Steps, join_steps
from bub.errors import UsageError
from bub.hooks.combining import COMBININGS
from bub.hooks.facts import HANDED_ON_KEYS, HOOK_KEYS, INHERITED_KEYS, KIND_KEYS, KINDS, STAGE_KEYS, START_VALUES
from bub.pipeline.plan.checks import CHECKED, describe_showing
from bub.pipeline.plan.layers.person import LAYER
from bub.pipeline.plan.layers.said import GENERAL
from bub.pipeline.plan.origins import (
    Lookup,
    Origin,
    flow,
    is_for_another_provider,
    is_variable,
    leaves_of,
    origins_of,
    schema_at,
    value_at,
)
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of, names_of, text_of
from bub.pipeline.plan.schedules.schedule import UTC, nodes_of
from bub.pipeline.plan.secret_places import setting_of
from bub.pipeline.plan.settings import variable_of
from bub.pipeline.plan.shown import plan_to_show
from bub.pipeline.plan.stages import HookPlan, StagePlan
from bub.pipeline.plan.waits import Waits, waits_of
from bub.pipeline.plan.ways.servers import describe_server, used_servers
from bub.pipeline.report.handbook import codes, page_of
from bub.pipeline.show.drawing import swap_marks
from bub.pipeline.show.facts import CodePage, Facts, HookFacts, Implementers, Key, PipelineFacts, StageFacts, ValueFacts
from bub.pipeline.show.topics import find_hook, find_stage, resolve_path
from bub.pipeline.show.unknown import cover_unknown, is_unknown
from bub.pipeline.source.document import Node
from bub.plugins.finding import ASYNCIO


def about_code(topic: str) -> CodePage | None:
    """Return the page of a code such as `B120`, in any case; None if `topic` is no code. UsageError if unknown."""
    if not re.fullmatch(r"[Bb][0-9]{3}", topic):
        return None
    code = topic.upper()
    text = page_of(code)
    if text is None:
        known = list(codes())
        hint = f"codes are {known[0]} to {known[-1]}" if known else None
        raise UsageError(f"there is no finding `{code}`", help=did_you_mean(code, known) or hint)
    return CodePage(code, text)


def needs_plugins(lookup: Lookup, topic: str | None) -> bool:
    """Return whether what is asked for shows implementations: the pipeline itself, a stage or a hook point."""
    return topic is None or find_stage(lookup.plan, topic) is not None or find_hook(lookup.plan, topic) is not None


def explain(lookup: Lookup, topic: str | None, implementers: Implementers | None) -> Facts:
    """Return the facts about a stage, a hook point or a path, or about the whole pipeline if nothing is named.

    Raises `UsageError`, with what was probably meant, for what this pipeline does not have.
    """
    lookup = replace(lookup, plan=plan_to_show(lookup.plan))
    if topic is None:
        return _about_pipeline(lookup, implementers)
    stage = find_stage(lookup.plan, topic)
    if stage is not None:
        return _about_stage(lookup, stage, waits_of(lookup.plan), implementers)
    hook = find_hook(lookup.plan, topic)
    if hook is not None:
        return _about_hook(lookup, hook, implementers)
    return _about_value(lookup, resolve_path(lookup, topic))


# The pipeline


def _about_pipeline(lookup: Lookup, implementers: Implementers | None) -> PipelineFacts:
    plan, document = lookup.plan, lookup.document
    waits = waits_of(plan)
    fired = [hook for name, hook in plan.hooks.items() if name not in plan.callers and not hook.point.bootstrap]
    profile = lookup.redact(plan.effective.profile_node or Node({}, Place(document.file)), ("profiles", plan.profile))
    tools = profile.get("tools")
    section = plan.root.get("routes")
    routes = section.elements() if section is not None else ()
    return PipelineFacts(
        file=document.file,
        parents=tuple(layer.name for layer in reversed(document.layers[:-1]) if layer.name != LAYER),
        profile=plan.profile,
        bases=tuple(reversed(plan.effective.chain[:-1])),
        description=_text(profile.get("description")) or _text(plan.root.get("description")),
        stages=tuple(_about_stage(lookup, stage, waits, implementers) for stage in plan.stages),
        fired=tuple(_about_hook(lookup, hook, implementers) for hook in fired),
        plugins={"builtin": "", **{name: _note_on_plugin(plan, name) for name, _ in plan.allowlist}},
        tools=None
        if tools is None
        else {name: tuple(value for value, _ in names_of(listed)) for name, listed in tools.items()},
        servers={name: describe_server(lookup.redact(node, ("mcp", name))) for name, node in used_servers(plan)},
        routes=tuple(_route(route) for route in routes if route.is_mapping),
        schedules={name: _describe_schedule(node) for name, node in nodes_of(plan.root)},
        limits={
            name: flow(node.plain()) for name, node in profile.items() if name in ("concurrency", "budget", "channels")
        },
    )


def _describe_schedule(node: Node) -> str:
    """Say when a schedule fires, for whom, and what it says; which moments are next, each day would say otherwise."""
    when, where, to, said = (_text(node.get(key)) for key in ("cron", "timezone", "session", "message"))
    profile = _text(node.get("profile"))
    by = f" in profile {profile}" if profile else ""
    return f"{when or '?'} {where or UTC} → {to or '?'}{by}: {' '.join(said.split()) or '?'}"


def _note_on_plugin(plan: Plan, name: str) -> str:
    path = text_of(plan.root.get("plugins", name, "path"))
    optional = "optional" if flag_of(plan.root.get("plugins", name, "optional")) else None
    loop = "on asyncio" if text_of(plan.root.get("plugins", name, "runtime")) == ASYNCIO else None
    return ", ".join(part for part in (path, optional, loop) if part)


def _route(route: Node) -> tuple[str, str]:
    match, profile = route.get("match"), route.get("profile")
    fields = [f"{name}: {flow(node.plain())}" for name, node in match.items()] if match is not None else []
    return ", ".join(fields) or "every message", _text(profile) or "?"


# Stages and hook points


def _about_stage(lookup: Lookup, stage: StagePlan, waits: Waits, implementers: Implementers | None) -> StageFacts:
    plan, hook = lookup.plan, stage.hook.point.name
    keys = {name: _stage_key(lookup, stage, name) for name in _keys_of(stage)}
    at = plan.position[stage.id]
    shown = describe_showing(plan, stage, implementers.stages if implementers is not None else None)
    return StageFacts(
        id=stage.id,
        kind=stage.kind.name if stage.kind is not None else "",
        hook=hook,
        place=stage.where,
        doc=_doc(stage.hook),
        enabled="false" if stage.replaced_by else keys["enabled"].value,
        replaced_by=stage.replaced_by,
        timeout=keys["timeout"].value if keys["timeout"].origins else "",
        on_failure=keys["on_failure"].value,
        marks=tuple(_marks(plan, stage, keys, waits.beside[stage.id], shown)),
        takes={name: _makers(plan, stage, name) for name in dict.fromkeys(stage.taken)},
        makes={
            name: tuple(other.id for other in plan.flow.takers.get(name, ()) if plan.position[other.id] > at)
            for name in dict.fromkeys(stage.makes)
        },
        waits_for=waits.directly[stage.id],
        before=waits.before[stage.id],
        beside=waits.beside[stage.id],
        shown=shown,
        cleaned_by=tuple(
            other.id
            for other in plan.stages
            if other.cleanup_for is not None and stage.id in plan.standing_for(other.cleanup_for)
        ),
        asked=implementers.stages.get(stage.id, ()) if implementers is not None else None,
        keys=tuple(keys.values()),
    )


def _makers(plan: Plan, stage: StagePlan, name: str) -> tuple[str, ...] | None:
    at = plan.position[stage.id]
    makers = tuple(other.id for other in plan.flow.makers.get(name, ()) if plan.position[other.id] < at)
    return makers or (() if name in START_VALUES else None)


def _keys_of(stage: StagePlan) -> Iterable[str]:
    """Return the keys that the stage has or could have, by its kind."""
    known = [name for name in STAGE_KEYS if stage.kind is None or name not in KIND_KEYS or name in stage.kind.keys]
    return dict.fromkeys([*known, *(name for name, _ in stage.node.items())])


def _marks(plan: Plan, stage: StagePlan, keys: Mapping[str, Key], beside: tuple[str, ...], shown: str) -> Iterable[str]:
    """Return what is special about a stage, in a few words each."""
    if not stage.enabled:
        yield "off"
    elif "${" in keys["enabled"].value:
        yield f"on if {keys['enabled'].value}"
    yield from swap_marks(stage)
    if stage.hook.point.name != stage.id:
        yield f"calls {stage.hook.point.name}"
    if keys["when"].origins:
        yield f"when {keys['when'].value.strip('{}')}"
    if stage.each is not None:
        yield f"for each of {stage.each}"
    if stage.cleanup_for is not None:
        yield f"cleans up after {', '.join(plan.standing_for(stage.cleanup_for))}"
    if stage.needs is not None:
        yield f"needs {', '.join(stage.needs) or 'nothing'}"
    if beside:
        yield f"side by side with {', '.join(beside[:3])}{', …' if beside[3:] else ''}"
    if "retry" in keys and keys["retry"].origins:
        yield f"retry {keys['retry'].value}"
    if shown:
        yield shown
    if keys["only"].origins:
        yield f"only {keys['only'].value.strip('[]')}"
    if keys["thread"].value == "true":
        yield "in a thread"


def _stage_key(lookup: Lookup, stage: StagePlan, name: str) -> Key:
    steps: Steps = ("stages", stage.id, name)
    origins = _stage_origins(lookup, stage, name)
    if origins:
        return Key(name, flow(origins[-1].value.plain()), _meaning(lookup, steps, origins[-1].value), origins)
    return Key(name, _stage_default(stage, name), _meaning(lookup, steps), ())


def _stage_origins(lookup: Lookup, stage: StagePlan, name: str) -> tuple[Origin, ...]:
    """Return who sets a key of a stage: the pipeline for its kind, its hook point, then the stage itself."""
    hook = origins_of(lookup, ("hooks", stage.hook.point.name, name)) if name in INHERITED_KEYS else ()
    own = origins_of(lookup, ("stages", stage.id, name)) or _taken_over(lookup, stage, name)
    return (*_general_policy(lookup, stage, name), *hook, *own)


def _taken_over(lookup: Lookup, stage: StagePlan, name: str) -> tuple[Origin, ...]:
    """Return who sets a key that a stage takes over from the one it replaces."""
    if name not in HANDED_ON_KEYS or stage.node.get(name) is None or stage.replaces is None:
        return ()
    return _stage_origins(lookup, lookup.plan.stage(stage.replaces), name)


def _general_policy(lookup: Lookup, what: StagePlan | HookPlan, name: str) -> tuple[Origin, ...]:
    tunable = name == "on_failure" and what.kind is not None and what.kind.tunable
    return origins_of(lookup, ("on_failure",)) if tunable else ()


def _stage_default(stage: StagePlan, name: str) -> str:
    combine = text_of(stage.node.get("combine")) or "list"
    empty = flow(COMBININGS[combine].empty()) if combine in COMBININGS else "nothing"
    return {
        "kind": "none, and a stage needs one",
        "hook": stage.id,
        "needs": "all stages above",
        "before": "nothing",
        "after": "nothing",
        "replace": "nothing",
        "into": "nothing",
        "default": empty if stage.kind is not None and stage.kind.name == "broadcast" else "nothing",
        "default_if": "none",
        "combine": "list",
        "changes": "nothing",
        "for_each": "nothing",
        "cleanup_for": "nothing",
        "retry": "no",
        "show": CHECKED,
        "idle_timeout": "none",
        "when": "every message",
        "enabled": "false, since another runs in its place" if stage.replaced_by else "true",
        "timeout": "none",
        "on_failure": stage.on_failure,
        "only": "all plugins of the profile",
        "thread": "false",
    }.get(name, "nothing")


def _about_hook(lookup: Lookup, hook: HookPlan, implementers: Implementers | None) -> HookFacts:
    plan, name = lookup.plan, hook.point.name
    keys = tuple(_hook_key(lookup, hook, key) for key in HOOK_KEYS)
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


def _hook_key(lookup: Lookup, hook: HookPlan, name: str) -> Key:
    steps: Steps = ("hooks", hook.point.name, name)
    origins = (*_general_policy(lookup, hook, name), *origins_of(lookup, steps))
    if origins:
        return Key(name, flow(origins[-1].value.plain()), _meaning(lookup, steps, origins[-1].value), origins)
    usual = hook.point.kinds[0]
    default = {
        "kind": usual or "none, and a hook point needs one",
        "takes": flow(list(hook.takes)),
        "timeout": "none",
        "on_failure": _policy_of(hook),
        "only": "all plugins of the profile",
        "thread": "false",
    }
    return Key(name, default.get(name) or "nothing", _meaning(lookup, steps), ())


def _policy_of(hook: HookPlan) -> str:
    """Return what a failure does at a point that says nothing of it."""
    kind = hook.kind or KINDS.get(hook.point.kinds[0])
    return kind.policies[0] if kind is not None else ""


def _doc(hook: HookPlan) -> str:
    said = hook.node.get("description") if hook.node is not None else None
    return _text(said) or hook.point.doc


def _text(node: Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


# Values


def _about_value(lookup: Lookup, steps: Steps) -> ValueFacts:
    origins, default = origins_of(lookup, steps), ""
    stage = find_stage(lookup.plan, str(steps[1])) if steps[0] == "stages" and len(steps) == 3 else None
    hook = find_hook(lookup.plan, str(steps[1])) if steps[0] == "hooks" and len(steps) == 3 else None
    if stage is not None:
        key = _stage_key(lookup, stage, str(steps[2]))
        origins, default = key.origins, key.value
    elif hook is not None:
        key = _hook_key(lookup, hook, str(steps[2]))
        origins, default = key.origins, key.value
    node = value_at(lookup, steps)
    leaves = leaves_of(lookup, steps) if node is None or node.is_mapping else []
    if node is not None and node.is_mapping:
        origins = tuple(cover_unknown(lookup, origin, steps) for origin in origins)
    below = [(inner, cover_unknown(lookup, origin, inner)) for inner, origin in leaves if inner != steps]
    unknown = next((inner for inner, origin in below if is_unknown(lookup, inner) and not origin.secret), None)
    schema = schema_at(lookup, steps) or {}
    return ValueFacts(
        path=join_steps(steps),
        meaning=_meaning(lookup, steps, origins[-1].value if origins else None),
        allowed=tuple(str(value) for value in schema.get("enum", ())),
        origins=origins,
        below=tuple((join_steps(inner), origin) for inner, origin in below),
        default="" if origins or below else default or _default(steps, schema),
        note=_note_on_unknown(unknown) if unknown is not None else _note(lookup, steps, bool(below)),
    )


def _default(steps: Steps, schema: Mapping[str, Any]) -> str:
    if "default" in schema:
        return flow(schema["default"])
    last = steps[-1]
    if steps[0] == "profiles" and len(steps) == 3:
        return {"plugins": "[], so only builtin", "tools": "the read-only ones"}.get(str(last), "nothing")
    return {"extends": "no parent", "on_failure": "what each kind does", "optional": "false"}.get(str(last), "nothing")


def _note_on_unknown(steps: Steps) -> str:
    section = join_steps(steps[: 1 - len(setting_of(steps) or ())])
    one = f"`bub explain {join_steps(steps)}` shows one"
    return f"No schema says which values of `{section}` are secrets, so a list has none of them; {one}."


def _note(lookup: Lookup, steps: Steps, has_more: bool) -> str:
    if steps[0] != "settings" or len(steps) == 1 or has_more:
        return ""
    name = str(steps[-1])
    if len(steps) == 2 and name in GENERAL and is_for_another_provider(lookup, name):
        return f"It is left out: `{name}` was given for another provider than that of `settings.model`."
    variable = variable_of(str(step) for step in steps[1:])
    if not is_variable(lookup, steps, variable):
        return ""
    return f"`{variable}` in the environment, or in `.env` beside the file, beats every file."


def _meaning(lookup: Lookup, steps: Steps, value: Node | None = None) -> str:
    """Return what the schema says a value is for, and what this one of several does."""
    schema = schema_at(lookup, steps) or {}
    said = str(schema.get("description", ""))
    each = schema.get("markdownEnumDescriptions", ())
    chosen = dict(zip(schema.get("enum", ()), each, strict=False)) if value is not None else {}
    more = chosen.get(value.value) if value is not None and isinstance(value.value, str) else None
    return f"{said} `{value.value}`: {more}." if more and value is not None else said
