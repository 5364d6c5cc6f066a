"""A folder with a pipeline file and two plugins, of a file and of a package, that a test locks and then changes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bub.framework import load_pipeline
from bub.pipeline.source.merge import load_document
from bub.plugins.lock.installed import Installed
from bub.runtime.snapshot import Snapshot
from bub.setup.locking.proposing import look, place_of, propose, read_old

PIPELINE = """\
version: 1
extends: bub:default
plugins:
  radio: {path: radio.py}
profiles:
  default:
    plugins: [storm, radio]
    tools: {allow: ["fs.read", "radio.play", "storm.warn"]}
  guest:
    plugins: [storm]
"""

RADIO = '''\
import json
from pathlib import Path
from types import SimpleNamespace

import bub
from bub import hookimpl
from bub.channels import Channel

SAID = json.loads(Path(__file__).with_name("radio.json").read_text())


def make_tool(name, told):
    def play(song: str) -> str:
        return song

    def play_loud(song: str, volume: int) -> str:
        return song

    more = {"reaches": told.get("reaches"), "once": told.get("once", False)}
    return bub.tool(name=name, description=told["says"], **more)(play_loud if told.get("loud") else play)


def plugin():
    made = SimpleNamespace()
    made.provide_tools = hookimpl(lambda: [make_tool(name, told) for name, told in SAID["tools"].items()])
    made.provide_channels = hookimpl(lambda message_handler: [make_channel(name) for name in SAID["channels"]])
    for name in SAID["hooks"]:
        setattr(made, name, hookimpl(specname=name)(lambda: None))
    return made


def make_channel(given):
    class Waves(Channel):
        name = given

        async def start(self, stop_event):
            """Do nothing."""

        async def stop(self):
            """Do nothing."""

    return Waves()
'''
"""A plugin that brings what a file beside it says, so that it may change while its own file does not."""

STORM = '''\
import bub
from bub import hookimpl


@bub.tool(name="storm.warn")
def warn(text: str) -> str:
    """Warn of a storm."""
    return text


@hookimpl
def provide_tools():
    return [warn]
'''

SAID: Mapping[str, Any] = {
    "tools": {"radio.play": {"says": "Play a song."}, "radio.stop": {"says": "Stop it."}},
    "hooks": ["on_error"],
    "channels": ["waves"],
}


class Folder:
    """The folder; `site` is where the package is installed, which has to be on the path."""

    def __init__(self, path: Path) -> None:
        self.path, self.site = path / "work", path / "site"
        self.path.mkdir()
        self.file = self.write("pipelines.yaml", PIPELINE)
        self.write("radio.py", RADIO)
        self.say(**SAID)
        self.install("1.2", STORM)

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.write_text(text, encoding="utf-8")
        return file

    def say(self, **said: Any) -> None:
        """Let the plugin `radio` bring something else; its own file stays as it is."""
        self.write("radio.json", json.dumps({**SAID, **said}))

    def install(self, version: str, code: str, *, editable: bool = False) -> None:
        """Install the package of the plugin `storm`, as an installer does, over what is there of it."""
        package, info = self.site / "bub_storm", self.site / f"bub_storm-{version}.dist-info"
        for old in self.site.glob("bub_storm-*.dist-info"):
            old.rename(info)
        for folder in (package, info):
            folder.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(code, encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bub-storm\nVersion: {version}\n")
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: py3-none-any\n")
        (info / "entry_points.txt").write_text("[bub]\nstorm = bub_storm\n")
        digest = base64.urlsafe_b64encode(hashlib.sha256(code.encode()).digest()).rstrip(b"=").decode()
        own = f"bub_storm-{version}.dist-info"
        rows = [f"bub_storm/__init__.py,sha256={digest},{len(code)}", f"{own}/METADATA,sha256=x,1", f"{own}/RECORD,,"]
        (info / "RECORD").write_text("\n".join(rows) + "\n")
        if editable:
            (info / "direct_url.json").write_text('{"url": "file:///src", "dir_info": {"editable": true}}')

    @property
    def lock(self) -> Path:
        return self.path / "pylock.bub.toml"

    def make_lock(self, name: str | None = None) -> list[str]:
        """Make the lock, or take over what one plugin brings now; returns the lines of what changes."""
        document = load_document(self.file)
        found = look(document, self.path, {}, lambda done: None)
        proposal = propose(place_of(document), read_old(self.lock), found, where_from, name)
        self.lock.write_text(proposal.text, encoding="utf-8")
        return [str(change) for change in proposal.changes]

    def load(self, profile: str = "default") -> Snapshot:
        """Load the file as a start does."""
        document = load_document(self.file)
        return load_pipeline(document, profile=profile, workspace=self.path, environ={}, elsewhere=True)


def where_from(wanted: Iterable[str], installed: Mapping[str, Installed]) -> list[Mapping[str, Any]]:
    """Say of each package that it comes from a wheel of its name; no index is asked."""
    return [
        {
            "name": name,
            "version": installed[name].version,
            "wheels": [{"url": f"https://example.org/{name}.whl", "hashes": {"sha256": "0" * 64}}],
        }
        for name in sorted(wanted)
    ]
