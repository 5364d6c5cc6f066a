"""What a package index shows of the README: its links lead to the files of the release, wherever they are read."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = r"(\]\(|(?:src|srcset|href)=\")(?![a-z]+:|#)([^)\"\s]+)"
"""A link of Markdown or HTML that leads to a file of the repository."""

_PICTURE = (".svg", ".png", ".gif")


class PublicReadme(MetadataHookInterface):
    """Makes links of the README absolute; `urls.Repository` in pyproject.toml is the one address of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address, release = metadata["urls"]["Repository"], f"v{metadata['version']}"

        def lead_there(found: re.Match[str]) -> str:
            view = "raw" if found[2].endswith(_PICTURE) else "blob"
            return f"{found[1]}{address}/{view}/{release}/{found[2]}"

        metadata["readme"] = {"content-type": "text/markdown", "text": re.sub(_LINK, lead_there, text)}
