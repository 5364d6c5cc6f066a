"""The places of secrets in a document, as far as it shows them: by the names above them, and in references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from bub.base.diagnostics import Place
from bub.base.json_schema import Steps
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import lone_reference, place_in
from bub.secrets.verdict import is_named
from bub.secrets.within import secrets_within

_NAMED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "stages": frozenset(),
        "hooks": frozenset(),
        "plugins": frozenset(),
        "mcp": frozenset(),
        "profiles": frozenset({"stages", "hooks", "mcp"}),
        "tests": frozenset({"mock", "mock_tools"}),
    }
)
"""The sections whose keys are names that the user chose, with those below that have such keys, too."""


def setting_of(steps: Steps) -> Steps | None:
    """The way from the settings to a value among them; None for a value elsewhere."""
    if steps[:1] == ("settings",):
        return steps[1:]
    return steps[3:] if steps[:1] in (("profiles",), ("tests",)) and steps[2:3] == ("settings",) else None


def is_named_secret(steps: Steps) -> bool:
    """Whether a key on the way to a value says that it is a secret.

    What a stage, a hook, a plugin, a profile or a test is called says nothing: `refresh_token` may be a stage.
    """
    setting = setting_of(steps)
    if setting is not None:
        return is_named(setting)
    if is_given_to_server(steps):
        return True
    inner = _NAMED.get(str(steps[0])) if steps else None
    if inner is None:
        return is_named(steps)
    return is_named(steps[4:] if steps[2:3] and steps[2] in inner else steps[2:])


def is_given_to_server(steps: Steps) -> bool:
    """Whether a value is what a server gets in confidence: a variable, or a header."""
    inner = steps[2:] if steps[:1] == ("profiles",) else steps
    return inner[:1] == ("mcp",) and inner[2:3] in (("env",), ("headers",))


def leaves_below(node: Node, steps: Steps = ()) -> Iterator[tuple[Steps, Node]]:
    """Every value at or below a node that has no parts, with the way to it."""
    for name, child in node.items():
        yield from leaves_below(child, (*steps, name))
    for index, child in enumerate(node.elements()):
        yield from leaves_below(child, (*steps, index))
    if not node.is_mapping and not node.is_sequence:
        yield steps, node


def secret_places(root: Node) -> Iterator[tuple[Place, str]]:
    """The places in a file that hold secrets, and the text of each; what only a schema marks is not among them.

    That is what is below a name that says so, except a reference, and what `secrets_within` finds in a text.
    """
    for steps, node in leaves_below(root):
        value = node.value
        if value is None or isinstance(value, bool):
            continue
        if is_named_secret(steps):
            lone = lone_reference(value) if isinstance(value, str) else None
            if value != "" and (lone is None or lone.default):
                yield node.place, str(value) if lone is None else str(lone.default)
        elif isinstance(value, str):
            yield from ((place_in(node, start, end), value[start:end]) for start, end in secrets_within(value))
