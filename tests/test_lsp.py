"""`bub lsp`, driven by a client that others wrote (pygls), and by clients that break the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from bub.runtime.trust import trust

BUB = (sys.executable, "-m", "bub", "lsp")
PATIENCE = 20

BASE = """\
version: 1
extends: bub:default
hooks:
  moderate: {kind: gate, takes: [prompt]}
stages:
  moderate: {before: run_model, timeout: 5s}
plugins:
  guard: {path: guard.py}
profiles:
  default: {plugins: [guard]}
"""
CHILD = """\
version: 1
extends: base.yaml
stages:
  "moderate": {timeout: 2s}
  look_up: {kind: void, hook: message_received, after: moderate, timeout: 5s}
profiles:
  guests:
    extends: default
    stages: {moderate: {timeout: 3s}}
tests:
  denied: {message: {}, mock: {moderate: {return: {deny: "no"}}}, expect: {ended_by: "denied:moderate"}}
  skips: {message: {}, mock: {moderate: {return: {deny: "no"}}}, expect: {skipped: [run_model]}}
"""


class Editor:
    """A client with what it was told: the findings of each file, as they come."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.found: dict[str, list[lsp.Diagnostic]] = {}
        self.told = asyncio.Event()

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def document(self, name: str) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri(name))

    async def open(self, name: str, text: str | None = None) -> list[lsp.Diagnostic]:
        text = (self.folder / name).read_text(encoding="utf-8") if text is None else text
        item = lsp.TextDocumentItem(self.uri(name), "yaml", 1, text)
        return await self._findings_after(
            name, lambda: self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        )

    async def change(self, name: str, *changes: Any, version: int = 2) -> list[lsp.Diagnostic]:
        document = lsp.VersionedTextDocumentIdentifier(version, self.uri(name))
        params = lsp.DidChangeTextDocumentParams(document, list(changes))
        return await self._findings_after(name, lambda: self.client.text_document_did_change(params))

    async def _findings_after(self, name: str, act: Callable[[], None]) -> list[lsp.Diagnostic]:
        self.found.pop(self.uri(name), None)
        act()
        return await self.findings(name)

    async def findings(
        self, name: str, wanted: Callable[[list[lsp.Diagnostic]], bool] = lambda _: True
    ) -> list[lsp.Diagnostic]:
        async with asyncio.timeout(PATIENCE):
            while not (self.uri(name) in self.found and wanted(self.found[self.uri(name)])):
                self.told.clear()
                await self.told.wait()
        return self.found[self.uri(name)]


def at(text: str, words: str, shift: int = 0) -> lsp.Position:
    """The position of words that occur in a text, in units of UTF-16."""
    before = text[: text.index(words) + shift]
    line = before.rpartition("\n")[2]
    return lsp.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)


def codes(findings: list[lsp.Diagnostic]) -> list[str]:
    return [str(finding.code) for finding in findings]


@asynccontextmanager
async def editing(
    folder: Path, *, home: Path | None = None, encodings: list[str] | None = None, **options: Any
) -> AsyncIterator[Editor]:
    client = LanguageClient("test", "1")
    editor = Editor(client, folder)

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def keep(params: lsp.PublishDiagnosticsParams) -> None:
        editor.found[params.uri] = list(params.diagnostics)
        editor.told.set()

    environ = {**os.environ, "BUB_HOME": str(home or folder / "home")}
    await client.start_io(*BUB, env=environ, cwd=folder)
    capabilities = lsp.ClientCapabilities(
        general=lsp.GeneralClientCapabilities(
            position_encodings=[lsp.PositionEncodingKind(one) for one in encodings or ["utf-16"]]
        )
    )
    folders = [lsp.WorkspaceFolder(folder.as_uri(), "here")]
    await client.initialize_async(
        lsp.InitializeParams(capabilities, initialization_options=options, workspace_folders=folders)
    )
    client.initialized(lsp.InitializedParams())
    try:
        yield editor
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


def drive(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 3 * PATIENCE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE, encoding="utf-8")
    (tmp_path / "child.yaml").write_text(CHILD, encoding="utf-8")
    (tmp_path / "guard.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"
        "from bub import hookimpl\n@hookimpl\ndef moderate(prompt):\n    return None\n"
        "@hookimpl\ndef no_such_hook():\n    pass\n",
        encoding="utf-8",
    )
    return tmp_path


