"""The language server: what a client asks, and the findings that it is sent without asking."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import trio

from bub import __version__
from bub.base.diagnostics import Diagnostic, sort_diagnostics, without_notes
from bub.base.locate import bub_home
from bub.errors import UsageError
from bub.lsp.buffers import Buffer, Encoding, Ruler
from bub.lsp.completion import render_completion
from bub.lsp.findings import render_findings, render_fixes
from bub.lsp.hover import render_hover
from bub.lsp.jsonrpc import Handler, Incoming, JsonRpcError, Outgoing, Peer
from bub.lsp.names import can_rename, render_definition, render_rename
from bub.lsp.outline import render_outline
from bub.lsp.proof import prove
from bub.lsp.reading import Open, Reader, read
from bub.pipeline.check.opened.texts import Opened, encode
from bub.pipeline.source.discovery import discover, is_pipeline
from bub.runtime.trust import is_trusted

_NOT_INITIALIZED, _CONTENT_MODIFIED = -32002, -32801

_Answer: TypeAlias = Callable[[Open, Mapping[str, Any]], Any]


class Options(msgspec.Struct, frozen=True):
    """What the editor's settings say: show notes too; prove with plugins what lies in trusted folders."""

    pedantic: bool = False
    plugins: bool = False


class LanguageServer:
    """One conversation with an editor. `fail` is called with what went wrong inside, by the method that was asked."""

    def __init__(self, incoming: Incoming, outgoing: Outgoing, *, fail: Callable[[str, Exception], None]) -> None:
        self._peer = Peer(incoming, outgoing, self._table(), fail=fail)
        self._fail = fail
        self._options = Options()
        self._encoding = Encoding()
        self._folders: tuple[Path, ...] = ()
        self._buffers: dict[str, Buffer] = {}
        self._reader = Reader()
        self._found: dict[str, tuple[int | None, Open, tuple[Diagnostic, ...]]] = {}
        self._proved: dict[str, tuple[str, list[Diagnostic]]] = {}
        self._to_check: dict[str, None] = {}
        self._to_prove: dict[str, None] = {}
        self._wake = trio.Event()
        self._is_initialized = self._is_shut_down = False
        self._end = trio.CancelScope()

    async def serve(self) -> int:
        """Serve the client until it says `exit` or is gone; returns the exit code that the protocol wants.

        Raises `BrokenFrameError` if what it sends cannot be split into messages.
        """
        with self._end:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._check_what_changes)
                await self._peer.serve()
                nursery.cancel_scope.cancel()
        return 0 if self._is_shut_down else 1

    def _table(self) -> dict[str, Handler]:
        return {
            "initialize": self._initialize,
            "shutdown": self._when_ready(self._shut_down),
            "exit": self._exit,
            "textDocument/didOpen": self._open,
            "textDocument/didChange": self._change,
            "textDocument/didSave": self._save,
            "textDocument/didClose": self._close,
            "workspace/didChangeWatchedFiles": self._check_all,
            "workspace/didChangeConfiguration": self._configure,
            "textDocument/hover": self._about(self._hover),
            "textDocument/completion": self._about(self._complete),
            "textDocument/definition": self._about(self._define),
            "textDocument/codeAction": self._about(self._fix),
            "textDocument/prepareRename": self._about(self._prepare_rename),
            "textDocument/rename": self._about(self._rename),
            "textDocument/documentSymbol": self._about(self._outline),
        }

    # The conversation

    async def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        offered = ((params.get("capabilities") or {}).get("general") or {}).get("positionEncodings") or ()
        self._encoding = Encoding(utf16="utf-32" not in offered)
        folders = [str(folder["uri"]) for folder in params.get("workspaceFolders") or ()]
        folders = folders or [str(params[key]) for key in ("rootUri",) if params.get(key)]
        self._folders = tuple(path for uri in folders if (path := Buffer(uri, None, "").path) is not None)
        self._options = _options_in(params.get("initializationOptions"))
        self._is_initialized = True
        return {
            "serverInfo": {"name": "bub", "version": __version__},
            "capabilities": {
                "positionEncoding": "utf-16" if self._encoding.utf16 else "utf-32",
                "textDocumentSync": {"openClose": True, "change": 2, "save": {"includeText": False}},
                "hoverProvider": True,
                "completionProvider": {"triggerCharacters": [":", " ", "[", "{", ",", "."]},
                "definitionProvider": True,
                "codeActionProvider": {"codeActionKinds": ["quickfix"]},
                "renameProvider": {"prepareProvider": True},
                "documentSymbolProvider": True,
            },
        }

    async def _configure(self, params: Mapping[str, Any]) -> None:
        settings = params.get("settings")
        if isinstance(settings, dict) and "bub" in settings:
            self._options = _options_in(settings["bub"])
            await self._check_all({})

    async def _shut_down(self, params: Mapping[str, Any]) -> None:
        del params
        self._is_shut_down = True

    async def _exit(self, params: Mapping[str, Any]) -> None:
        del params
        self._end.cancel()

    def _when_ready(self, handler: Handler) -> Handler:
        async def call(params: Mapping[str, Any]) -> Any:
            if not self._is_initialized:
                raise JsonRpcError(_NOT_INITIALIZED, "the first request is `initialize`")
            return await handler(params)

        return call

    # Open texts

    async def _open(self, params: Mapping[str, Any]) -> None:
        said = params["textDocument"]
        self._keep(Buffer(str(said["uri"]), said.get("version"), str(said["text"])))
        self._want_proof(str(said["uri"]))

    async def _change(self, params: Mapping[str, Any]) -> None:
        said = params["textDocument"]
        buffer = self._buffers.get(str(said["uri"]))
        if buffer is not None:
            text = buffer.change(params["contentChanges"], self._encoding)
            self._keep(Buffer(buffer.uri, said.get("version"), text))

    async def _save(self, params: Mapping[str, Any]) -> None:
        self._want_proof(str(params["textDocument"]["uri"]))
        await self._check_all(params)

    async def _close(self, params: Mapping[str, Any]) -> None:
        uri = str(params["textDocument"]["uri"])
        if self._buffers.pop(uri, None) is not None:
            for kept in (self._found, self._proved, self._to_check, self._to_prove):
                kept.pop(uri, None)
            await self._publish(uri, None, [])
            await self._check_all(params)

    async def _check_all(self, params: Mapping[str, Any]) -> None:
        del params
        self._to_check.update(dict.fromkeys(self._buffers))
        self._wake.set()

    def _keep(self, buffer: Buffer) -> None:
        """Keep a new text, and check it and every other open text, which may extend it."""
        self._buffers[buffer.uri] = buffer
        others = dict.fromkeys(self._buffers)
        self._to_check = {buffer.uri: None} | self._to_check | others
        self._wake.set()

    def _want_proof(self, uri: str) -> None:
        if self._options.plugins:
            self._to_prove[uri] = None
            self._wake.set()

    # Findings

    async def _check_what_changes(self) -> None:
        """Check texts as they change: the one that is typed in first, and of each its newest version only."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._to_check or self._to_prove:
                if self._to_check:
                    uri = next(iter(self._to_check))
                    del self._to_check[uri]
                    await self._check(uri)
                else:
                    uri = next(iter(self._to_prove))
                    del self._to_prove[uri]
                    await self._prove(uri)

    async def _check(self, uri: str) -> None:
        buffer = self._buffers.get(uri)
        if buffer is None:
            return
        if not _is_ours(buffer):
            if self._found.pop(uri, None) is not None:
                await self._publish(uri, buffer.version, [])
            return
        try:
            pipeline, findings = await trio.to_thread.run_sync(self._reader.check, buffer, self._texts())
        except UsageError:  # the file of an open text went away; its text is what counts, and comes again
            return
        except Exception as error:  # noqa: BLE001 (one text that cannot be checked must not end the server)
            self._fail("check", error)
            return
        self._found[uri] = (buffer.version, pipeline, findings)
        if self._buffers.get(uri) is buffer:
            await self._publish(uri, buffer.version, self._render(uri))

    def _render(self, uri: str) -> list[dict[str, Any]]:
        _, pipeline, findings = self._found[uri]
        text, proved = self._proved.get(uri, ("", []))
        if text == pipeline.buffer.text:  # else it is about a text that is no more
            findings = sort_diagnostics([*findings, *proved])
        shown = findings if self._options.pedantic else without_notes(findings)
        return render_findings(pipeline, shown, self._encoding)

    async def _publish(self, uri: str, version: int | None, findings: list[dict[str, Any]]) -> None:
        said = {"uri": uri, "diagnostics": findings}
        await self._peer.notify(
            "textDocument/publishDiagnostics", said | ({"version": version} if version is not None else {})
        )

    async def _prove(self, uri: str) -> None:
        """Prove a saved file with its plugins, in a process of its own, if its folder is trusted."""
        buffer = self._buffers.get(uri)
        path = buffer.path if buffer is not None else None
        if buffer is None or path is None or not self._options.plugins or not _is_ours(buffer):
            return
        if not is_trusted(path.parent, bub_home(os.environ), os.environ):
            return
        pipeline = await trio.to_thread.run_sync(read, buffer, self._texts())
        self._proved[uri] = (buffer.text, await prove(path, pipeline.document.file))
        self._to_check[uri] = None

    # What is asked about a text

    def _about(self, answer: _Answer) -> Handler:
        """Return the handler of a request about an open pipeline: None is the answer for a text that is none."""

        async def call(params: Mapping[str, Any]) -> Any:
            buffer = self._buffers.get(str(params["textDocument"]["uri"]))
            if buffer is None or not _is_ours(buffer):
                return None
            try:
                pipeline = await trio.to_thread.run_sync(read, buffer, self._texts())
                return await trio.to_thread.run_sync(answer, pipeline, params)
            except UsageError as error:
                raise JsonRpcError(_CONTENT_MODIFIED, str(error)) from error

        return self._when_ready(call)

    def _ruler(self, pipeline: Open) -> Ruler:
        return Ruler(pipeline.buffer.lines, self._encoding)

    def _hover(self, pipeline: Open, params: Mapping[str, Any]) -> Any:
        text = render_hover(pipeline, self._ruler(pipeline).place(params["position"]))
        return {"contents": {"kind": "markdown", "value": text}} if text is not None else None

    def _complete(self, pipeline: Open, params: Mapping[str, Any]) -> Any:
        at = self._ruler(pipeline).place(params["position"])
        items = render_completion(pipeline.buffer, self._texts(), at, self._encoding)
        return {"isIncomplete": False, "items": items}

    def _define(self, pipeline: Open, params: Mapping[str, Any]) -> Any:
        return render_definition(pipeline, self._ruler(pipeline).place(params["position"]), self._encoding)

    def _fix(self, pipeline: Open, params: Mapping[str, Any]) -> Any:
        version, checked, findings = self._found.get(pipeline.buffer.uri, (None, pipeline, ()))
        if version != pipeline.buffer.version or checked.buffer.text != pipeline.buffer.text:
            checked, findings = Reader().check(pipeline.buffer, self._texts())
        return render_fixes(checked, findings, params["range"], self._encoding)

    def _prepare_rename(self, pipeline: Open, params: Mapping[str, Any]) -> Any:
        ruler = self._ruler(pipeline)
        mention = can_rename(pipeline, ruler.place(params["position"]))
        return {"range": ruler.range(mention.place.range), "placeholder": mention.name}

    def _rename(self, pipeline: Open, params: Mapping[str, Any]) -> Any:
        at = self._ruler(pipeline).place(params["position"])
        return render_rename(pipeline, self._around(pipeline), at, str(params["newName"]), self._encoding)

    def _outline(self, pipeline: Open, params: Mapping[str, Any]) -> Any:
        del params
        return render_outline(pipeline.root, self._ruler(pipeline)) if pipeline.root is not None else []

    def _around(self, pipeline: Open) -> list[Open]:
        """Return the other pipelines: those that are open, and those in the folders of the editor."""
        texts, found = self._texts(), []
        opened = {buffer.path: buffer for buffer in self._buffers.values() if buffer.path is not None}
        folders = self._folders or ((pipeline.buffer.path.parent,) if pipeline.buffer.path is not None else ())
        for path in dict.fromkeys([*opened, *_pipelines_in(folders)]):
            if path != pipeline.buffer.path:
                try:
                    found.append(read(opened.get(path) or _buffer_of(path), texts))
                except (UsageError, OSError):
                    continue  # it went away, or is not for us to read
        return found

    def _texts(self) -> dict[str, str]:
        paths = ((buffer.path, buffer.text) for buffer in self._buffers.values())
        return {Opened({}).identity(path): text for path, text in paths if path is not None}


def _pipelines_in(folders: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for folder in folders:
        try:
            pipelines = discover([str(folder)], sys.stdin.buffer).files
            found += [file.path.absolute() for file in pipelines if file.path is not None]
        except UsageError:
            continue  # there is none
    return found


def _buffer_of(path: Path) -> Buffer:
    return Buffer(path.absolute().as_uri(), None, path.read_text(encoding="utf-8", errors="replace"))


def _is_ours(buffer: Buffer) -> bool:
    """Return whether a text is a pipeline, by its name or by its keys: editors send every YAML file."""
    path = buffer.path
    return (path is not None and path.stem == "pipelines") or is_pipeline(encode(buffer.text))


def _options_in(said: Any) -> Options:
    said = said if isinstance(said, dict) else {}
    return Options(pedantic=said.get("pedantic") is True, plugins=said.get("plugins") is True)
