"""Every test runs in a profile that exists."""

from __future__ import annotations

from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.scalars import text_of

CODE = "B170"


def check(outline: Outline) -> None:
    """Find tests of profiles that do not exist."""
    section = outline.document.root.get("tests")
    for name, test in section.items() if section is not None else ():
        said = test.get("profile")
        profile = text_of(said)
        if said is not None and profile is not None and profile not in outline.profiles:
            outline.findings.add_unknown(
                CODE,
                f"test `{name}` is for profile `{profile}`, which does not exist",
                said.place,
                profile,
                outline.profiles,
                path=f"tests.{name}.profile",
                help=f"add `{profile}` under `profiles:`, or test a profile that exists",
            )
