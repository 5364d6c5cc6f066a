"""Settings: a message, and who is answered for, such that a site is called at all, and the turn goes to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from bub.base.globs import sample
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan
from bub.testing.proving.director import Script
from bub.testing.proving.rules import replies_of
from bub.testing.proving.seen import Seen
from bub.testing.proving.sites import Site
from bub.testing.proving.turns import Stage
from bub.testing.proving.ways import Fault, Way


class Setting(msgspec.Struct, frozen=True, eq=False):
    """What a turn begins with, and what came of it without a fault (`calm`).

    `known`: its session had a turn before. `is_steady`: twice the same came of it.
    """

    message: Mapping[str, Any]
    known: bool
    script: Script
    calm: Seen
    is_steady: bool = True

    def calls(self, site: Site) -> bool:
        """Whether a site is called in it."""
        return bool(self.calm.visited(site))


class Settings:
    """Finds the settings of a profile's sites; with `is_mocked`, no real implementation is called in any of them."""

    def __init__(self, stage: Stage, plan: Plan, sites: Sequence[Site], *, is_mocked: bool) -> None:
        self._stage, self._plan, self._sites = stage, plan, sites
        self._is_mocked = is_mocked
        self._bases: dict[tuple[Any, ...], Setting] = {}

    async def for_site(self, site: Site) -> Setting | None:
        """Return a setting in which a site is called; None if none was found."""
        async for setting in self._candidates(site):
            if setting.calls(site):
                return setting
        return None

    async def mocked(self) -> Setting:
        """Return the setting in which everything is answered for."""
        return await self._base({}, known=False, is_mocked=True)

    async def _candidates(self, site: Site) -> AsyncIterator[Setting]:
        messages = list(_messages_for(self._plan, site, self._sites))
        for message, known in messages:
            base = await self._base(message, known=known, is_mocked=self._is_mocked)
            yield base
            changed = self._changes(site, base.script)
            for script in changed:
                yield await self._setting(message, known, script)
        if not self._is_mocked:
            for message, known in messages:
                base = await self._base(message, known=known, is_mocked=True)
                yield base
                for script in self._changes(site, base.script):
                    yield await self._setting(message, known, script)

    def _changes(self, site: Site, script: Script) -> Iterator[Script]:
        """Yield scripts in which a site may be called that is not called as it is."""
        if site.is_error_observer:
            for other in sorted(self._sites, key=lambda one: not one.watches):
                if not other.is_error_observer and not other.is_gate and other.stage is not None:
                    yield replace(script, trigger=Fault(other, Way.RAISE, "RuntimeError", not other.is_async))
            return
        in_front = frozenset(one.number for one in self._sites if one.where == site.where and one.number < site.number)
        silent = script.silent | in_front
        if in_front:
            yield replace(script, silent=silent)
        if site.stage is None:
            firing = frozenset(one.number for one in self._sites if one.fires)
            mocked = None if script.mocked is None else script.mocked | firing
            yield replace(script, silent=silent, mocked=mocked, fires=(site.where,))

    async def _base(self, message: Mapping[str, Any], *, known: bool, is_mocked: bool) -> Setting:
        """Return the setting of a message in which nothing ends the turn: what did is answered for."""
        key = (tuple(sorted(message.items())), known, is_mocked)
        if key in self._bases:
            return self._bases[key]
        script = Script(mocked=None if is_mocked else frozenset())
        while True:
            setting = await self._setting(message, known, script)
            _, _, stage = (setting.calm.ended_by or "").partition(":")
            ending = frozenset(site.number for site in self._sites if site.where == stage)
            if script.mocked is None or not setting.calm.ended_by:
                break
            script = replace(script, mocked=None if ending <= script.mocked else script.mocked | ending)
        self._bases[key] = setting
        return setting

    async def _setting(self, message: Mapping[str, Any], known: bool, script: Script) -> Setting:
        calm = await self._stage.take(message, script, known=known)
        is_steady = True
        if script.mocked is not None:
            again = await self._stage.take(message, script, known=known)
            is_steady = replies_of(again) == replies_of(calm)
        return Setting(message, known, script, calm, is_steady)


def _messages_for(plan: Plan, site: Site, sites: Sequence[Site]) -> Iterator[tuple[dict[str, str], bool]]:
    """Yield messages that may reach a site, each with whether its session is known."""
    yield {}, False
    stages = [site.stage] if site.stage is not None else [one.stage for one in sites if one.fires]
    for stage in stages:
        if stage is not None and stage.node.get("when") is not None:
            yield _meeting(stage)


def _meeting(stage: StagePlan) -> tuple[dict[str, str], bool]:
    """Return what meets the condition of a stage."""
    said = stage.node.get("when")
    wanted = {name: sample(str(glob.value)) for name, glob in said.items()} if said is not None else {}
    known = wanted.pop("session", "new") == "known"
    session = wanted.pop("session_id", None)
    if session is not None and ":" in session:
        wanted["channel"], _, wanted["chat_id"] = session.partition(":")
    return wanted, known
