"""The way that a message would go: its profile, which stages would run, which gates would be asked. Nothing runs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from bub.envelope import Envelope, add_address, field_of
from bub.errors import UsageError
from bub.hooks.facts import BUILTIN, SESSION
from bub.pipeline.plan.origins import flow
from bub.pipeline.plan.routes import Routing, choose
from bub.pipeline.run.graph import FiredPoint, Graph, Step
from bub.pipeline.show.drawing import agent_of
from bub.runtime.generations import Generation
from bub.runtime.snapshot import Profile
from bub.secrets.redactor import Redactor
from bub.studio.views.loaded import loaded_profile

Answer: TypeAlias = Literal["yes", "no", "depends"]

SESSIONS = ("new", "known")
"""What a session can be: `new` in its first turn."""

_GATE = "gate"
_NOBODY = "no plugin of the profile implements it"
_EACH_CALL = ("tool_gate",)
"""The points that the agent fires before each call of a tool."""


class Stage(msgspec.Struct, frozen=True):
    """Whether a stage would run, as far as that is known before the turn, and why."""

    id: str
    runs: Answer
    why: str


def find_way(
    generation: Generation,
    message: Mapping[str, Any],
    session: str,
    mask: Redactor,
    *,
    profile: str | None = None,
    registered: Container[str] = (),
) -> dict[str, Any]:
    """Return which way a message would go in the pipeline that is loaded; nothing is run, and no plugin is called.

    `session` says whether it is the first of its session ("new") or not ("known"). A `profile` that is named takes it,
    else the routes choose. `registered` are the hooks with handlers that came at run time. A stage "depends" if what
    decides is made by a stage above; "yes" and "no" hold unless a stage above fails, denies the message or claims it,
    which `note` says. `mask` covers secrets. Raises `UsageError` for a session of another word, and `NotThereError` for
    a profile that is not loaded.
    """
    if session not in SESSIONS:
        raise UsageError(f"a session is `new` or `known`, and not `{session}`")
    snapshot = generation.snapshot
    choice = choose(snapshot.routes.routes, add_address(dict(message)), snapshot.start_profile)
    found = loaded_profile(generation, profile if profile is not None else choice.profile)
    stages = _Walk(found, choice, session, registered).go()
    runs = {stage.id: stage for stage in stages}
    return {
        "profile": found.name,
        "route": choice.taken.number if profile is None and choice.taken is not None else None,
        "routes": choice.as_dict()["routes"] if profile is None else [],
        "session_id": choice.session_id,
        "stages": [{**msgspec.structs.asdict(stage), "why": mask.text(stage.why)} for stage in stages],
        "gates": [*_ask_stages(found.graph, runs), *_ask_fired(found, runs, registered)],
        "admission": [call.plugin for call in found.admissions.items],
        "tools": _describe_tools(found),
        "note": _note(found, runs),
    }


class _Walk:
    """Goes through the stages in run order, and knows which messages are still as they came."""

    def __init__(self, profile: Profile, choice: Routing, session: str, registered: Container[str]) -> None:
        self._profile, self._graph = profile, profile.graph
        self._message: Envelope = choice.message
        self._session_id, self._session = choice.session_id, session
        self._registered = registered
        self._changed: dict[int, str] = {}
        self._is_found = True
        self._arrival = {step.id for node in self._graph.arrival for step in node.steps}

    def go(self) -> list[Stage]:
        found: dict[str, Stage] = {}
        for node in self._graph.nodes:
            for step in node.steps:
                found[step.id] = self._look_at(step, node.each)
                self._note_changes(step, node.each)
        return list(found.values())

    def _look_at(self, step: Step, each: str | None) -> Stage:
        runs, why = self._judge(step, each)
        if step.cleanup_for and runs != "no":
            targets = ", ".join(one.id for one in self._graph.steps if one.id in step.cleanup_for)
            why = why or f"it cleans up after {targets}, however that ends"
        return Stage(step.id, runs, why)

    def _judge(self, step: Step, each: str | None) -> tuple[Answer, str]:
        plan = self._profile.plan.stage(step.id)
        if not step.enabled:
            return "no", f"`{plan.replaced_by[0]}` replaces it" if plan.replaced_by else "it is switched off"
        verdict, why = self._meets(step, each)
        if verdict == "no":
            return verdict, why
        if not (step.calls.items or step.hook in self._registered):
            if not step.has_default:
                return "no", _NOBODY
            why = why or f"{_NOBODY}, so its `default` counts"
        if each is not None:
            once = f"once for each of {each}, if there are any"
            return "depends", f"{why}, and {once}" if why else once
        return verdict, why

    def _meets(self, step: Step, each: str | None) -> tuple[Answer, str]:
        """Return whether the `when` of a stage is met, and why not or why that is not known."""
        node = self._profile.plan.stage(step.id).node.get("when")
        if step.when is None or node is None:
            return "yes", ""
        unknown = ""
        for name, fits in step.when.patterns:
            glob = node.get(name)
            wanted = f"it wants {name}: {flow(glob.plain() if glob is not None else None)}"
            value, doubt = self._read(step, name, each)
            if doubt:
                unknown = unknown or f"{wanted}, and {doubt}"
            elif value is None:
                return "no", f"{wanted}, but the message has no {name}"
            elif not fits(str(value)):
                return "no", f"{wanted}, but it is {flow(value)}"
        return ("depends", unknown) if unknown else ("yes", "")

    def _read(self, step: Step, name: str, each: str | None) -> tuple[Any, str]:
        """Return what a stage reads of the turn or of its message, and why that is not known before, if it is not."""
        has_arrived = self._graph.joins and step.id not in self._arrival
        if has_arrived and name == "session":
            return self._session, ""
        if has_arrived and name == SESSION:
            return self._session_id, "" if self._is_found else "a plugin may choose another session"
        if each is not None:
            return None, f"that is one of {each}"
        maker = self._changed.get(step.message)
        return (None, f"`{maker}` above may change the message") if maker else (field_of(self._message, name), "")

    def _note_changes(self, step: Step, each: str | None) -> None:
        """Note what a stage leaves of the message: the builtin plugin leaves it as it is."""
        foreign = step.enabled and (
            step.hook in self._registered or any(one.plugin != BUILTIN for one in step.calls.items)
        )
        for name, slot in step.makes:
            if name != "message" or each is not None:
                continue
            if slot == step.joins:
                self._is_found = not foreign
                maker = self._changed.get(step.message, "")
            else:
                default = self._profile.plan.stage(step.id).node.get("default")
                is_same = default is None or default.value == "{message}"
                maker = step.id if foreign or not is_same else self._changed.get(step.message, "")
            if maker:
                self._changed[slot] = maker


# Gates


def _ask_stages(graph: Graph, runs: Mapping[str, Stage]) -> Iterator[dict[str, Any]]:
    for step in graph.steps:
        if step.kind.facts.name == _GATE:
            stage = runs[step.id]
            yield {
                "stage": step.id,
                "point": step.hook,
                "implementers": [call.plugin for call in step.calls.items],
                "asked": stage.runs,
                "why": stage.why,
            }


def _ask_fired(profile: Profile, runs: Mapping[str, Stage], registered: Container[str]) -> Iterator[dict[str, Any]]:
    agent = agent_of(profile.plan)
    for point in profile.graph.fired.values():
        if point.kind.facts.name == _GATE and point.name not in profile.plan.callers:
            stage = runs.get(agent) if agent is not None and profile.plan.hooks[point.name].known else None
            asked, why = _judge_fired(point, stage, registered)
            yield {
                "stage": stage.id if stage is not None else None,
                "point": point.name,
                "implementers": [one.plugin for one in point.implementations],
                "asked": asked,
                "why": why,
            }


def _judge_fired(point: FiredPoint, stage: Stage | None, registered: Container[str]) -> tuple[Answer, str]:
    if not (point.implementations or point.name in registered):
        return "no", _NOBODY
    if stage is not None and stage.runs == "no":
        return "no", f"`{stage.id}` does not run"
    return "depends", "before each call of a tool" if point.name in _EACH_CALL else "whenever somebody fires it"


def _describe_tools(profile: Profile) -> dict[str, Any]:
    """Return which tools the model may call, which of them ask a person first, and what commands may reach."""
    box = profile.tools.for_model()
    names = box.usable()
    reach = profile.confinement
    return {
        "usable": names,
        "asks": [name for name in names if box.policy.asks(box.tools[name])],
        "reach": {"write": list(reach.write), "read": list(reach.read), "network": reach.network} if reach else None,
    }


def _note(profile: Profile, runs: Mapping[str, Stage]) -> str:
    ending = [
        f"`{step.id}`"
        for step in profile.graph.steps
        if step.kind.facts.name in (_GATE, "claiming") and runs[step.id].runs != "no"
    ]
    said = [f"{' or '.join(ending)} may end the turn: then of the stages below only clean-ups run"] if ending else []
    if profile.admissions.items:
        said.append(f"{', '.join(call.plugin for call in profile.admissions.items)} may drop the message before")
    if profile.has_personalities:
        said.append("a session that has chosen another profile keeps that")
    return "; ".join(said)
