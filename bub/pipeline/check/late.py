"""What a check imports when it first needs it: most files have no mistake, settings, schedules, tests or comments."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CASE_RULES": "bub.pipeline.check.case_rules",
    "LONGEST_TEMPLATE": "bub.pipeline.source.template",
    "Case": "bub.pipeline.check.cases",
    "MomentsError": "bub.pipeline.plan.schedules.moments",
    "NEEDED": "bub.base.confinement.entries",
    "NeverError": "bub.pipeline.plan.schedules.moments",
    "WORKSPACE": "bub.base.confinement.entries",
    "check_agents": "bub.pipeline.check.rules.agent_unclear",
    "check_pages": "bub.pipeline.check.rules.page_in_the_clear",
    "cases_by_profile": "bub.pipeline.check.cases",
    "check_moments": "bub.pipeline.plan.schedules.moments",
    "Lock": "bub.plugins.lock.facts",
    "LockError": "bub.plugins.lock.reading",
    "check_locked": "bub.pipeline.check.locked.names",
    "check_sections": "bub.pipeline.check.sections",
    "check_stores": "bub.pipeline.check.rules.store_unusable",
    "codes": "bub.pipeline.report.handbook",
    "covers": "bub.base.confinement.entries",
    "explain_entry": "bub.plugins.simple_commands",
    "explain_errors": "bub.pipeline.check.schema_errors",
    "explain_layer": "bub.pipeline.check.schema_errors",
    "installed_sections": "bub.plugins.schemas",
    "Way": "bub.pipeline.plan.ways.ways",
    "find_ways": "bub.pipeline.plan.ways.ways",
    "installed_labels": "bub.plugins.labels",
    "literal_secrets": "bub.pipeline.check.literal_secrets",
    "is_never_checked": "bub.pipeline.report.start_codes",
    "needs_plugins": "bub.pipeline.report.start_codes",
    "nodes_of": "bub.pipeline.plan.schedules.schedule",
    "problem_of": "bub.base.confinement.entries",
    "read_lock": "bub.plugins.lock.reading",
    "secrets_of_servers": "bub.pipeline.check.literal_secrets",
    "server_of": "bub.plugins.servers",
    "servers_in": "bub.pipeline.plan.ways.servers",
    "sections_of": "bub.pipeline.check.sections",
    "template_mistakes": "bub.pipeline.source.template",
    "too_wide": "bub.base.confinement.entries",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
