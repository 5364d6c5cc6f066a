"""Generated pipelines: whole files as people write them, right ones and wrong ones, with the plugins they list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fakes.toy_files import SHIPPED, Function, PipelineCase, ToyPlugin
from fakes.toy_words import (
    AIMED,
    BESIDE,
    BRAIN,
    FIELDS,
    FIRED,
    FLAWS,
    IDS,
    KINDS_OF,
    LISTS,
    ON,
    ONCE,
    ONLY,
    OWN_FILE,
    PLUGINS,
    SERVICES,
    Node,
)
from hypothesis import strategies as st


@dataclass
class _Draft:
    """A file that is being made: `order` are the ids of all stages so far, `made` the value that each makes.

    `asked` is what stages ask in a file that is about conditions.
    """

    draw: st.DrawFn
    is_agent: bool
    order: list[str]
    made: dict[str, str]
    strict: Node
    aim: str = "anything"
    flaw: str = ""
    hooks: dict[str, Node] = field(default_factory=dict)
    functions: dict[str, list[Function]] = field(default_factory=dict)
    known: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    asked: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def chance(self, percent: int) -> bool:
        """Whether something is so that is so in some of the files; the simplest file has none of it."""
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def has(self, flaw: str) -> bool:
        """Whether this is where the one flaw of the file is; it may be in several places."""
        return self.flaw == flaw and self.chance(70)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def some_of(self, choices: Sequence[Any], most: int = 2) -> list[Any]:
        if not choices:
            return []
        return self.draw(st.lists(st.sampled_from(choices), max_size=most, unique=True))

    def add(self, plugin: str, function: Function) -> None:
        self.functions.setdefault(plugin, []).append(function)

    # Stages.

    def stage(self, kind: str, name: str, layer: Node, *, is_anchored: bool) -> Node:
        """One new stage, its hook in the same layer, and who implements it."""
        at = self._place(kind)
        above = [self.made[other] for other in self.order[:at] if other in self.made]
        below = self.order[at] if at < len(self.order) else None
        node: Node = {}
        if is_anchored:
            is_after = below is None or self.chance(50)
            node["after" if is_after else "before"] = self.order[at - 1] if is_after else below
        takes = self.some_of([*above, "message"])
        if self.aim == "below" and "model_output" in above:
            takes = ["model_output"]
        each = None
        lists = [value for value in above if value in LISTS]
        if lists and kind != "firstresult" and (self.aim == "items" or self.chance(40)) and self.aim not in ONCE:
            each = node["for_each"] = self.one_of(lists)
            takes = ["message"]
        if kind == "modifying":
            text = [value for value in above if value in ("prompt", "model_output", "system")]
            changed = ["message"] if each is not None or not text else [self.one_of(text)]
            if self.aim == "too late":
                changed = ["model_output"]
            node["changes"] = changed
            takes = [*dict.fromkeys([*takes, *changed])]
        if kind == "firstresult":
            node.update({"into": f"{name}_value", "default": "nothing"})
        if kind == "broadcast" and self.chance(70):
            node.update({"into": f"{name}_value", "combine": self.one_of(("list", "concat"))})
        self._limits(name, node, kind, above)
        self.order.insert(at, name)
        shared = [hook for hook, known in self.known.items() if known == (kind, takes)]
        if shared and each is None and self.chance(30):
            return {**node, "hook": self.one_of(shared)}
        if "into" in node:
            self.made[name] = node["into"]
        hook = name
        if self.chance(15):
            hook = node["hook"] = f"{name}_hook"
        self._declare(hook, kind, takes, node, layer)
        self._implement(hook, kind, takes, [*node.get("changes", ()), *(["message"] if each is not None else [])])
        return node

    def _place(self, kind: str) -> int:
        """The number of the stage above which a new one is put."""
        least, most = 1, len(self.order)
        if self.aim in BESIDE:
            return self.order.index("resolve_session") + 1
        if self.aim == "below" and kind in ("gate", "claiming", "modifying"):
            least = self.order.index("run_model") + 1
        if self.aim in ("items", "too late"):
            least = self.order.index("render_outbound") + 1
        if self.aim in ("below", "items"):
            most = self.order.index("dispatch_outbound")
        if self.aim == "session":
            least = self.order.index("resolve_session") + 1
        return self.draw(st.integers(least, most))

    def _declare(self, hook: str, kind: str, takes: list[str], node: Node, layer: Node) -> None:
        """Say what a hook is, partly at the stage that calls it."""
        self.known[hook] = (kind, takes)
        said: Node = {"takes": takes} if takes else {}
        where = self.one_of(("hook", "stage", "both"))
        if where != "stage" or kind == "gate":
            said["kind"] = kind
        if where != "hook":
            node["kind"] = kind
        if self.chance(8):
            said["timeout"] = "5s"
        if layer is self.strict and self.chance(85):  # else only that profile has the hook
            self.hooks[hook] = {**said, "kind": kind}
        else:
            layer.setdefault("hooks", {})[hook] = said

    def _limits(self, name: str, node: Node, kind: str, above: Sequence[str]) -> None:
        """When, for whom and how long a stage is asked."""
        if self.aim == "slow" or self.chance(35):
            node["timeout"] = "5s"
        if self.chance(12):
            node["thread"] = True
        if self.aim in ("items", "elsewhere", "session"):
            node["when"] = self.asked[name] = self.one_of(AIMED[self.aim])
        elif self.chance(25):
            node["when"] = self.condition(above)
            if "for_each" in node and not self.has("items"):  # a reply says where it goes, not who wrote what
                node["when"] = {name: glob for name, glob in node["when"].items() if name in ("channel", "chat_id")}
        if self.chance(12):
            node["needs"] = self.some_of([other for other in self.order if self.made.get(other) in above])
        if self.has("off"):
            node["enabled"] = False
        elif self.chance(8):
            node["enabled"] = ON
        if self.aim in ONLY:
            node["only"] = [ONLY[self.aim]]
        if self.has("only"):
            node["only"] = self.draw(st.lists(st.sampled_from((*PLUGINS, "builtin")), max_size=2, unique=True))
        if self.chance(8):
            node["on_failure"] = "deny" if kind == "gate" else self.one_of(("skip", "propagate"))

    def condition(self, above: Sequence[str]) -> dict[str, str]:
        """One or two fields that a message is asked for."""
        known = [name for name in FIELDS if not name.startswith("session") or "session_id" in above]
        if "session_id" in known and self.chance(20):  # which says the channel and the chat once more
            return {"session_id": self.one_of(FIELDS["session_id"])}
        known = [name for name in known if name != "session_id"]
        return {name: self.one_of(FIELDS[name]) for name in [self.one_of(known), *self.some_of(known, 1)]}

    def _implement(self, hook: str, kind: str, takes: Sequence[str], needed: Sequence[str] = ()) -> None:
        names = [self.one_of(PLUGINS[:3]), *self.some_of(PLUGINS[:3], 1)] if not self.has("nobody") else []
        if self.aim in ("only", "nobody"):
            names = list(PLUGINS[:2]) if self.aim == "only" else []
        for name in dict.fromkeys(names):
            self.add(name, self.function(hook, kind, [*needed, *self.some_of([*takes, "message"])]))
            if self.aim == "unmarked":  # so that it is a plugin all the same
                self.add(name, Function("on_error", "observer", ("message",)))

    def function(self, hook: str, kind: str, takes: Sequence[str] = (), fires: str | None = None) -> Function:
        marks = ["@hookimpl", "@hookimpl", "@hookimpl(tryfirst=True)"]
        if hook not in ("run_model", "resolve_session") or self.flaw == "last":  # where `builtin` always answers
            marks.append("@hookimpl(trylast=True)")
        mark = "@hookimpl(trylast=True)" if self.aim == "last" and fires is not None else self.one_of(marks)
        return Function(
            hook,
            kind,
            tuple(dict.fromkeys(takes)),
            is_async=fires is not None or self.aim in BESIDE or (self.aim != "slow" and self.chance(50)),
            is_marked=not self.has("unmarked") and (self.aim, kind) != ("unmarked", "gate"),
            mark=mark,
            fires=fires,
        )

    # What plugins bring beside that.

    def services(self) -> None:
        """Let the plugins answer, do the work around it, and fire gates."""
        known = [name for name in SERVICES if name in self.order]
        if self.aim in ("items", "session", "last"):  # where plugins may make it right
            known = [name for name in known if name not in ("resolve_session", "render_outbound")]
        for hook in dict.fromkeys(
            [*(("load_state", "build_prompt") if self.aim in BESIDE else ()), *self.some_of(known, 3)]
        ):
            self.add("helper", self.function(hook, SERVICES[hook], _taken_by(hook)))
        if self.chance(20):
            self.add("helper", Function("on_error", "observer", ("message",)))
        firing = self._firing() if self.aim in ("unfired", "last", "slow") or self.chance(35) else None
        if self.is_agent:
            is_timed = self.aim == "slow" or self.chance(40)
            self.hooks["tool_gate"] = {"kind": "gate", **({"timeout": "5s"} if is_timed else {})}
            self._implement("tool_gate", "gate", ["tool"])
        elif firing != "run_model":
            is_text = self.chance(30)
            hook, kind = ("run_model", "firstresult") if is_text else ("run_model_stream", "stream")
            self.add(BRAIN, Function(hook, kind, ("message",)))

    def _firing(self) -> str | None:
        """Declare a gate that a plugin fires; gives the hook at which one does, if one does."""
        said = self.hooks[FIRED] = {"kind": "gate", "takes": ["subject"]}
        if self.aim == "slow" or self.chance(40):
            said["timeout"] = "5s"
        if self.has("only"):
            said["only"] = [self.one_of(PLUGINS)]
        self._implement(FIRED, "gate", ["subject"])
        if self.aim == "unfired" or self.has("unfired"):
            return None
        at = (
            ("resolve_session",)
            if self.aim == "last"
            else ("load_state", "build_prompt", *(() if self.is_agent else ("run_model",)))
        )
        hook = self.one_of([name for name in at if name in self.order])
        plugin = BRAIN if hook == "run_model" else "helper"
        self.add(plugin, self.function(hook, SERVICES.get(hook, "firstresult"), _taken_by(hook), fires=FIRED))
        return str(hook)

    def overrides(self) -> dict[str, Node]:
        """What is said of the stages that the file begins with."""
        if self.aim in BESIDE:
            return {"load_state": {"needs": []}, "build_prompt": {"needs": ["load_state"]}}
        said: dict[str, Node] = {}
        known = [name for name in ("run_model", "load_state", "build_prompt", "render_outbound") if name in self.order]
        for name in self.some_of(known):
            harmless = [{"timeout": "30s"}, {"needs": []}, {"needs": ["resolve_session"]}, {"thread": True}]
            flaws = [{"enabled": False}, {"when": {"channel": "cli"}}, {"only": [BRAIN, "helper"]}]
            if name != "load_state":
                flaws.append({"on_failure": "skip", "default": "nothing came"})
            said[name] = self.one_of(flaws if self.has("stages off") else harmless)
        return said


@st.composite
def pipeline_cases(draw: st.DrawFn, aim: str = "anything") -> PipelineCase:
    """A pipeline file, perhaps with a parent of its own, two or three profiles and routes, and its four plugins.

    What it is about is one of `AIMS`; everything else is as it comes.
    """
    base = draw(st.sampled_from(("bub:default", "bub:classic", "bub:ethos", None)))
    start = SHIPPED[base] if base is not None else OWN_FILE
    made = {name: node["into"] for name, node in start["stages"].items() if "into" in node}
    is_agent = base in ("bub:default", "bub:classic") and draw(st.integers(0, 3)) == 3
    strict: Node = {"stages": {}}
    flaw = draw(st.sampled_from(FLAWS)) if aim == "anything" else ""
    draft = _Draft(draw, is_agent, list(start["stages"]), made, strict, aim, flaw)
    file: Node = {"stages": {}} if base is not None else {"stages": dict(OWN_FILE["stages"])}
    parent: Node = {}
    has_parent, has_strict = draft.chance(15), aim == "elsewhere" or draft.chance(40)
    if has_parent and base is not None:
        parent = {"extends": base, "stages": {}}
    elif base is not None:
        file = {"extends": base, **file}
    kinds = draw(st.lists(st.sampled_from(("gate", "gate", "gate", *IDS)), min_size=1, max_size=4))
    for kind in KINDS_OF.get(aim, kinds):
        free = [name for name in IDS[kind] if name not in draft.order]
        if not free:
            continue
        layer = file
        if aim != "elsewhere":
            layer = draft.one_of([file, *([parent] if parent else []), *([strict] if has_strict else [])])
        is_anchored = base is not None or layer is strict
        node = draft.stage(kind, free[0], layer, is_anchored=is_anchored)
        layer["stages"][free[0]] = node
        if not is_anchored:  # the order written is the order
            layer["stages"] = {name: layer["stages"][name] for name in draft.order if name in layer["stages"]}
    draft.services()
    if aim in BESIDE or draft.chance(40):
        for name, said in draft.overrides().items():
            file["stages"].setdefault(name, {}).update(said)
    if parent:
        file = {"extends": "parent.yaml", **file}
    file["hooks"] = {**file.pop("hooks", {}), **draft.hooks}
    plugins = tuple(_plugin(draft, name) for name in PLUGINS)
    file["plugins"] = {
        plugin.name: {
            "path": f"{plugin.name}.py",
            **({"optional": True} if plugin.is_missing or draft.chance(6) else {}),
        }
        for plugin in plugins
        if plugin.functions or plugin.is_agent
    }
    listed = list(file["plugins"])
    file["profiles"] = {"default": {"plugins": _allowed(draft, listed)}}
    if is_agent:
        file["profiles"]["default"]["tools"] = {"allow": ["*"]}
    if draft.chance(10):
        file["profiles"]["default"]["concurrency"] = "parallel"
    if draft.chance(10):
        file["on_failure"] = "skip"
    if has_strict:
        file["profiles"]["strict"] = strict
        strict["extends"] = "default"
        if draft.chance(50):
            strict["plugins"] = _allowed(draft, listed)
        if draft.has("only"):
            hooks = {**file["hooks"], **strict.get("hooks", {})} or {"run_model": {}}
            strict.setdefault("hooks", {}).setdefault(draft.one_of(list(hooks)), {})["only"] = _allowed(draft, listed)
        if aim == "elsewhere":
            strict["stages"] = {name: {"enabled": False} for name in draft.asked}
            match = next({"channel": when["channel"]} for when in draft.asked.values())
            file["routes"] = [{"match": match, "profile": "strict"}]
        elif draft.chance(60):
            file["routes"] = [{"match": draft.condition(()), "profile": "strict"}]
    file = {key: value for key, value in file.items() if value}
    if not strict["stages"]:
        del strict["stages"]
    parents = (
        (("parent.yaml", {**parent, "stages": parent["stages"] or {"run_model": {"timeout": "1m"}}}),) if parent else ()
    )
    return PipelineCase((*parents, ("pipelines.yaml", file)), plugins)


def _taken_by(hook: str) -> list[str]:
    return ["session_id"] if hook == "load_state" else ["message"]  # which is all that it has in `bub:classic`


def _plugin(draft: _Draft, name: str) -> ToyPlugin:
    functions = {one.hook: one for one in draft.functions.get(name, ())}
    is_agent = draft.is_agent and name == BRAIN
    is_missing = bool(functions) and name != BRAIN and draft.has("missing")
    return ToyPlugin(name, tuple(functions.values()), not is_agent and draft.chance(40), is_missing, is_agent)


def _allowed(draft: _Draft, listed: Sequence[str]) -> list[str]:
    """A profile's list: mostly all plugins, in some order."""
    left_out = (
        draft.one_of([name for name in listed if name != BRAIN]) if len(listed) > 1 and draft.has("left out") else None
    )
    return [name for name in draft.draw(st.permutations(listed)) if name != left_out]
