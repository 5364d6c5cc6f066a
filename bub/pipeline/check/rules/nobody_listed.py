"""What a file says of a plugin, it says of one that a profile lists."""

from __future__ import annotations

import itertools
import re
from functools import cache, partial
from pathlib import Path

from bub.base.diagnostics import is_slip
from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.channels import channel_meant, known_channels, plugins_named
from bub.pipeline.plan.scalars import mappings_in, names_of
from bub.pipeline.plan.settings import all_settings, settings_of_tests
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import references
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document
from bub.pipeline.source.schemas import names_of_settings
from bub.pipeline.source.yaml_reader import MAX_BYTES
from bub.plugins.packages import installed_names
from bub.plugins.shipped import SHIPPED_PLUGINS

SECTION, DECLARED, CHANNEL = "B190", "B191", "B212"

_MOST_HEIRS = 200
"""Among how many files those are looked for that extend one."""


def check_sections(outline: Outline) -> None:
    """Find sections of the settings that are no general ones, and of no plugin that is listed or installed."""
    document = outline.document
    if not any(all_settings(document.root)) and not any(settings_of_tests(document.root)):
        return
    own = {layer.file for layer in document.layers if not layer.shipped}
    listed = {
        name
        for _, profile in mappings_in(document.root.get("profiles"))
        for name, _ in names_of(profile.get("plugins"))
    }
    known = {*names_of_settings(), *SHIPPED_PLUGINS, *plugins_named(document.root)}
    parts = [
        ("settings" if name is None else f"profiles.{name}.settings", it) for name, it in all_settings(document.root)
    ]
    parts += [(f"tests.{name}.settings", settings) for name, settings in settings_of_tests(document.root)]
    for above, settings in parts:
        for name, section in settings.items():
            if name in SHIPPED_PLUGINS - listed and section.where.file == document.file and section.is_mapping:
                outline.findings.add(
                    SECTION,
                    f"no profile lists the plugin `{name}`, so nobody reads its settings",
                    section.where,
                    severity="note",
                    path=f"{above}.{name}",
                    help=f"list it: `profiles: {{{DEFAULT_PROFILE}: {{plugins: [{name}]}}}}`",
                )
            if name in known or section.where.file not in own or not section.is_mapping or name in installed_names():
                continue
            outline.findings.add_unknown(
                SECTION,
                f"nobody reads the settings `{name}`: it is not a setting of Bub, and no plugin of that name is"
                " listed or installed",
                section.where,
                name,
                known,
                severity="warning",
                path=f"{above}.{name}",
                help=f"list the plugin `{name}` in a profile, or take the section out",
            )


def check_declared(outline: Outline) -> None:
    """Find plugins that a file declares and no profile lists: they are not even imported."""
    document = outline.document
    declared, profiles = document.root.get("plugins"), document.root.get("profiles")
    lists = [profile.get("plugins") for _, profile in (profiles.items() if profiles is not None else ())]
    listed = {name for plugins in lists for name, _ in names_of(plugins)}
    if any(references(name) for name in listed):
        return
    asked, heirs = _names_in_only(document.root), cache(partial(_heirs, document))
    for name, node in declared.items() if declared is not None else ():
        is_meant = name in listed or any(is_slip(other, name) for other in listed) or name in asked
        if is_meant or node.where.file != document.file or any(name in text for text in heirs()):
            continue
        usual = [other for other, _ in names_of(document.root.get("profiles", DEFAULT_PROFILE, "plugins"))]
        outline.findings.warn(
            DECLARED,
            f"plugin `{name}` is declared, but no profile lists it, so it does not run",
            node.where,
            path=f"plugins.{name}",
            help=f"list it: `profiles: {{{DEFAULT_PROFILE}: {{plugins: [{', '.join([*usual, name])}]}}}}`",
        )


def check_channels(outline: Outline) -> None:
    """Find slips for a channel in a profile's `channels`; whether a plugin brings one is proved once it is loaded."""
    root = outline.document.root
    channels = cache(partial(known_channels, root))
    for profile, node in mappings_in(root.get("profiles")):
        for name, place in names_of(node.get("channels")):
            meant = channel_meant(name.removeprefix("!"), channels())
            if meant is not None:
                outline.findings.warn(
                    CHANNEL,
                    f"no plugin of profile `{profile}` brings a channel `{name.removeprefix('!')}`",
                    place,
                    path=f"profiles.{profile}.channels",
                    profile=profile,
                    help=f"did you mean `{meant}`?",
                    likely=f"!{meant}" if name.startswith("!") else meant,
                )


def _names_in_only(root: Node) -> set[str]:
    """The plugins that an `only` names; one that no profile allows has a finding there."""
    roots = [root, *(profile for _, profile in mappings_in(root.get("profiles")))]
    entries = [entry for one in roots for key in ("stages", "hooks") for _, entry in mappings_in(one.get(key))]
    return {name for entry in entries for name, _ in names_of(entry.get("only"))}


def _heirs(document: Document) -> list[str]:
    """The texts of the files beside this one, and one folder below, that extend it: for them it is a base."""
    own = Path(document.file)
    if document.base is None or not own.suffix:
        return []
    extends = re.compile(rf"^[^#\n]*\bextends\b[^#\n]*\b{re.escape(own.name)}", re.MULTILINE)
    beside = itertools.chain(document.base.glob("*.y*ml"), document.base.glob("*/*.y*ml"))
    return [text for text in map(_read, itertools.islice(beside, _MOST_HEIRS)) if extends.search(text)]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
