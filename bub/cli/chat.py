"""`bub chat`: a conversation at this terminal."""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated

import trio
import typer

from bub.channels.terminal.channel import Terminal
from bub.cli.exits import FAILED
from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.errors import UsageError
from bub.framework import BubFramework
from bub.inbox.mailbox import Mailbox
from bub.inbox.manager import ChannelManager

_TERMINAL = "cli"


def chat(
    ctx: typer.Context,
    prompt: Annotated[str, typer.Argument(help="What to say first.")] = "",
    chat_id: Annotated[str, typer.Option(help="The chat that messages come from.")] = "local",
    session_id: Annotated[str, typer.Option(help="The session to continue.")] = "",
) -> int:
    """Talk with the agent at this terminal. Ctrl-D leaves, Ctrl-C stops an answer.

    What is piped in is one message, below PROMPT if both are given; its answer is printed as it is.
    """
    framework = open_framework(options_of(ctx))
    if not sys.stdin.isatty():
        prompt = "\n\n".join(part for part in (prompt, _read_piped_text()) if part.strip())
        if not prompt:
            raise UsageError("the message is empty", help='pipe one in: `echo "hello" | bub chat`')
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # a window that is closed must not leave tools behind
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
    return FAILED if trio.run(_talk, framework, prompt, chat_id, session_id) else 0


def _read_piped_text() -> str:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # one byte that is no text must not cost the whole message
    return sys.stdin.read().strip("\n")


async def _talk(framework: BubFramework, prompt: str, chat_id: str, session_id: str) -> bool:
    """Talk until the person leaves; whether what was piped in came to a failure. Raises what kept an answer back."""
    manager = ChannelManager(framework, [_TERMINAL], mailbox=Mailbox(None, framework.workspace))
    terminal = manager.channel(_TERMINAL)
    if isinstance(terminal, Terminal):
        terminal.begin_with(prompt, chat_id=chat_id, session_id=session_id)
    async with framework.running():
        await manager.run()
    if not isinstance(terminal, Terminal):
        return False
    if terminal.failure is not None:
        raise terminal.failure
    return terminal.has_failed and not terminal.is_conversation
