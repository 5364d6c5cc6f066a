"""Resources and prompts of a server: it brings no tools for them, so Bub makes three, each of a fixed name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec
import trio
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Prompt, PromptMessage, Resource, ResourceTemplate, TextContent

from bub.agent.mcp.offered import Offered, clean
from bub.agent.mcp.results import collect
from bub.agent.mcp.traffic import trace_meta
from bub.plugins.lock.facts import ToolFacts, describe_tool
from bub.plugins.served import ServedTool, make_tool
from bub.plugins.servers import ServerSpec
from bub.plugins.shipped import SERVED
from bub.tools import Tool, ToolError, ToolResult


class About(msgspec.Struct, frozen=True):
    """What a request is about: its `method`, the tool or the prompt that is its `target`, and its `resource`."""

    method: str
    target: str = ""
    resource: str = ""


Ask: TypeAlias = Callable[[Client], Awaitable[ToolResult]]
Use: TypeAlias = Callable[[str, ToolFacts | None, Ask, About], Awaitable[ToolResult]]
"""Asks the server something for the tool of a short name, which has to be as it is known."""

_Asking: TypeAlias = Callable[[Ask, About], Awaitable[ToolResult]]

RESOURCES, READ, PROMPT = "resources", "read", "prompt"
"""The last parts of the names of these tools."""

MOST_LISTED = 500
"""How many resources, templates or prompts are listed."""

PATIENCE = 5.0
"""How long, in seconds, a server may take to say whether it has some."""

_MOST_PAGES = 50
_LONGEST_URI, _LONGEST_NAME, _LONGEST_DESCRIPTION = 2_000, 200, 300


class Beside(msgspec.Struct, frozen=True):
    """What a server has beside tools, and what is wrong with it."""

    resources: bool = False
    prompts: bool = False
    problems: tuple[str, ...] = ()


async def find_beside(client: Client) -> Beside:
    """Find out whether a server has resources and prompts: most say that they could have some, and have none."""
    has, problems = {"resources": False, "prompts": False}, []
    capabilities = client.server_capabilities
    for what, is_stated, ways in (
        ("resources", capabilities.resources, (client.list_resources, client.list_resource_templates)),
        ("prompts", capabilities.prompts, (client.list_prompts,)),
    ):
        if is_stated is None:
            continue
        with trio.move_on_after(PATIENCE) as scope:
            try:
                has[what] = any([bool(await _list(way, pages=1)) for way in ways])
            except MCPError:
                continue  # it has none of them, as servers say that
            except (ValueError, RuntimeError):
                problems.append(f"Bub does not offer its {what}: their list breaks the protocol")
        if scope.cancelled_caught:
            problems.append(f"Bub does not offer its {what}: it did not list them within {PATIENCE:g} s")
    return Beside(has["resources"], has["prompts"], tuple(problems))


def offer_beside(offered: Offered, spec: ServerSpec, beside: Beside, use: Use) -> Offered:
    """Return what is offered with the tools for resources and prompts; a tool of the server goes before one of these.

    What a lock keeps of them is that they are there: Bub may describe them in other words one day.
    """
    tools, facts, problems = dict(offered.tools), dict(offered.facts), [*offered.problems, *beside.problems]
    makers = {RESOURCES: _make_listing, READ: _make_reading} if beside.resources else {}
    makers |= {PROMPT: _make_command} if beside.prompts else {}
    for short, make in makers.items():
        if short in facts:
            problems.append(f"it has a tool `{short}` of its own, so Bub offers none of this name")
            continue
        facts[short] = describe_tool(short, {})
        name = f"{SERVED}{spec.name}.{short}"
        tools[name] = make(name, spec, partial(use, short, facts[short]))
    return Offered(tools, facts, tuple(problems))


def _make_listing(name: str, spec: ServerSpec, use: _Asking) -> Tool:
    said = f"List the resources of the server {spec.name}, and templates for the URIs of others."
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    return make_tool(name, said, schema, partial(_list_resources, use), spec.labels_of(RESOURCES))


def _make_reading(name: str, spec: ServerSpec, use: _Asking) -> Tool:
    said = f"Read a resource of the server {spec.name}."
    schema = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
    return make_tool(name, said, schema, partial(_read, use), spec.labels_of(READ))


def _make_command(name: str, spec: ServerSpec, use: _Asking) -> Tool:
    said = f"Show what a prompt of the server {spec.name} says, or list its prompts."
    schema = {"type": "object", "properties": {"prompt": {"type": "string"}, "arguments": {"type": "object"}}}
    plain = make_tool(name, said, schema, partial(_show_prompt, use), spec.labels_of(PROMPT))
    fields = {field: getattr(plain, field) for field in plain.__struct_fields__}
    return PromptCommand(**{**fields, "for_people": True})


class PromptCommand(ServedTool, frozen=True):
    """The command for prompts: `,mcp.NAME.prompt PROMPT a=1`, all that is named being for the prompt."""

    def from_words(self, positional: Sequence[str], named: Mapping[str, str]) -> dict[str, Any]:
        """Read the arguments of a command line. Raises `ToolError` (`invalid_input`) for a second prompt."""
        if len(positional) > 1 or (named and not positional):
            raise ToolError(f"`{self.name}` takes the name of one prompt", help=self.usage, kind="invalid_input")
        return {**({"prompt": positional[0]} if positional else {}), **({"arguments": dict(named)} if named else {})}

    @property
    def usage(self) -> str:
        """How it is written as a command."""
        return f"{self.name} [PROMPT] [ARGUMENT=…]"


async def _list_resources(use: _Asking) -> ToolResult:
    async def ask(client: Client) -> ToolResult:
        found, templates = await _list(client.list_resources), await _list(client.list_resource_templates)
        return _as_lines([*map(_tell_resource, found), *map(_tell_template, templates)], "resources")

    return await use(ask, About("resources/list"))


async def _read(use: _Asking, *, uri: str) -> ToolResult:
    async def ask(client: Client) -> ToolResult:
        answer = await client.read_resource(uri, cache_mode="bypass", meta=trace_meta())
        result = collect(answer.contents)
        return result if result.text or result.media else ToolResult("it is empty")

    return await use(ask, About("resources/read", resource=uri))


async def _show_prompt(use: _Asking, *, prompt: str = "", arguments: Mapping[str, Any] | None = None) -> ToolResult:
    async def ask(client: Client) -> ToolResult:
        if not prompt:
            return _as_lines(map(_tell_prompt, await _list(client.list_prompts)), "prompts")
        given = {name: _as_text(value) for name, value in (arguments or {}).items()}
        answer = await client.get_prompt(prompt, given, meta=trace_meta())
        return collect(_blocks_of(answer.messages)) if answer.messages else ToolResult("it says nothing")

    try:
        return await use(ask, About("prompts/get", prompt) if prompt else About("prompts/list"))
    except ToolError as error:
        if error.help is None and prompt:
            raise ToolError(str(error), help="without a name, the command lists what each prompt takes") from None
        raise


async def _list(way: Callable[..., Awaitable[Any]], *, pages: int = _MOST_PAGES) -> list[Any]:
    """All of a list that comes in pages, as far as it is shown; one more tells that there are more."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(pages):
        page = await way(cursor=cursor, cache_mode="bypass", meta=trace_meta())
        found += next(getattr(page, name) for name in _LISTS if hasattr(page, name))
        cursor = page.next_cursor
        if cursor is None or len(found) > MOST_LISTED:
            break
    return found[: MOST_LISTED + 1]


