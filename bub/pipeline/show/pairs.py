"""Which profile of one file is compared with which of the other: one of its name, else what its messages get there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bub.pipeline.show.differences.messages import Routed
from bub.pipeline.show.profiles import Naming
from bub.pipeline.source.merge import DEFAULT_PROFILE

_SESSION = ("session", "")
"""What names profiles for the sessions that people choose them for."""

Same = Callable[[str, str], bool]
"""Whether two profiles, one of each file, do the same."""

Named = tuple[str, Naming]
"""A profile, and what names it for its messages beside routes."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The profiles to compare: `old` and `new`; it is about the one called `name`.

    `new` is None for a profile that is gone, and whose messages get no other. `is_reached`: some message gets it by
    itself; one that only who starts Bub can choose is no way in for anybody. `perhaps` are references that may name a
    new one. `got` is what named the one that is gone, if that is gone too, or names only others now.
    """

    name: str
    old: str
    new: str | None
    is_reached: bool = True
    is_renamed: bool = False
    perhaps: tuple[Naming, ...] = ()
    got: tuple[Naming, ...] = ()


def pair_profiles(
    before: Iterable[str],
    after: Iterable[str],
    samples: Iterable[Routed],
    named: tuple[Iterable[Named], Iterable[Named]],
    same: Same,
) -> list[Pair]:
    """Pair the profiles of two files, in the order of the new one, and behind them those that are gone.

    `named` are those that something beside routes names, of each file.
    """
    olds, news, samples = list(before), list(after), list(samples)
    found = [list(side) for side in named]
    swaps = list(_swaps(*map(_known, found)))
    gone, come = [name for name in olds if name not in news], [name for name in news if name not in olds]
    names = _find_renamed(gone, come, samples, same)
    pairs = []
    for name in news:
        if name in olds:
            pairs.append(Pair(name, name, name))
        elif name in names:
            pairs.append(Pair(name, names[name], name, is_renamed=True))
        else:
            got = [routed.old for routed in samples if routed.new == name and not routed.is_operators]
            got += [old for old, new in swaps if new == name]
            was = next((old for old in got if old in olds), DEFAULT_PROFILE)
            perhaps = tuple(naming for naming in _namings_of(name, found[1]) if naming.unknown is not None)
            pairs.append(Pair(name, was, name, is_reached=bool(got or perhaps), perhaps=perhaps))
    for name in gone:
        if name not in names.values():
            gets = [routed.new for routed in samples if routed.old == name and routed.new in news]
            gets += [new for old, new in swaps if old == name and new in news]
            lost = () if gets else _namings_of(name, found[0])
            pairs.append(Pair(name, name, gets[0] if gets else None, got=lost))
    return pairs


def _swaps(before: Iterable[Named], after: Iterable[Named]) -> Iterator[tuple[str, str]]:
    """Yield for each profile named now the one that the same schedule, client or webhook named before, "" if none.

    Of several that a client named, it is one that it no longer names, if there is one. Sessions choose by themselves.
    """
    olds, news = _by_namer(before), _by_namer(after)
    for namer, names in news.items():
        were = olds.get(namer, []) if namer != _SESSION else []
        gone = [old for old in were if old not in names]
        for name in names:
            yield name if name in were else next(iter([*gone, *were]), ""), name


def _namings_of(profile: str, named: Iterable[Named]) -> tuple[Naming, ...]:
    """Return what names a profile, each once, whichever profile Bub starts with."""
    return tuple(dict.fromkeys(naming for name, naming in named if name == profile))


def _known(named: Iterable[Named]) -> list[Named]:
    return [(profile, naming) for profile, naming in named if naming.unknown is None]


def _by_namer(named: Iterable[Named]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for profile, naming in named:
        found.setdefault((naming.kind, naming.name), []).append(profile)
    return found


def _find_renamed(gone: list[str], come: list[str], samples: list[Routed], same: Same) -> dict[str, str]:
    """Return what profiles were called before: those whose messages are the same, or that do the same."""
    names: dict[str, str] = {}
    for name in come:
        left = [other for other in gone if other not in names.values()]
        heirs = [other for other in left if _have_same_messages(other, name, samples)]
        meant = [*heirs, *(other for other in left if same(other, name))]
        if meant:
            names[name] = meant[0]
    return names


def _have_same_messages(old: str, new: str, samples: list[Routed]) -> bool:
    of_old = [routed for routed in samples if routed.old == old]
    of_new = [routed for routed in samples if routed.new == new]
    return bool(of_old) and of_old == of_new
