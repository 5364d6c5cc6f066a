"""What the pictures of the documentation have in common: colours for light and dark, no font or address of others."""

from __future__ import annotations

from html import escape

MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
_LIGHT = {"ink": "1f2328", "faint": "59636e", "red": "cf222e", "green": "1a7f37", "yellow": "9a6700", "blue": "0969da"}
_DARK = {"ink": "f0f6fc", "faint": "9198a1", "red": "ff7b72", "green": "7ee787", "yellow": "d29922", "blue": "79c0ff"}


def _fills(colours: dict[str, str]) -> str:
    return "".join(f".{name}{{fill:#{colour}}}" for name, colour in colours.items())


STYLE = f"""
text{{font:13px {MONO};white-space:pre}}.strong{{font-weight:600}}.small{{font-size:11px}}
.paper{{fill:#fff;stroke:#d1d9e0}}.bar{{fill:#f6f8fa}}.line{{fill:none;stroke:#818b98;stroke-width:1.6}}
.card{{fill:#f6f8fa;stroke:#d1d9e0}}.stream{{fill:#ddf4ff;stroke:#54aeff}}.gate{{fill:#fff8c5;stroke:#d4a72c}}
{_fills(_LIGHT)}
@media(prefers-color-scheme:dark){{
.paper{{fill:#0d1117;stroke:#3d444d}}.bar{{fill:#151b23}}.line{{stroke:#656c76}}
.card{{fill:#151b23;stroke:#3d444d}}.stream{{fill:#0c1d33;stroke:#1f6feb}}.gate{{fill:#272115;stroke:#9e6a03}}
{_fills(_DARK)}}}
"""


def sheet(title: str, width: float, height: float, body: list[str]) -> str:
    """A picture on its paper; ends with a line break."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="what" xml:space="preserve">'
    )
    paper = box("paper", 0.5, 0.5, width - 1, height - 1, 8)
    return "\n".join(
        [head, f'<title id="what">{escape(title)}</title>', f"<style>{STYLE}</style>", paper, *body, "</svg>\n"]
    )


def box(style: str, x: float, y: float, width: float, height: float, round_by: float = 6) -> str:
    """A rectangle with round corners."""
    return f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_by:g}"/>'


def words(style: str, x: float, y: float, text: str, width: float) -> str:
    """A text that is so wide in whatever font."""
    return (
        f'<text class="{style}" x="{x:g}" y="{y:g}" textLength="{width:g}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(text, quote=False)}</text>"
    )
