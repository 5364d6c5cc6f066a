"""The table of docs/compat.md: what each package was tried with, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from tests.compat.checkout import ADDRESS, COMMIT
from tests.compat.steps import STEPS
from tests.compat.trial import Outcome

BEGIN, END = "<!-- make compat writes this table -->", "<!-- end of the table -->"
WIDTH = 140


def write_page(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the table between its two marks; the words around it stay."""
    lines = [
        f"{sum(each.works for each in outcomes)} of {len(outcomes)} packages of [bub-contrib]({ADDRESS}) work, "
        f"at commit `{COMMIT}`.",
        "",
        f"| package | what has to work in a turn | tried with | {' | '.join(STEPS)} |",
        f"|---|---|---|{'---|' * len(STEPS)}",
        *(row(each) for each in outcomes),
    ]
    failed = [each for each in outcomes if not each.works]
    if failed:
        lines += [
            "",
            "Why a package does not work:",
            "",
            *(fill(f"- `{each.trial.package}`: {reason(each)}", WIDTH, subsequent_indent="  ") for each in failed),
        ]
    text = page.read_text()
    table = f"{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}"
    page.write_text(re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: table, text, flags=re.DOTALL))


def row(outcome: Outcome) -> str:
    trial = outcome.trial
    marks = {
        step: "yes" if outcome.steps.get(step) == "ok" else "no" if step in outcome.steps else "" for step in STEPS
    }
    if trial.answers is None:
        marks["`bub onboard` sets it up"] = "asks nothing"
    return f"| `{trial.package}` | {trial.does} | {trial.against} | {' | '.join(marks.values())} |"


def reason(outcome: Outcome) -> str:
    step, said = next((step, said) for step, said in outcome.steps.items() if said != "ok")
    return outcome.trial.known or f"{step}: {' '.join(said.split())[:300]}"
