"""A plugin that brings commands, for `commands_of_one_name.yaml`."""

from typing import Any

import bub


@bub.hookimpl
def register_cli_commands(app: Any) -> None:
    app.command("march")(lambda: None)