def test_findings_come_while_somebody_types_and_go_when_it_is_right(folder: Path) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            assert await editor.open("base.yaml") == []
            start = at(BASE, "run_model")
            end = lsp.Position(start.line, start.character + len("run_model"))
            (finding,) = await editor.change(
                "base.yaml", lsp.TextDocumentContentChangePartial(lsp.Range(start, end), "run_modle")
            )
            assert (finding.code, finding.range, finding.severity) == (
                "B120",
                lsp.Range(start, end),
                lsp.DiagnosticSeverity.Error,
            )
            assert "did you mean `run_model`?" in finding.message
            assert await editor.change("base.yaml", lsp.TextDocumentContentChangeWholeDocument(BASE), version=3) == []

    drive(story)


def test_a_file_that_extends_another_is_checked_with_what_is_open_of_that(folder: Path) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            assert await editor.open("child.yaml") == []
            await editor.open("base.yaml")
            text = BASE.replace("  moderate: {before: run_model, timeout: 5s}\n", "  {}\n")
            await editor.change("base.yaml", lsp.TextDocumentContentChangeWholeDocument(text))
            findings = await editor.findings("child.yaml", bool)
            assert codes(findings) == ["B122"]  # `moderate` is a new stage now, and does not say where it stands

    drive(story)


def test_a_mistake_in_a_parent_shows_where_it_is_named(folder: Path) -> None:
    (folder / "base.yaml").write_text(BASE.replace("run_model", "run_modle"), encoding="utf-8")

    async def story() -> None:
        async with editing(folder) as editor:
            (finding,) = await editor.open("child.yaml")
            assert finding.range.start == at(CHILD, "base.yaml")
            assert finding.message.startswith("base.yaml:6: ")

    drive(story)


def test_a_repair_is_offered_and_makes_the_finding_go(folder: Path) -> None:
    text = BASE.replace("run_model", '"run_modle"')

    async def story() -> None:
        async with editing(folder) as editor:
            (finding,) = await editor.open("base.yaml", text)
            (action,) = (
                await editor.client.text_document_code_action_async(
                    lsp.CodeActionParams(editor.document("base.yaml"), finding.range, lsp.CodeActionContext([finding]))
                )
                or []
            )
            assert isinstance(action, lsp.CodeAction) and action.edit is not None and action.edit.changes is not None
            (edit,) = action.edit.changes[editor.uri("base.yaml")]
            assert (edit.new_text, edit.range) == ('"run_model"', finding.range)
            assert (
                await editor.change("base.yaml", lsp.TextDocumentContentChangePartial(edit.range, edit.new_text)) == []
            )

    drive(story)


async def hover(editor: Editor, name: str, position: lsp.Position) -> str:
    shown = await editor.client.text_document_hover_async(lsp.HoverParams(editor.document(name), position))
    return shown.contents.value if shown is not None and isinstance(shown.contents, lsp.MarkupContent) else ""


def test_hovering_shows_what_explain_says(folder: Path) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            await editor.open("child.yaml")
            stage = await hover(editor, "child.yaml", at(CHILD, "look_up", 2))
            assert "message_received" in stage and "void" in stage
            named = await hover(editor, "child.yaml", at(CHILD, "after: moderate", 9))
            assert "gate" in named and "base.yaml:6" in named
            value = await hover(editor, "child.yaml", at(CHILD, "2s", 1))
            assert "base.yaml:6" in value and "child.yaml:4" in value
            assert await hover(editor, "child.yaml", lsp.Position(999, 0)) == ""

    drive(story)


