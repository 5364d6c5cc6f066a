"""What a change of a setting opens: which files, variables and networks are reached, and by whom."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import NamedTuple

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.guests import GUESTS
from bub.pipeline.show.differences.guests import widens
from bub.pipeline.show.differences.recipients import opens_address, opens_model, opens_provider_address
from bub.pipeline.source.document import Plain

Path = tuple[str, ...]


class Setting(NamedTuple):
    """A setting with another value: its place, and the plans it is in."""

    path: Path
    was: Plain
    now: Plain
    old: Plan
    new: Plan


class Opening(NamedTuple):
    """What it opens: the kind of the change, and why it is dangerous."""

    kind: str
    why: str


def find_opening(setting: Setting) -> Opening | None:
    """Return what a changed setting opens, if anything; a reference may stand for whatever can be written."""
    path = setting.path
    for pattern, kind, judge in _KNOWN:
        if len(path) >= len(pattern) and all(step in ("*", name) for step, name in zip(pattern, path, strict=False)):
            why = judge(setting)
            return Opening(kind, why) if why else None
    kind, judge = _BY_NAME.get(path[-1], ("settings.reach", _judge_allowing))
    why = judge(setting) if len(path) > 1 else ""
    return Opening(kind, why) if why else None


# What is reached


def _judge_folders(setting: Setting) -> str:
    had = _texts(setting.was)
    more = [
        folder
        for folder in _texts(setting.now)
        if folder not in had and (_is_kept_shut(folder) or not any(_lies_in(folder, other) for other in had))
    ]
    return "the tools for files read and write everything there" if more else ""


def _lies_in(path: str, folder: str) -> bool:
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    if folder == ".":
        return not path.startswith(("/", "~", "${", ".."))
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_kept_shut(path: str) -> bool:
    """Whether the tools for files leave it alone unless it is listed by itself."""
    name = posixpath.basename(posixpath.normpath(path))
    return (name == ".env" or name.startswith(".env.")) and name != ".env.example"


def _judge_variables(setting: Setting) -> str:
    return "commands get the secrets in these variables" if _texts(setting.now) - _texts(setting.was) else ""


def _judge_private(setting: Setting) -> str:
    opens = setting.now not in (None, False, "false") and setting.was is not True
    return "`web.fetch` reads from this machine and its networks" if opens else ""


def _judge_writing(setting: Setting) -> str:
    opens = setting.now not in (None, False) and not setting.was
    return "anybody who reaches the page can change what runs" if opens else ""


def _judge_collector(setting: Setting) -> str:
    return "traces and metrics go there" if setting.now and setting.now != setting.was else ""


def _judge_telling(setting: Setting) -> str:
    opens = setting.now not in (None, False, "false") and setting.was is not True
    return "the collector gets what people, models and tools say" if opens else ""


# Who reaches it


def _judge_page(setting: Setting) -> str:
    if setting.was is None and setting.now is not None:
        return "anybody who has its token can say yes to what agents ask"
    return _judge_listening(setting)


def _judge_public_page(setting: Setting) -> str:
    return "other machines reach the page there" if setting.now is not None else ""


def _judge_public_api(setting: Setting) -> str:
    return "other machines reach webhooks and the API there" if setting.now is not None else ""


def _judge_listening(setting: Setting) -> str:
    return "other machines reach it" if _openness(setting.now) > _openness(setting.was) else ""


def _openness(listen: Plain) -> int:
    """How far an address to listen at is reached: on this machine, in one network, everywhere."""
    text = str(listen).strip()
    if listen is None or text.isdigit():
        return 0
    host = text.rpartition(":")[0] if text.rpartition(":")[2].isdigit() or "${" in text else text
    host = host.removeprefix("[").removesuffix("]")
    if host.casefold() == "localhost":
        return 0
    try:
        address = ip_address(host)
    except ValueError:
        return 2
    return 0 if address.is_loopback else 2 if address.is_unspecified else 1


def _judge_host(setting: Setting) -> str:
    everywhere = str(setting.now) in ("0.0.0.0", "::", "[::]", "*")
    return "other machines reach it" if everywhere else ""


def _judge_guests(setting: Setting) -> str:
    section = ("settings", *setting.path[:-1])
    if widens(setting.old.root.get(*section), setting.new.root.get(*section), setting.path[-1]):
        return "more people may talk to the agent"
    return ""


def _judge_allowing(setting: Setting) -> str:
    if not setting.path[-1].startswith("allow"):
        return ""
    more = _texts(setting.now) - _texts(setting.was) or (setting.now is True and setting.was is not True)
    return "more is allowed" if more else ""


def _texts(value: Plain) -> frozenset[str]:
    """The texts of a list; of one text, as a variable gives it, that one."""
    if isinstance(value, list):
        return frozenset(str(item) for item in value)
    return frozenset({value}) if isinstance(value, str) else frozenset()


def _judge_client(setting: Setting) -> str:
    """A client of the channel `http`: one more, one that reaches more profiles, one whose own tools are offered."""
    if _is_new(setting):
        return "one more program may ask the agent"
    key = setting.path[3] if len(setting.path) > 3 else ""
    if key == "profiles" and _texts(setting.now) - _texts(setting.was):
        return "the program may ask more profiles"
    if key == "client_tools" and setting.now not in (None, False, "false") and setting.was is not True:
        return "the program chooses tools that the model sees beside those of the profile"
    return ""


def _judge_webhook(setting: Setting) -> str:
    """A webhook of the channel `http`: one more, one that more programs reach, one that calls back elsewhere."""
    if _is_new(setting):
        return "senders to one more webhook reach the agent"
    key = setting.path[3] if len(setting.path) > 3 else ""
    if key == "clients" and _texts(setting.now) - _texts(setting.was):
        return "more programs reach the agent"
    if key == "callback" and setting.path[-1] in ("callback", "url"):
        return _judge_address(setting)
    return ""


def _is_new(setting: Setting) -> bool:
    """Whether what has the name below a section, such as a client, was not there before, and is now."""
    named = ("settings", *setting.path[:3])
    return setting.old.root.get(*named) is None and setting.new.root.get(*named) is not None


# Where messages and keys go


def _judge_model(setting: Setting) -> str:
    return opens_model(setting.now, setting.old, setting.new)


def _judge_provider(setting: Setting) -> str:
    provider = setting.path[1] if setting.path[0] == "providers" else None
    return opens_provider_address(provider, setting.old, setting.new)


def _judge_address(setting: Setting) -> str:
    return opens_address(setting.was, setting.now)


def _judge_store(setting: Setting) -> str:
    return "all messages and tapes go there" if opens_address(setting.was, setting.now) else ""


def _judge_headers(setting: Setting) -> str:
    return "each request to the provider carries it" if setting.now is not None else ""


Judge = Callable[[Setting], str]

_ADDRESS, _PROVIDER, _GUESTS, _REACH = "settings.address", "settings.provider", "settings.guests", "settings.reach"

_KNOWN: tuple[tuple[Path, str, Judge], ...] = (
    (("model",), _PROVIDER, _judge_model),
    (("fallback_models",), _PROVIDER, _judge_model),
    (("api_base",), _ADDRESS, _judge_provider),
    (("providers", "*", "api_base"), _ADDRESS, _judge_provider),
    (("providers", "*", "headers"), _ADDRESS, _judge_headers),
    (("providers", "*", "extra_body"), _ADDRESS, _judge_headers),
    (("files", "folders"), _REACH, _judge_folders),
    (("bash", "env"), _REACH, _judge_variables),
    (("web", "allow_private"), _REACH, _judge_private),
    (("gateway", "store"), _ADDRESS, _judge_store),
    (("telemetry", "endpoint"), _ADDRESS, _judge_collector),
    (("telemetry", "content"), _REACH, _judge_telling),
    (("gateway", "studio", "listen"), _REACH, _judge_page),
    (("gateway", "studio", "public_url"), _REACH, _judge_public_page),
    (("gateway", "studio", "write"), _REACH, _judge_writing),
    (("http", "public_url"), _REACH, _judge_public_api),
    (("http", "clients", "*"), _GUESTS, _judge_client),
    (("http", "webhooks", "*"), _GUESTS, _judge_webhook),
)
"""The settings of Bub itself that open something; what is below one of them counts as that one."""

_BY_NAME: Mapping[str, tuple[str, Judge]] = MappingProxyType(
    {
        **dict.fromkeys(GUESTS, (_GUESTS, _judge_guests)),
        **dict.fromkeys(("listen", "bind"), (_REACH, _judge_listening)),
        "host": (_REACH, _judge_host),
        **dict.fromkeys(
            ("api_base", "api_url", "base_url", "endpoint", "proxy", "url", "webhook_url"), (_ADDRESS, _judge_address)
        ),
    }
)
"""What the last key of a setting says, in the section of any plugin."""
