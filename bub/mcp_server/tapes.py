"""Tapes as resources: what was said and done in sessions of this workspace, as people read it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

from mcp.types import Resource, ResourceTemplate

from bub.errors import TapeError
from bub.mcp_server.sessions import CHANNEL
from bub.tape.shelf import Store, summaries
from bub.tape.tape import Summary, Tape
from bub.tape.transcript import is_bookkeeping, transcript

TEMPLATE = ResourceTemplate(
    name="tape",
    title="What was said and done in a session",
    uri_template="bub://tapes/{session}",
    mime_type="text/plain",
)

_SCHEME = "bub://tapes/"


class Tapes:
    """The tapes of a workspace that clients may read: those of their own sessions, or `every` one."""

    def __init__(self, store: Store, workspace: Path, *, every: bool) -> None:
        self._store = store
        self._workspace = str(workspace.resolve())
        self._every = every

    async def listed(self) -> list[Resource]:
        """All of them, the one used last first."""
        return [
            Resource(
                uri=f"{_SCHEME}{quote(str(summary.session), safe='')}",
                name=str(summary.session),
                description=summary.last_words,
                mime_type="text/plain",
            )
            for summary in await self._readable()
        ]

    async def read(self, uri: str) -> str:
        """What one of them says. Raises `TapeError` if clients can read none under this address."""
        session = unquote(uri.removeprefix(_SCHEME))
        for summary in await self._readable():
            if uri.startswith(_SCHEME) and summary.session == session:
                tape = Tape(summary.name, self._store)
                told = [entry for entry in await tape.fetch(tape.query()) if not is_bookkeeping(entry)]
                return "\n".join("".join(span.text for span in line) for line in transcript(told, None))
        raise TapeError(f"there is no tape {uri} here", help="`resources/list` has those that there are")

    async def _readable(self) -> list[Summary]:
        return [
            summary
            for summary in await summaries(self._store)
            if summary.session is not None
            and summary.workspace == self._workspace
            and (self._every or summary.session.startswith(f"{CHANNEL}:"))
        ]
