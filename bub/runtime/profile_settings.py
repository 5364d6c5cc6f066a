"""The settings of the profiles of a document: what its files and a person say, with the environment's own over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.validate import declared_plugins
from bub.pipeline.plan.layers.left_out import tell_left_out
from bub.pipeline.plan.layers.person import Person, inherit, is_own_file, with_key_of_environment
from bub.pipeline.plan.layers.said import Said, for_the_same_provider, said_by_variables, said_in
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.settings import resolve_settings, with_providers
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import Document
from bub.pipeline.source.schemas import whole_settings_schema


class SettingsResolver:
    """Finds the settings of one profile after another; what does not depend on the profile is found once.

    `start` is the profile chosen at start, which is asked for first. `environ` is the real environment, `environment`
    that with the variables of the file beside the pipeline file. `person` is what holds in every folder.
    """

    def __init__(
        self,
        document: Document,
        start: str,
        environ: Mapping[str, str],
        environment: Mapping[str, str],
        person: Person | None = None,
    ) -> None:
        self._document, self._start, self._environment = document, start, environment
        self._person, self._is_own = person, person is None and is_own_file(document, environ)
        self._providers = tuple(person.providers) if person is not None else ()
        self._in_files = list(said_in(document.layers, document, environment))
        beside, _ = read_environment(document.base, {})
        schema, known = whole_settings_schema(), with_providers({}, self._providers)
        self._in_environment = [
            said_by_variables(beside, schema, known, document.base),
            said_by_variables(environ, schema, known, None),
        ]
        # What the environment gives without naming a model is meant for the model of the profile chosen at start, so
        # that a route to another profile does not take its key along.
        self._started: tuple[Said, ...] = ()

    def settings_of(self, plan: Plan) -> tuple[Mapping[str, Any], tuple[Diagnostic, ...]]:
        """The settings of a profile, and what is wrong with them."""
        declared = declared_plugins(plan)
        from_packages = (name for name, _ in plan.allowlist if name not in declared or not declared[name].path)
        settings, found = resolve_settings(
            plan.effective.root,
            self._environment,
            base=self._document.base,
            schema=whole_settings_schema(from_packages),
            folders=self._document.folders,
            providers=self._providers,
        )
        profiles = plan.effective.layers[len(self._document.layers) :]
        in_profiles = said_in(profiles, self._document, self._environment)
        said = [*self._in_files, *in_profiles, *self._started, *self._in_environment]
        own: Mapping[str, Any]
        if self._person is None:
            own = for_the_same_provider(settings, [one.settings for one in said])
            if self._is_own:
                own = with_key_of_environment(own, self._in_environment[-1])
        else:
            inherited = inherit(settings, self._person, said)
            own = inherited.settings
            found = (*found, *tell_left_out(inherited, self._person, said))
        if plan.profile == self._start and own.get("model"):
            self._started = (Said({"model": own["model"]}, is_assumed=True),)
        return own, found
