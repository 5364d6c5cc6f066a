"""Parent, file, profile: what wins, where it came from, and what is said of a parent that cannot be had."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.base import resources
from bub.base.diagnostics import START, Diagnostic, Place
from bub.errors import UsageError
from bub.pipeline.source.document import Node, walk
from bub.pipeline.source.merge import Document, load_document, load_shipped, load_text, merge
from bub.pipeline.source.profiles import effective


def where(item: Diagnostic) -> str:
    start = item.range.start
    return f"{item.code} {item.file}:{start.line}:{start.column}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to write files into, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shipped(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one shipped pipeline, `bub:base`."""
    package = tmp_path_factory.mktemp("site") / "bub"
    pipelines = package / "_data" / "pipelines"
    pipelines.mkdir(parents=True)
    (pipelines / "base.yaml").write_text("version: 1\nstages: {a: {timeout: 1s}}\n")
    monkeypatch.setattr(resources, "_PACKAGE", package)
    return pipelines


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


# Merging


def plain_merge(low: Node, high: Node) -> object:
    return merge(low, high).plain()


def tree(text: str) -> Node:
    return load_text(text).root


def test_mappings_merge_by_key_and_everything_else_replaces() -> None:
    low = tree("a: {x: 1, y: [1, 2]}\nb: 1\n")
    high = tree("c: 3\na: {y: [3], z: 4}\nb: {deep: 1}\n")
    merged = merge(low, high)
    assert merged.plain() == {"a": {"x": 1, "y": [3], "z": 4}, "b": {"deep": 1}, "c": 3}
    assert list(merged.value) == ["a", "b", "c"]


def test_every_place_that_had_a_say_is_kept_weakest_first() -> None:
    low = load_text("a: {x: 1}", file="low.yaml").root
    high = load_text("# above\na: {x: 2}", file="high.yaml").root
    merged = merge(low, high)
    for path in ((), ("a",), ("a", "x")):
        node = merged.get(*path)
        assert node is not None
        assert [origin.file for origin in node.origins] == ["low.yaml", "high.yaml"]
        assert node.origins[-1] == node.place
    assert str(merged.get("a", "x").key) == "high.yaml:2:5"  # type: ignore[union-attr]


SHAPE = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=2),
        "items": st.lists(st.integers(), max_size=2),
        "inner": st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
        "deep": st.fixed_dictionaries({}, optional={"inner": st.dictionaries(st.sampled_from("ab"), st.booleans())}),
    },
)


def built(value: object, layer: str) -> Node:
    place = Place(layer, START, layer)
    if isinstance(value, dict):
        return Node({name: built(inner, layer) for name, inner in value.items()}, place, None, (place,))
    if isinstance(value, list):
        return Node(tuple(built(inner, layer) for inner in value), place, None, (place,))
    return Node(value, place, None, (place,))


@settings(max_examples=200, deadline=None)
@given(SHAPE, SHAPE, SHAPE)
def test_merging_is_associative_for_documents_of_one_shape(a: object, b: object, c: object) -> None:
    x, y, z = built(a, "a"), built(b, "b"), built(c, "c")
    left, right = merge(merge(x, y), z), merge(x, merge(y, z))
    assert left == right
    assert [path for path, _ in walk(left)] == [path for path, _ in walk(right)]


@settings(max_examples=100, deadline=None)
@given(SHAPE)
def test_an_empty_mapping_changes_nothing(a: object) -> None:
    node, empty = built(a, "a"), Node({}, Place("e"))
    assert merge(empty, node) == node
    assert plain_merge(node, empty) == node.plain()


# Following `extends`


def test_a_chain_is_merged_from_the_furthest_parent_on(folder: Path, shipped: Path) -> None:
    write(
        folder,
        middle="extends: bub:base\ndescription: mid\nstages: {a: {timeout: 2s}, b: {}}\n",
        top="extends: middle.yaml\nstages: {a: {retry: {times: 1}}}\n",
    )
    document = load_document(Path("top.yaml"))
    assert document.findings == ()
    assert document.complete
    assert [(layer.name, layer.file) for layer in document.layers] == [
        ("bub:base", "bub:base"),
        ("middle.yaml", "middle.yaml"),
        ("top.yaml", "top.yaml"),
    ]
    assert document.root.plain() == {
        "version": 1,
        "stages": {"a": {"timeout": "2s", "retry": {"times": 1}}, "b": {}},
        "description": "mid",
        "extends": "middle.yaml",
    }
    timeout = document.root.get("stages", "a", "timeout")
    assert timeout is not None
    assert [origin.layer for origin in timeout.origins] == ["bub:base", "middle.yaml"]
    assert set(document.sources) == {"bub:base", "middle.yaml", "top.yaml"}
    assert document.folders["bub:base"] == shipped


