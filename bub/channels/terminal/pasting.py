"""What is pasted while a person writes: much of it is a word on the line, and is sent whole."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

_MOST_LINES = 8
_MOST_LETTERS = 800
"""How much may be pasted as it is; more would push what is being written out of sight."""

_FIRST_SIGN = 0x100000
"""The first of the letters that stand for what was pasted: nobody writes them, they are for private use."""


class Pastes:
    """What was pasted, and the one letter that stands for each large piece, so that it is edited as one."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str, *, as_one: bool = False) -> str:
        """Return what is put on the line: the text, or a letter for it if it is large, or to be `as_one`."""
        has_sign = bool(text) and max(text) >= chr(_FIRST_SIGN)
        if len(text) <= _MOST_LETTERS and text.count("\n") < _MOST_LINES and not has_sign and not as_one:
            return text
        sign = chr(_FIRST_SIGN + len(self._texts))
        self._texts[sign] = text
        return sign

    def unfold(self, text: str) -> str:
        """Return what is sent: a line with all that was pasted."""
        return text.translate({ord(sign): whole for sign, whole in self._texts.items()})

    def label(self, text: str) -> str:
        """Return what is shown: a line with a word in place of each large piece."""
        return text.translate({ord(sign): _label(whole) for sign, whole in self._texts.items()})


def _label(text: str) -> str:
    lines = text.strip("\n").count("\n") + 1
    return f"[pasted: {lines:,} lines]" if lines > 1 else f"[pasted: {len(text):,} letters]"


def make_labeller(pastes: Pastes) -> Any:
    """Return what has prompt_toolkit show labels, and know where on the line its cursor is."""
    from prompt_toolkit.formatted_text import StyleAndTextTuples, to_formatted_text
    from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
    from prompt_toolkit.layout.utils import explode_text_fragments

    class Labeller(Processor):
        def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
            letters = explode_text_fragments(to_formatted_text(transformation_input.fragments))
            shown: StyleAndTextTuples = []
            places, place = [], 0
            for style, letter, *_ in letters:
                label = pastes.label(letter)
                shown.append((style if label == letter else "class:dim", label))
                places.append(place)
                place += len(label)
            places.append(place)

            def shown_at(at: int) -> int:
                return places[at] if at < len(places) else place + at - len(letters)

            def written_at(at: int) -> int:
                return bisect_right(places, at) - 1

            return Transformation(shown, source_to_display=shown_at, display_to_source=written_at)

    return Labeller()
