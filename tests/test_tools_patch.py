"""`fs.patch`, and `fs.edit` with several edits: all of a change or nothing, and errors that say how to mend it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.agent.tools import files
from bub.agent.tools.reach import AllowedPath
from bub.agent.tools.unified import apply_hunks, parse_diff
from bub.tools import Tool, ToolContext, ToolError, ToolPolicy, ToolResult

TOOLS = {tool.name: tool for tool in files.file_tools()}

Call = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 1\n", "utf-8")
    (folder / "b.txt").write_text("first\nsecond\nthird\n", "utf-8")
    return folder


@pytest.fixture
def call(folder: Path) -> Call:
    return partial(called, folder)


def called(folder: Path, name: str, /, **arguments: object) -> str:
    tool = TOOLS[name]
    result = trio.run(tool.call, tool.check(arguments), ToolContext("s", folder))
    return result.text if isinstance(result, ToolResult) else str(result)


def refusal(call: Call, name: str, /, **arguments: object) -> str:
    with pytest.raises(ToolError) as caught:
        call(name, **arguments)
    return str(caught.value)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Several edits


def test_several_edits_are_made_in_their_order(call: Call, folder: Path) -> None:
    edits = [{"old": "def one", "new": "def uno"}, {"old": "uno", "new": "eins"}, {"old": "1", "new": "2", "all": True}]
    assert call("fs.edit", path="a.py", edits=edits) == "edited a.py at line 1; line 1; 2 places, lines 2, 6"
    assert (folder / "a.py").read_text("utf-8") == "def eins():\n    return 2\n\n\ndef two():\n    return 2\n"


def test_of_several_edits_none_is_made_if_one_does_not_fit(call: Call, folder: Path) -> None:
    before = contents(folder)
    edits = [{"old": "def one", "new": "def uno"}, {"old": "return 1", "new": "x"}, {"old": "nope", "new": "y"}]
    told = refusal(call, "fs.edit", path="a.py", edits=edits).splitlines()
    assert told[0] == "nothing was changed, since not all edits fit"
    assert told[1].startswith("edit 2 of 3: `old` occurs in a.py at 2 places, lines 2, 6 (")
    assert told[2].startswith("edit 3 of 3: `old` does not occur in a.py (")
    assert contents(folder) == before
    assert "both given" in refusal(call, "fs.edit", path="a.py", old="x", new="y", edits=edits)
    assert "`old` is empty" in refusal(call, "fs.edit", path="a.py")


# What a patch does

PATCH = """\
diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -1,2 +1,3 @@
 def one():
+    # the first
     return 1
@@ -5,2 +6,2 @@ def two():
 def two():
-    return 1
+    return 2
diff --git a/new/c.txt b/new/c.txt
new file mode 100644
--- /dev/null
+++ b/new/c.txt
@@ -0,0 +1,2 @@
+hello
+there
diff --git a/b.txt b/docs/b.md
similarity index 90%
rename from b.txt
rename to docs/b.md
--- a/b.txt
+++ b/docs/b.md
@@ -2,2 +2,2 @@
 second
