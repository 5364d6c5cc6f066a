"""Changing values in the text of a pipeline file: what is not named stays as it is, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bub.base.diagnostics import PipelineError
from bub.errors import BubError
from bub.pipeline.edit.page import UnsureError, YamlPage
from bub.pipeline.edit.paths import REMOVED, Keys
from bub.pipeline.source.document import Node
from bub.pipeline.source.line_index import LineIndex
from bub.pipeline.source.splice import splice
from bub.pipeline.source.yaml_reader import parse

_BOM = "\ufeff"


def amend(text: str, changes: Mapping[Keys, Any], *, file: str = "pipelines.yaml") -> str:
    """Return the text of a pipeline file in which the value at each path is the one that `changes` has for it.

    A value is None, a bool, number, text, list, mapping, or `REMOVED`. It is laid over the file as `configure.merge`
    does it: mappings key by key, `REMOVED` within them too, and everything else replaces. What is so already is not
    touched. Of a list, the items that stay keep their lines. A mapping that loses its last key is left as `{}`, since
    to take out its key as well could mean something else (a stage without keys is still a stage).

    Raises `PipelineError` with the findings when the text cannot be read, and `BubError` for a change that cannot be
    made without changing more than that; `file` is what messages call the text.
    """
    bom, bare = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    page = _read_page(bare, file)
    for path, said in changes.items():
        for keys, value in _leaves(path, said):
            page = _change_value(page, keys, value)
    return bom + page.text


def _leaves(keys: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:
    """Yield a change as changes of single values; an empty mapping is one."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves((*keys, str(name)), inner)
    else:
        yield keys, value


def _read_page(text: str, file: str) -> YamlPage:
    parsed = parse(text.encode(errors="surrogatepass"), file=file, layer=file)
    errors = [finding for finding in parsed.findings if finding.severity == "error"]
    if parsed.root is None or errors:
        raise PipelineError(errors)
    return YamlPage(file, text, parsed.root, LineIndex(text))


def _change_value(page: YamlPage, keys: Keys, value: Any) -> YamlPage:
    """Return the page with one value changed, proved to be that and nothing else."""
    nodes = [page.root]
    while len(nodes) <= len(keys) and (inner := _inner(nodes[-1], keys[len(nodes) - 1])) is not None:
        nodes.append(inner)
    is_there = len(nodes) > len(keys)
    if (value is REMOVED and not is_there) or (is_there and _is_so(nodes[-1], value)):
        return page
    for node, name in zip(nodes[1:], keys, strict=False):
        if page.text.startswith("*", page.start(node)):
            raise BubError(
                f"{node.place}: `{name}` stands for a value that is written elsewhere, so `{'.'.join(keys)}` "
                "cannot be changed here alone",
                help="write the value out in place of the `*`, or change it by hand",
            )
    expected = _replace_at(page.root.plain(), keys, value)
    try:
        after = _read_page(splice(page.text, page.edits(nodes, keys, value)), page.file)
        if _same(after.root.plain(), expected):
            return after
    except (UnsureError, PipelineError, ValueError):
        pass
    place = nodes[-1].where if len(nodes) > 1 else page.root.place
    raise BubError(
        f"{place}: `{'.'.join(keys)}` cannot be changed for sure as this is written", help="change it by hand"
    )


def _inner(node: Node, key: str) -> Node | None:
    """Return what there is at a key of a mapping, or at the number of an item."""
    return node.get(int(key) if node.is_sequence and key.isdecimal() else key)


def _is_so(node: Node, value: Any) -> bool:
    return (isinstance(value, Mapping) and node.is_mapping) or (value is not REMOVED and _same(node.plain(), value))


def _same(one: Any, other: Any) -> bool:
    """Return whether two plain values are the same; 1 is neither true nor 1.0, and `.nan` is itself."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def _replace_at(tree: Any, keys: Keys, value: Any) -> Any:
    """Return a plain tree with one value changed."""
    if not keys:
        return value
    if isinstance(tree, list | tuple) and keys[0].isdecimal() and int(keys[0]) < len(tree):
        return [_replace_at(item, keys[1:], value) if str(i) == keys[0] else item for i, item in enumerate(tree)]
    below = dict(tree) if isinstance(tree, dict) else {}
    if value is REMOVED and len(keys) == 1:
        below.pop(keys[0])
    else:
        below[keys[0]] = _replace_at(below.get(keys[0]), keys[1:], value)
    return below
