"""`bub doctor`: everything that a turn needs, looked at one by one."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from typing import Annotated

import trio
import typer

from bub.cli.exits import FAILED
from bub.cli.options import options_of, workspace_of
from bub.cli.output import page_width, show, show_json
from bub.doctor import LOOKS
from bub.doctor.checks import Check, Patient, check_lines, examine, summarize
from bub.framework import BubFramework


def doctor(
    ctx: typer.Context,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no server.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> int:
    """Look at everything that a turn needs, one line each, and say what to do about what is broken.

    Bub imports the plugins of the profile, if the file may be used. It asks the model's server which models it has,
    with the key, and sends nothing else. Ends with 1 if something is broken.
    """
    options = options_of(ctx)
    workspace = workspace_of(options)
    framework = BubFramework(options.config, profile=options.profile, workspace=workspace)
    patient = Patient(framework, options.config, workspace, dict(os.environ), offline)
    checks: list[Check] = []
    results, width = sys.stdout, page_width()

    def tell(check: Check) -> None:
        checks.append(check)
        if not as_json:
            with redirect_stdout(results):
                show(check_lines(check, width))

    with redirect_stdout(sys.stderr):  # what a plugin prints is no result of ours
        sound = trio.run(examine, patient, LOOKS, tell)
    if as_json:
        listed = [check.as_dict() for check in checks]
        show_json({"version": 1, "ok": sound, "checks": listed}, indent=2, ensure_ascii=False)
    else:
        show([(), summarize(checks)])
    return 0 if sound else FAILED
