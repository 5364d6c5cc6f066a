"""Server-sent events, as the bytes of a body come in (WHATWG HTML, 9.2.6).

A reader by hand: what a library offers reads through five generators for every token, which costs more than all that
Bub does with one.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class EventDecoder:
    """Takes a body piece by piece, cut anywhere, and gives the data of each event that is complete.

    Only the data: names and ids of events are in the data of every API that is asked here. What the body ends with
    before the blank line that completes it is no event, as the standard says.
    """

    __slots__ = ("_data", "_ended_in_cr", "_rest")

    def __init__(self) -> None:
        self._rest: bytes | None = None
        self._data: list[bytes] = []
        self._ended_in_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Take a piece of the body; the data of the events that it completes, in order."""
        if self._ended_in_cr and piece:
            piece = piece.removeprefix(b"\n")  # the rest of a line's end
            self._ended_in_cr = False
        if b"\r" in piece:
            self._ended_in_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._rest is None:
            piece = piece.removeprefix(_BOM)  # servers that send one send it whole
        elif self._rest:
            piece = self._rest + piece
        *lines, self._rest = piece.split(b"\n")
        events: list[str] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line == b"data":
                data.append(b"")
            elif not line and data:
                events.append((data[0] if len(data) == 1 else b"\n".join(data)).decode("utf-8", "replace"))
                data.clear()
        return events
