"""A drawing in the languages of other programs: Mermaid, and DOT of Graphviz."""

from __future__ import annotations

from bub.pipeline.show.drawing import OFF, Box, Drawing, keep_printable

_CLASSES = (
    ("guard", "◆◇", "fill:#fff3cd,stroke:#b58900,color:#000000"),
    (OFF, "○", "fill:#eeeeee,stroke:#bbbbbb,color:#999999,stroke-dasharray:3"),
)
"""What stages of some glyphs look like."""


def mermaid(drawing: Drawing) -> str:
    """Return the graph as a Mermaid flowchart, as GitHub and many editors draw it; ends with a line break."""
    names = {box.id: f"s{index}" for index, box in enumerate(drawing.boxes)}
    lines = ["---", f"title: {_yaml(f'{drawing.title} - {drawing.bound}')}", "---", "flowchart TD"]
    for number, (each, boxes) in enumerate(drawing.groups):
        inset = "  " if each is None else "    "
        if each is not None:
            lines.append(f'  subgraph each{number}["{_entities(f"for each of {each}")}"]')
        lines += [f"{inset}{names[box.id]}{_shape(box)}" for box in boxes]
        if each is not None:
            lines.append("  end")
    for edge in drawing.edges:
        arrow = "-. clean-up .->" if edge.cleanup else "-->"
        lines.append(f"  {names[edge.start]} {arrow} {names[edge.end]}")
    for name, glyphs, style in _CLASSES:
        members = [names[box.id] for box in drawing.boxes if box.glyph in glyphs]
        if members:
            lines += [f"  classDef {name} {style}", f"  class {','.join(members)} {name}"]
    return "\n".join(lines) + "\n"


def _shape(box: Box) -> str:
    label = f'"{_entities(box.id)}<br/>{_entities(box.facts)}"'
    opening, closing = {"gate": ("{{", "}}"), "claiming": ("{", "}")}.get(box.kind, ("[", "]"))
    return f"{opening}{label}{closing}"


def _entities(text: str) -> str:
    """Return a text inside Mermaid's quotes: what could end it, or be read as its markup, as an entity."""
    return "".join(one if one.isalnum() or one in " _.,-:" else f"#{ord(one)};" for one in keep_printable(text))


def _yaml(text: str) -> str:
    escaped = keep_printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def dot(drawing: Drawing) -> str:
    """Return the graph in the DOT language of Graphviz; ends with a line break."""
    lines = [
        "digraph pipeline {",
        f"  label={_quote(f'{drawing.title} - {drawing.bound}')}; labelloc=t; rankdir=TB;",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    for number, (each, boxes) in enumerate(drawing.groups):
        inset = "  " if each is None else "    "
        if each is not None:
            lines += [f"  subgraph cluster_{number} {{", f"    label={_quote(f'for each of {each}')}; labelloc=t;"]
        lines += [f"{inset}{_quote(box.id)} [{_attributes(box)}];" for box in boxes]
        if each is not None:
            lines.append("  }")
    for edge in drawing.edges:
        style = ' [style=dashed, label="clean-up"]' if edge.cleanup else ""
        lines.append(f"  {_quote(edge.start)} -> {_quote(edge.end)}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(box: Box) -> str:
    attributes: dict[str, str] = {"label": _quote(box.id, box.facts)}
    if box.kind in ("gate", "claiming"):
        attributes |= {"shape": "hexagon" if box.kind == "gate" else "diamond", "style": "solid"}
    if box.off:
        attributes |= {"color": "gray", "fontcolor": "gray", "style": "dashed"}
    return ", ".join(f"{name}={value}" for name, value in attributes.items())


def _quote(*lines: str) -> str:
    """Lines of text in DOT's quotes; `&` begins an entity there, and a backslash an escape."""
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
    return '"' + "\\n".join(keep_printable(line).translate(escapes) for line in lines) + '"'