HEAD = "version: 1\nextends: bub:default\n"
COMPLETED = {
    "a key of the file": ("sta|", "stages", "version"),
    "a stage that is inherited": ("stages:\n  ru|\n", "run_model", "timeout"),
    "a key of a stage": ("stages:\n  run_model:\n    tim|\n", "timeout", "stages"),
    "a key in braces that are open": (
        "stages:\n  run_model: {ti|",
        "timeout",
        "stages",
    ),
    "a second key in braces": (
        "stages:\n  run_model: {timeout: 5s, on|}\n",
        "on_failure",
        "timeout",
    ),
    "a kind": ("hooks:\n  mine: {kind: |}\n", "gate", "kind"),
    "a stage to stand before": (
        "stages:\n  save_state: {before: |\nprofiles: {}\n",
        "run_model",
        "timeout",
    ),
    "a stage in a list": (
        "stages:\n  save_state:\n    needs: [load_state, |\n",
        "run_model",
        "needs",
    ),
    "a stage in a list of lines": (
        "stages:\n  save_state:\n    needs:\n      - lo|\n",
        "load_state",
        "needs",
    ),
    "a hook point": (
        "stages:\n  x: {kind: void, hook: mess|}\n",
        "message_received",
        "kind",
    ),
    "a hook point under hooks": ("hooks:\n  tool|\n", "tool_gate", "stages"),
    "a plugin": (
        "plugins: {mine: {path: m.py}}\nprofiles:\n  default: {plugins: [|]}\n",
        "mine",
        "plugins",
    ),
    "an installed plugin": (
        "profiles:\n  default: {plugins: [tele|]}\n",
        "telegram",
        "plugins",
    ),
    "a tool": (
        "profiles:\n  default: {tools: {allow: [fs.|]}}\n",
        "fs.read",
        "allow",
    ),
    "a mock of the model": ("tests:\n  t:\n    mock:\n      call|\n", "call_model", "return"),
    "what a mock does": ("tests:\n  t:\n    mock:\n      run_model: {an|}\n", "answers", "then"),
    "a mocked tool": ("tests:\n  t:\n    mock_tools:\n      fs|\n", "fs.read", "run_model"),
    "a mock whose calls are looked at": (
        "tests:\n  t:\n    mock: {load_state: {return: {}}}\n    expect:\n      calls:\n        lo|\n",
        "load_state",
        "run_model",
    ),
    "what a text has to be like": ("tests:\n  t:\n    expect:\n      model_output: {ma|}\n", "matches", "prompt"),
    "what is expected of a further message": ("tests:\n  t:\n    then:\n      - expect: {str|}\n", "streamed", "then"),
    "a setting": ("settings:\n  mod|\n", "model", "stages"),
    "a provider": ("settings: {model: anth|}\n", "anthropic:", "model"),
    "true or false": ("stages: {save_state: {enabled: |}}\n", "false", "enabled"),
    "a parent": ("extends: bub:e|\n", "bub:ethos", "version"),
    "a profile of a route": (
        "profiles: {guests: {}}\nroutes:\n  - {match: {channel: cli}, profile: |}\n",
        "guests",
        "match",
    ),
    "a word in quotes": (
        'stages: {save_state: {before: "ru|"}}\n',
        "run_model",
        "needs",
    ),
    "while another line is broken": (
        "stages:\n  run_model: {ti|\n  save_state: {: [\n",
        "timeout",
        "stages",
    ),
}


@pytest.mark.parametrize(("text", "offered", "not_offered"), COMPLETED.values(), ids=COMPLETED)
def test_what_fits_is_offered(tmp_path: Path, text: str, offered: str, not_offered: str) -> None:
    text = f"version: 1\n{text}" if text.startswith("extends") else HEAD + text
    plain, position = text.replace("|", ""), at(text, "|")

    async def story() -> None:
        async with editing(tmp_path) as editor:
            await editor.open("pipelines.yaml", plain)
            found = await editor.client.text_document_completion_async(
                lsp.CompletionParams(editor.document("pipelines.yaml"), position)
            )
            assert isinstance(found, lsp.CompletionList)
            labels = [item.label for item in found.items]
            assert offered in labels
            assert not_offered not in labels
            assert len(set(labels)) == len(labels)
            # Neovim takes an item with an edit of its own and without this text for one that fits whatever is typed.
            assert [item.filter_text for item in found.items] == labels

    drive(story)


def test_a_name_leads_to_where_it_is_defined_also_in_a_shipped_file(folder: Path) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            await editor.open("child.yaml")
            for words, shift, file, line in (
                ("after: moderate", 9, folder / "base.yaml", 5),
                ("[run_model]", 3, None, None),
                ("guests:", 3, folder / "child.yaml", 6),
            ):
                found = await editor.client.text_document_definition_async(
                    lsp.DefinitionParams(editor.document("child.yaml"), at(CHILD, words, shift))
                )
                assert isinstance(found, list) and isinstance(found[0], lsp.Location)
                if file is not None:
                    assert (found[0].uri, found[0].range.start.line) == (file.as_uri(), line)
                else:
                    assert found[0].uri.endswith("pipelines/default.yaml")

    drive(story)