-third
+3rd
"""


def test_a_patch_changes_makes_and_renames_files_at_once(call: Call, folder: Path) -> None:
    (folder / "b.txt").chmod(0o640)
    assert call("fs.patch", patch=PATCH).splitlines() == [
        "changed a.py at lines 1, 5",
        "made new/c.txt, 12 bytes",
        "renamed b.txt to docs/b.md, changed at line 2",
    ]
    assert contents(folder) == {
        "a.py": b"def one():\n    # the first\n    return 1\n\n\ndef two():\n    return 2\n",
        "new/c.txt": b"hello\nthere\n",
        "docs/b.md": b"first\nsecond\n3rd\n",
    }
    assert stat.S_IMODE((folder / "docs/b.md").stat().st_mode) == 0o640


def test_a_patch_deletes_a_file(call: Call, folder: Path) -> None:
    gone = "--- a/b.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-first\n-second\n-third\n"
    kept = gone.replace("-third\n", "")
    assert "does not have all its lines" in refusal(call, "fs.patch", patch=kept)
    assert call("fs.patch", patch=gone) == "deleted b.txt"
    assert call("fs.patch", patch="--- a/a.py\n+++ /dev/null\n") == "deleted a.py"
    assert contents(folder) == {}


def test_the_numbers_of_a_patch_may_be_wrong(call: Call, folder: Path) -> None:
    """Models count badly, leave the space of an empty line out, and put the patch into a block."""
    patch = "--- a.py\n+++ a.py\n@@ -70,9 +1,1 @@\n     return 1\n\n\n def two():\n-    return 1\n+    return 2\n"
    patch = f"```diff\n{patch}```\n"
    assert call("fs.patch", patch=patch) == "changed a.py at line 2"
    assert call("fs.patch", patch="--- b.txt\n+++ b.txt\n@@\n second\n-third\n+3\n\n\n") == "changed b.txt at line 2"
    assert (folder / "a.py").read_text("utf-8").endswith("return 2\n")
    assert (folder / "b.txt").read_text("utf-8") == "first\nsecond\n3\n"


def test_of_several_places_the_number_decides(call: Call, folder: Path) -> None:
    hunk = "--- a/a.py\n+++ b/a.py\n@@ -{},1 +1,1 @@\n-    return 1\n+    return 2\n"
    told = refusal(call, "fs.patch", patch=hunk.format(3))
    assert "its lines are in 2 places, at lines 2, 6: add context so that they are in one" in told
    assert call("fs.patch", patch=hunk.format(6)) == "changed a.py at line 6"
    assert (folder / "a.py").read_text("utf-8").endswith("two():\n    return 2\n")


def test_removed_lines_that_look_like_names_are_lines(call: Call, folder: Path) -> None:
    (folder / "q.sql").write_text("-- a/q.sql\nselect 1;\n", "utf-8")
    patch = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n select 1;\n--- a/q.sql\n+++ b/q.sql\n"
    assert "line 3 of the file" not in refusal(call, "fs.patch", patch=patch)
    patch = "--- a/q.sql\n+++ b/q.sql\n@@ -1,1 +1,1 @@\n--- a/q.sql\n+++ b/q.sql\n"
    assert call("fs.patch", patch=patch) == "changed q.sql at line 1"
    assert (folder / "q.sql").read_text("utf-8") == "++ b/q.sql\nselect 1;\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nnew\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nB\nnew\nc"),
        (b"a\nb\r\nc\xff\n", None),
        (b"a\r\nb", b"a\r\nB\r\nnew"),
        (b"a\nb", b"a\nB\nnew"),
    ],
)
def test_line_ends_and_the_final_newline_stay(before: bytes, after: bytes | None, call: Call, folder: Path) -> None:
    file = folder / "x"
    file.write_bytes(before)
    rest = " c\r\n" if b"c" in before else ""
    patch = f"--- a/x\r\n+++ b/x\r\n@@ -1,3 +1,4 @@\r\n a\r\n-b\r\n+B\r\n+new\r\n{rest}"
    if after is None:
        assert "line 3 of the file is" in refusal(call, "fs.patch", patch=patch)
        assert file.read_bytes() == before
        return
    call("fs.patch", patch=patch)
    assert file.read_bytes() == after


def test_bytes_that_are_no_text_stay(call: Call, folder: Path) -> None:
    (folder / "x").write_bytes(b"gr\xfcn\none\n")
    call("fs.patch", patch="--- a/x\n+++ b/x\n@@ -2 +2 @@\n-one\n+two\n")
    assert (folder / "x").read_bytes() == b"gr\xfcn\ntwo\n"


@pytest.mark.parametrize(
    ("before", "marks", "after"),
    [
        ("a\nb", ("-b\n\\ No newline at end of file\n+b\n"), "a\nb\n"),
        ("a\nb\n", ("-b\n+b\n\\ No newline at end of file\n"), "a\nb"),
        ("a\nb", ("-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"), "a\nc"),
    ],
)
def test_a_patch_can_say_that_there_is_no_final_newline(
    before: str, marks: str, after: str, call: Call, folder: Path
) -> None:
    (folder / "x").write_text(before, "utf-8")
    call("fs.patch", patch=f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n{marks}")
    assert (folder / "x").read_text("utf-8") == after


# What does not fit


def test_each_hunk_that_does_not_fit_says_why_and_nothing_is_changed(call: Call, folder: Path) -> None:
    before = contents(folder)
    patch = (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@ one\n def one():\n-\treturn 1\n+\treturn 2\n"
        "@@ -5,2 +5,2 @@\n def two():\n-    return 3\n+    return 4\n"
        "@@ -9 +9 @@\n-elsewhere\n+x\n"
        "--- a/b.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n-1st\n+first\n second\n"
        "@@ -3 +3 @@\n-third\n+3rd\n"
        "--- a/none.txt\n+++ b/none.txt\n@@ -1 +1 @@\n-a\n+b\n"
        "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+x\n"
    )
    hunk = "line {} of the file is `    return 1`, but the hunk has `{}return {}` there"
    spaces = "; they differ in spaces or tabs only, which count"
    assert refusal(call, "fs.patch", patch=patch).splitlines() == [
        "nothing was changed, since the patch does not fit",
        f"a.py: hunk 1 of 3 (`@@ -1,2 +1,2 @@ one`): {hunk.format(2, chr(92) + 't', 1)}{spaces}",
        f"a.py: hunk 2 of 3 (`@@ -5,2 +5,2 @@`): {hunk.format(6, '    ', 3)}",
        "a.py: hunk 3 of 3 (`@@ -9 +9 @@`): none of its lines is in the file: read the file again",
        "b.txt: hunk 1 of 2 (`@@ -1,2 +1,2 @@`): the file has this change already, at line 1",
        "none.txt: there is no such file; to make one, write `--- /dev/null`",
        "b.txt: there is such a file already; to change it, write its name behind `---`, too",
    ]
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("", "there is no file in it: it has to have `--- a/FILE` and `+++ b/FILE` above its hunks"),
        ("nothing of the kind", "there is no file in it"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a hunk comes before the first `--- a/FILE`"),
        ("--- a/b.txt\n+++ b/b.txt\n", "b.txt: there is no hunk for it"),
        ("--- a/b.txt\n+++ b/b.txt\n@@\n first\n", "the hunk `@@` changes nothing"),
        ("--- a/b.txt\n+++ b/b.txt\n@@\n-first\n+1\nsecond\n", "line 6 of the patch, `second`, begins with neither"),
        ("--- a/b.txt\n+++ b/b.txt\n@@ -2,0 +3 @@\n+x\n", "only new lines, so its place is unknown"),
        (
            "--- a/b.txt\n+++ b/b.txt\n@@\n second\n-third\n+3\n+4\n fourth\n",
            "`fourth` behind line 3, where the file ends",
        ),
        ("--- a/b.txt\n+++ b/b.txt\n@@\n-second\n+2\n@@\n second\n-third\n+3\n", "overlap: make one of them"),
        ("--- /dev/null\n+++ /dev/null\n@@\n+x\n", "it has no name"),
        ("*** Begin Patch\n*** Update File: b.txt\n", "is in another form: write a unified diff"),
        ("diff --git a/b.txt b/b.txt\nold mode 100644\nnew mode 100755\n", "changes a mode"),
        ("diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n", "no text"),
        (
            "diff --git a/b.txt b/a.py\nrename from b.txt\nrename to a.py\n",
            "cannot get this name: there",
        ),
        ("--- a/b.txt\n+++ b/b.txt\n@@\n-first\n+\ud800\n", "half a character"),
    ],
)
def test_what_is_wrong_with_a_patch_is_said(patch: str, told: str, call: Call, folder: Path) -> None:
    before = contents(folder)
    assert told in refusal(call, "fs.patch", patch=patch)
    assert contents(folder) == before


# Staying inside


def test_a_patch_stays_where_the_other_tools_do(call: Call, folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    outside.write_text("dear diary\n", "utf-8")
    (folder / "out").symlink_to(outside)
    (folder / "pipelines.yaml").write_text("version: 1\n", "utf-8")
    (folder / ".env").write_text("KEY=1\n", "utf-8")
    for name in ("../outside.txt", "out", str(outside)):
        told = refusal(call, "fs.patch", patch=f"--- {name}\n+++ {name}\n@@\n-dear diary\n+x\n")
        assert "outside of the workspace" in told and "diary`" not in told
    for name, line in (("pipelines.yaml", "version: 1"), (".env", "KEY=1")):
        assert refusal(call, "fs.patch", patch=f"--- a/{name}\n+++ /dev/null\n@@\n-{line}\n")
        assert refusal(call, "fs.patch", patch=f"diff --git a/b.txt b/{name}\nrename from b.txt\nrename to {name}\n")
    assert outside.read_text("utf-8") == "dear diary\n"
    assert (folder / ".env").exists() and (folder / "pipelines.yaml").exists() and (folder / "b.txt").exists()


def test_a_link_is_changed_through_but_not_deleted(call: Call, folder: Path) -> None:
    (folder / "link").symlink_to("b.txt")
    assert call("fs.patch", patch="--- a/link\n+++ b/link\n@@\n-first\n+1\n") == "changed b.txt at line 1"
    assert "it is a link" in refusal(call, "fs.patch", patch="--- a/link\n+++ /dev/null\n")
    assert (folder / "b.txt").read_text("utf-8") == "1\nsecond\nthird\n"


def test_a_failure_on_the_way_takes_back_what_was_written(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the third file: what stands for it is an error at the last moment, after two were written."""
    before, real = contents(folder), AllowedPath.replace

    def replace(self: AllowedPath, path: int, data: bytes, like: os.stat_result | None) -> None:
        if self.shown == "docs/b.md":
            raise ToolError("docs/b.md cannot be used: no space left on device")
        real(self, path, data, like)

    monkeypatch.setattr(AllowedPath, "replace", replace)
    assert "no space left" in refusal(call, "fs.patch", patch=PATCH)
    assert contents(folder) == before


