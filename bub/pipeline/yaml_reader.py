"""Reading YAML into nodes: strict, with a place for everything, and safe for any bytes whatsoever."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import yaml

from bub.diagnostics import START, Diagnostic, Findings, Place, Position, Range, Related, suggest
from bub.kinds import HOOK_KEYS, STAGE_KEYS
from bub.pipeline.document import Node, Plain
from bub.pipeline.yaml_faults import (
    Fault,
    explain_error,
    forbidden_character,
    has_look_alikes,
    indentation_end,
    indentation_tab,
    look_alike_fault,
    look_alike_of_a_space,
    tab_fault,
)

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_ALIASED = 100_000
"""How many values aliases may stand for altogether."""

_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = r"[-+]?[0-9]+"
_BASED = r"0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_INFINITE = r"([-+]?)\.(inf|Inf|INF)"
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_LONGEST_NUMBER = 300
"""Digits beyond this are an identifier, not a quantity (and Python refuses to read 4,300 of them)."""

TRUTH_ELSEWHERE = frozenset(
    spelling for word in ("y", "n", "yes", "no", "on", "off") for spelling in (word, word.upper(), word.capitalize())
)
"""Text in YAML 1.2, true or false in YAML 1.1, which many tools still read."""

_Shape = Mapping[str, Any] | tuple[()]
_ENTRIES: _Shape = {"*": {}}
_SECTIONS: Mapping[str, _Shape] = {
    "stages": _ENTRIES,
    "hooks": _ENTRIES,
    "plugins": _ENTRIES,
    "profiles": {
        "*": {"plugins": (), "tools": {}, "settings": {}, "stages": _ENTRIES, "hooks": _ENTRIES},
    },
    "routes": (),
    "settings": {},
    "tests": _ENTRIES,
}
"""Where a mapping `{…}` or a list `()` belongs, so that nothing at all is a mistake there."""

_KEYS_OF_ENTRIES = frozenset(
    {*STAGE_KEYS, *HOOK_KEYS, "path", "optional", "runtime", "extends", "plugins", "channels", "concurrency", "profile"}
)
"""Keys of stages, hooks, plugins, profiles and tests whose value is no mapping; an entry's value is one."""

_TOP_LEVEL = frozenset({"version", "extends", "description", "on_failure", *_SECTIONS})


class Parsed(NamedTuple):
    """What was read: `root` is None when the text cannot be used at all, `text` is without its byte order mark."""

    root: Node | None
    text: str
    findings: tuple[Diagnostic, ...]


def parse(data: bytes, *, file: str, layer: str) -> Parsed:
    """Read one YAML document; whatever is wrong with it is a finding, never an exception.

    `file` is the name that findings show, `layer` what the text speaks for (see `Place`). Aliases are
    expanded: the alias stands at its own place, what is inside it at the places of the anchor.
    """
    findings = Findings()
    whole = Place(file, START, layer)
    if len(data) > MAX_BYTES:
        findings.add(
            "B009",
            "the file is larger than 1 MB",
            whole,
            help="a pipeline file is a page or two; is this the right file?",
        )
        return Parsed(None, "", tuple(findings.items))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
        _refuse_bytes(findings, whole, data, error.start)
        return Parsed(None, text, tuple(findings.items))
    text = text.removeprefix("\ufeff")
    reader = _Reader(text, file, layer, findings)
    root = reader.read()
    if root is not None:
        root = _fill_empty(_indent(root, findings), _SECTIONS, "", findings)
    return Parsed(root, text, tuple(findings.items))


