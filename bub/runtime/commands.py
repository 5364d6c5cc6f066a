"""The commands that the plugins of a profile bring to the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bub.base.diagnostics import Diagnostic, Findings, PipelineError
from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.offers import offers_of
from bub.pipeline.run.provided import tell_failure, tell_one_name
from bub.runtime.snapshot import Profile, bind_bootstrap

_HOOK = "register_cli_commands"


def collect_commands(profile: Profile, own: Iterable[str] = ()) -> tuple[Any, tuple[Diagnostic, ...]]:
    """A Typer application with the commands that the profile's plugins register, and warnings.

    Two commands of one name are a `PipelineError` that names both plugins; those that Bub has of its `own` count as
    the builtin's (BEHAVIOURS O1). A plugin that fails is an error, too, and a warning if it is `optional`.
    """
    import typer  # a command line is not always wanted

    app = typer.Typer(rich_markup_mode=None)
    owners, findings = dict.fromkeys(own, BUILTIN), Findings()
    calls = bind_bootstrap(profile.graph, _HOOK)
    if not calls.items:
        return app, ()
    offers = offers_of(profile.plan, profile.plugins)
    for implementation, call in zip(profile.graph.bootstrap[_HOOK], calls.items, strict=True):
        brought = typer.Typer(rich_markup_mode=None)
        try:
            call.function(*calls.arguments({"app": brought})[call.signature])
            names = list(typer.main.get_group(brought).commands)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (code of others: whatever it raises is its failure)
            tell_failure(findings, offers, implementation, "its commands", error)
            continue
        for name in names:
            if name in owners:
                tell_one_name(findings, offers, f"the command `{name}`", owners[name], call.plugin)
            owners[name] = call.plugin
        app.registered_commands += brought.registered_commands
        app.registered_groups += brought.registered_groups
    if findings.has_errors:
        raise PipelineError(findings.items)
    return app, tuple(findings.items)
