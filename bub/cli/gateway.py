"""`bub gateway`: the agent at work on every channel, until a signal ends it; and `status`, which shows all of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event
from types import FrameType, MappingProxyType
from typing import Annotated, Literal

import trio
import typer

from bub.base.diagnostics import Diagnostic, PipelineError
from bub.base.locate import bub_home
from bub.base.redis.settings import store_address
from bub.channels.enabling import ALL
from bub.channels.server import ListenAddress
from bub.cli import service
from bub.cli.exits import INTERRUPTED
from bub.cli.findings import ShownPipelineError
from bub.cli.gateway_status import show_status
from bub.cli.held_home import hold_home
from bub.cli.opening import open_framework, print_warnings
from bub.cli.options import options_of
from bub.cli.page_address import handing_over
from bub.errors import UsageError
from bub.framework import BubFramework
from bub.gateway.serving import Gateway, no_store
from bub.gateway.systemd import Systemd
from bub.inbox.shared.share import CHANNELS, ROLES, TURNS
from bub.log import Form, log_to, log_warning, open_log
from bub.pipeline.report.reloads import format_finding

Roles = Literal["turns", "channels", "all"]

_ROLES_OF: Mapping[Roles, Sequence[str]] = MappingProxyType({"turns": [TURNS], "channels": [CHANNELS], "all": ROLES})

app = typer.Typer(rich_markup_mode=None, add_completion=False, invoke_without_command=True)


@app.callback()
def gateway(
    ctx: typer.Context,
    enable_channel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Run this channel, `all` of them, or with !NAME not that one, whatever the profile says; repeatable.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Serve /healthz and /metrics there, such as 127.0.0.1:9464."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Reload the pipeline file whenever it changes.")] = False,
    roles: Annotated[
        Roles, typer.Option(help="With several gateways on one store: answer messages, run channels, or both.")
    ] = "all",
    log_format: Annotated[Form, typer.Option(help="How the lines of the log look on standard error.")] = "text",
    install: Annotated[
        bool, typer.Option("--install", help="Let systemd or launchd run it for this folder, from now on.")
    ] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Stop this service, and remove it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, with --install and --uninstall.")] = False,
) -> int:
    """Run every channel that is set up, and answer what comes in.

    SIGTERM and Ctrl-C let the turns under way finish; a second one ends them. SIGHUP reloads the pipeline file.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if install and uninstall:
        raise UsageError("--install and --uninstall contradict each other", help="use one of them")
    if yes and not (install or uninstall):
        raise UsageError("--yes is for --install and --uninstall", help="take it out")
    if uninstall:
        return service.uninstall(options_of(ctx), yes=yes)
    if install:
        framework = _open(ctx)
        _names_of(framework, enable_channel)  # what would not start is not installed
        if roles != "all" and store_address(framework.settings) is None:
            raise no_store()
        return service.install(
            options_of(ctx), _options_again(enable_channel, listen, watch, roles, log_format), yes=yes
        )
    log_to(bub_home(os.environ) / "logs", debug=os.environ.get("BUB_DEBUG") == "1", shown=log_format)
    open_log()  # before a library has something to say
    terminated = _watch_for_sigterm()
    systemd = Systemd(os.environ.pop("NOTIFY_SOCKET", None))  # it is not for what the agent starts
    try:
        framework = _open(ctx, tell=_log_warnings)
        wanted = listen or (framework.settings.get("gateway") or {}).get("listen")
        address = ListenAddress.of(wanted) if wanted else None
        names = _names_of(framework, enable_channel, tell=_log_warnings)
        with hold_home(framework.home), handing_over(framework.home) as announce:
            served = Gateway(
                framework,
                names,
                listen=address,
                watch=watch,
                systemd=systemd,
                roles=_ROLES_OF[roles],
                announce=announce,
            )
            ended_by = trio.run(served.run)
    except KeyboardInterrupt:
        if terminated.is_set():
            return 0
        raise
    return INTERRUPTED if ended_by == signal.SIGINT else 0


@app.command()
def status(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show all gateways of a shared store: their roles, partitions and channels, and what waits.

    Any machine can ask that reaches the store. Nothing is changed.
    """
    show_status(ctx, as_json=as_json)


def _open(ctx: typer.Context, *, tell: Callable[[Iterable[Diagnostic]], None] | None = None) -> BubFramework:
    return open_framework(options_of(ctx), tell=tell, check=BubFramework.check_needs)


def _names_of(
    framework: BubFramework, enabled: list[str] | None, *, tell: Callable[[Iterable[Diagnostic]], None] = print_warnings
) -> Sequence[str]:
    """Return the channels to run: those that the command line names, else those of the profile.

    For the profile's, `tell` gets the warnings about channels and schedules, which show only now.
    """
    if enabled:
        return enabled
    told = framework.warnings
    channels = _channels_of_profile(framework)
    tell(warning for warning in framework.warnings if warning not in told)
    return channels


def _options_again(
    enabled: list[str] | None, listen: str | None, watch: bool, roles: Roles, log_format: Form
) -> list[str]:
    """Return the options as a service has to give them again."""
    if listen:
        ListenAddress.of(listen)
    said = [word for name in enabled or () for word in ("--enable-channel", name)]
    said += ["--listen", listen] if listen else []
    said += ["--watch"] if watch else []
    said += ["--roles", roles] if roles != "all" else []
    return [*said, *(["--log-format", log_format] if log_format != "text" else [])]


def _watch_for_sigterm() -> Event:
    """Return an event that a SIGTERM sets, even one that arrives while the files are loaded."""
    event, usual = Event(), signal.getsignal(signal.SIGTERM)

    def end(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.raise_signal(signal.SIGINT)

    if callable(usual):
        signal.signal(signal.SIGTERM, end)
    return event


def _channels_of_profile(framework: BubFramework) -> Sequence[str]:
    """Return the channels of the profile chosen at start, or `all` if it does not say."""
    try:
        framework.check_channels()
    except PipelineError as error:
        shown = framework.not_ignored(error.diagnostics)
        raise ShownPipelineError(error, framework.sources, shown) from error
    return framework.open_channels if framework.open_channels is not None else [ALL]


def _log_warnings(warnings: Iterable[Diagnostic]) -> None:
    for warning in warnings:
        log_warning("pipeline.finding", finding=format_finding(warning))
