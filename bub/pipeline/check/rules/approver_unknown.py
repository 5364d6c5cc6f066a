"""Each approver is one person, whom the channel itself knows by an id."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bub.base.diagnostics import did_you_mean
from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.document import Node
from bub.plugins.shipped import SHARED_IDS, VOUCHED_IDS

CODE = "B231"


def check(plan: Plan) -> None:
    """Find approvers that are nobody, everybody or anybody: `*`, names, shared ids, channels that vouch for none."""
    profile = plan.effective.profile_node
    listed = profile.get("approvers") if profile is not None else None
    if listed is None or not listed.is_mapping:
        return
    for channel, ids in listed.items():
        for problem, node, advice in _problems(channel, ids):
            path = f"profiles.{plan.profile}.approvers.{channel}"
            plan.findings.add(CODE, problem, node.where, path=path, profile=plan.profile, help=advice)


def _problems(channel: str, ids: Node) -> Iterator[tuple[str, Node, str]]:
    pattern = VOUCHED_IDS.get(channel)
    if pattern is None:
        known = ", ".join(f"`{one}`" for one in VOUCHED_IDS)
        advice = did_you_mean(channel, VOUCHED_IDS) or f"name people on {known}; on other channels only the operator"
        " can answer"
        yield f"the channel `{channel}` does not prove who writes, so nobody there can say yes", ids, advice
        return
    for one in ids.elements():
        said = str(one.value)
        if "${" in said:
            continue  # it is checked when it is known
        if said in SHARED_IDS.get(channel, {}):
            who = SHARED_IDS[channel][said]
            yield f"`{said}` is {who}, not one person", one, "list the id of each person who may say yes"
        elif re.fullmatch(pattern, said) is None:
            yield (
                f"`{said}` is no id of a person in the channel `{channel}`",
                one,
                "list ids, not names or `*`: nobody can choose an id; the bot tells people their ids",
            )
