"""Tool calls put together from the pieces that a stream brings."""

from __future__ import annotations

import json
import math
import secrets
import string
from collections.abc import Collection
from typing import Any, NoReturn

from bub.agent.models.wire import mend, mend_all

_ID_LENGTH = 9  # letters and digits: the one form that every provider takes back, Mistral included
_ID_LETTERS = string.ascii_letters + string.digits


class PartialCall:
    """One call as it grows."""

    __slots__ = ("extra", "id", "name", "pieces")

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.extra: Any = None

    @property
    def raw(self) -> str:
        """The arguments as the model wrote them."""
        return mend("".join(self.pieces))


class PartialCalls:
    """The calls of one answer, in the order they began.

    Servers differ in how they cut calls: a piece belongs to the call that its `index` names, or to the last one if
    it has no index; and a piece that names a tool begins a new call where it cannot be the same one again, nor a
    further piece of its name. `offered` are the names that calls can have.
    """

    __slots__ = ("_all", "_by_index", "_offered")

    def __init__(self, offered: Collection[str] = ()) -> None:
        self._offered = offered
        self._all: list[PartialCall] = []
        self._by_index: dict[int, PartialCall] = {}

    def add(self, index: object, call_id: object, name: object, arguments: object, extra: Any = None) -> None:
        """Take one piece. Nothing in it is certain: what is no text is missing, but arguments may be a mapping."""
        text_id = call_id if isinstance(call_id, str) else ""
        text_name = name if isinstance(name, str) else ""
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        piece = arguments if isinstance(arguments, str) else ""
        call = self._of(index)
        whole_name = self._continue_name(call, text_id, text_name) if call is not None else ""
        if call is not None and whole_name:
            call.name = text_name = whole_name
        if call is None or _begins_another(call, text_id, text_name, piece):
            call = PartialCall(text_id, text_name)
            self._all.append(call)
            if isinstance(index, int):
                self._by_index[index] = call
        call.id = call.id or text_id
        call.name = call.name or text_name
        call.extra = extra or call.extra
        if piece:
            call.pieces.append(piece)

    def list_calls(self) -> list[PartialCall]:
        """List the calls that say anything at all: a name, or arguments."""
        return [call for call in self._all if call.name or call.pieces]

    def _continue_name(self, call: PartialCall, call_id: str, name: str) -> str:
        """The name of a call with one more piece of it; "" if what came is none."""
        if not call.name or not name or call.pieces or (call_id and call.id and call_id != call.id):
            return ""
        is_whole, joined = call.name in self._offered, call.name + name
        if is_whole and (name == call.name or name in self._offered):
            return ""  # the same one again, or another tool
        if self._is_beginning(joined):
            return joined
        if not is_whole and name.startswith(call.name):
            return name  # some say the name so far with every piece
        is_unknown = not is_whole and name not in self._offered
        return joined if is_unknown and call.id else ""

    def _is_beginning(self, name: str) -> bool:
        return any(offered.startswith(name) for offered in self._offered)

    def _of(self, index: object) -> PartialCall | None:
        if isinstance(index, int):
            return self._by_index.get(index)
        return self._all[-1] if self._all else None


def arguments_of(raw: str) -> dict[str, Any] | None:
    """The arguments that a model wrote; none at all are `{}`. None when the text is no JSON object."""
    if not raw.strip():
        return {}
    try:
        # The standard library's parser takes integers of any size and halves of characters, which msgspec's does not.
        arguments = json.loads(raw, parse_constant=_refuse, parse_float=_read_float)
    except (ValueError, RecursionError):
        return None
    return mend_all(arguments) if isinstance(arguments, dict) else None


def new_id() -> str:
    """An id for a call whose server gave it none, or one that is in use."""
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


def _begins_another(call: PartialCall, call_id: str, name: str, piece: str) -> bool:
    """Whether a piece that names a tool is of another call than the one at its place."""
    if not name or not call.name:
        return False
    if call_id and call.id:
        return call_id != call.id
    if name != call.name:
        return True
    # The name alone is no sign: some servers repeat it with every piece.
    ended = bool(call.pieces) and call.pieces[-1].rstrip().endswith("}")
    return ended and piece.lstrip().startswith("{") and arguments_of(call.raw) is not None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # nothing could write it as JSON again
        raise ValueError(f"{text} is too large")
    return number