_LISTS = ("resources", "resource_templates", "prompts")
"""The fields of each kind of page that hold what the page lists."""


def _blocks_of(messages: Sequence[PromptMessage]) -> Iterable[Any]:
    """What the messages of a prompt hold; if there are several, with who says each."""
    for message in messages:
        if len(messages) > 1:
            yield TextContent(type="text", text=f"{message.role}:")
        yield message.content


def _as_lines(lines: Iterable[str], what: str) -> ToolResult:
    told = list(lines)
    if len(told) > MOST_LISTED:
        told[MOST_LISTED:] = [f"[there are more {what} than these]"]
    return ToolResult("\n".join(told) or f"it has no {what} now")


def _tell_resource(resource: Resource) -> str:
    size = f"{resource.size:,} bytes" if resource.size is not None else ""
    about = ", ".join(filter(None, (_short(resource.mime_type, _LONGEST_NAME), size)))
    return _tell(resource.uri, f"{_short(resource.title or resource.name, _LONGEST_NAME)}", about, resource.description)


def _tell_template(template: ResourceTemplate) -> str:
    name = _short(template.title or template.name, _LONGEST_NAME)
    return _tell(template.uri_template, name, "a template", template.description)


def _tell(uri: str, name: str, about: str, description: str | None) -> str:
    said = _short(description, _LONGEST_DESCRIPTION)
    noted = f" ({about})" if about else ""
    return f"{_short(uri, _LONGEST_URI)}  {name}{noted}{f': {said}' if said else ''}"


def _tell_prompt(prompt: Prompt) -> str:
    words = [_short(prompt.name, _LONGEST_NAME)]
    for argument in (prompt.arguments or [])[:20]:
        name = f"{_short(argument.name, _LONGEST_NAME)}=…"
        words.append(name if argument.required else f"[{name}]")
    said = _short(prompt.description, _LONGEST_DESCRIPTION)
    return " ".join(words) + (f": {said}" if said else "")


def _short(text: str | None, most: int) -> str:
    return " ".join(clean(text or "").split())[:most]


def _as_text(value: Any) -> str:
    """An argument of a prompt, which takes nothing but texts."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