def test_extends_is_not_inherited(folder: Path, shipped: Path) -> None:
    write(folder, top="stages: {}\n", other="extends: bub:base\n", last="extends: other.yaml\n")
    extends = load_document(Path("last.yaml")).root.get("extends")
    assert extends is not None
    assert extends.plain() == "other.yaml"
    assert [origin.file for origin in extends.origins] == ["last.yaml"]
    assert load_document(Path("top.yaml")).root.plain() == {"stages": {}}


def test_a_parent_is_relative_to_its_child_and_shown_from_the_current_folder(folder: Path) -> None:
    (folder / "sub").mkdir()
    write(folder, base="version: 1\n")
    write(folder / "sub", top="extends: ../base.yaml\n")
    assert [layer.file for layer in load_document(Path("sub/top.yaml")).layers] == ["base.yaml", "sub/top.yaml"]
    assert load_document(folder / "sub" / "top.yaml").file == "sub/top.yaml"
    assert load_document(Path("sub/top.yaml"), display="mine").layers[-1].name == "mine"


def test_a_circle_prints_the_whole_chain(folder: Path) -> None:
    write(folder, a="extends: b.yaml\n", b="version: 1\nextends: ./a.yaml\n")
    document = load_document(Path("a.yaml"))
    (finding,) = document.findings
    assert where(finding) == "B020 b.yaml:2:10"
    assert finding.message == "`extends` goes in a circle: a.yaml → b.yaml → a.yaml"
    assert not document.complete
    assert document.root.get("version") is not None


def test_a_text_can_extend_and_can_go_in_a_circle(folder: Path, shipped: Path) -> None:
    write(folder, other="extends: pipelines.yaml\n")
    document = load_text("extends: other.yaml\n", base=folder)
    assert [where(item) for item in document.findings] == ["B020 other.yaml:1:10"]
    assert load_text("extends: bub:base\n").root.get("version") is not None
    assert [where(item) for item in load_text("extends: other.yaml\n").findings] == ["B021 pipelines.yaml:1:10"]


@pytest.mark.parametrize(
    ("extends", "code", "message", "help_"),
    [
        ("bub:bse", "B021", "there is no shipped pipeline `bub:bse`", "did you mean `bub:base`?"),
        ("bub:zzz", "B021", "there is no shipped pipeline `bub:zzz`", "shipped are `bub:base`"),
        ("bub:../base", "B021", "there is no shipped pipeline", "did you mean `bub:base`?"),
        ("base", "B021", "`base` is not a file", "did you mean `bub:base`?"),
        ("parnt.yaml", "B021", "`parnt.yaml` does not exist", "did you mean `parent.yaml`?"),
        ("gone/x.yaml", "B021", "`gone/x.yaml` does not exist", "name a shipped pipeline"),
        ("https://example.org/x.yaml", "B021", "`extends` does not follow URLs", "write `bub:NAME`"),
        ("/etc/x.yaml", "B021", "`extends` does not follow absolute paths", "write `bub:NAME`"),
        ("~/x.yaml", "B021", "`extends` does not follow absolute paths", "write `bub:NAME`"),
        ("C:\\x.yaml", "B021", "`extends` does not follow absolute paths", "write `bub:NAME`"),
        ("secrets.env", "B021", "`secrets.env` is not a pipeline file", "write `bub:NAME`"),
        ("folder.yaml", "B022", "`folder.yaml` cannot be read: it is a folder", None),
        ("pipe.yaml", "B022", "`pipe.yaml` cannot be read: it is not a regular file", None),
        ('"a\\0.yaml"', "B022", "`a\0.yaml` cannot be read: the path is not valid", None),
        ("x" * 300 + ".yaml", "B022", "`xxx", None),
    ],
)
def test_a_parent_that_cannot_be_had_is_a_finding(
    folder: Path, shipped: Path, extends: str, code: str, message: str, help_: str | None
) -> None:
    write(folder, parent="version: 1\n", top=f"version: 1\nextends: {extends}\n")
    (folder / "secrets.env").write_text("KEY=secret\n")
    (folder / "folder.yaml").mkdir()
    os.mkfifo(folder / "pipe.yaml")
    document = load_document(Path("top.yaml"))
    (finding,) = document.findings
    assert where(finding) == f"{code} top.yaml:2:10"
    assert finding.message.startswith(message)
    assert (finding.help or "").startswith(help_ or "")
    assert finding.path == "extends"
    assert document.root.get("version") is not None


