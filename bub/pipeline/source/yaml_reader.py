"""Reading YAML into nodes: strict, with a place for everything, and safe for any bytes whatsoever."""

# Long because one builder takes every event of the parser and refuses what YAML allows and Bub does not: its methods
# share the stack of what is open, so half of them elsewhere would need all of it handed over.

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from bub.base.diagnostics import START, Diagnostic, Findings, Place, Position, Range, Related
from bub.pipeline.source import late
from bub.pipeline.source.document import Node
from bub.pipeline.source.empty_sections import fill_empty_sections
from bub.pipeline.source.line_index import LineIndex, Stretch
from bub.pipeline.source.scalars import TRUTH_ELSEWHERE, read_scalar
from bub.pipeline.source.yaml_faults import (
    Fault,
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


class Parsed(msgspec.Struct, frozen=True):
    """What was read: `root` is None when the text cannot be used at all, `text` is without its byte order mark."""

    root: Node | None
    text: str
    findings: tuple[Diagnostic, ...]


def parse(data: bytes, *, file: str, layer: str) -> Parsed:
    """Read one YAML document; whatever is wrong with it is a finding, never an exception.

    `file` is the name that findings show, `layer` what the text speaks for (see `Place`). Aliases are
    expanded: the alias is at its own place, what is inside it at the places of the anchor.
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
    reader = _NodeBuilder(text, file, layer, findings)
    root = reader.read()
    if root is not None:
        root = fill_empty_sections(root, findings)
    return Parsed(root, text, tuple(findings.items))


class _RefusedError(Exception):
    """The document cannot be read any further; the finding has been added."""


class _Key(msgspec.Struct, frozen=True):
    name: str
    place: Place
    wanted: bool = True
    """False for a key that was refused: its value is read and left out."""


class _Open(msgspec.Struct):
    """A mapping or list whose end has not been read yet.

    `size` and `height` count what it stands for with every alias expanded.
    """

    mapping: bool
    start: int
    end: int
    key: Place | None
    anchor: str | None
    entries: dict[str, Node] = msgspec.field(default_factory=dict)
    items: list[Node] = msgspec.field(default_factory=list)
    pending: _Key | None = None
    size: int = 1
    height: int = 1

    @property
    def wants_key(self) -> bool:
        return self.mapping and self.pending is None


class _Anchored(msgspec.Struct, frozen=True):
    node: Node
    size: int
    height: int
    text: str | None
    """The words of a scalar, for an alias that is used as a key."""


_PROPERTIES = r"(?:[&!]\S*\s*)*"
"""What may be before a value: its anchor and its tag."""


_LIBYAMLS_LIMIT = "maximum nesting depth"
"""What libyaml says from 0.2.6 on, which looks ahead for the `:` behind a key before it tells of any bracket."""

_BRACKETS = r"""[\[\]{}]|"(?:\\.|[^"\\])*"|'[^']*'"""
"""Brackets, and quoted strings, in which a bracket is none."""


def _offsets(event: Any) -> tuple[int, int]:
    """Return where an event's text begins and ends, in code points; marks of both parsers carry it."""
    return event.start_mark.index, event.end_mark.index


class _Indentation(msgspec.Struct, frozen=True):
    """The indentation of one line, between two offsets."""

    start: int
    end: int


class _NodeBuilder:
    """Builds nodes from the parser's events, with a stack of its own: no recursion, whatever the file."""

    def __init__(self, text: str, file: str, layer: str, findings: Findings) -> None:
        self._text = text
        self._file = file
        self._layer = layer
        self._findings = findings
        self._lines = LineIndex(text)
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
        """Return the root mapping, or None when the text has none or cannot be used."""
        fault = forbidden_character(self._text)
        if fault is not None:
            self._add_fault(fault)
            return None
        takers: Mapping[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._take_scalar,
            yaml.MappingStartEvent: self._begin,
            yaml.SequenceStartEvent: self._begin,
            yaml.MappingEndEvent: self._finish,
            yaml.SequenceEndEvent: self._finish,
            yaml.AliasEvent: self._take_alias,
            yaml.DocumentStartEvent: self._begin_document,
        }
        try:
            for event in yaml.parse(self._text, Loader=_LOADER):
                take = takers.get(type(event))
                if take is not None:
                    take(event)
        except _RefusedError:
            return None if self._documents < 2 else self._mapping_root()
        # PyYAML's own parser lets an escape beyond Unicode through to `chr`, which raises the last two.
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            if _LIBYAMLS_LIMIT in str(error):
                start = self._find_too_deep()
                self._add_depth(self._place(start, start + 1))
                return None
            fault = late.explain_error(error, self._text, self._innermost())
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
            if event.anchor:
                self._anchors[event.anchor] = _Anchored(Node(event.value, place), 1, 1, event.value)
            self._take_key(event.value, place, quoted)
            return
        value = event.value if quoted else read_scalar(event.value)
        node = Node(value, place, self._pending_place(), (place,), quoted)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(node, 1, 1, event.value)
        self._add_value(node, 1, 1, end)

    def _scalar_offsets(self, event: yaml.ScalarEvent) -> tuple[int, int]:
        """Return where a scalar's own text begins and ends.

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
                "`*` refers to an anchor above, but no anchor has this name",
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

    def _check_depth(self, height: int, place: Place) -> None:
        if len(self._open) + height > MAX_DEPTH:
            self._add_depth(place)
            raise _RefusedError

    def _add_depth(self, place: Place) -> None:
        self._add("B008", f"values are nested more than {MAX_DEPTH} deep", place, "flatten what is written here")

    def _find_too_deep(self) -> int:
        """Return where the first bracket is that is too deep, if libyaml has looked ahead over more than it bears."""
        at, depth = self._open[-1].end if self._open else 0, len(self._open)
        for found in re.compile(_BRACKETS).finditer(self._text, at):
            depth += 1 if found[0] in "[{" else -1 if found[0] in "]}" else 0
            if depth > MAX_DEPTH:
                return found.start()
        return at

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
        return Place(self._file, Stretch(self._lines, start, end), self._layer)

    def _pending_place(self) -> Place | None:
        pending = self._open[-1].pending if self._open else None
        return pending.place if pending is not None else None

    def _is_left_out(self) -> bool:
        """Return whether what is read now belongs to a key that was refused, and so was reported already."""
        return any(level.pending is not None and not level.pending.wanted for level in self._open)

    def _innermost(self) -> int:
        """Return where the mapping or list that is being read begins."""
        return self._open[-1].start if self._open else 0

    def _path(self) -> str:
        """Return the dotted path of what is being read."""
        path = ""
        for level in self._open:
            if not level.mapping:
                path += f"[{len(level.items)}]"
            elif level.pending is not None:
                path += f".{level.pending.name}" if path else level.pending.name
        return path


def _refuse_bytes(findings: Findings, whole: Place, data: bytes, offset: int) -> None:
    before = data[:offset].decode("utf-8").removeprefix("\ufeff")
    start = LineIndex(before).position(len(before))
    span = Range(start, Position(start.line, start.column + 1))
    other = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    findings.add(
        "B010",
        f"the byte 0x{data[offset]:02X} (number {offset + 1:,} of the file) is not valid UTF-8",
        replace(whole, span=span),
        help="this looks like UTF-16: save the file as UTF-8" if other else "save the file as UTF-8",
    )
