"""`bub inbox`: answers questions about tools; shows dead letters, and tries them again or drops them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from bub.approval import OPERATOR
from bub.base.diagnostics import did_you_mean
from bub.base.layout import Line, Span, cells, columns, indent_text
from bub.channels.message import ChannelMessage
from bub.cli.inboxes import Inbox, open_inbox
from bub.cli.options import options_of
from bub.cli.output import page_width, show, show_json
from bub.cli.prompts import can_ask, confirm, require_person
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.inbox.questions import AskedQuestion
from bub.inbox.store import InboxEntry, Kind, MailboxError

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    help="Questions of agents, and what was set aside: answer, retry, drop.",
)

_IDS = typer.Argument(metavar="[ID]...", help="Which ones, such as m12 or r7.")
_EVERY = typer.Option("--all", help="All messages and replies that were set aside.")
_MOST_NAMED = 12
_MOST_WORDS = 60
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


@app.callback()
def inbox() -> None:
    """Questions of the workspace's agents, and messages and replies that were set aside."""


@app.command("list")
def list_them(
    ctx: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Also messages that wait for a turn, and replies that wait for delivery.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Show questions that wait for an answer (q1 …), then what was set aside and why: messages (m1 …), replies (r1 …).

    A message is set aside when its turn was cut short three times, a reply when it can never be delivered.
    """
    with open_inbox(options_of(ctx)) as inbox:
        found, elsewhere = inbox.alone(inbox.list_entries), inbox.alone(inbox.count_dead_letters_elsewhere)
        questions = inbox.alone(inbox.questions.open)
    shown = [entry for entry in found if everything or entry.reason is not None]
    if as_json:
        show_json([*map(_question_as_json, questions), *map(_as_json, shown)])
        return
    for question in questions:
        show(_describe_question(question, page_width()))
    if shown:
        show(_list_entries(shown, page_width() if sys.stdout.isatty() else None))
    elif not questions:
        _say(_describe_empty(inbox.workspace, len(found), elsewhere))


@app.command("approve")
def approve(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="ID", help="Which one, as q7.")]) -> None:
    """Say yes to one call of a tool. Wants a terminal that you opened yourself, and shows the call before it counts."""
    require_person()
    if not can_ask():
        raise UsageError(
            "a yes needs a terminal, because a person has to see what they allow", help="run the command in a terminal"
        )
    with open_inbox(options_of(ctx)) as inbox:
        question = inbox.alone(lambda: _find_question(inbox, name))
        for line in _describe_question(question, page_width()):
            _say("".join(span.text for span in line))
        if not confirm("Say yes?" if question.approval.asker else "Allow it?"):
            _say(f"{question.id} is still open (`bub inbox deny {question.id}` says no)")
            return
        _answer(inbox, question, is_yes=True)


@app.command("deny")
def deny(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="ID", help="Which one, as q7.")]) -> None:
    """Say no to one call of a tool."""
    with open_inbox(options_of(ctx)) as inbox:
        _answer(inbox, inbox.alone(lambda: _find_question(inbox, name)), is_yes=False)


@app.command("retry")
def retry(
    ctx: typer.Context,
    ids: Annotated[list[str] | None, _IDS] = None,
    everything: Annotated[bool, _EVERY] = False,
) -> None:
    """Let what was set aside wait again, as if nothing had been tried; a gateway that runs takes it at once."""
    with open_inbox(options_of(ctx)) as inbox:
        chosen = inbox.alone(lambda: _change(inbox, ids, everything, inbox.retry))
    _say(f"{_count_in_words(chosen)} will be tried again" if chosen else "nothing was set aside")


@app.command("drop")
def drop(
    ctx: typer.Context,
    ids: Annotated[list[str] | None, _IDS] = None,
    everything: Annotated[bool, _EVERY] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Throw away what was set aside, for good."""
    with open_inbox(options_of(ctx)) as inbox:
        doomed = inbox.alone(lambda: _choose_dead_letters(inbox.list_entries(), ids, everything))
        if not doomed:
            _say("nothing was set aside")
            return
        if not yes:
            if not can_ask():
                raise UsageError(
                    f"there is no terminal to ask whether to drop {_count_in_words(doomed)}", help="say --yes"
                )
            if not confirm(f"Drop {_count_in_words(doomed)} for good?"):
                _say("nothing was dropped")
                return
        # Meanwhile somebody may have taken one of them up again: that one is not dropped.
        names = [_name(entry) for entry in doomed]
        inbox.alone(lambda: _change(inbox, names, False, inbox.drop))
    _say(f"{_count_in_words(doomed)} {'was' if len(doomed) == 1 else 'were'} dropped")


def _find_question(inbox: Inbox, name: str) -> AskedQuestion:
    waiting = {question.id: question for question in inbox.questions.open()}
    if name not in waiting:
        known = f"these do: {', '.join(waiting)}" if waiting else "no question does"
        raise MailboxError(f"`{name}` waits for no answer", help=known)
    return waiting[name]


def _answer(inbox: Inbox, question: AskedQuestion, *, is_yes: bool) -> None:
    """Keep an answer; a gateway that runs finds it within seconds, another one at its start."""
    if not inbox.alone(lambda: inbox.questions.answer(question.id, is_yes, OPERATOR)):
        raise MailboxError(f"somebody else has answered {question.id} meanwhile")
    _say(f"{question.id}: {'yes' if is_yes else 'no'} to {question.approval.asker or question.approval.tool}")


def _describe_question(question: AskedQuestion, width: int) -> list[Line]:
    where = printable(f"{question.channel}:{question.chat_id}")
    tool = printable(question.approval.tool)
    again = " again (the process ended during the first call)" if question.approval.again else ""
    what = f"the agent wants to call {tool}{again} with"
    if question.approval.asker:
        what = f"while {tool} runs"
    head = f"  {where}  {_age_of(question.at)}  {what}"
    told = [line for text in question.asked.splitlines() for line in indent_text(printable(text), width, 4)]
    return [(Span(question.id, "strong"), Span(head)), *told]


def _question_as_json(question: AskedQuestion) -> dict[str, Any]:
    return {
        "id": question.id,
        "kind": "question",
        "channel": question.channel,
        "chat_id": question.chat_id,
        "at": datetime.fromtimestamp(question.at, UTC).isoformat(timespec="milliseconds"),
        "session": question.approval.session_id,
        "tool": question.approval.tool,
        "asked": question.asked,
        "again": question.approval.again,
        "asker": question.approval.asker,
    }


def _change(
    inbox: Inbox, ids: list[str] | None, everything: bool, change: Callable[[Kind, Sequence[int]], None]
) -> list[InboxEntry]:
    chosen = _choose_dead_letters(inbox.list_entries(), ids, everything)
    for kind in ("message", "reply"):
        change(kind, [entry.id for entry in chosen if entry.kind == kind])
    return chosen


def _choose_dead_letters(entries: list[InboxEntry], ids: list[str] | None, everything: bool) -> list[InboxEntry]:
    """Return the dead letters that somebody names; raise if one of them was not set aside."""
    if everything == bool(ids):
        raise UsageError("say which: IDs, or --all", help="`bub inbox list` shows them")
    known = {_name(entry): entry for entry in entries}
    set_aside = [name for name, entry in known.items() if entry.reason is not None]
    for name in ids or ():
        if name not in known:
            raise MailboxError(f"there is no `{name}` in the inbox", help=_suggest(name, set_aside))
        if name not in set_aside:
            problem = f"`{name}` was not set aside: it waits for {_waits_for(known[name])}"
            raise MailboxError(problem, help=_suggest(name, set_aside))
    return [known[name] for name in dict.fromkeys(ids or set_aside)]


def _suggest(name: str, set_aside: list[str]) -> str:
    if not set_aside:
        return "nothing was set aside"
    if len(set_aside) > _MOST_NAMED:
        return did_you_mean(name, set_aside) or "`bub inbox list` shows those that were set aside"
    return f"set aside: {', '.join(set_aside)}"


def _describe_empty(workspace: str, waiting: int, elsewhere: dict[str, int]) -> str:
    said = f"nothing was set aside in {workspace}"
    if waiting:
        said += f"; {waiting:,} waiting (--all shows {'it' if waiting == 1 else 'them'})"
    for other, count in elsewhere.items():
        said += f"\n{count:,} in {other} (see them with --workspace)"
    return said


# How entries are shown.


def _list_entries(entries: list[InboxEntry], width: int | None) -> list[Line]:
    waits = any(entry.reason is None for entry in entries)
    titles = ("id", "chat", "age", "tries", "state" if waits else "set aside because", "begins")
    states = [_state(entry) if waits else _in_one_line(entry.reason or "") for entry in entries]
    head = [Span(title, "faint") for title in titles]
    lines = columns([head, *map(_row, entries, states)])
    if width is None or all(sum(cells(span.text) for span in each) <= width for each in lines):
        return lines
    return [each for entry, state in zip(entries, states, strict=True) for each in _card(entry, state, width)]


def _state(entry: InboxEntry) -> str:
    return f"waits for {_waits_for(entry)}" if entry.reason is None else f"set aside: {_in_one_line(entry.reason)}"


def _waits_for(entry: InboxEntry) -> str:
    return "its turn" if entry.kind == "message" else "its delivery"


def _row(entry: InboxEntry, state: str) -> list[Span]:
    return [
        Span(_name(entry), "strong"),
        Span(_chat(entry)),
        Span(_age(entry)),
        Span(str(entry.attempts)),
        Span(state),
        Span(_shorten(_words(entry), _MOST_WORDS), "faint"),
    ]


def _card(entry: InboxEntry, state: str, width: int) -> Iterator[Line]:
    """Lay an entry out in several lines if one is too short."""
    tries = f"{entry.attempts} {'try' if entry.attempts == 1 else 'tries'}"
    rest = _shorten(f"  {_chat(entry)}  {_age(entry)}  {tries}", max(width - len(_name(entry)), 1))
    yield Span(_name(entry), "strong"), Span(rest)
    yield from indent_text(state, width, 2)
    yield (Span("  " + _shorten(_words(entry), max(min(width - 2, _MOST_WORDS), 1)), "faint"),)


def _name(entry: InboxEntry) -> str:
    return f"{entry.kind[0]}{entry.id}"


def _chat(entry: InboxEntry) -> str:
    return printable(f"{entry.channel}:{entry.chat_id}")


def _age(entry: InboxEntry) -> str:
    return _age_of(entry.at)


def _age_of(at: float) -> str:
    seconds = max(time.time() - at, 0)
    for unit, one in _UNITS:
        if seconds >= one:
            return f"{seconds // one:.0f}{unit}"
    return "0s"


def _words(entry: InboxEntry) -> str:
    if entry.message is None:
        return "(cannot be read)"
    # Four characters for one that is shown: an escape takes as many.
    return _in_one_line(entry.message.content[: 4 * _MOST_WORDS]) or _without_words(entry.message)


def _without_words(message: ChannelMessage) -> str:
    return " ".join(f"[{printable(str(one.get('kind', 'media')))}]" for one in message.media[:4])


def _in_one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _shorten(text: str, width: int) -> str:
    if cells(text) <= width:
        return text
    text = text[:width]
    while text and cells(text) >= width:
        text = text[:-1]
    return f"{text}…"


def _count_in_words(entries: Sequence[InboxEntry]) -> str:
    """Return how many there are, such as "2 messages and 1 reply"."""
    messages = sum(entry.kind == "message" for entry in entries)
    counts = ((messages, "message", "messages"), (len(entries) - messages, "reply", "replies"))
    return " and ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count)


def _as_json(entry: InboxEntry) -> dict[str, Any]:
    return {
        "id": _name(entry),
        "kind": entry.kind,
        "channel": entry.channel,
        "chat_id": entry.chat_id,
        "at": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds"),
        "attempts": entry.attempts,
        "reason": entry.reason,
        "message": entry.message.as_dict() if entry.message is not None else None,
    }


def _say(text: str) -> None:
    for each in text.splitlines():
        print(printable(each), file=sys.stderr)