def test_a_link_with_the_name_of_a_pipeline_file_shows_no_other_file(folder: Path) -> None:
    write(folder, top="version: 1\nextends: parent.yaml\n", real="version: 1\n")
    (folder / "notes.txt").write_text("KEY=hush\n")
    (folder / "parent.yaml").symlink_to("notes.txt")
    document = load_document(Path("top.yaml"))
    (finding,) = document.findings
    assert where(finding) == "B021 top.yaml:2:10"
    assert finding.message == "`parent.yaml` is a link to a file that is not a pipeline file"
    assert "hush" not in repr(document)
    (folder / "parent.yaml").unlink()
    (folder / "parent.yaml").symlink_to("real.yaml")
    assert load_document(Path("top.yaml")).findings == ()


def test_a_broken_parent_is_reported_in_the_parent(folder: Path) -> None:
    write(folder, parent="stages: [\n", top="extends: parent.yaml\nversion: 1\n")
    document = load_document(Path("top.yaml"))
    assert [where(item) for item in document.findings] == ["B001 parent.yaml:1:9"]
    assert not document.complete
    assert document.sources["parent.yaml"] == "stages: [\n"


def test_a_file_that_cannot_be_used_has_an_empty_root(folder: Path) -> None:
    write(folder, top="- a\n")
    document = load_document(Path("top.yaml"))
    assert document.root.plain() == {}
    assert document.layers == ()
    assert [where(item) for item in document.findings] == ["B013 top.yaml:1:1"]


def test_a_file_that_cannot_be_opened_is_a_usage_error(folder: Path, shipped: Path) -> None:
    (folder / "dir.yaml").mkdir()
    with pytest.raises(UsageError, match=r"^gone.yaml does not exist$"):
        load_document(folder / "gone.yaml")
    with pytest.raises(UsageError, match=r"^dir.yaml cannot be read: it is a folder$"):
        load_document(Path("dir.yaml"))
    with pytest.raises(UsageError, match=r"there is no shipped pipeline `bub:bsae`") as caught:
        load_shipped("bsae")
    assert caught.value.help == "did you mean `bub:base`?"


def test_a_huge_file_is_not_read_to_its_end(folder: Path) -> None:
    with (folder / "big.yaml").open("wb") as stream:
        stream.truncate(10_000_000_000)
    assert [item.code for item in load_document(Path("big.yaml")).findings] == ["B009"]


def test_a_shipped_file_is_trusted_to_be_right_only_where_it_is_asked_for_by_name(folder: Path, shipped: Path) -> None:
    (folder / "bub:mine.yaml").write_text("version: 1\nextends: bub:base\n", encoding="utf-8")
    assert [layer.shipped for layer in load_document(Path("bub:mine.yaml")).layers] == [True, False]
    assert [layer.shipped for layer in load_shipped("base").layers] == [True]
    assert [layer.shipped for layer in load_document(shipped / "base.yaml").layers] == [False]


def test_shipped_files_lie_in_the_wheel_or_beside_the_package(shipped: Path) -> None:
    assert load_shipped("base").file == "bub:base"
    assert resources.shipped_pipelines() == ["base"]
    assert resources.locate_shipped("schemas") == shipped.parent.parent.parent / "schemas"
    assert resources.shipped_schema("settings", "x.json").parts[-3:] == ("schemas", "settings", "x.json")


# Profiles

PROFILES = """\
stages: {run: {timeout: 1s, retry: {times: 1}}}
settings: {model: a}
profiles:
  default: {description: d, plugins: [one, two], settings: {model: b}}
  reviewer:
    extends: default
    plugins: [one]
    stages: {run: {timeout: 3s}}
    hooks: {point: {kind: gate}}
  plain: {extends: reviewer}
"""


