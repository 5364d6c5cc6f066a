"""The packages' own tests, as they stand, against Bub's names: `python -m tests.compat.suites [--keep] [PACKAGE…]`.

`CONTRIB` names a folder with bub-contrib, `BUB_REFERENCE` one with the other Bub's source, to count what passes there.
Each package has an environment of its own, and its tests run in a process in which `bub` is `bub_reference`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.compat import reference
from tests.compat.checkout import check_out
from tests.compat.environments import InstallError, install

CACHE = Path(sys.prefix) / "compat"
NEEDS = ("pytest>=8", "pytest-asyncio>=0.21", "fakeredis>=2.20")
"""What the packages' tests need beside the packages, as their repository says."""

SECONDS = 180.0
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
_LINE = re.compile(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", re.MULTILINE)

WORDS = {
    "test_acp_prompt_executes_bub_tools_through_client": "process",
    "test_idle_steering_starts_turn_over_extension_route": "process",
    "test_semantic_query_flows_through_fetch_all": "python",
    "test_semantic_query_skips_reembedding_indexed_messages": "python",
    "test_semantic_query_rejects_dimension_mismatch": "python",
}
"""Why a test fails, in a word. `process`: it starts a Python of its own, which knows nothing of `bub_reference`.
`python`: it needs an SQLite that loads extensions, which not every Python has; it fails with the other Bub, too."""


@dataclass(frozen=True)
class Suite:
    """What came of the tests of one package; `failed` are the names of those that failed, each with a word."""

    package: str
    passed: int = 0
    total: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    @property
    def line(self) -> str:
        """The suite in a line, for people."""
        if not self.total:
            return f"{self.package:24} {self.problem or 'no tests'}"
        told = ", ".join(f"{name} ({word})" for name, word in self.failed)
        return f"{self.package:24} {self.passed:3}/{self.total:<3} {told}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="use the environments of the last time")
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args()
    packages = check_out(CACHE / "bub-contrib")
    names = options.packages or sorted(path.parent.name for path in packages.glob("*/pyproject.toml"))
    suites = []
    for name in names:
        suites.append(run_suite(packages, name, options.keep))
        print(suites[-1].line, flush=True)
    print(f"{sum(one.passed for one in suites)} of {sum(one.total for one in suites)} pass")
    unexplained = [test for one in suites for test, word in one.failed if word == "?"]
    return bool(unexplained or any(one.problem for one in suites))


def run_suite(packages: Path, name: str, keep: bool) -> Suite:
    """Run the tests of one package in an environment of its own."""
    tests = packages / name / "tests"
    if not tests.is_dir():
        return Suite(name)
    other = reference.checkout()
    environment = CACHE / ("reference" if other else "bub") / f"{name}-suite"
    if not (keep and environment.exists()):
        try:
            install(environment, [str(packages / name), *NEEDS], other)
        except InstallError as error:
            return Suite(name, problem=str(error))
    with tempfile.TemporaryDirectory(prefix=f"suite-{name}-") as home:
        runner = ["pytest"] if other else ["bub_reference", "pytest"]
        called = [str(environment / "bin" / "python"), "-m", *runner, "-q", "-rfE", "-p", "no:cacheprovider"]
        variables = {**os.environ, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        try:
            done = subprocess.run(
                [*called, f"--basetemp={home}/tests", str(tests)],
                cwd=packages.parent,
                env=variables,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired as expired:  # a thread of theirs may keep the process from ending
            printed = expired.stdout.decode() if isinstance(expired.stdout, bytes) else expired.stdout
            suite = read_suite(name, printed or "")
            return suite if suite.total else Suite(name, problem=f"not over after {SECONDS:g} seconds")
    return read_suite(name, done.stdout)


def read_suite(package: str, printed: str) -> Suite:
    """Read what pytest has printed."""
    last = printed.strip().rpartition("\n")[2]
    counts = {word.rstrip("s"): int(number) for number, word in _COUNTS.findall(last)}
    failed = [(_short(test), WORDS.get(_short(test), "?")) for test, _ in _LINE.findall(printed)]
    if not counts:
        return Suite(package, problem=last[-200:] or "pytest printed nothing")
    total = sum(counts.get(word, 0) for word in ("passed", "failed", "error"))
    return Suite(package, counts.get("passed", 0), total, tuple(failed))


def _short(test: str) -> str:
    return test.rpartition("::")[2].partition("[")[0]


if __name__ == "__main__":
    sys.exit(main())
