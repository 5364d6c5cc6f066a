"""Removing packages that were added, and what nothing else needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bub.plugins.installed.added import Added, read_added
from bub.setup.packages.agreeing import Consent, Request, files_of
from bub.setup.packages.record import update_added, without
from bub.setup.packages.renewing import choose
from bub.setup.packages.workplace import move, plan_moves, work_in

__all__ = ["remove"]


def remove(names: Sequence[str], request: Request, person: Consent) -> list[str] | None:
    """Remove packages by their names or those of their plugins, with what was brought for them and nothing else needs.

    Returns the plugins that are gone; None if a person said no. Raises UsageError for a name that was never added,
    BubError if it cannot be done; the environment then is as it was.
    """
    environment, prefix = request.environment, str(request.environment.prefix)
    here = [one for one in read_added(request.home) if one.environment == prefix]
    chosen = choose(here, names)
    with work_in(environment, request.again, person) as workplace:
        installed = environment.installed()
        staying = {one.key for one in here} - {one.key for one in chosen}
        going = _going(chosen, environment.needs(), staying)
        there = [installed[name] for name in going if name in installed]
        if there:
            person.say(f"  to be removed: {', '.join(f'{one.about.name} {one.version}' for one in there)}")
        if request.only_shows:
            return None
        if not person.confirm("plugins.remove", f"Remove {', '.join(one.name for one in chosen)}?"):
            person.say("nothing was removed")
            return None
        out = [path for one in there for path in files_of(one, environment)]
        move(plan_moves(environment, out, ()), environment, workplace.folder)
        update_added(request.home, lambda old: without(old, chosen))
    person.say(f"removed {', '.join(one.name for one in chosen)}")
    return [name for one in chosen for name in one.plugins]


def _going(chosen: Sequence[Added], needs: Mapping[str, Collection[str]], staying: Collection[str]) -> list[str]:
    """The names of the packages, and of what was brought for them as long as nothing that stays needs it."""
    going = [one.key for one in chosen]
    waiting = [name for one in chosen for name in one.brought if name not in going and name not in staying]
    while True:
        unneeded = [
            name
            for name in dict.fromkeys(waiting)
            if name not in going and not any(name in wanted for other, wanted in needs.items() if other not in going)
        ]
        if not unneeded:
            return going
        going += unneeded
