"""The processes that tests start run what is in this checkout, whatever environment the tests themselves run in."""

from __future__ import annotations

from pathlib import Path

from fakes.command_line import ROOT, bub
from fakes.gateway import gateway

WHERE = """
import bub
import bub_plugins
from pathlib import Path
from bub import hookimpl

Path("seen").write_text("\\n".join([bub.__file__, *bub_plugins.__path__]))

class Where:
    @hookimpl
    def build_prompt(self, message):
        return "hi"

plugin = Where
"""

FILE = """
version: 1
extends: bub:default
plugins: {where: {path: where.py}}
profiles: {default: {plugins: [where]}}
"""


def test_a_command_and_a_gateway_run_bub_and_the_plugins_of_this_checkout(tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text(WHERE)
    (tmp_path / "pipelines.yaml").write_text(FILE)
    ours = "\n".join((str(ROOT / "bub" / "__init__.py"), str(ROOT / "plugins" / "bub_plugins")))
    seen = tmp_path / "seen"

    assert bub(tmp_path, "validate", "--plugins", "pipelines.yaml").returncode == 0
    assert seen.read_text() == ours
    seen.unlink()
    with gateway(tmp_path, ready=False) as running:
        running.process.wait()  # there is no channel, so that it ends
    assert seen.read_text() == ours
