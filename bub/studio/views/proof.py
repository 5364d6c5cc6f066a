"""A document compiled with the plugins that are loaded already: what loading it would find, with nothing imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bub.base.diagnostics import Diagnostic, PipelineError, sort_diagnostics
from bub.pipeline.check.ignores import ignores_of, settle
from bub.pipeline.check.validate import declared_plugins, lock_beside, profiles_of
from bub.pipeline.check.variables import check_variables
from bub.pipeline.plan.layers.person import read_person
from bub.pipeline.plan.plan import Plan, make_plan
from bub.pipeline.plan.routes import routes_of
from bub.pipeline.run.compiler import Planner
from bub.pipeline.run.compiler import compile as compile_graph
from bub.pipeline.show.profiles import profiles_named
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import Document
from bub.pipeline.source.referred import reader
from bub.plugins.finding import find_plugins
from bub.plugins.loading import line_up
from bub.plugins.plugin_set import PluginSet
from bub.runtime.generations import Generation
from bub.runtime.profile_settings import SettingsResolver


def prove_text(generation: Generation, document: Document, environ: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Return what is found in the profiles of a document that would get turns, in the place of what is loaded.

    All that is listed has to be loaded already, in any profile. Plugins say which tools and hooks they bring; else
    none of their code runs.
    """
    snapshot = generation.snapshot
    person = read_person(document, environ)
    environment, found = read_environment(document.base, environ)
    lock, unreadable = lock_beside(document)
    findings = [*found, *check_variables(document, environment, environ), *unreadable]
    findings += person.findings if person is not None else ()
    planner = Planner(document, environment, lock=lock)
    resolver = SettingsResolver(document, snapshot.start_profile, environ, environment, person)
    sets = [profile.plugins for profile in snapshot.profiles.values()]
    for name in _profiles_with_turns(snapshot.start_profile, document, environment):
        plan = planner.plan_for(name)
        findings += _compile(plan, line_up((plugin for plugin, _ in plan.allowlist), sets), resolver)
    return settle(sort_diagnostics(dict.fromkeys(findings)), ignores_of(document))


def _compile(plan: Plan, plugins: PluginSet, resolver: SettingsResolver) -> Iterator[Diagnostic]:
    """Yield what is found in one profile; with no error, what its graph says of itself."""
    _, found = resolver.settings_of(plan)
    plan.findings.items += found
    listed = [item for item in plan.allowlist if plugins.manager.get_plugin(item[0]) is None]
    declared = declared_plugins(plan)
    missing = [item for item in listed if not (item[0] in declared and declared[item[0]].optional)]
    plan.findings.items += find_plugins(missing, declared=declared, base=plan.document.base)
    try:
        yield from compile_graph(plan, plugins).warnings
    except PipelineError as error:
        yield from error.diagnostics


def _profiles_with_turns(start: str, document: Document, environment: Mapping[str, str]) -> Iterable[str]:
    """Return the profiles that can get a turn: that of the start, those of routes, and what something else names."""
    plans = {name: make_plan(document, name) for name in dict.fromkeys((start, *profiles_of(document)))}
    named = profiles_named(plans, start, reader(document, environment))
    routed = [start, *(route.profile for route in routes_of(document, environment))]
    return dict.fromkeys([*routed, *(name for name, naming in named if naming.unknown is None)])
