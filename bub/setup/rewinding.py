"""Going back a question in a set-up: it is begun again, and the answers so far are given again, unasked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from bub.asking import BackError, Query, Voice

_T = TypeVar("_T")


class Rewinding:
    """A voice that remembers the answers of another one, so that its person can take the last one back.

    A set-up writes nothing while it asks, so it can be begun again at any question. As long as answers are given again,
    nothing is said: it was said before.
    """

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._given: list[tuple[str, Any]] = []
        self._at = 0
        self._left = ""
        """The question from which its person goes back."""

    def run(self, set_up: Callable[[], _T]) -> _T:
        """Return what a set-up gives; it is begun again whenever its person goes back."""
        while True:
            self._at = 0
            try:
                return set_up()
            except BackError:
                del self._given[max(0, self._at - 1) :]

    def put(self, query: Query) -> Any:
        """Give the answer of the last time, else ask. Raises `BackError` if the person goes back."""
        names = [name for name, _ in self._given[self._at :]]
        if query.name in names:  # what came before it is not asked any more, as when what it offered is done
            del self._given[self._at : self._at + names.index(query.name)]
        if self._is_replayed and self._given[self._at][0] == query.name:
            answer = self._given[self._at][1]
        else:  # what was answered behind this question was an answer to others
            del self._given[self._at :]
            if query.name == self._left and self._given:
                raise BackError  # so is the question before it
            self._left = query.name
            answer = self._voice.put(query)
            self._left = ""
            self._given.append((query.name, answer))
        self._at += 1
        return answer

    @property
    def _is_replayed(self) -> bool:
        return self._at < len(self._given)

    def knows(self, prefix: str) -> bool:
        """Whether an answer is there already to a question whose name begins with this."""
        return self._voice.knows(prefix)

    def say(self, text: str) -> None:
        """Tell something that needs no answer, once."""
        if not self._is_replayed:
            self._voice.say(text)

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Tell that something is being waited for, each time: nobody is to watch a set-up be silent."""
        return self._voice.progress(text)
