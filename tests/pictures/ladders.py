"""A way, step by step from top to bottom: what each step is, and beside it what there is to say of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .paper import box, sheet, words

_LETTER, _SMALL = 7.8, 6.6
_MARGIN, _CARD, _GAP = 16, 44, 22
_WIDTH, _SIDE = 700, 330
"""The width of the picture, and where the words beside the steps begin."""


class Rung(NamedTuple):
    """A step: its name, a line below it, at most two lines beside it, and how it is drawn."""

    name: str
    below: str
    beside: tuple[str, ...] = ()
    style: str = "card"


CALL = (
    Rung("the model asks for a call", "words of a model", ("nothing has run yet",)),
    Rung("before_tool_call", "modifying", ("plugins may change the arguments,", "or reject the call"), style="paper"),
    Rung("types and defaults", "from here on frozen", ("nobody can change them any more",)),
    Rung(
        "tool_gate", "gate", ("None of every plugin allows; an error, a time-out", "or any other answer denies"), "gate"
    ),
    Rung(
        "a person is asked", "if the profile or the rule says so", ("sees these very arguments; a yes is for one call",)
    ),
    Rung("the tool runs", "with what was judged", ("the note that it begins is on the disk before",), "stream"),
)
"""What a call of a tool passes."""

KEPT = (
    Rung("a message comes", "from a channel", ("the other side was not told, and may send it again",)),
    Rung("inbox", "on the disk", ("kept; only now the other side learns", "that it has arrived"), "stream"),
    Rung(
        "turn",
        "stages, model, tools",
        ("the turn runs again, until it has run three times;", "tools that change something ask before they run again"),
    ),
    Rung("out of the inbox, into the outbox", "one transaction", ("both have happened, or neither has",), "gate"),
    Rung("outbox", "on the disk", ("the reply waits, with its text fixed",), "stream"),
    Rung(
        "the chat has the reply",
        "then it leaves the outbox",
        ("killed between the two: the same text may come twice",),
    ),
)
"""Where a message is, and what follows if the process is killed there."""

WAY = (
    Rung("bub.inbox.manager", "a channel hands a message over", ("ChannelManager.receive",)),
    Rung("bub.inbox.intake", "kept, debounced, in order", ("Intake.receive",)),
    Rung("bub.inbox.dispatcher", "one task for each batch", ("Dispatcher.hand_on",)),
    Rung("bub.runtime.message_turn", "the stages up to the session", ("MessageTurn.arrive",), "stream"),
    Rung("bub.runtime.sessions", "one queue for each session", ("Sessions.hold",)),
    Rung("bub.runtime.message_turn", "all other stages", ("MessageTurn.answer",), "stream"),
    Rung("bub.pipeline.run.turn", "the parts of the graph", ("Turn.answer",), "stream"),
    Rung("bub.pipeline.run.strand", "one stage after another", ("Strand.run",), "stream"),
    Rung("bub.hooks.kinds.firstresult", "one module for each kind", ("firstresult",), "gate"),
    Rung("bub.inbox.ledger", "one transaction", ("Ledger.finish",)),
    Rung("bub.inbox.outbox", "a queue for each chat", ("Outbox.add",)),
)
"""The modules that a message passes, and what is called in each."""


HOUSE = (
    Rung(
        "pipeline/source/, plan/, check/",
        "before a turn: runtime/loader.py",
        ("text to nodes with places; what it means", "for a profile; findings"),
    ),
    Rung(
        "pipeline/run/compiler.py",
        "with what plugins/ brings",
        ("the file and the plugins that the profile", "lists: a graph"),
    ),
    Rung("runtime/snapshot.py", "a snapshot", ("in use until the next one",), "gate"),
    Rung("channels/", "a message comes in", ("bub run, a program or a bus begin", "at `arrive`, two steps below")),
    Rung("inbox/intake.py", "kept on the disk, debounced", ("then inbox/dispatcher.py",)),
    Rung(
        "runtime/message_turn.py: arrive",
        "with the snapshot",
        ("stages up to the one that finds the session",),
        "stream",
    ),
    Rung("admission", "of the profile that the session chose", ("drop, steer, queue or run",), "paper"),
    Rung("runtime/sessions.py", "the one queue of the session"),
    Rung(
        "runtime/message_turn.py: answer",
        "when it is its turn",
        ("the stages that are left, on the same values",),
        "stream",
    ),
    Rung(
        "pipeline/run/, hooks/kinds/",
        "run the stages, call the hooks",
        ("agent/ is what the builtin plugin", "does in them"),
    ),
    Rung("inbox/outbox.py", "replies, in order for each chat"),
    Rung("channels/", "the reply goes out"),
)
"""A turn's way through the folders of the code, and what is made before it."""


def draw_ladder(title: str, rungs: Sequence[Rung]) -> str:
    """Draw steps from top to bottom, with arrows between them."""
    body: list[str] = []
    for number, rung in enumerate(rungs):
        body += _draw_rung(rung, _MARGIN + number * (_CARD + _GAP), is_last=number == len(rungs) - 1)
    return sheet(title, _WIDTH, 2 * _MARGIN + len(rungs) * (_CARD + _GAP) - _GAP, body)


def _draw_rung(rung: Rung, y: float, *, is_last: bool) -> Iterator[str]:
    width = _SIDE - 2 * _MARGIN
    yield box(rung.style, _MARGIN, y, width, _CARD)
    yield words("ink strong", _MARGIN + 10, y + 19, rung.name, _LETTER * len(rung.name))
    yield words("faint small", _MARGIN + 10, y + 35, rung.below, 6.3 * len(rung.below))
    top = y + 26 - 8 * (len(rung.beside) - 1)
    for number, line in enumerate(rung.beside):
        yield words("ink small", _SIDE, top + 16 * number, line, _SMALL * len(line))
    if not is_last:
        x, below = _MARGIN + width / 2, y + _CARD
        yield f'<path class="line" d="M{x:g} {below + 3:g}v{_GAP - 10}M{x - 4:g} {below + _GAP - 10:g}l4 6l4 -6"/>'