def test_a_profile_is_laid_over_the_pipeline_with_all_it_extends() -> None:
    document = load_text(PROFILES)
    view = effective(document, "plain")
    assert view.findings == ()
    assert view.chain == ("default", "reviewer", "plain")
    assert view.root.get("stages").plain() == {"run": {"timeout": "3s", "retry": {"times": 1}}}  # type: ignore[union-attr]
    assert view.root.get("settings").plain() == {"model": "b"}  # type: ignore[union-attr]
    assert view.root.get("hooks").plain() == {"point": {"kind": "gate"}}  # type: ignore[union-attr]
    assert view.root.get("profiles") == document.root.get("profiles")
    assert document.root.get("stages", "run", "timeout").plain() == "1s"  # type: ignore[union-attr]


def test_the_plugins_of_a_profile_are_always_one_whole_list() -> None:
    view = effective(load_text(PROFILES), "plain")
    assert view.allowlist is not None
    assert view.allowlist.plain() == ["one"]
    assert view.profile_node is not None
    assert view.profile_node.get("description") is None
    assert effective(load_text(PROFILES), "default").allowlist.plain() == ["one", "two"]  # type: ignore[union-attr]


def test_what_a_profile_sets_says_so() -> None:
    timeout = effective(load_text(PROFILES), "reviewer").root.get("stages", "run", "timeout")
    assert timeout is not None
    assert [(origin.layer, origin.range.start.line) for origin in timeout.origins] == [
        ("pipelines.yaml", 1),
        ("profile reviewer", 8),
    ]


def test_each_profile_is_a_layer_of_its_own_for_each_file_that_writes_it(folder: Path) -> None:
    write(
        folder,
        parent="stages: {a: {}}\nprofiles: {base: {stages: {a: {timeout: 1s}}}, ci: {extends: base}}\n",
        top="extends: parent.yaml\nprofiles: {ci: {plugins: [], stages: {b: {after: a}}}, other: {}}\n",
    )
    view = effective(load_document(Path("top.yaml")), "ci")
    assert [(layer.name, layer.file, layer.root.plain()) for layer in view.layers[2:]] == [
        ("profile base", "parent.yaml", {"stages": {"a": {"timeout": "1s"}}}),
        ("profile ci", "parent.yaml", {}),
        ("profile ci", "top.yaml", {"stages": {"b": {"after": "a"}}}),
    ]
    assert view.root.get("stages").plain() == {"a": {"timeout": "1s"}, "b": {"after": "a"}}  # type: ignore[union-attr]
    assert view.root.place == load_document(Path("top.yaml")).root.place


def profile_findings(document: Document, profile: str) -> list[str]:
    return [f"{where(item)} {item.message} ({item.help})" for item in effective(document, profile).findings]


def test_an_unknown_profile_is_a_finding() -> None:
    assert profile_findings(load_text(PROFILES), "reviwer") == [
        "B162 pipelines.yaml:3:1 there is no profile `reviwer` (did you mean `reviewer`?)"
    ]
    assert profile_findings(load_text("version: 1\n"), "ci") == [
        "B162 pipelines.yaml:1:1 there is no profile `ci` (profiles are `default`)"
    ]


def test_default_always_exists() -> None:
    view = effective(load_text("profiles: {ci: {extends: default}}\n"), "default")
    assert (view.findings, view.chain, view.allowlist, view.profile_node) == ((), ("default",), None, None)
    assert effective(load_text("profiles: {ci: {extends: default}}\n"), "ci").findings == ()


def test_profiles_that_extend_nothing_or_each_other_are_findings() -> None:
    document = load_text(
        "profiles:\n  a: {extends: b}\n  b: {extends: c}\n  c: {extends: a}\n  d: {extends: defualt}\n"
    )
    assert profile_findings(document, "a") == [
        "B163 pipelines.yaml:4:16 profiles extend each other in a circle: a → b → c → a (remove one `extends`)"
    ]
    assert profile_findings(document, "d") == [
        "B162 pipelines.yaml:5:16 there is no profile `defualt` (did you mean `default`?)"
    ]
    assert effective(document, "a").chain == ("c", "b", "a")


def test_shapes_that_the_schema_refuses_break_nothing() -> None:
    for text in (
        "profiles: [a]",
        "profiles: {default: 1}",
        "profiles: {default: {stages: [], extends: 1}}",
        "extends: [a]",
    ):
        assert effective(load_text(text), "default").root.is_mapping


def test_a_shipped_name_that_no_file_can_have_is_one_finding() -> None:
    document = load_text(f"version: 1\nextends: bub:{'x' * 300}\n")
    assert [finding.code for finding in document.findings] == ["B021"]
