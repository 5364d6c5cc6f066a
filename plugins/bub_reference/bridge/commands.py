"""Commands that a plugin of the reference adds: they run with the profile's settings, and find its framework."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import typer

Place = Callable[[], AbstractContextManager[Any]]


def hand_over(commands: typer.Typer, app: typer.Typer, framework: object, place: Place) -> None:
    """Add the commands of one application to another; each finds `framework` in its context, and runs in `place`."""
    _equip(commands, framework, place)
    app.registered_commands += commands.registered_commands
    app.registered_groups += commands.registered_groups


def _equip(app: typer.Typer, framework: object, place: Place) -> None:
    infos: list[Any] = [*app.registered_commands, *app.registered_groups]
    for info in infos:
        known = info.context_settings if isinstance(info.context_settings, dict) else {}
        info.context_settings = {"obj": framework, **known}
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _placed(command.callback, place)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _equip(group.typer_instance, framework, place)


def _placed(callback: Callable[..., Any], place: Place) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*given: Any, **named: Any) -> Any:
        with place():
            return callback(*given, **named)

    return run
