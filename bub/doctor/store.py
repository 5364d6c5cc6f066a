"""The store that several gateways share: whether it can be reached, and whether it keeps what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bub.base.redis.address import AddressError, StoreAddress
from bub.base.redis.keys import FORMAT
from bub.base.redis.settings import store_address
from bub.doctor.checks import Check, Patient, Status
from bub.errors import BubError
from bub.inbox.shared.examination import Examination
from bub.inbox.shared.opening import examination_of

_SUBJECT = "store"


async def look_at_store(patient: Patient) -> Sequence[Check]:
    """Check the store that gateways share; nothing if no settings are known that name one."""
    try:
        address = store_address(patient.framework.settings)
    except AddressError as error:
        return [_check("broken", str(error), error.help or "")]
    if address is None:
        return []
    if patient.offline:
        return [_check("skipped", f"{address.shown} was not asked, because of --offline")]
    try:
        found = await examination_of(address, patient.workspace)
    except BubError as error:
        return [_check("broken", str(error), error.help or "")]
    return list(_judge(address, found))


def _judge(address: StoreAddress, found: Examination) -> Iterator[Check]:
    yield _check("ok", f"{address.shown}: Redis {found.version}")
    yield _judge_partitions(address, found)
    yield _judge_memory(found)
    yield _judge_disk(found)


def _judge_partitions(address: StoreAddress, found: Examination) -> Check:
    if not found.partitions:
        return _check("ok", "it has nothing of this agent yet: the first gateway makes the partitions")
    told = f"{found.partitions} partitions, format {found.format}"
    if found.format > FORMAT:
        return _check("broken", f"{told}: it was made by a newer Bub", "update this one")
    if address.partitions not in (None, found.partitions):
        remedy = "leave `partitions` out of the address: the number of a store never changes"
        return _check("broken", f"{told}, though the address says {address.partitions}", remedy)
    return _check("ok", told)


def _judge_memory(found: Examination) -> Check:
    if found.policy in ("noeviction", ""):
        return _check("ok", "if its memory is full, Redis takes nothing new, and deletes nothing")
    told = f"`maxmemory-policy` is {found.policy}: if its memory is full, Redis deletes waiting messages and leases"
    status: Status = "broken" if found.maxmemory else "warn"
    return _check(status, told, "set `maxmemory-policy noeviction`")


def _judge_disk(found: Examination) -> Check:
    if not found.is_kept:
        told = "`appendonly` is off: if Redis ends, it loses everything since its last snapshot"
        return _check("warn", told, "set `appendonly yes`")
    if found.sync == "always":
        return _check("ok", "everything that Redis has acknowledged is on its disk")
    if found.sync == "no":
        told = "`appendfsync` is no: if the machine of Redis ends, the last half minute may be lost"
        return _check("warn", told, "set `appendfsync everysec`, or `always`")
    return _check("ok", "if Redis ends, the last second may be lost (`appendfsync everysec`)")


def _check(status: Status, message: str, remedy: str = "") -> Check:
    return Check(_SUBJECT, status, message, remedy)
