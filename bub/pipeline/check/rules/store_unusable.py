"""The address of a store that gateways share can be read, holds no password, and makes no other setting useless."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from bub.base.installing.extras import install_command
from bub.base.redis.address import SCHEMES, AddressError, StoreAddress
from bub.pipeline.check.outline import Outline
from bub.pipeline.check.schema_finding import LITERAL_SECRET
from bub.pipeline.plan.settings import all_settings
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import references
from bub.pipeline.source.merge import DEFAULT_PROFILE

CODE = "B252"

_KEY = ("gateway", "store")


def check_stores(outline: Outline) -> None:
    """Find addresses that lead to no store, passwords in them, and what means nothing beside them, or here."""
    findings, said = outline.findings, dict(all_settings(outline.document.root))
    own = said.get(None)
    for profile, node, text in _addresses(said):
        path = _path(profile, _KEY)
        try:
            StoreAddress.parse(_fill(text, "1"))
        except AddressError as error:
            findings.add(CODE, str(error), node.place, path=path, help=error.help)
            continue
        if _has_password(text):
            problem = f"`{path}` has a password, and the file shows it as plain text"
            remedy = "write `${env:NAME}` in its place, and keep the secret out of the file"
            findings.warn(LITERAL_SECRET, problem, node.where, path=path, help=remedy)
        tapes = said[profile].get("tapes", "store") or (own.get("tapes", "store") if own is not None else None)
        if tapes is not None:
            problem = "`tapes.store` changes nothing: `gateway.store` holds all tapes"
            findings.warn(
                CODE, problem, tapes.where, path=_path(profile, ("tapes", "store")), help="take one of them out"
            )
        if profile not in (None, DEFAULT_PROFILE):
            problem = f"only `bub gateway --profile {profile}` uses this store; turns that a route leads here do not"
            remedy = "to use it for all profiles, write it in the `settings` of the file"
            findings.add(CODE, problem, node.where, severity="note", path=path, help=remedy)
        if find_spec("coredis") is None:
            remedy = f"install it where the gateway runs; on this machine: `{install_command('redis')}`"
            findings.warn(
                CODE, "this machine lacks the package coredis, which this store needs", node.where, help=remedy
            )


def _addresses(said: dict[str | None, Node]) -> Iterator[tuple[str | None, Node, str]]:
    """Yield what each profile says, except what is no address at all: the schema has told that."""
    for profile, settings in said.items():
        node = settings.get(*_KEY)
        text = str(node.value) if node is not None and isinstance(node.value, str) else ""
        if node is not None and text.startswith(tuple(f"{one}://" for one in SCHEMES)):
            yield profile, node, text


def _has_password(text: str) -> bool:
    """Return whether an address has a password besides what references stand for."""
    try:
        return bool(StoreAddress.parse(_fill(text, "")).password)
    except AddressError:  # without what a reference stands for it is none
        return False


def _fill(text: str, value: str) -> str:
    for one in reversed(references(text)):
        text = text[: one.start] + value + text[one.end :]
    return text


def _path(profile: str | None, setting: tuple[str, ...]) -> str:
    return ".".join(("settings", *setting) if profile is None else ("profiles", profile, "settings", *setting))