def read_scalar(text: str) -> Plain:
    """The value of an unquoted scalar as in the core schema of YAML 1.2 (§10.3.2): `1` is a number, `no` is text."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if re.fullmatch(_INTEGER, text):
        return int(text)
    if re.fullmatch(_BASED, text):
        return int(text, 0)
    if re.fullmatch(_FLOAT, text):
        return float(text)
    if found := re.fullmatch(_INFINITE, text):
        return float(f"{found.group(1)}inf")
    return float("nan") if text in _NAN else text


class Lines:
    """Turns an offset into a text (in code points) into a position.

    YAML 1.1 parsers also count U+0085, U+2028 and U+2029 as line ends; editors, and so positions, do not.
    """

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]
        self._length = len(text)

    def position(self, offset: int) -> Position:
        """The line and column of an offset; past the end is the end."""
        offset = max(0, min(offset, self._length))
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def offset(self, position: Position) -> int:
        """The offset of a position; raises `ValueError` for one that is not in the text."""
        line, column = position
        if 1 <= line <= len(self._starts) and column >= 1:
            offset = self._starts[line - 1] + column - 1
            if self.position(offset) == position:
                return offset
        raise ValueError(f"line {line}, column {column} is not in the text")

    def range(self, start: int, end: int) -> Range:
        """The range between two offsets."""
        first = self.position(start)
        begin = self._starts[first.line - 1]
        # Nearly all ends on the line where it begins: there is no need to look the line up once more.
        if first.line < len(self._starts) and start <= end < self._starts[first.line]:
            return Range(first, Position(first.line, end - begin + 1))
        return Range(first, self.position(max(start, end)))


class _RefusedError(Exception):
    """The document cannot be read any further; the finding has been added."""


class _Key(NamedTuple):
    name: str
    place: Place
    wanted: bool = True
    """False for a key that was refused: its value is read and left out."""


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read yet.

    `size` and `height` count what it stands for with every alias expanded.
    """

    mapping: bool
    start: int
    end: int
    key: Place | None
    anchor: str | None
    entries: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    pending: _Key | None = None
    size: int = 1
    height: int = 1

    @property
    def wants_key(self) -> bool:
        return self.mapping and self.pending is None


class _Anchored(NamedTuple):
    node: Node
    size: int
    height: int
    text: str | None
    """The words of a scalar, for an alias that is used as a key."""


_PROPERTIES = r"(?:[&!]\S*\s*)*"
"""What may stand before a value: its anchor and its tag."""


def _offsets(event: Any) -> tuple[int, int]:
    """Where an event's text begins and ends, in code points; marks of both parsers carry it."""
    return event.start_mark.index, event.end_mark.index


class _Indentation(NamedTuple):
    """The indentation of one line, between two offsets."""

    start: int
    end: int


