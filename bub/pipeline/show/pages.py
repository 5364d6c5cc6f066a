"""The facts of `bub explain` as a person reads them: lines for a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bub.base.layout import EMPTY, Line, Span, Tone, cells, columns, indent_text, label_text, line, pad_text, widest
from bub.hooks.facts import START_VALUES
from bub.pipeline.plan.layers.person import LAYER
from bub.pipeline.plan.origins import Origin, flow
from bub.pipeline.show.facts import Facts, HookFacts, Implementer, Key, PipelineFacts, StageFacts, ValueFacts

_LEAST_NAMES = 14
"""Cells that the plugins of a stage need, to be behind it and not below."""
_KEY = 14
"""The column at which the text about a key begins."""
_NOBODY = "nobody"
_REFERENCE = "${…}"
"""What is in a column for a reference, which has no room there."""


def page(facts: Facts, width: int) -> list[Line]:
    """Return what is known of a pipeline, a stage, a hook point or a value, in lines of at most `width` cells."""
    match facts:
        case PipelineFacts():
            return list(_pipeline(facts, width))
        case StageFacts():
            return list(_stage(facts, width))
        case HookFacts():
            return list(_hook(facts, width))
        case ValueFacts():
            return list(_value(facts, width))


# The pipeline


def _pipeline(facts: PipelineFacts, width: int) -> Iterator[Line]:
    over = f", over {', '.join(facts.parents)}" if facts.parents else ""
    yield from label_text("file", f"{facts.file}{over}", width, 9)
    bases = f", over {', '.join(facts.bases)}" if facts.bases else ""
    yield from label_text("profile", f"{facts.profile}{bases}", width, 9)
    if facts.description:
        yield EMPTY
        yield from indent_text(facts.description, width, 0)
    yield EMPTY
    if facts.stages:
        yield from _steps(facts, width)
    else:
        yield line("(no stages)", "faint")
    yield EMPTY
    yield from _rest(facts, width)


def _steps(facts: PipelineFacts, width: int) -> Iterator[Line]:
    """Yield the stages and the points that are fired inside them, in columns if there is room for them."""
    number = len(str(len(facts.stages)))
    rows = [
        [
            Span(str(index).rjust(number), "faint"),
            Span(stage.id, _tone(stage)),
            Span(stage.kind or "?", _tone(stage)),
            Span(_in_short(stage.timeout), _tone(stage)),
            Span(stage.on_failure, _tone(stage)),
        ]
        for index, stage in enumerate(facts.stages, 1)
    ]
    rows += [
        [Span(""), Span(hook.name), Span(hook.kind), Span(_in_short(hook.timeout)), Span(hook.on_failure or "-")]
        for hook in facts.fired
    ]
    head = [Span("", "faint"), *(Span(title, "faint") for title in ("stage", "kind", "time-out", "on failure"))]
    asked = [stage.asked for stage in facts.stages] + [hook.asked for hook in facts.fired]
    taken = sum(widest(row[column].text for row in [head, *rows]) + 2 for column in range(len(head)))
    room = width - taken
    wide = room >= _LEAST_NAMES
    if not wide:
        rows, head = [row[:3] for row in rows], head[:3]
    if wide and any(one is not None for one in asked):
        head = [*head, Span("asks, in order", "faint")]
        names = [_names(one) for one in asked]
        rows = [[*row, Span(name if cells(name) <= room else "")] for row, name in zip(rows, names, strict=True)]
    title, *lines = columns([head, *rows])
    yield title
    for stage, first in zip(facts.stages, lines, strict=False):
        yield first
        below = "; ".join(_details(stage, wide, room))
        yield from indent_text(below, width, number + 2, "faint")
    if facts.fired:
        yield EMPTY
        yield from indent_text("hook points that are fired inside a stage", width, 0, "faint")
        for hook, first in zip(facts.fired, lines[len(facts.stages) :], strict=True):
            yield first
            if hook.asked is not None and not (wide and cells(_names(hook.asked)) <= room):
                yield from indent_text(f"asks {_names(hook.asked)}", width, number + 2, "faint")


def _details(stage: StageFacts, wide: bool, room: int) -> Iterator[str]:
    """Yield what else there is to say of a stage: what did not fit behind it, what is special, and its values."""
    if stage.asked is not None and not (wide and cells(_names(stage.asked)) <= room):
        yield f"asks {_names(stage.asked)}"
    if not wide or _in_short(stage.timeout) == _REFERENCE:
        yield f"time-out {stage.timeout or 'none'}"
    if not wide:
        yield f"on failure {stage.on_failure}"
    yield from stage.marks
    takes = [name for name, makers in stage.takes.items() if makers and name not in START_VALUES]
    makes = [name for name in stage.makes if name not in START_VALUES] or list(stage.makes)
    if takes or makes:
        yield f"{', '.join(takes)}{' → ' if makes else ''}{', '.join(makes)}".strip()


def _in_short(timeout: str) -> str:
    return _REFERENCE if "${" in timeout else timeout or "-"


def _tone(stage: StageFacts) -> Tone:
    if stage.enabled == "false":
        return "faint"
    return "warn" if stage.kind in ("gate", "claiming") else ""


def _names(asked: tuple[Implementer, ...] | None) -> str:
    return ", ".join(one.plugin for one in asked or ()) or _NOBODY


def _rest(facts: PipelineFacts, width: int) -> Iterator[Line]:
    plugins = (f"{name} ({note})" if note else name for name, note in facts.plugins.items())
    yield from label_text("plugins", ", ".join(plugins), width, 9)
    if facts.tools is None:
        yield from label_text("tools", "the read-only ones", width, 9)
    else:
        tools = (f"{verb} {', '.join(names) or 'none'}" for verb, names in facts.tools.items())
        yield from label_text("tools", "; ".join(tools), width, 9)
    label = "servers"
    for name, what in facts.servers.items():
        yield from label_text(label, f"{name}: {what}", width, 9)
        label = ""
    label = "routes"
    for match, profile in facts.routes:
        yield from label_text(label, f"{match} → {profile}", width, 9)
        label = ""
    for name, said in facts.schedules.items():
        yield from label_text("schedule", f"{name}: {said}", width, 9)
    for name, limit in facts.limits.items():
        yield from label_text(name, limit, width, max(9, len(name) + 1))


# Stages and hook points


def _stage(facts: StageFacts, width: int) -> Iterator[Line]:
    yield from _title(f"stage {facts.id}", str(facts.place), width)
    yield from indent_text(facts.doc, width, 0)
    yield EMPTY
    yield from _takes(facts, width)
    if facts.makes:
        for name, takers in facts.makes.items():
            yield from label_text("makes", f"{name}, taken by {', '.join(takers) or 'nobody'}", width, _KEY)
    every = facts.before and len(facts.before) > len(facts.waits_for)
    waits = ", ".join(facts.waits_for) + (" and all stages above" if every else "")
    yield from label_text("waits for", waits or "nothing", width, _KEY)
    if facts.beside:
        yield from label_text("beside", ", ".join(facts.beside), width, _KEY)
    if facts.shown:
        yield from label_text("words", facts.shown, width, _KEY)
    if facts.cleaned_by:
        yield from label_text("clean-up", ", ".join(facts.cleaned_by), width, _KEY)
    yield EMPTY
    yield from _keys(facts.keys, width)
    yield from _implementations(facts.asked, width)


def _title(name: str, place: str, width: int) -> Iterator[Line]:
    if place and cells(name) + 2 + cells(place) <= width:
        yield (Span(name, "strong"), Span(f"  {place}", "faint"))
    else:
        yield line(name, "strong")
        yield from indent_text(place, width, 0, "faint")


def _takes(facts: StageFacts, width: int) -> Iterator[Line]:
    label = "takes"
    for name, makers in facts.takes.items():
        if makers:
            yield from label_text(label, f"{name}, made by {', '.join(makers)}", width, _KEY)
            label = ""
    for title, wanted in (("there from the start", ()), ("made by nobody, so None", None)):
        names = [name for name, makers in facts.takes.items() if makers == wanted]
        if names:
            yield from label_text(label, f"{', '.join(names)}: {title}", width, _KEY)
            label = ""


def _hook(facts: HookFacts, width: int) -> Iterator[Line]:
    yield from _title(f"hook point {facts.name}", str(facts.place or ""), width)
    yield from indent_text(facts.doc, width, 0)
    yield EMPTY
    yield from label_text("called by", facts.called, width, _KEY)
    yield EMPTY
    yield from _keys(facts.keys, width)
    yield from _implementations(facts.asked, width)


def _keys(keys: Iterable[Key], width: int) -> Iterator[Line]:
    """Yield each key with its value and what it means: those that somebody set, and who did, before all others."""
    said = [key for key in keys if key.origins]
    yield from _key_rows(said, width)
    others = [key for key in keys if not key.origins]
    if said and others:
        yield EMPTY
    if others:
        yield line("by default", "faint")
    yield from _key_rows(others, width)


def _key_rows(keys: Iterable[Key], width: int) -> Iterator[Line]:
    for key in keys:
        where = _sources(key.origins)
        value, *more = label_text(key.name, key.value, width, _KEY)
        fits = not more and sum(cells(span.text) for span in value) + 2 + cells(where) <= width
        yield (*value, Span(f"  {where}", "faint")) if fits and where else value
        yield from more
        if not fits:
            yield from indent_text(where, width, _KEY, "faint")
        yield from indent_text(key.meaning, width, _KEY, "faint")


def _sources(origins: tuple[Origin, ...]) -> str:
    """Return the place that counts, and those it was laid over, the strongest first; "" if nobody set it."""
    places = [_where(origin) for origin in reversed(origins)]
    return ", over ".join([places[0], ", ".join(places[1:])] if places[1:] else places)


def _where(origin: Origin) -> str:
    """Return the place of a value, and the profile that says it there, or that it is the person's own file."""
    layer = f" ({origin.layer})" if origin.layer.startswith("profile ") or origin.layer == LAYER else ""
    return f"{origin.where}{layer}"


