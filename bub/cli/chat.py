"""`bub chat`: a conversation at this terminal."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Annotated

import msgspec
import trio
import typer

from bub.channels.terminal.channel import Terminal
from bub.cli.exits import FAILED
from bub.cli.held_home import hold_home
from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.errors import BubError, UsageError
from bub.framework import BubFramework
from bub.inbox.mailbox import Mailbox
from bub.inbox.manager import ChannelManager
from bub.plugins.shipped import TERMINAL
from bub.tape.conversations import Conversation, conversations


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is said first, in which chat, and which session goes on."""

    prompt: str
    chat_id: str
    session_id: str
    resume: bool


def chat(
    ctx: typer.Context,
    prompt: Annotated[str, typer.Argument(help="What to say first.")] = "",
    chat_id: Annotated[str, typer.Option(help="The chat that messages come from.")] = "local",
    session_id: Annotated[str, typer.Option(help="The session to continue; `,sessions` lists them.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Continue the last conversation of this workspace.")] = False,
) -> int:
    """Talk with the agent at this terminal. Ctrl-D leaves, Ctrl-C stops an answer.

    Bub reads what is piped in as one message, below PROMPT if there is one, and prints the answer as it is. The message
    begins a new session, unless an option says which one to continue.
    """
    if resume and session_id:
        raise UsageError("--resume and --session-id cannot be used together", help="the last one, or the one you name")
    framework = open_framework(options_of(ctx), routed=False, check=BubFramework.check_needs)
    wanted = _Wanted(prompt, chat_id, session_id, resume)
    if not sys.stdin.isatty():
        said = "\n\n".join(part for part in (prompt, _read_piped_text()) if part.strip())
        if not said:
            raise UsageError("the message is empty", help='pipe one in: `echo "hello" | bub chat`')
        own = session_id or f"{TERMINAL}:{chat_id}:{token_hex(4)}"
        wanted = replace(wanted, prompt=said, session_id="" if resume else own)
    with hold_home(framework.home):
        return FAILED if trio.run(_talk, framework, wanted) else 0


def _read_piped_text() -> str:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # one byte that is no text must not cost the whole message
    return sys.stdin.read().strip("\n")


async def _talk(framework: BubFramework, wanted: _Wanted) -> bool:
    """Talk until the person leaves; whether what was piped in came to a failure. Raises what kept an answer back."""
    manager = ChannelManager(framework, [TERMINAL], mailbox=Mailbox(None, framework.workspace))
    terminal = manager.channel(TERMINAL)
    async with framework.running():
        if isinstance(terminal, Terminal):
            last = await _last_conversation(framework, manager) if wanted.resume else None
            session_id = last.session if last is not None else wanted.session_id
            terminal.begin_with(wanted.prompt, chat_id=wanted.chat_id, session_id=session_id, resumed=last)
        await manager.run()
    if not isinstance(terminal, Terminal):
        return False
    if terminal.failure is not None:
        raise terminal.failure
    return terminal.has_failed and not terminal.is_conversation


async def _last_conversation(framework: BubFramework, manager: ChannelManager) -> Conversation:
    """Return the conversation of this workspace that went on last, other than those of chats elsewhere.

    If answers are judged, it comes without what was answered last: the tape keeps also what a gate kept back.
    """
    elsewhere = [f"{name}:" for name in framework.get_channels(manager.receive) if name != TERMINAL]
    store = framework.get_tape_store()
    kept = store is not None and await conversations(store, framework.workspace, most=1, other_than=elsewhere)
    if not kept:
        raise BubError("there is no conversation to continue in this workspace", help="`bub chat` begins one")
    if any(framework.seen_by(profile).graph.judges_answers for profile in framework.profiles):
        said = [(role, text) for role, text in kept[0].last if role == "user"]
        return msgspec.structs.replace(kept[0], last=said)
    return kept[0]
