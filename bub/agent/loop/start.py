"""How an answer begins: with what a comma command does, or with the agent's loop."""

from __future__ import annotations

from bub.agent.commands import CommandRun
from bub.agent.loop.steps import Loop
from bub.agent.task import Task
from bub.channels.commands import command_line, prefix_of
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents


def answer(framework: ProfileView, task: Task) -> AsyncStreamEvents:
    """The agent's answer as a stream: a command's result, else what the model says and its tools do on the way.

    `text`, `reasoning`, `tool_call`, `tool_result` and `usage` events, then one `final` with the `finish_reason`, the
    number of `steps`, `ok`, and what all answers used and cost. Nothing is done before it is read. A failure of the
    model leaves it as a `ModelError`, a limit that is reached as a `BudgetError`.
    """
    line = command_line(task.prompt, prefix_of(framework.settings))
    run = CommandRun(framework, task, line) if line is not None else Loop(framework, task, framework.tools)
    return AsyncStreamEvents(run, run.state)
