"""What comes with Bub, told without importing it: its plugins, and the tools that `builtin` brings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LOCAL_MODEL = "local_model"
"""The plugin that runs the small local model."""

SHIPPED_PLUGINS = frozenset({LOCAL_MODEL, "http", "telegram"})
"""The plugins that are installed with Bub. None of them judges, claims or changes anything of a turn."""

TERMINAL = "cli"
"""The channel of `bub chat`, and of `bub run` if nobody names another."""

SHIPPED_CHANNELS = frozenset({TERMINAL, "http", "telegram"})
"""The channels that `builtin` and the shipped plugins bring."""

VOUCHED_IDS: Mapping[str, str] = MappingProxyType({"telegram": r"[1-9][0-9]{0,15}"})
"""The channels that vouch for an id of who writes, which nobody can choose, each with what such an id looks like."""

SHARED_IDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "telegram": MappingProxyType(
            {"1087968824": "every anonymous admin", "136817688": "every channel", "777000": "Telegram itself"}
        )
    }
)
"""Ids that look as if they were one person's, and are not: who is behind each."""

SERVED = "mcp."
"""What the names of the tools of servers begin with; the name of the server follows, and a dot."""

DESCRIBE = "tools.describe"
"""The tool that tells what another one takes, if there are too many to tell it of each."""

BY_NAME = "bash"
"""The tool that no glob allows: only its own name does (DESIGN §6)."""

ASKED = frozenset({"schedule.add"})
"""The tools that a person is asked about, whatever `ask` says, unless `allow` lists their very names."""

SHIPPED_TOOLS: Mapping[str, bool] = MappingProxyType(
    {
        "fs.read": True,
        "fs.view": True,
        "fs.list": True,
        "fs.search": True,
        "fs.write": False,
        "fs.edit": False,
        "fs.patch": False,
        BY_NAME: False,
        "bash.output": False,
        "bash.kill": False,
        "web.fetch": True,
        "tape.info": True,
        "tape.search": True,
        "tape.anchors": True,
        "tape.handoff": False,
        "tape.reset": False,
        "spill.read": True,
        "plan": True,
        "skill": True,
        "subagent": False,
        "help": True,
        "quit": True,
        "sessions": True,
        "personality": True,
        DESCRIBE: True,
        "context": True,
        "compact": True,
        "model": False,
        "reasoning": False,
        "schedule.add": False,
        "schedule.list": False,
        "schedule.remove": False,
    }
)
"""The tools of `builtin` by name, each with whether it only reads, which a profile without `allow` allows."""