def _implementations(asked: tuple[Implementer, ...] | None, width: int) -> Iterator[Line]:
    if asked is None:
        return
    yield EMPTY
    title = "implementations, in call order" if asked else "no plugin of the profile implements it"
    yield from indent_text(title, width, 0, "faint")
    yield from columns(
        [
            [
                Span(str(index).rjust(2), "faint"),
                Span(one.plugin),
                Span(one.hook),
                Span(f"{one.file}:{one.line}" if one.file is not None else "", "faint"),
            ]
            for index, one in enumerate(asked, 1)
        ]
    )


# Values


def _value(facts: ValueFacts, width: int) -> Iterator[Line]:
    if facts.below:
        yield line(facts.path, "strong")
    else:
        value = flow(facts.origins[-1].value.plain()) if facts.origins else f"{facts.default} (by default)"
        yield from _headline(facts.path, value, width)
    yield from indent_text(facts.meaning, width, 0)
    if facts.allowed:
        yield from indent_text(f"One of {', '.join(facts.allowed)}.", width, 0)
    yield EMPTY
    if facts.below:
        for path, origin in facts.below:
            yield from _headline(path, _value_in_words(origin), width)
            yield from indent_text(_where(origin), width, 4, "faint")
    elif facts.origins:
        yield line("set by, the last one counts" if len(facts.origins) > 1 else "set by", "faint")
        yield from _origin_rows(facts, width)
    else:
        yield line("nobody set it", "faint")
    if facts.note:
        yield EMPTY
        yield from indent_text(facts.note, width, 0, "faint")