def test_who_denies_or_asks_about_writing_means_the_patch_too() -> None:
    tool = TOOLS["fs.patch"]

    def policy(**said: list[str]) -> ToolPolicy:
        return ToolPolicy.of(said)

    assert policy(allow=["fs.*"]).permits(tool)
    assert not policy(allow=["fs.edit"]).permits(tool)
    assert not policy(allow=["*"], deny=["fs.write"]).permits(tool)
    assert policy(allow=["*"], ask=["fs.edit"]).asks(tool)
    assert not policy(allow=["*"], ask=["bash"]).asks(tool)
    assert not policy(allow=["*"], deny=["fs.patch"]).permits(tool)
    assert policy(allow=["*"], deny=["fs.patch"]).permits(TOOLS["fs.edit"])


def test_a_model_needs_no_references_to_read_the_arguments() -> None:
    assert all("$ref" not in str(tool.parameters) for tool in TOOLS.values())
    assert isinstance(TOOLS["fs.edit"], Tool)
    assert TOOLS["fs.edit"].parameters["properties"]["edits"]["items"]["required"] == ["old", "new"]


# Against git

texts = st.lists(st.sampled_from(["a", "b", " a", "", "\tb", "-- a", "++ b", "@@"]), max_size=12).map("\n".join)


@pytest.mark.skipif(shutil.which("git") is None, reason="git makes the diffs")
@settings(max_examples=60, deadline=None)
@given(old=texts, new=texts, unix=st.booleans())
def test_what_git_writes_is_applied_as_git_means_it(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str, unix: bool
) -> None:
    if old == new or not old or not new or "\n" not in old:
        return
    folder = tmp_path_factory.mktemp("git")
    end = "\n" if unix else "\r\n"
    for name, text in (("old", old), ("new", new)):
        (folder / name).write_bytes(text.replace("\n", end).encode())
    command = ["git", "diff", "--no-index", "--no-color", "-U3", "old", "new"]
    made = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout.decode()
    if not made:
        return
    (file,) = parse_diff(made)
    was, wanted = ((folder / name).read_bytes().decode() for name in ("old", "new"))
    assert apply_hunks(was, file.hunks)[0] == wanted