def apply_changes(folder: Path, edit: lsp.WorkspaceEdit | None) -> set[str]:
    """Write what an edit says into the files, and return their names."""
    assert edit is not None and edit.changes is not None
    for uri, edits in edit.changes.items():
        path = folder / uri.rpartition("/")[2]
        lines = path.read_text(encoding="utf-8").split("\n")
        for one in sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
            line = lines[one.range.start.line]
            lines[one.range.start.line] = (
                line[: one.range.start.character] + one.new_text + line[one.range.end.character :]
            )
        path.write_text("\n".join(lines), encoding="utf-8")
    return {uri.rpartition("/")[2] for uri in edit.changes}


@pytest.mark.parametrize("open_file", ["child.yaml", "base.yaml"])
def test_a_stage_is_renamed_in_all_files_that_speak_of_it_and_calls_the_same_hook(folder: Path, open_file: str) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            await editor.open(open_file)
            text = (folder / open_file).read_text(encoding="utf-8")
            position = at(text, "moderate: {before", 3) if open_file == "base.yaml" else at(text, "after: moderate", 9)
            ready = await editor.client.text_document_prepare_rename_async(
                lsp.PrepareRenameParams(editor.document(open_file), position)
            )
            assert isinstance(ready, lsp.PrepareRenamePlaceholder) and ready.placeholder == "moderate"
            edit = await editor.client.text_document_rename_async(
                lsp.RenameParams(editor.document(open_file), position, "check_prompt")
            )
            assert apply_changes(folder, edit) == {"base.yaml", "child.yaml"}

    drive(story)
    base, child = ((folder / name).read_text(encoding="utf-8") for name in ("base.yaml", "child.yaml"))
    assert "check_prompt: {hook: moderate, before: run_model, timeout: 5s}" in base
    assert "  moderate: {kind: gate, takes: [prompt]}" in base  # the hook point keeps its name
    assert '"check_prompt": {timeout: 2s}' in child
    assert 'ended_by: "denied:check_prompt"' in child
    assert "moderate" not in child
    done = subprocess.run(
        [sys.executable, "-m", "bub", "validate", "."], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "2 files are fine\n")


@pytest.mark.parametrize("open_files", [["base.yaml"], ["team/child.yaml"], ["team/child.yaml", "base.yaml"]])
def test_a_file_that_one_of_another_folder_extends_is_changed_once(folder: Path, open_files: list[str]) -> None:
    below = folder / "team folder+"
    below.mkdir()
    (folder / "child.yaml").rename(below / "child.yaml")
    names = [name.replace("team", below.name) for name in open_files]
    (below / "child.yaml").write_text(CHILD.replace("base.yaml", "../base.yaml"), encoding="utf-8")

    async def story() -> None:
        async with editing(folder) as editor:
            # As editors write addresses that Python writes otherwise.
            editor.uri = lambda name: (folder / name).as_uri().replace("%2B", "+")  # type: ignore[method-assign]
            for name in names:
                await editor.open(name)
            text = (folder / names[0]).read_text(encoding="utf-8")
            position = at(text, "moderate: {before", 3) if names[0] == "base.yaml" else at(text, "after: moderate", 9)
            defined = await editor.client.text_document_definition_async(
                lsp.DefinitionParams(editor.document(names[0]), position)
            )
            assert isinstance(defined, list) and isinstance(defined[0], lsp.Location)
            assert defined[0].uri == (folder / "base.yaml").as_uri()
            edit = await editor.client.text_document_rename_async(
                lsp.RenameParams(editor.document(names[0]), position, "check_prompt")
            )
            assert edit is not None and edit.changes is not None
            assert sorted(len(edits) for edits in edit.changes.values()) == [2, 6]
            child = f"{below.name}/child.yaml"
            address = editor.uri(child) if child in names else (below / "child.yaml").as_uri()
            assert set(edit.changes) == {editor.uri("base.yaml"), address}

    drive(story)


def test_what_is_not_saved_yet_in_another_file_is_renamed_where_it_stands(folder: Path) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            await editor.open("base.yaml", f"# not saved\n\n{BASE}")
            await editor.open("child.yaml")
            edit = await editor.client.text_document_rename_async(
                lsp.RenameParams(editor.document("child.yaml"), at(CHILD, "after: moderate", 9), "check_prompt")
            )
            assert edit is not None and edit.changes is not None
            assert {one.range.start.line for one in edit.changes[editor.uri("base.yaml")]} == {7}

    drive(story)


