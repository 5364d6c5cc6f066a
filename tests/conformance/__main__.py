"""Runs what shows the rows of the reference systems' pages, and prints each row with its tests and their result."""

from __future__ import annotations

import sys
from collections import defaultdict

import pytest

from tests.conformance.rows import Row, rows


class Results:
    """What became of each test function: the outcomes of all its cases."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what came of a case; of what is set up and taken down, only failures."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid.partition("[")[0]].append(report.outcome)

    def of(self, row: Row) -> str:
        """`ok`, `different` if Bub means to, `skipped` (all of it), `FAILED`, or `MISSING` if a test was not run."""
        cases = [self.outcomes.get(test, []) for test in row.tests]
        if row.missing or not all(cases):
            return "MISSING"
        every = {outcome for case in cases for outcome in case}
        if "failed" in every:
            return "FAILED"
        if "passed" not in every:
            return "skipped"
        return "different" if row.different else "ok"


def main() -> int:
    """1 when a row has no test, or one of its tests fails or is not there any more."""
    listed, results = rows(), Results()
    ran = pytest.main(["-q", *sorted({test for row in listed for test in row.tests})], plugins=[results])
    page = section = ""
    counts: dict[str, int] = defaultdict(int)
    for row in listed:
        if row.page != page:
            page, section = row.page, ""
            print(f"\n{page}")
        if row.section != section:
            section = row.section
            print(f"  {section}")
        result = results.of(row)
        counts[result] += 1
        print(f"    {result:<9} {row.name}")
        if row.different:
            print(f"              {row.different}")
        for test in (*row.tests, *(f"no test begins like this: {said}" for said in row.missing)):
            print(f"              {test}")
    print(f"\n{len(listed)} rows: {', '.join(f'{count} {result}' for result, count in counts.items())}")
    return int(ran != pytest.ExitCode.OK or not set(counts) <= {"ok", "different"})


if __name__ == "__main__":
    sys.exit(main())
