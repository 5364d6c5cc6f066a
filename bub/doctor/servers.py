"""Servers of the Model Context Protocol: whether each that a profile may use starts, and how many tools it offers."""

from __future__ import annotations

from collections.abc import Sequence

from bub.agent import late
from bub.doctor.checks import Check, Patient

SUBJECT = "servers"


async def look_at_servers(patient: Patient) -> Sequence[Check]:
    """Start the servers of the profiles that can get a turn, once each; those at an address only if one may go out."""
    if patient.unloaded:
        return []  # which ones there are is not known, and most files have none
    specs = []
    for one in patient.in_each_profile():
        wants = one.seen.tools.policy.wants
        specs += [spec for spec in one.seen.served.specs if wants(spec.name) and spec not in specs]
    if not specs:
        return []
    away = [spec for spec in specs if spec.url and patient.offline]
    seen = await late.look_at_servers([spec for spec in specs if spec not in away], patient.workspace)
    skipped = [Check(SUBJECT, "skipped", f"`{spec.name}` was not asked, because of --offline") for spec in away]
    return [*skipped, *map(_tell, seen)]


def _tell(seen: late.Seen) -> Check:
    name, count = f"`{seen.spec.name}`", len(seen.tools)
    if seen.problem:
        return Check(SUBJECT, "broken", f"{name}: {seen.problem}", seen.help or "`bub mcp tools` tries it by itself")
    offers = f"{name} offers {count} tool{'' if count == 1 else 's'}"
    if seen.problems:
        return Check(SUBJECT, "warn", f"{offers}; {'; '.join(seen.problems[:3])}", "tell whoever makes the server")
    return Check(SUBJECT, "ok", offers)