def _value_in_words(origin: Origin) -> str:
    """Return a value in front of its place, which needs not be said twice if the value is a secret."""
    return flow(origin.value.plain()).removesuffix(f" in {origin.where}")


def _headline(path: str, value: str, width: int) -> Iterator[Line]:
    """Yield a path and its value on one line, or the value set in below."""
    if cells(path) + 2 + cells(value) <= width:
        yield (Span(f"{path}:", "strong"), Span(f" {value}"))
    else:
        yield line(f"{path}:", "strong")
        yield from indent_text(value, width, 4)


def _origin_rows(facts: ValueFacts, width: int) -> Iterator[Line]:
    """Yield every place that set the value, the one that counts marked."""
    rows = []
    for origin in facts.origins:
        path = f" as {origin.path}" if origin.path != facts.path else ""
        rows.append((_value_in_words(origin), f"{_where(origin)}{path}", origin is facts.origins[-1]))
    values = widest(value for value, _, _ in rows)
    in_columns = 4 + values + 2 + widest(where for _, where, _ in rows) <= width
    for value, where, counts in rows:
        mark, tone = (Span("  * "), "") if counts else (Span("    "), "faint")
        if in_columns:
            yield (mark, Span(pad_text(value, values + 2), tone), Span(where, "faint"))  # type: ignore[arg-type]
        else:
            yield from _mark_first(mark, indent_text(value, width - 4, 0, tone))  # type: ignore[arg-type]
            yield from indent_text(where, width, 4, "faint")


def _mark_first(mark: Span, lines: list[Line]) -> Iterator[Line]:
    for index, one in enumerate(lines):
        yield (mark if index == 0 else Span("    "), *one)
