"""`bub validate` on files that nobody would write: it ends in findings, in time, and prints nothing that it should not.

`make fuzz` runs this for `FUZZ_SECONDS` (600). What fails is made as small as can be and kept in `found/`, beside what
happened. From there it becomes a case of the corpus, once it is mended.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from bub.pipeline.check.validate import check_files
from bub.pipeline.report.annotations import render_annotations
from bub.pipeline.report.report import render_json, render_text
from bub.pipeline.report.sarif import render_sarif
from bub.pipeline.report.summary import summary
from bub.pipeline.source.discovery import resolve_file

from .inputs import ROOT, inputs

FOUND = Path(__file__).parent / "found"
SLOWEST = 2.0
SECRET = "never-to-be-printed-4711"
_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")


class Folder:
    """A folder with the corpus in it, so that what a file extends is there, and the file that is looked at."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        for file in (ROOT / "tests" / "testdata" / "bad").glob("*.yaml"):
            shutil.copy(file, folder)

    def check(self, data: bytes) -> None:
        """Raise whatever is wrong with what `bub validate` does about `data`."""
        (self.path / "pipelines.yaml").write_bytes(data)
        with chdir(self.path), _limited(SLOWEST):
            found = check_files([resolve_file("pipelines.yaml")], environ={"FUZZ_SECRET": SECRET})
            printed = {
                "text": render_text(found.diagnostics, found.sources) + summary(found.diagnostics, 1),
                "json": render_json(found.diagnostics, 1),
                "github": render_annotations(found.diagnostics, self.path),
                "sarif": render_sarif(found.diagnostics, found.sources, self.path),
            }
        for form, text in printed.items():
            assert SECRET not in text, f"{form} prints the value of a variable"
            text.encode("utf-8")
        for form in ("text", "github"):
            unseen = _UNSEEN.search(printed[form])
            assert unseen is None, f"{form} prints {unseen.group() if unseen else ''!r}"
        json.loads(printed["sarif"])
        report = json.loads(printed["json"])
        assert report["ok"] is found.ok
        _check_ranges(report["diagnostics"], self.path)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Let what is done inside take so many seconds of CPU at most; it may be in an endless loop."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it takes over {seconds} seconds")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _check_ranges(diagnostics: list[dict[str, Any]], folder: Path) -> None:
    """Every finding of the file lies within it, begins before it ends, and comes in the order of its place."""
    text = (folder / "pipelines.yaml").read_bytes().decode("utf-8", errors="replace").removeprefix("\ufeff")
    lines = re.split(r"\r\n|\r|\n", text)
    places = []
    for item in diagnostics:
        start, end = ((item["range"][side]["line"], item["range"][side]["column"]) for side in ("start", "end"))
        assert start <= end
        if item["file"] == "pipelines.yaml":
            places.append(start)
            for line, column in (start, end):
                assert 1 <= line <= len(lines), f"{item} lies outside the file"
                assert 1 <= column <= len(lines[line - 1]) + 1, f"{item} lies outside its line"
    assert places == sorted(places)


def main(seconds: float) -> int:
    """Look for trouble for so many seconds; the exit code says whether there was any."""
    known: set[str] = set()
    tried = 0
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as temporary:
        folder = Folder(Path(temporary))

        def look(data: bytes) -> None:
            nonlocal tried
            if time.monotonic() < until:
                tried += 1
                folder.check(data)

        while time.monotonic() < until:
            trouble = _round(look, known)
            if trouble is not None:
                data, told = trouble
                known.add(_kind_of(told))
                _keep(data, told)
    print(f"{tried:,} files in {seconds:.0f} seconds: {len(known)} kinds of trouble")
    return 1 if known else 0


def _round(look: Callable[[bytes], None], known: set[str]) -> tuple[bytes, BaseException] | None:
    """The smallest file that hypothesis finds to fail in a way not yet known, and how it fails."""
    last: list[tuple[bytes, BaseException]] = []

    @seed(random.getrandbits(32))
    @settings(
        max_examples=2_000,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(inputs)
    def attempt(data: bytes) -> None:
        try:
            look(data)
        except Exception as error:
            if _kind_of(error) in known:
                return
            last.append((data, error))
            raise

    try:
        attempt()
    except Exception:  # noqa: BLE001 (it has been kept)
        return min(last, key=lambda found: len(found[0])) if last else None
    return None


def _kind_of(error: BaseException) -> str:
    """What tells one trouble from another: its type and the place it comes from."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {frame.filename}:{frame.lineno}"


def _keep(data: bytes, error: BaseException) -> None:
    FOUND.mkdir(exist_ok=True)
    name = hashlib.sha256(data).hexdigest()[:12]
    (FOUND / f"{name}.yaml").write_bytes(data)
    (FOUND / f"{name}.txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="replace")
    print(f"{_kind_of(error)}: {error}\n  kept in {FOUND.name}/{name}.yaml", flush=True)


if __name__ == "__main__":
    sys.exit(main(float(os.environ.get("FUZZ_SECONDS") or 600)))
