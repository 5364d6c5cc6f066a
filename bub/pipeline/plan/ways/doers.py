"""The tools that the agent of a profile may call, and what they are declared to do."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from bub.base.confinement.value import Confinement, reaches_outside, reads_private
from bub.base.diagnostics import Place
from bub.labels import UNDECLARED, Labels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.declared import DeclaredPlugin, declared_in, labels_said
from bub.pipeline.plan.ways.servers import used_servers
from bub.pipeline.plan.ways.tool_rules import ASKED, SHUT, ToolRules
from bub.plugins.labels import SHIPPED_LABELS
from bub.plugins.servers import server_of
from bub.plugins.shipped import BY_NAME, SERVED, SHIPPED_TOOLS

_SHOWS_COMMANDS = "bash.output"
"""The tool that shows what `bash` has printed, and nothing else: what holds for the one holds for the other."""


class Doer(msgspec.Struct, frozen=True):
    """A tool that the agent may call: `place` is what allows it, `asks` what lets it ask a person first.

    `labels` are None if they are not declared. `is_many` are all tools of a plugin, if their names are not known. What
    is `confined` reads the workspace alone, and programs.
    """

    name: str
    labels: Labels | None
    place: Place
    asks: Place | None = None
    is_many: bool = False
    confined: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether it is known to do what its labels say."""
        return self.labels is not None and not self.is_many

    @property
    def words(self) -> str:
        """What it is called in a sentence."""
        if not self.is_many:
            return f"`{self.name}`"
        server = server_of(self.name)
        return f"the tools of {f'server `{server}`' if server is not None else f'plugin `{self.name}`'}"

    @property
    def may_read(self) -> bool:
        """Whether it can give the agent what is private; one that declares nothing may do anything."""
        return self.labels is None or self.labels.reads is not None

    @property
    def may_bring(self) -> bool:
        """Whether it can give the agent what strangers have written."""
        return (self.labels or UNDECLARED).brings is not None

    @property
    def may_reach(self) -> bool:
        """Whether it can carry something outside."""
        return (self.labels or UNDECLARED).reaches is not None


def doers_of(plan: Plan) -> tuple[Doer, ...]:
    """Find the tools of a profile that may do something to information."""
    rules = ToolRules.of(plan)
    found = [_confined(plan, _doer(plan, rules, name, labels)) for name, labels in SHIPPED_LABELS.items()]
    found += _of_servers(plan, rules)
    taken = set(SHIPPED_TOOLS)
    for name, place in plan.allowlist:
        if plan.is_shipped(name) and plan.root.get("plugins", name, "labels") is None:
            continue
        plugin = declared_in(plan, plan.root, name, place)
        found += _brought(plan, rules, plugin, taken)
        taken |= plugin.tools
    return tuple(one for one in found if one is not None and one.labels != Labels() and one.name != _SHOWS_COMMANDS)


def _brought(plan: Plan, rules: ToolRules, plugin: DeclaredPlugin, taken: set[str]) -> Iterator[Doer | None]:
    """What a plugin brings: the tools that its labels name, those the profile names, and whatever there may be else."""
    for name in sorted(plugin.tools - taken):
        yield _doer(plan, rules, name, plugin.of_tool(name))
    others = plugin.of_tool(f"{plugin.name}.*")
    named = {name for name in rules.allow or () if name not in taken and not _is_glob(name)} - plugin.tools
    own = sorted(name for name in named if name.partition(".")[0] == plugin.name)
    for name in own:
        yield _doer(plan, rules, name, others)
    if not own:
        many = _doer(plan, rules, f"{plugin.name}.*", others)
        if many is None and named:
            many = _doer(plan, rules, min(named), others)
        yield replace(many, name=plugin.name, is_many=True) if many is not None else None


def _of_servers(plan: Plan, rules: ToolRules) -> Iterator[Doer | None]:
    """What servers bring, as far as the profile names it."""
    for server, node in used_servers(plan):
        labels = labels_said(node.get("labels"))
        for entry in (name for name in rules.allow or () if server_of(name) == server):
            said = labels.of_tool(entry.removeprefix(f"{SERVED}{server}.")) if labels is not None else None
            doer = _doer(plan, rules, entry, said)
            yield replace(doer, name=entry, is_many=_is_glob(entry)) if doer is not None else None


def _doer(plan: Plan, rules: ToolRules, name: str, labels: Labels | None) -> Doer | None:
    """A tool as the profile lets it be used; None if it is shut."""
    freedom = rules.freedom(name, True)
    if freedom == SHUT:
        return None
    allowing, asking = rules.entry("allow", name), rules.entry("ask", name) if freedom == ASKED else None
    profile = plan.effective.profile_node
    usual = rules.node or profile or plan.root
    return Doer(name, labels, (allowing or usual).where, asking.place if asking is not None else None)


def _confined(plan: Plan, doer: Doer | None) -> Doer | None:
    """A shipped tool without what the `reach` of the profile takes away from commands."""
    profile = plan.effective.profile_node
    said = profile.get("reach") if profile is not None else None
    if doer is None or doer.labels is None or doer.name != BY_NAME or said is None:
        return doer
    confinement = Confinement.of(said.plain())
    reaches = doer.labels.reaches if reaches_outside(confinement) else None
    return replace(doer, labels=replace(doer.labels, reaches=reaches), confined=not reads_private(confinement))


def _is_glob(name: str) -> bool:
    return any(sign in name for sign in "*?[")
