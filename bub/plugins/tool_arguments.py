"""What the function of a tool takes, as a type that checks it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

CONTEXT = "context"
"""The parameter that a tool names to be given its `ToolContext`; it is no argument."""


def arguments_of(name: str, function: Callable[..., Any], bound: bool) -> tuple[type[msgspec.Struct], bool]:
    """The arguments of a function as a type that checks them, and whether it wants the context."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    takes_context = False
    for parameter in inspect.signature(function).parameters.values():
        if bound and parameter.kind is parameter.POSITIONAL_ONLY:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ValueError(f"the tool `{name}` has an argument `{parameter}`, which a model cannot give by name")
        if parameter.name == CONTEXT:
            takes_context = True
            continue
        hint = _describe(hints.get(parameter.name, str))
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, _default(parameter.default)))
    struct = msgspec.defstruct(name.replace(".", "_"), fields, kw_only=True, forbid_unknown_fields=True)
    return struct, takes_context


def _default(value: Any) -> Any:
    """A default that no two calls share."""
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=partial(type(value), value))
    return value


def _describe(hint: Any) -> Any:
    """A hint whose plain text annotation is the argument's description."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *notes = get_args(hint)
    said = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(inner, *said)]


def takes_list(schema: Mapping[str, Any]) -> bool:
    """Whether the JSON Schema of an argument takes a list."""
    return schema.get("type") == "array" or any(map(takes_list, schema.get("anyOf", ())))