class _Reader:
    """Builds nodes from the parser's events, with a stack of its own: no recursion, whatever the file."""

    def __init__(self, text: str, file: str, layer: str, findings: Findings) -> None:
        self._text = text
        self._file = file
        self._layer = layer
        self._findings = findings
        self._lines = Lines(text)
        self._has_tabs = "\t" in text
        self._tab_found = False
        self._has_look_alikes = has_look_alikes(text)
        self._indented = _Indentation(-1, -1)
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._aliased = 0
        self._root: Node | None = None
        self._documents = 0

    def read(self) -> Node | None:
        """The root mapping, or None when the text has none or cannot be used."""
        fault = forbidden_character(self._text)
        if fault is not None:
            self._add_fault(fault)
            return None
        try:
            for event in yaml.parse(self._text, Loader=_LOADER):
                self._take(event)
        except _RefusedError:
            return None if self._documents < 2 else self._mapping_root()
        # PyYAML's own parser lets an escape beyond Unicode through to `chr`, which raises the last two.
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            fault = explain_error(error, self._text, self._innermost())
            if fault.code != "B003" or not self._tab_found:
                self._add_fault(fault)
            return None
        return self._mapping_root()

    def _mapping_root(self) -> Node | None:
        root = self._root
        if root is None or (root.value is None and root.place.range.start == root.place.range.end):
            self._add("B013", "the file is empty", Place(self._file, START, self._layer), "begin it with `version: 1`")
            return None
        if not root.is_mapping:
            what = "a list" if root.is_sequence else "a single value"
            self._add("B013", f"the file holds {what}, not a mapping", root.place, "begin it with `version: 1`")
            return None
        return root

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._take_scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._finish(event)
            case yaml.AliasEvent():
                self._take_alias(event)
            case yaml.DocumentStartEvent():
                self._begin_document(event)

    def _begin_document(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            start, _ = _offsets(event)
            place = self._place(start, start + 3)
            self._add("B006", "a second document begins here", place, "one file holds one pipeline: remove the `---`")
            raise _RefusedError

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        start, end = self._scalar_offsets(event)
        self._check_tab(start)
        self._check_tag(event)
        # libyaml says "" for a plain scalar, PyYAML's own parser None.
        quoted = bool(event.style)
        if self._has_look_alikes and not quoted:
            self._check_spaces(start)
        place = self._place(start, end)
        if not quoted and event.value in TRUTH_ELSEWHERE:
            self._warn_truth(event.value, place)
        if self._open and self._open[-1].wants_key:
            self._remember(event.anchor, _Anchored(Node(event.value, place), 1, 1, event.value))
            self._take_key(event.value, place, quoted)
            return
        value = event.value if quoted else read_scalar(event.value)
        node = Node(value, place, self._pending_place(), (place,), quoted)
        self._remember(event.anchor, _Anchored(node, 1, 1, event.value))
        self._add_value(node, 1, 1, end)

    def _scalar_offsets(self, event: yaml.ScalarEvent) -> tuple[int, int]:
        """Where a scalar's own text begins and ends.

        The parser's marks take in an anchor or a tag before it, and the line break behind a block scalar.
        """
        start, end = _offsets(event)
        if event.anchor or event.tag:
            start = re.compile(_PROPERTIES).match(self._text, start, end).end()  # type: ignore[union-attr]  # matches "" as well
        return start, start + len(self._text[start:end].rstrip()) if event.style in ("|", ">") else end

    def _take_key(self, name: str, place: Place, quoted: bool) -> None:
        mapping = self._open[-1]
        if name == "<<" and not quoted:
            self._add("B004", "merge keys (`<<`) are not allowed", place, "use `extends` to build on another file")
            mapping.pending = _Key(name, place, wanted=False)
            return
        first = mapping.entries.get(name)
        mapping.pending = _Key(name, place, wanted=first is None)
        if first is not None and first.key is not None:
            self._findings.add(
                "B002",
                f"`{name}` is written twice in the same mapping",
                place,
                path=self._path(),
                help="keep one of the two",
                related=(Related("it is written here first", first.key.file, first.key.range),),
            )

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        start, end = _offsets(event)
        self._check_tab(start)
        self._check_tag(event)
        if self._open and self._open[-1].wants_key:
            self._refuse_key(start)
        self._check_depth(1, self._place(start, start + 1))
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(_Open(mapping, start, end, self._pending_place(), event.anchor))

    def _finish(self, event: yaml.Event) -> None:
        start, end = _offsets(event)
        self._check_tab(start)
        done = self._open.pop()
        # The end of a block collection is marked at whatever follows it; its own text ends with its last value.
        if self._text[start:end] not in ("]", "}"):
            end = done.end
        place = self._place(done.start, end)
        node = Node(done.entries if done.mapping else tuple(done.items), place, done.key, (place,))
        if done.anchor:
            self._anchors[done.anchor] = _Anchored(node, done.size, done.height, None)
        self._add_value(node, done.size, done.height, end)

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        start, end = _offsets(event)
        self._check_tab(start)
        place = self._place(start, end)
        name = str(event.anchor)
        as_key = bool(self._open) and self._open[-1].wants_key
        unknown = _Anchored(Node(f"*{name}", place, quoted=True), 1, 1, f"*{name}")
        if name not in self._anchors and not self._is_left_out():
            self._add(
                "B001",
                "what stands behind `*` names an anchor, and there is none of that name above",
                place,
                'if it is meant as text, put it in quotes: "*…"',
            )
            self._anchors[name] = unknown
        anchored = self._anchors.get(name, unknown)
        if anchored is None:
            self._add("B007", f"`*{name}` contains itself", place, "write the value out")
            raise _RefusedError
        if as_key:
            if anchored.text is None:
                self._refuse_key(start)
            else:
                self._take_key(anchored.text, place, quoted=True)
            return
        self._aliased += anchored.size
        if self._aliased > MAX_ALIASED:
            self._add(
                "B007",
                f"the aliases up to `*{name}` stand for more than {MAX_ALIASED:,} values",
                place,
                "write out what is meant; a pipeline needs no such number of values",
            )
            raise _RefusedError
        self._check_depth(anchored.height, place)
        node = Node(anchored.node.value, place, self._pending_place(), (place,), anchored.node.quoted)
        self._add_value(node, anchored.size, anchored.height, end)

    def _add_value(self, node: Node, size: int, height: int, end: int) -> None:
        if not self._open:
            self._root = node
            return
        outer = self._open[-1]
        outer.size += size
        outer.height = max(outer.height, height + 1)
        outer.end = end
        if not outer.mapping:
            outer.items.append(node)
        elif outer.pending is not None:
            if outer.pending.wanted:
                outer.entries[outer.pending.name] = node
            outer.pending = None

    def _remember(self, anchor: str | None, anchored: _Anchored) -> None:
        if anchor:
            self._anchors[anchor] = anchored

    def _check_depth(self, height: int, place: Place) -> None:
        if len(self._open) + height > MAX_DEPTH:
            self._add("B008", f"values are nested more than {MAX_DEPTH} deep", place, "flatten what is written here")
            raise _RefusedError

    def _check_tab(self, start: int) -> None:
        # Inside brackets YAML itself allows a tab here; editors and people do not agree how wide it is.
        if not self._has_tabs or self._tab_found:
            return
        line = start - self._lines.position(start).column + 1
        if line != self._indented.start:
            # Looked at once for all values of a line, however long it is.
            self._indented = _Indentation(line, indentation_end(self._text, line))
        if start > self._indented.end:
            return
        tab = indentation_tab(self._text, line, start)
        if tab is not None:
            self._tab_found = True
            self._add_fault(tab_fault(*tab))

    def _check_spaces(self, start: int) -> None:
        """Refuse a scalar that begins with, or is one only because of, a character that looks like a space."""
        at = look_alike_of_a_space(self._text, start)
        if at is None:
            return
        line = start - self._lines.position(start).column + 1
        is_entry = (self._open and self._open[-1].wants_key) or start == indentation_end(self._text, line)
        if at == start or is_entry:  # in `title: one:X` it is a part of the text
            self._add_fault(look_alike_fault(self._text, at))
            raise _RefusedError

    def _check_tag(self, event: Any) -> None:
        if event.tag is None:
            return
        start, _ = _offsets(event)
        found = re.compile(r"!<[^>\s]*>|![^\s,\[\]{}]*").search(self._text, start)
        place = self._place(*found.span()) if found else self._place(start, start + 1)
        self._add("B005", "YAML tags are not allowed", place, "remove it, or put the text in quotes if it is text")

    def _warn_truth(self, word: str, place: Place) -> None:
        self._findings.warn(
            "B012",
            f"`{word}` is text here, but other tools read it as true or false",
            place,
            path=self._path(),
            help=f'put it in quotes: "{word}"; or write true or false if that is meant',
            fix=f'"{word}"',
        )

    def _refuse_key(self, start: int) -> None:
        self._add(
            "B001",
            "a key must be text, not a list or a mapping",
            self._place(start, start + 1),
            "if this is meant as text, put it in quotes",
        )
        raise _RefusedError

    def _add(self, code: str, message: str, place: Place, help: str) -> None:  # noqa: A002 (the reader's word)
        self._findings.add(code, message, place, path=self._path(), help=help)

    def _add_fault(self, fault: Fault) -> None:
        related: tuple[Related, ...] = ()
        if fault.related is not None:
            message, start, end = fault.related
            related = (Related(message, self._file, self._lines.range(start, end)),)
        self._findings.add(
            fault.code,
            fault.message,
            self._place(fault.start, fault.end),
            path=self._path(),
            help=fault.help,
            related=related,
        )

    def _place(self, start: int, end: int) -> Place:
        return Place(self._file, self._lines.range(start, end), self._layer)

    def _pending_place(self) -> Place | None:
        pending = self._open[-1].pending if self._open else None
        return pending.place if pending is not None else None

    def _is_left_out(self) -> bool:
        """Whether what is read now belongs to a key that was refused, which is told already."""
        return any(level.pending is not None and not level.pending.wanted for level in self._open)

    def _innermost(self) -> int:
        """Where the mapping or list that is being read begins."""
        return self._open[-1].start if self._open else 0

    def _path(self) -> str:
        """The dotted path of what is being read."""
        path = ""
        for level in self._open:
            if not level.mapping:
                path += f"[{len(level.items)}]"
            elif level.pending is not None:
                path += f".{level.pending.name}" if path else level.pending.name
        return path


def _refuse_bytes(findings: Findings, whole: Place, data: bytes, offset: int) -> None:
    before = data[:offset].decode("utf-8").removeprefix("\ufeff")
    start = Lines(before).position(len(before))
    span = Range(start, Position(start.line, start.column + 1))
    other = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    findings.add(
        "B010",
        f"the byte 0x{data[offset]:02X} (number {offset + 1:,} of the file) is not valid UTF-8",
        replace(whole, range=span),
        help="this looks like UTF-16: save the file as UTF-8" if other else "save the file as UTF-8",
    )


def _indent(root: Node, findings: Findings) -> Node:
    """Take the entries behind an empty section that are no sections themselves as if they were indented below it."""
    entries: dict[str, Node] = {}
    empty: str | None = None
    for name, node in root.items():
        if empty is not None and not name.startswith("x-") and suggest(name, _TOP_LEVEL) is None:
            section = entries[empty]
            if section.value is None:
                _add_not_indented(findings, section, empty, name)
            entries[empty] = replace(section, value={**(section.value or {}), name: node})
            continue
        entries[name] = node
        empty = name if node.value is None and _SECTIONS.get(name) else None
    return replace(root, value=entries)


def _indent_keys(node: Node, path: str, findings: Findings) -> Node:
    """Take what can only be keys of an empty entry, behind it, as if it were indented below that entry."""
    entries: dict[str, Node] = {}
    empty: str | None = None
    for name, child in node.items():
        if empty is None or name not in _KEYS_OF_ENTRIES or child.is_mapping or child.value is None:
            entries[name] = child
            empty = name if child.value is None else None
            continue
        entry = entries[empty]
        if entry.value is None:
            _add_not_indented(findings, entry, f"{path}.{empty}", name)
        entries[empty] = replace(entry, value={**(entry.value or {}), name: child})
    return replace(node, value=entries)


def _add_not_indented(findings: Findings, empty: Node, path: str, first: str) -> None:
    name = path.rpartition(".")[2]
    findings.add(
        "B011",
        f"`{name}` has nothing behind it: the lines below are not indented",
        empty.where,
        path=path,
        help=f"indent `{first}`, and what else belongs to `{name}`",
    )


def _fill_empty(node: Node, shape: _Shape, path: str, findings: Findings) -> Node:
    """Report every section that has nothing behind it, and read on as if it were written as empty."""
    mapping = isinstance(shape, Mapping)
    if node.value is None:
        name = path.rpartition(".")[2]
        empty = "{}" if mapping else "[]"
        findings.add(
            "B011",
            f"`{name}` has nothing behind it",
            node.where,
            path=path,
            help=f"write `{name}: {empty}` to say that it is empty on purpose, or remove the key",
        )
        return replace(node, value={} if mapping else ())
    if not isinstance(shape, Mapping) or not node.is_mapping:
        return node
    if "*" in shape:
        node = _indent_keys(node, path, findings)
    return replace(node, value=dict(_filled(node, shape, path, findings)))


def _filled(node: Node, shape: Mapping[str, _Shape], path: str, findings: Findings) -> Iterator[tuple[str, Node]]:
    for name, child in node.items():
        inner = shape.get(name, shape.get("*"))
        below = f"{path}.{name}" if path else name
        yield name, child if inner is None else _fill_empty(child, inner, below, findings)
