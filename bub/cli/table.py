"""The table of Bub's own commands: what `bub --help` lists, and where each command lives."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One command: `target` is `module:name` of its function, or of the Typer app of a group; `help` is one line."""

    target: str
    help: str


COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "init": Entry("bub.cli.init:init", "Write a commented pipelines.yaml to begin with."),
        "onboard": Entry("bub.cli.onboard:onboard", "Set Bub up by answering a few questions."),
        "run": Entry("bub.cli.run:run", "Send one message through the pipeline and print the replies."),
        "chat": Entry("bub.cli.chat:chat", "Talk with the agent at this terminal."),
        "studio": Entry("bub.cli.studio:studio", "Serve a page that shows what the agent does."),
        "gateway": Entry("bub.cli.gateway:app", "Run the channels, and answer what comes in."),
        "validate": Entry("bub.cli.validate:validate", "Check pipeline files and print every finding."),
        "pipelines": Entry("bub.cli.pipelines:pipelines", "List the pipelines that ship with Bub."),
        "explain": Entry("bub.cli.explain:explain", "Show the values that count, and who set each of them."),
        "graph": Entry("bub.cli.graph:graph", "Draw the stages of a pipeline: text, Mermaid or DOT."),
        "test": Entry("bub.cli.test:test", "Run the tests of pipeline files."),
        "prove": Entry("bub.cli.prove:prove", "Let every plugin fail in many ways, and prove that no guard gives way."),
        "diff": Entry("bub.cli.diff:diff", "Show what changes in behaviour between two pipelines."),
        "hooks": Entry("bub.cli.hooks:hooks", "Show each hook point, its kind and its plugins in call order."),
        "plugins": Entry("bub.cli.plugins:app", "Show the plugins that are there; add, update and remove some."),
        "lock": Entry("bub.cli.lock:lock", "Write down what plugins bring, so that a start refuses changes."),
        "profiles": Entry("bub.cli.profiles:profiles", "Show the profiles of a file and what each may do."),
        "route": Entry("bub.cli.route:route", "Show which profile a message gets, and why."),
        "config": Entry("bub.cli.config:app", "Read and change settings in the pipeline file."),
        "mcp": Entry("bub.cli.mcp:app", "The Model Context Protocol: use servers of others, and be one."),
        "lsp": Entry("bub.cli.lsp:lsp", "Serve an editor: findings while you type, repairs, completion."),
        "schema": Entry("bub.cli.schema:schema", "Print the JSON Schema of pipeline files, or write it beside yours."),
        "doctor": Entry("bub.cli.doctor:doctor", "Look at everything that a turn needs, and say what is broken."),
        "trust": Entry("bub.cli.trust:trust", "Allow the pipeline file of a folder to be used."),
        "tape": Entry("bub.cli.tape:app", "What was said and done in each session."),
        "inbox": Entry("bub.cli.inbox:app", "Messages and replies that were set aside: try again, or drop."),
        "schedules": Entry("bub.cli.schedules:app", "When the agent begins by itself: list, fire now, remove."),
        "store": Entry("bub.cli.store:app", "Move an agent between its files and a store that gateways share."),
        "local": Entry("bub.cli.local:app", "The small model that answers on this machine, without a key."),
        "uninstall": Entry("bub.cli.uninstall:uninstall", "Remove what Bub left in its own folder, after asking."),
        "completion": Entry("bub.cli.completion.command:completion", "Print what lets your shell complete commands."),
        "help": Entry("bub.cli.help:help_command", "Explain a command, as its --help does."),
    }
)
"""Every command of Bub by name, in the order of `bub --help`. Plugins add theirs with `register_cli_commands`."""

PLUGIN_COMMANDS = "bub.cli.plugin_commands:plugin_command"
"""The function that finds a command that is not in the table."""

NAMES = "bub.cli.completion.names:"
"""The module that reads names from pipeline files: it takes as long to load as all else that answers a Tab."""

LOST = "bub.plugins.installed.added:describe_lost"
"""The function that finds packages that were added and are gone; it is loaded if there is a list of them."""

SESSIONS = "bub.cli.completion.sessions:sessions_of"
"""The function that finds the sessions of a folder, for completion."""

MCP_SERVERS = "bub.cli.mcp_servers:"
"""The functions about servers of others; only the commands that use those load them."""

STUDIO = "bub.studio.alone:serve_alone"
"""The function that serves the page; only `bub studio` loads it, and its server with it."""

MCP_SERVER = "bub.mcp_server.server:serve"
"""The function that serves an MCP client; only `bub mcp serve` loads it, and the SDK with it."""

FINDINGS = "bub.cli.findings:render_error"
"""The function that renders the findings of a pipeline that does not compile."""

CHANGED = "bub.pipeline.source.changed:discover_changed"
"""The function that finds the pipelines that a change concerns; only `--changed` loads it."""

BASELINE = "bub.pipeline.report.baseline:"
"""The module of baselines; only `--baseline` loads it."""

PROOF = "bub.cli.proof:prove"
"""The function that proves a pipeline file with its plugins."""

REPORT = "bub.pipeline.report.report:"
"""The module that renders findings as text and as JSON; a file without a finding needs neither."""

ANNOTATIONS = "bub.pipeline.report.annotations:render_annotations"
"""The function that renders findings for GitHub; the other formats need not load it."""

SARIF = "bub.pipeline.report.sarif:render_sarif"
"""The function that renders findings as SARIF; the other formats need not load it."""

REPAIR = "bub.pipeline.edit.repair:repair_file"
"""The function that repairs a pipeline file; only `--fix` loads it."""

IMPLEMENTERS = "bub.cli.implementers:implementers_of"
"""The function that lists which plugins implement what, once they are loaded."""


def load(target: str) -> Any:
    """Import what a target of this table names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