@pytest.mark.parametrize(
    ("words", "shift", "name", "reason"),
    [
        ("[run_model]", 3, "ask", "is one of bub:default"),
        ("after: moderate", 9, "run_model", "already"),
        ("after: moderate", 9, "Not A Name", "small letters"),
        ("message_received", 3, "other", "only stages and profiles"),
    ],
)
def test_what_cannot_be_renamed_says_why(folder: Path, words: str, shift: int, name: str, reason: str) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            await editor.open("child.yaml")
            params = lsp.RenameParams(editor.document("child.yaml"), at(CHILD, words, shift), name)
            with pytest.raises(JsonRpcException, match=reason):
                await editor.client.text_document_rename_async(params)

    drive(story)


def test_the_outline_lists_the_sections_and_their_names(folder: Path) -> None:
    async def story() -> None:
        async with editing(folder) as editor:
            await editor.open("child.yaml")
            found = await editor.client.text_document_document_symbol_async(
                lsp.DocumentSymbolParams(editor.document("child.yaml"))
            )
            symbols = {one.name: one for one in found or [] if isinstance(one, lsp.DocumentSymbol)}
            assert list(symbols) == ["version", "extends", "stages", "profiles", "tests"]
            assert [one.name for one in symbols["stages"].children or []] == ["moderate", "look_up"]

    drive(story)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_columns_are_counted_as_the_client_counts_them(tmp_path: Path, encoding: str) -> None:
    text = 'version: 1\nextends: bub:default\nstages: {save_state: {when: {content: "😀😀"}, before: render_outbond}}\n'

    async def story() -> None:
        async with editing(tmp_path, encodings=[encoding, "utf-16"]) as editor:
            (finding,) = await editor.open("pipelines.yaml", text)
            line = text.splitlines()[2]
            start = line.index("render_outbond") + (2 if encoding == "utf-16" else 0)
            assert finding.range.start == lsp.Position(2, start)
            # Behind the two signs, as the client counts them.
            span = lsp.Range(finding.range.start, finding.range.end)
            assert (
                await editor.change("pipelines.yaml", lsp.TextDocumentContentChangePartial(span, "render_outbound"))
                == []
            )

    drive(story)


def test_other_yaml_is_left_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with editing(tmp_path) as editor:
            item = lsp.TextDocumentItem(editor.uri("compose.yaml"), "yaml", 1, "services: {web: {image: x}}\n")
            editor.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
            assert await hover(editor, "compose.yaml", lsp.Position(0, 2)) == ""
            assert await editor.open("pipelines.yaml", "version: 1\nextend: bub:default\n") != []
            assert editor.uri("compose.yaml") not in editor.found

    drive(story)


# Plugins


@pytest.mark.parametrize(("trusted", "plugins"), [(False, True), (True, False), (False, False)])
def test_no_module_of_a_folder_is_imported_unless_it_is_trusted_and_the_editor_says_so(
    folder: Path, trusted: bool, plugins: bool
) -> None:
    home = folder / "home"
    if trusted:
        subprocess.run(
            [sys.executable, "-m", "bub", "-w", str(folder), "trust"],
            env={**os.environ, "BUB_HOME": str(home)},
            check=True,
            capture_output=True,
        )

    async def story() -> None:
        async with editing(folder, home=home, plugins=plugins) as editor:
            await editor.open("base.yaml")
            editor.client.text_document_did_save(lsp.DidSaveTextDocumentParams(editor.document("base.yaml")))
            await hover(editor, "base.yaml", at(BASE, "moderate", 2))
            await editor.change("base.yaml", lsp.TextDocumentContentChangeWholeDocument(BASE + "\n"))

    drive(story)
    assert not (folder / "imported").exists()


def test_a_trusted_file_is_proved_with_its_plugins_when_it_is_saved_if_the_editor_says_so(folder: Path) -> None:
    home = folder / "home"
    trust(folder, home)

    async def story() -> None:
        async with editing(folder, home=home, plugins=True) as editor:
            await editor.open("base.yaml")
            findings = await editor.findings("base.yaml", bool)
            (finding,) = [one for one in findings if one.code == "B201"]  # the hook that does not exist
            assert finding.range.start == at(BASE, "guard.py")
            assert finding.message.startswith("guard.py:8: ")
            changed = await editor.change("base.yaml", lsp.TextDocumentContentChangeWholeDocument(BASE + "# more\n"))
            assert "B201" not in codes(changed)  # of a text that was not proved, nothing is said

    drive(story)


