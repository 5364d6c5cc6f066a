"""The text of a file with what is where in it, and the edits that change one value of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from bub.pipeline.edit.paths import REMOVED, Keys
from bub.pipeline.edit.values import render_value
from bub.pipeline.source.document import Node
from bub.pipeline.source.line_index import LineIndex
from bub.pipeline.source.splice import Edit

_PROPERTIES = re.compile(r"(?:&\S+(?:\s|#[^\r\n]*)*)?")
"""What may be before a value: its anchor, and a comment."""

_BREAK = r"(?>\r\n|\r|\n)"
_LINE_END = re.compile(_BREAK)
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)")
_REST_IN_BRACKETS = re.compile(r"[ \t]*(?P<comma>,?)[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)")
_USUAL_STEP = 2


class UnsureError(Exception):
    """There is no sure way to make a change."""


class _Span(NamedTuple):
    """A stretch of the text, between two offsets."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class YamlPage:
    """The text of a file, and what is where in it."""

    file: str
    text: str
    root: Node
    lines: LineIndex

    def edits(self, nodes: Sequence[Node], keys: Keys, value: Any) -> list[Edit]:
        """Return the changes to the text; `nodes` are what there is at `keys`, from the root on, as far as it goes."""
        *_, last = nodes
        if len(nodes) > len(keys):
            return self._remove(nodes[:-1], keys[-1]) if value is REMOVED else self._replace(nodes[-2], last, value)
        entry = value
        for name in reversed(keys[len(nodes) - 1 :]):
            entry = {name: entry}
        if not last.is_mapping or (not last.value and len(nodes) > 1):
            return self._replace(nodes[-2], last, entry)
        return self._in_braces(last, entry) if self._is_flow(last) else self._in_block(last, entry)

    # Where things stand

    def start(self, node: Node) -> int:
        return self.lines.offset(node.place.range.start)

    def end(self, node: Node) -> int:
        return self.lines.offset(node.place.range.end)

    def _is_flow(self, node: Node) -> bool:
        return self.text.startswith(("[", "{"), self._content(node))

    def _content(self, node: Node) -> int:
        """Return where a value begins, behind its anchor."""
        found = _PROPERTIES.match(self.text, self.start(node))
        assert found is not None  # it matches "" as well
        return found.end()

    def _entries(self, node: Node) -> list[_Span]:
        """Return the entries of a mapping with their keys, or the items of a list."""
        if node.is_mapping:
            held = [inner for _, inner in node.items()]
            starts = [self.lines.offset(inner.where.range.start) for inner in held]
        else:
            held = list(node.elements())
            starts = [self._with_anchor(self.start(item)) for item in held]
        return [_Span(start, self.end(inner)) for start, inner in zip(starts, held, strict=True)]

    def _with_anchor(self, start: int) -> int:
        found = re.search(r"&\S+[ \t]+\Z", self.text[self._line_start(start) : start])
        return start - len(found.group()) if found else start

    def _column(self, offset: int) -> int:
        return self.lines.position(offset).column

    def _line_start(self, offset: int) -> int:
        return offset - self._column(offset) + 1

    def _line_end(self, offset: int) -> int:
        found = _LINE_END.search(self.text, offset)
        return found.start() if found else len(self.text)

    def _behind(self, offset: int, indent: int) -> int:
        """Return where the next entry of a block begins: behind the last one's line and the comments that trail it."""
        remark = rf"{_BREAK}(?:[ \t]*+{_BREAK})*+ {{{indent},}}#[^\r\n]*"
        found = re.compile(f"(?:{remark})*").match(self.text, self._line_end(offset))
        assert found is not None  # it matches "" as well
        return found.end()

    def _behind_key(self, node: Node) -> int:
        """Return where the value of a key may begin on the line of that key."""
        assert node.key is not None
        found = re.compile(r"[ \t]*:(?:[ \t]+&\S+)?").match(self.text, self.lines.offset(node.key.range.end))
        if found is None:
            raise UnsureError
        return found.end()

    # How the file is laid out

    @property
    def _ending(self) -> str:
        found = _LINE_END.search(self.text)
        return found.group() if found else "\n"

    @property
    def _step(self) -> int:
        """By how much the first section of the file is indented."""
        for _, node in self.root.items():
            if node.is_mapping and node.value and not self._is_flow(node):
                inner, outer = (self._column(self._entries(each)[0].start) for each in (node, self.root))
                return max(inner - outer, 1)
        return _USUAL_STEP

    def _block(self, entry: Mapping[str, Any], indent: int) -> str:
        """Entries in block style, without the line end behind the last."""
        lines = []
        for name, value in entry.items():
            key = f"{' ' * indent}{render_value(name)}:"
            if isinstance(value, Mapping) and value:
                lines += [key, self._block(value, indent + self._step)]
            elif isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value):
                lines += [key, *(self._item(item, indent + self._step) for item in value)]
            else:
                lines.append(f"{key} {render_value(value)}")
        return self._ending.join(lines)

    def _item(self, value: Any, dash: int) -> str:
        """Return an item of a list in block style; a mapping has a line for each key."""
        if not (isinstance(value, Mapping) and value):
            return f"{' ' * dash}- {render_value(value)}"
        first, *others = (f"{render_value(name)}: {render_value(inner)}" for name, inner in value.items())
        return self._ending.join([f"{' ' * dash}- {first}", *(f"{' ' * dash}  {other}" for other in others)])

    # Changes

    def _edit(self, start: int, end: int, text: str = "") -> Edit:
        return Edit(self.lines.range(start, end), text)

    def _replace(self, above: Node, old: Node, value: Any) -> list[Edit]:
        if old.elements() and isinstance(value, list | tuple) and value:
            return self._replace_items(old, value)
        start, end = self._content(old), self.end(old)
        if isinstance(value, Mapping) and value and not self._is_flow(above):
            unfolded = self._unfold(above, old, value)
            if unfolded:
                return unfolded
        is_block = (old.is_mapping or old.is_sequence) and not self._is_flow(old)
        if is_block and self.lines.position(start).line > self.lines.position(self._behind_key(old)).line:
            at = self._behind_key(old)
            return [self._edit(at, at, f" {render_value(value)}"), *self._without_lines([_Span(start, end)])]
        blank = " " if start == end and self.text[start - 1 : start] not in ("", " ", "\t") else ""
        return [self._edit(start, end, blank + render_value(value, like=self.text[start:end]))]

    def _unfold(self, above: Node, old: Node, entries: Mapping[str, Any]) -> list[Edit]:
        """Put entries below a key of a block that has no more than one word behind it, such as `{}`."""
        start, end = self._behind_key(old), self.end(old)
        is_one_line = self._line_start(start) == self._line_start(end)
        if not (is_one_line and _REST_OF_LINE.match(self.text, end)):
            return []
        indent = self._column(self._entries(above)[0].start) - 1 + self._step
        at = self._line_end(end)
        edits = [self._edit(start, end)] if start < end else []
        return [*edits, self._edit(at, at, self._ending + self._block(entries, indent))]

    def _in_block(self, holder: Node, entry: Mapping[str, Any]) -> list[Edit]:
        """Put an entry behind the last one of a mapping in block style; a new section at the end of the file."""
        entries = self._entries(holder)
        indent = self._column(entries[0].start) - 1
        fresh = self._ending + self._block(entry, indent)
        if holder is self.root:
            at = len(self.text.rstrip(" \t\r\n"))
            return [self._edit(at, at, self._ending + fresh)]
        at = self._behind(entries[-1].end, indent)
        return [self._edit(at, at, fresh)]

    def _in_braces(self, holder: Node, entry: Mapping[str, Any]) -> list[Edit]:
        return self._in_flow(holder, len(holder.value), [render_value(entry)[1:-1]])

    def _in_flow(self, holder: Node, index: int, fresh: Sequence[str]) -> list[Edit]:
        """Put entries into brackets, behind as many as `index` says."""
        entries = self._entries(holder)
        if index == 0:
            at = entries[0].start if entries else self._content(holder) + 1
            return [self._edit(at, at, ", ".join(fresh) + (", " if entries else ""))]
        last = entries[index - 1]
        rest = _REST_IN_BRACKETS.match(self.text, last.end)
        line = self._line_start(last.start)
        if rest is None or self.text[line : last.start].strip():
            return [self._edit(last.end, last.end, "".join(f", {each}" for each in fresh))]
        # Each entry stands on a line of its own, and so do those that are new.
        begin = self._ending + self.text[line : last.start]
        comma = [] if rest["comma"] else [self._edit(last.end, last.end, ",")]
        closing = "," if rest["comma"] else ""
        new = ",".join(begin + each for each in fresh) + closing
        if comma and rest.end() == last.end:
            return [self._edit(last.end, last.end, f",{new}")]
        return [*comma, self._edit(rest.end(), rest.end(), new)]

    def _remove(self, above: Sequence[Node], name: str) -> list[Edit]:
        """Take an entry out of the innermost mapping."""
        holder = above[-1]
        entries, index = self._entries(holder), list(holder.value).index(name)
        if len(entries) > 1:
            return self._cut_entries(holder, [index])
        if self._is_flow(holder):
            [entry], start, end = entries, self._content(holder), self.end(holder)
            if "#" in self.text[start : entry.start] + self.text[self._line_end(entry.end) : end]:
                return self._without_lines([entry])  # between the braces stand remarks that stay
            return [self._edit(start, end, "{}")]
        return self._replace(above[-2], holder, {}) if len(above) > 1 else [self._edit(*entries[0], "{}")]

    def _replace_items(self, old: Node, new: Sequence[Any]) -> list[Edit]:
        """Make one list of another; what stays keeps its place, comments and all."""
        items = old.elements()
        before, after = [repr(item.plain()) for item in items], [repr(value) for value in new]
        edits: list[Edit] = []
        gone: list[int] = []
        for tag, first, end, fresh, fresh_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            both = min(end - first, fresh_end - fresh)
            for item, value in zip(items[first : first + both], new[fresh:], strict=False):
                start, stop = self._content(item), self.end(item)
                blank = " " if start == stop else ""
                edits.append(self._edit(start, stop, blank + render_value(value, like=self.text[start:stop])))
            gone += range(first + both, end)
            if fresh + both < fresh_end:
                edits += self._insert_items(old, first + both, new[fresh + both : fresh_end])
        return edits + (self._cut_entries(old, gone) if gone else [])

    def _insert_items(self, old: Node, index: int, fresh: Sequence[Any]) -> list[Edit]:
        """Put items into a list, behind as many as `index` says."""
        if self._is_flow(old):
            return self._in_flow(old, index, [render_value(each) for each in fresh])
        entries = self._entries(old)
        dash = self._column(self.text.rindex("-", 0, entries[0].start)) - 1
        lines = [self._item(each, dash) for each in fresh]
        if index == 0:
            at = self._line_start(entries[0].start)
            return [self._edit(at, at, "".join(line + self._ending for line in lines))]
        end = entries[index - 1].end
        if index < len(entries):
            at = self._line_end(end)
        else:  # a remark that stands right below the key, as the dashes may do, is about what comes next
            at = self._behind(end, max(dash, self._column(self.lines.offset(old.where.range.start))))
        return [self._edit(at, at, "".join(self._ending + line for line in lines))]

    def _cut_entries(self, holder: Node, gone: Sequence[int]) -> list[Edit]:
        """Take some entries out of a mapping, or items out of a list, but not all of them."""
        entries = self._entries(holder)
        if all(self._is_alone(entries[index], in_list=holder.is_sequence) for index in gone):
            return self._without_lines([entries[index] for index in gone])
        if not self._is_flow(holder):
            raise UnsureError
        edits = []
        for first, end in _runs(gone):
            if end < len(entries):
                edits.append(self._edit(entries[first].start, entries[end].start))
                continue
            before = self.text[entries[first - 1].end : entries[first].start]
            start = entries[first].start if _LINE_END.search(before) else entries[first - 1].end
            edits.append(self._edit(start, entries[-1].end))
        return edits

    def _is_alone(self, entry: _Span, *, in_list: bool) -> bool:
        """Return whether nothing but a comment shares the lines of an entry."""
        before = self.text[self._line_start(entry.start) : entry.start]
        dash = r"-?" if in_list else ""
        rest = _REST_IN_BRACKETS.match(self.text, entry.end)
        return rest is not None and re.fullmatch(rf"[ \t]*{dash}[ \t]*", before) is not None

    def _without_lines(self, spans: Sequence[_Span]) -> list[Edit]:
        """Take the lines out on which some stretches of the text stand."""
        runs: list[_Span] = []
        for span in spans:
            end = self._line_end(span.end)
            ending = _LINE_END.match(self.text, end)
            start, end = self._line_start(span.start), ending.end() if ending else end
            if runs and runs[-1].end == start:
                start = runs.pop().start
            runs.append(_Span(start, end))
        edits = []
        for start, end in runs:
            if end == len(self.text) and not self.text.endswith(("\r", "\n")):  # it goes on without a last line end
                start = len(re.sub(rf"{_BREAK}\Z", "", self.text[:start]))
            edits.append(self._edit(start, end))
        return edits


def _runs(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbours among some indexes, as the first of them and the one behind the last."""
    first = None
    for index in indexes:
        if first is None:
            first = index
        if index + 1 not in indexes:
            yield first, index + 1
            first = None
