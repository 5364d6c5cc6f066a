"""The place a name is defined at, and every place that has to change with it: across files that extend one another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bub.base.diagnostics import Place, Position, Range
from bub.lsp.buffers import Encoding
from bub.lsp.jsonrpc import INVALID_PARAMS, JsonRpcError
from bub.lsp.places import Mention, find_spot, mention_at, mentions_in
from bub.lsp.reading import Open, location_of
from bub.pipeline.plan.origins import origins_of
from bub.pipeline.plan.stages import NAME
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import Layer

_RENAMED = ("stage", "profile")
"""What can be renamed: the name of a plugin or a known hook point is another's to give."""


def render_definition(pipeline: Open, at: Position, encoding: Encoding) -> list[dict[str, Any]]:
    """Return where the name at a position is defined, or where else the value there is set, the first place first."""
    root = pipeline.root
    mention = mention_at(root, at) if root is not None else None
    if root is None:
        return []
    if mention is not None:
        places = list(_definitions(pipeline, mention))
    else:
        spot = find_spot(root, at)
        origins = origins_of(pipeline.lookup(spot.steps), spot.steps) if spot is not None else ()
        places = [origin.place for origin in origins if origin.place is not None]
    found = (location_of(pipeline, place.file, place.range, encoding) for place in places[:1])
    return [location for location in found if location is not None]


def _definitions(pipeline: Open, mention: Mention) -> Iterator[Place]:
    for layer in pipeline.document.layers:
        for other in mentions_in(layer.root):
            if other.defines and (other.thing, other.name) == (mention.thing, mention.name):
                yield other.place


def can_rename(pipeline: Open, at: Position) -> Mention:
    """Return the name at a position that can be renamed; raises `JsonRpcError` that says why there is none."""
    mention = mention_at(pipeline.root, at) if pipeline.root is not None else None
    if mention is None or mention.thing not in _RENAMED:
        raise JsonRpcError(INVALID_PARAMS, "only stages and profiles can be renamed")
    owner = _owner(pipeline, mention)
    if owner is None:
        raise JsonRpcError(INVALID_PARAMS, f"nothing defines the {mention.thing} `{mention.name}`")
    if owner.shipped:
        raise JsonRpcError(INVALID_PARAMS, f"the {mention.thing} `{mention.name}` is one of {owner.name}")
    return mention


def _owner(pipeline: Open, mention: Mention) -> Layer | None:
    """Return the file that first defines what a name means."""
    for layer in pipeline.document.layers:
        if any(_is_same(other, mention) and other.defines for other in mentions_in(layer.root)):
            return layer
    return None


def _is_same(one: Mention, other: Mention) -> bool:
    return (one.thing, one.name) == (other.thing, other.name)


def render_rename(
    pipeline: Open, around: Iterable[Open], at: Position, name: str, encoding: Encoding
) -> dict[str, Any]:
    """Return the edits that give the stage or profile at a position another name, in every file that speaks of it.

    `around` are the other pipelines that may extend the file which defines it. A stage that calls the hook point of
    its own name goes on to call that one. Raises `JsonRpcError` for what cannot be renamed, or not so.
    """
    mention = can_rename(pipeline, at)
    owner = _owner(pipeline, mention)
    assert owner is not None
    if not NAME.fullmatch(name):
        raise JsonRpcError(INVALID_PARAMS, "a name has small letters, digits and `_`, and begins with a letter")
    home = _identity(pipeline, owner.file)
    family = [
        pipeline,
        *(other for other in around if home in {_identity(other, layer.file) for layer in other.document.layers}),
    ]
    edits: dict[str, _Edits] = {}
    for member in family:
        for layer in member.document.layers:
            for other in mentions_in(layer.root):
                if other.defines and (other.thing, other.name) == (mention.thing, name):
                    raise JsonRpcError(INVALID_PARAMS, f"there is a {mention.thing} `{name}` in {layer.file} already")
                if _is_same(other, mention) and not layer.shipped:
                    _add(edits, member, other.place, _in_quotes(member, other.place, name), encoding)
            for place, text in _hooks_to_keep(layer, mention) if _identity(member, layer.file) == home else ():
                _add(edits, member, place, text, encoding)
    return {"changes": {changed.uri: list(changed.by_range.values()) for changed in edits.values()}}


def _identity(pipeline: Open, file: str) -> str:
    path = pipeline.path_of(file)
    return str(path.resolve()) if path is not None else pipeline.buffer.uri


class _Edits(msgspec.Struct):
    """What changes in one file, each range once, however many pipelines it is in; `uri` is the client's word for it."""

    uri: str
    by_range: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


def _add(edits: dict[str, _Edits], pipeline: Open, place: Place, text: str, encoding: Encoding) -> None:
    location = location_of(pipeline, place.file, place.range, encoding)
    if location is None:
        return
    changed = edits.setdefault(_identity(pipeline, place.file), _Edits(location["uri"]))
    if place.file == pipeline.document.file:
        changed.uri = pipeline.buffer.uri
    changed.by_range[str(location["range"])] = {"range": location["range"], "newText": text}


def _in_quotes(pipeline: Open, place: Place, name: str) -> str:
    """Return a name in the quotes that are around the old one."""
    lines = re.split(r"\r\n|\r|\n", pipeline.document.sources.get(place.file, ""))
    start = place.range.start
    line = lines[start.line - 1] if start.line <= len(lines) else ""
    quote = line[start.column - 1 : start.column]
    return f"{quote}{name}{quote}" if quote in ("'", '"') and quote else name


def _hooks_to_keep(layer: Layer, mention: Mention) -> Iterator[tuple[Place, str]]:
    """Yield what to write into a stage that is renamed, so that it calls the same hook point as before."""
    stage: Node | None = layer.root.get("stages", mention.name) if mention.thing == "stage" else None
    if stage is None or stage.get("hook") is not None or not stage.is_mapping:
        return
    said, start = f"hook: {mention.name}", stage.place.range.start
    keys = [child.key for _, child in stage.items() if child.key is not None]
    if keys and keys[0].range.start == start:  # a block: one key a line
        yield _at(stage.place, start), f"{said}\n{' ' * (start.column - 1)}"
    else:
        inside = type(start)(start.line, start.column + 1)
        yield _at(stage.place, inside), f"{said}, " if keys else said


def _at(place: Place, position: Position) -> Place:
    return Place(place.file, Range(position, position), place.layer)