# Clients that break the protocol


def frame(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def request(number: int, method: str, params: object = None) -> bytes:
    return frame({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notify(method: str, params: object) -> bytes:
    return frame({"jsonrpc": "2.0", "method": method, "params": params})


INITIALIZE = request(1, "initialize", {"capabilities": {}})
END = request(99, "shutdown") + frame({"jsonrpc": "2.0", "method": "exit"})


def converse(folder: Path, data: bytes) -> tuple[int, list[dict[str, Any]], str]:
    """What the server answers to these bytes: its exit code, its messages, and what it printed."""
    environ = {**os.environ, "BUB_HOME": str(folder / "home")}
    done = subprocess.run(BUB, input=data, cwd=folder, env=environ, capture_output=True, timeout=60, check=False)
    bodies = re.split(rb"Content-Length: \d+\r\n\r\n", done.stdout)[1:]
    return done.returncode, [json.loads(body) for body in bodies], done.stderr.decode()


def opened(folder: Path, text: str) -> bytes:
    uri = (folder / "pipelines.yaml").as_uri()
    return notify("textDocument/didOpen", {"textDocument": {"uri": uri, "version": 1, "text": text}})


BROKEN = {
    "nothing at all": b"",
    "a header that ends": b"Content-Le",
    "a body that ends": INITIALIZE + b"Content-Length: 500\r\n\r\n{",
    "no length": b"Content-Type: x\r\n\r\n{}",
    "a length that is no number": b"Content-Length: many\r\n\r\n{}",
    "an endless header": b"x" * 100_000,
    "no JSON": INITIALIZE + frame(b"{nonsense") + END,
    "JSON too deep": INITIALIZE + frame(b"[" * 200_000) + END,
    "no object": INITIALIZE + frame([1, 2]) + frame(7) + END,
    "no method": INITIALIZE + frame({"id": 3}) + END,
    "parameters of another shape": INITIALIZE
    + request(2, "textDocument/hover", [1])
    + request(3, "textDocument/hover", {"textDocument": "x"})
    + notify("textDocument/didChange", {"textDocument": {"uri": 5}, "contentChanges": 3})
    + END,
    "an unknown method": INITIALIZE + request(2, "no/such") + notify("no/such", {}) + END,
    "strange numbers": INITIALIZE + frame({"id": {"a": 1}, "method": "shutdown"}) + END,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_client_sees_no_traceback(tmp_path: Path, data: bytes) -> None:
    code, answers, errors = converse(tmp_path, data)
    assert "Traceback" not in errors
    assert code == (0 if data.endswith(END) else 1)
    if data.endswith(END):
        assert any(answer.get("id") == 99 for answer in answers)


def test_a_request_before_the_first_one_is_refused(tmp_path: Path) -> None:
    _, answers, _ = converse(tmp_path, request(2, "textDocument/hover", {}) + INITIALIZE + END)
    assert answers[0]["error"]["code"] == -32002
    assert answers[1]["result"]["capabilities"]["hoverProvider"] is True


@pytest.mark.parametrize("size", [5_000_000])
def test_a_huge_text_is_a_finding_and_no_trouble(tmp_path: Path, size: int) -> None:
    text = "version: 1\nextends: bub:default\n# " + "x" * size
    uri = (tmp_path / "pipelines.yaml").as_uri()
    ask = request(2, "textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 3}})
    _, answers, errors = converse(tmp_path, INITIALIZE + opened(tmp_path, text) + ask + END)
    assert "Traceback" not in errors
    (hovered,) = (answer for answer in answers if answer.get("id") == 2)
    assert hovered["result"] is None


def test_changes_out_of_range_change_what_there_is(tmp_path: Path) -> None:
    uri = (tmp_path / "pipelines.yaml").as_uri()
    far = {"start": {"line": 900, "character": 9}, "end": {"line": -4, "character": 10**9}}
    change = notify(
        "textDocument/didChange",
        {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"range": far, "text": "# end"}]},
    )
    code, _, errors = converse(tmp_path, INITIALIZE + opened(tmp_path, "version: 1\n") + change + END)
    assert (code, errors) == (0, "")
