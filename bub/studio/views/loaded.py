"""What a view is about: a profile that is loaded, or a stage of one; and what it answers if there is none."""

from __future__ import annotations

from collections.abc import Iterable

from bub.base.diagnostics import did_you_mean
from bub.errors import BubError
from bub.hooks.implementations import all_implementations
from bub.pipeline.show.facts import Implementers
from bub.pipeline.show.implementers import implementers_in
from bub.runtime.generations import Generation
from bub.runtime.snapshot import Profile


class NotThereError(BubError):
    """What a page asks about is not there (any more): a profile, a stage, a session."""


class ChangedError(BubError):
    """What a page wants to write is based on something that somebody has changed meanwhile."""


def loaded_profile(generation: Generation, name: str) -> Profile:
    """Return a profile that can get a turn; raises `NotThereError` for any other."""
    profile = generation.profiles.get(name)
    if profile is None:
        raise NotThereError(f"profile `{name}` is not loaded", help=_advice(name, generation.profiles))
    return profile


def require_stage(profile: Profile, stage: str) -> None:
    """Raise `NotThereError` if a profile has no such stage."""
    known = [each.id for each in profile.plan.stages]
    if stage not in known:
        raise NotThereError(f"profile `{profile.name}` has no stage `{stage}`", help=_advice(stage, known))


def implementers_of(generation: Generation, profile: Profile) -> Implementers:
    """Return who implements the stages and hook points of a profile, with files as seen from the pipeline's folder."""
    here = (generation.snapshot.document.base or profile.view.workspace).absolute()
    return implementers_in(profile.graph, all_implementations(profile.plugins.manager), here)


def _advice(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(name, names) or f"there are {', '.join(names)}"
