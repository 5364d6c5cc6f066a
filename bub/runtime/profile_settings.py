"""The settings of the profiles of a document: what its files say, with the environment's own laid over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.validate import declared_plugins
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.settings import environment_settings, for_the_same_provider, resolve_settings
from bub.pipeline.source.interpolate import read_environment, resolve
from bub.pipeline.source.merge import Document, Layer
from bub.pipeline.source.schemas import whole_settings_schema


class SettingsResolver:
    """Finds the settings of one profile after another; what does not depend on the profile is found once.

    `start` is the profile chosen at start, which is asked for first. `environ` is the real environment, `environment`
    that with the variables of the file beside the pipeline file.
    """

    def __init__(
        self, document: Document, start: str, environ: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        self._document, self._start, self._environment = document, start, environment
        self._in_files = list(self._said_in(document.layers))
        beside, _ = read_environment(document.base, {})
        schema = whole_settings_schema()
        self._in_environment = [
            {path[0]: variables[name] for path, name in environment_settings(variables, schema, {}) if len(path) == 1}
            for variables in (beside, environ)
        ]
        # What the environment gives without naming a model is meant for the model of the profile chosen at start, so
        # that a route to another profile does not take its key along.
        self._started: tuple[Mapping[str, Any], ...] = ()

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
        )
        profiles = plan.effective.layers[len(self._document.layers) :]
        said = [*self._in_files, *self._said_in(profiles), *self._started, *self._in_environment]
        own = for_the_same_provider(settings, said)
        if plan.profile == self._start and own.get("model"):
            self._started = ({"model": own["model"]},)
        return own, found

    def _said_in(self, layers: Iterable[Layer]) -> Iterator[Mapping[str, Any]]:
        """What each of some layers says by itself."""
        document = self._document
        for layer in layers:
            node = layer.root.get("settings")
            if node is not None:
                settings, _ = resolve(node, self._environment, base=document.base, folders=document.folders)
                yield settings or {}
