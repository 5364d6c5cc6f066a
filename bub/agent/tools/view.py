"""The tool `fs.view`: an image of the workspace, for the model to look at."""

from __future__ import annotations

from typing import Annotated

from bub.agent.tools.reach import Reach
from bub.channels.attachments import IMAGES, LARGEST_IMAGE, as_media, mime_type_of, too_large
from bub.tools import ToolContext, ToolError, ToolResult, tool


@tool(name="fs.view", read_only=True, path="path", reads="private")
def view(path: Annotated[str, "The file, from the workspace."], *, context: ToolContext) -> ToolResult:
    """Look at an image (PNG, JPEG, GIF, WebP)."""
    place = Reach.of(context).place(path)
    with place.parent() as folder:
        file, status = place.open(folder)
        with file:
            begin = file.read(1024)
            mime_type = mime_type_of(begin)
            if mime_type is None or not mime_type.startswith("image/"):
                what = f"{place.shown} is no image ({IMAGES})"
                raise ToolError(what, help="fs.read shows text and PDFs", kind="invalid_input")
            if status.st_size > LARGEST_IMAGE:
                error = too_large(place.shown, status.st_size, LARGEST_IMAGE)
                raise ToolError(str(error), help=error.help, kind="invalid_input")
            data = begin + file.read(LARGEST_IMAGE)
    media = as_media(data, mime_type, place.shown)
    return ToolResult(f"[image: {place.shown}, {mime_type}, {len(data):,} bytes]", (media,))
