"""Tools as plugins of the reference make them: a function, its schema by pydantic, and the table of all of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, validate_call

if TYPE_CHECKING:
    from bub_reference.tape import Tape

_CONTEXT = "context"
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class ToolContext:
    """What a tool that asks for it knows of its call."""

    tape: Tape
    run_id: str | None = None
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A function that a model may call; one that is not for the agent's use is a command for people."""

    name: str
    handler: Callable[..., Any]
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    context: bool = False
    agent_use: bool = True

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; what comes may have to be awaited."""
        return self.handler(*args, **kwargs)

    def to_schema(self) -> dict[str, Any]:
        """The tool as a request to a model has it."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": told}

    @classmethod
    def from_callable(
        cls,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        context: bool = False,
        agent_use: bool = True,
    ) -> Tool:
        """Make a tool of a function, whose arguments are checked as its type hints say."""
        signature = inspect.signature(func)
        if context and _CONTEXT not in signature.parameters:
            raise TypeError(f"{_name_of(func)} asks for a context, but has no parameter `{_CONTEXT}`")
        said = (inspect.getdoc(func) or "") if description is None else description
        schema = _schema_of(func, signature, without=(_CONTEXT,) if context else ())
        checked = _checking(func, signature) if context else validate_call(config=_ANY)(func)
        return cls(name or _in_snake_case(_name_of(func)), checked, said, schema, context, agent_use)


REGISTRY: dict[str, Tool] = {}
"""All tools of the process by name. Those that a plugin's package puts here belong to that plugin."""

_ANY = ConfigDict(arbitrary_types_allowed=True)


@overload
def tool(
    func: Callable[..., Any],
    *,
    name: str | None = ...,
    model: type[BaseModel] | None = ...,
    description: str | None = ...,
    context: bool = ...,
    agent_use: bool = ...,
) -> Tool: ...


@overload
def tool(
    func: None = ...,
    *,
    name: str | None = ...,
    model: type[BaseModel] | None = ...,
    description: str | None = ...,
    context: bool = ...,
    agent_use: bool = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    func: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    model: type[BaseModel] | None = None,
    description: str | None = None,
    context: bool = False,
    agent_use: bool = True,
) -> Any:
    """Make a tool of a function and put it into `REGISTRY`.

    With a `model`, the function takes one such object instead of arguments. With `context`, it takes a `ToolContext`
    by this name. Raises `TypeError` if it does not.
    """

    def make(function: Callable[..., Any]) -> Tool:
        if model is None:
            made = Tool.from_callable(
                function, name=name, description=description, context=context, agent_use=agent_use
            )
        else:
            if context and _CONTEXT not in inspect.signature(function).parameters:
                raise TypeError(f"{_name_of(function)} asks for a context, but has no parameter `{_CONTEXT}`")
            said = (model.__doc__ or inspect.getdoc(function) or "") if description is None else description
            called = name or _in_snake_case(model.__name__)
            handler = _parsing(function, model, context)
            made = Tool(called, handler, said, model.model_json_schema(), context, agent_use)
        made = replace(made, handler=_awaited(made.handler, function))
        REGISTRY[made.name] = made
        return made

    return make if func is None else make(func)


def model_tools(tools: Iterable[Tool]) -> list[Tool]:
    """The tools that a model may see, under names that every provider takes."""
    return [replace(each, name=each.name.replace(".", "_")) for each in tools if each.agent_use]


def _awaited(handler: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that is always awaited, as callers of the reference's tools do; it says whose it is."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        result = handler(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    run.__module__, run.__name__ = function.__module__, _name_of(function)
    return run


def _parsing(function: Callable[..., Any], model: type[BaseModel], context: bool) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        given = {_CONTEXT: kwargs.pop(_CONTEXT, None)} if context else {}
        return function(model(*args, **kwargs), **given)

    return run


def _checking(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """Check everything but the context, which is no argument of a model."""

    def collect(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    collect.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[one for one in signature.parameters.values() if one.name != _CONTEXT]
    )
    collect.__annotations__ = {key: hint for key, hint in _hints_of(function).items() if key != _CONTEXT}
    collect.__module__ = function.__module__
    check = validate_call(config=_ANY)(collect)

    def run(*args: Any, **kwargs: Any) -> Any:
        context = kwargs.pop(_CONTEXT)
        positional, named = check(*args, **kwargs)
        return function(*positional, **named, context=context)

    return run


def _schema_of(
    function: Callable[..., Any], signature: inspect.Signature, *, without: tuple[str, ...]
) -> dict[str, Any]:
    """The JSON Schema of a function's arguments."""
    hints = _hints_of(function)
    named = [one for one in signature.parameters.values() if one.name not in without and one.kind not in _OPEN]
    properties = {one.name: TypeAdapter(hints.get(one.name, Any)).json_schema() for one in named}
    required = [one.name for one in named if one.default is one.empty]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The type hints of a function; one that names what only type checkers import is no hint."""
    home: Any = inspect.unwrap(function)
    names = getattr(home, "__globals__", {})
    return {name: _hint(said, names) for name, said in inspect.get_annotations(home).items()}


def _hint(said: Any, names: dict[str, Any]) -> Any:
    if not isinstance(said, str):
        return said
    try:
        return eval(said, names)  # as `typing.get_type_hints` does, for one of them
    except NameError:
        return Any


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _in_snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
