"""Tools: functions that a model may call, described and checked by their type hints."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Protocol, overload

import msgspec
import trio
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from bub.base.confinement.value import Confinement
from bub.base.diagnostics import did_you_mean
from bub.base.globs import covers
from bub.base.json_schema import schema_of
from bub.envelope import Envelope
from bub.errors import BubError
from bub.hookspecs import Fire
from bub.labels import UNDECLARED, Brings, Labels, Reaches, Reads, declare
from bub.plugins.servers import allows, server_of
from bub.plugins.shipped import ASKED, BY_NAME, SERVED
from bub.plugins.simple_commands import Words, find_beginning, read_entries
from bub.plugins.tool_arguments import CONTEXT, arguments_of, takes_list
from bub.tape import Tape

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


class ToolError(BubError):
    """A tool call that failed: what the model reads, and why.

    `kind` is `invalid_input`, `unknown`, `denied`, `timeout` or `tool` (it ran and failed).
    """

    def __init__(self, message: str, *, help: str | None = None, kind: str = "tool") -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.kind = kind

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said} ({self.help})" if self.help else said


class ToolResult(msgspec.Struct, frozen=True):
    """A result with more than text: `media` are pictures and files that the model looks at, as those of a message.

    Each has `kind` ("image", "document"), `mime_type`, and `url` (`data:`). The text should name them. `paths` are
    files that the call worked on, beside the one that the tool's `path` names.
    """

    text: str
    media: tuple[Mapping[str, Any], ...] = ()
    paths: tuple[str, ...] = ()


class AgentTurn(Protocol):
    """The turn that calls a tool, as the tool may use it."""

    def hand_off(self, name: str, state: Mapping[str, Any]) -> None:
        """Start the context over after this step: from then on it has only `state`."""

    async def delegate(self, prompt: str, *, session: str, tools: Sequence[str] | None) -> str:
        """Let another agent work on a prompt, and return its answer."""


class ToolContext(msgspec.Struct, frozen=True):
    """What a tool may know of its call. A tool gets it if it has a parameter `context`.

    `policy` says which tools may be used here. `tape` is the session's record, `archive` the folder for copies of it.
    `own_files` say what the agent may do, so the agent does not write them. Commands reach what `confinement` says;
    if it is None, what the person reaches.
    `from_person` is True for a command that the operator typed, `may_approve` if who wrote may say yes to calls.
    `turn` is None if no agent calls. `fire` calls the points that the pipeline declares. If `unasked` lets a command
    through, `words` are its words: only these run, and no shell.
    """

    session_id: str
    workspace: Path
    call_id: str = ""
    message: Envelope = None
    state: Mapping[str, Any] = msgspec.field(default_factory=dict)
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tape: Tape | None = None
    archive: Path | None = None
    own_files: tuple[Path, ...] = ()
    confinement: Confinement | None = None
    policy: ToolPolicy | None = None
    turn: AgentTurn | None = None
    from_person: bool = False
    may_approve: bool = False
    fire: Fire | None = None
    words: Words = ()


class Tool(msgspec.Struct, frozen=True):
    """A function that a model or a person may call by its dotted name.

    `parameters` is the JSON Schema of its arguments, `path` the argument that is the file it works on. If a profile
    does not say which tools it wants, it has those that are `read_only`. A tool that is `for_people` is a command, and
    no model sees it. If the process ends while a tool with `once` runs, Bub never calls it again for that message, even
    if a person says yes. `labels` are None if the tool does not declare what it does to information. If it `counts_as`
    others, a rule that denies or asks about one of them holds for it, too. `command` is the argument that is a command
    for a shell; if a profile lets it through without a question, the tool runs the `words` of its context.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    parameters: Mapping[str, Any]
    read_only: bool = False
    path: str | None = None
    for_people: bool = False
    takes_context: bool = False
    once: bool = False
    labels: Labels | None = None
    counts_as: tuple[str, ...] = ()
    command: str | None = None

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check the arguments of a call and give them as the function takes them (BEHAVIOURS A17).

        An argument that is missing gets its default. Numbers and booleans may be strings. Raises `ToolError`
        (`invalid_input`), which says what is wrong.
        """
        try:
            known = msgspec.convert(dict(given), self.arguments, strict=False)
        except (msgspec.ValidationError, TypeError) as error:
            raise self._explain_refusal(given, str(error)) from None
        return {name: getattr(known, name) for name in self.arguments.__struct_fields__}

    def from_words(self, positional: Sequence[str], named: Mapping[str, str]) -> dict[str, Any]:
        """Read the arguments of a command line, unchecked; a list is written with commas (BEHAVIOURS A3, A4).

        If its only argument is a text, the text may have several words.

        Raises `ToolError` (`invalid_input`) for more arguments than there are, and for one that is given twice.
        """
        fields = self.arguments.__struct_fields__
        properties = self.parameters.get("properties", {})
        if len(positional) > len(fields) == 1 and properties.get(fields[0], {}).get("type") == "string":
            positional = [" ".join(positional)]
        if len(positional) > len(fields):
            what = "takes no arguments"
            if fields:
                what = f"takes {len(fields)} arguments, not {len(positional)}"
            raise ToolError(f"`{self.name}` {what}", help=self.usage, kind="invalid_input")
        given: dict[str, Any] = dict(zip(fields, positional, strict=False))
        for name, value in named.items():
            if name in given:
                raise ToolError(f"`{self.name}` gets `{name}` twice", help=self.usage, kind="invalid_input")
            given[name] = value
        for name, value in given.items():
            if takes_list(properties.get(name, {})):
                given[name] = [item.strip() for item in value.split(",") if item.strip()]
        return given

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Run it with checked arguments; a plain function runs in a thread, and is left to itself when cancelled."""
        extra = {CONTEXT: context} if self.takes_context else {}
        call = partial(self.function, **arguments, **extra)
        if inspect.iscoroutinefunction(self.function):
            return await call()
        result = await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        return await result if inspect.isawaitable(result) else result

    def bind(self, *given: Any) -> Tool:
        """Return the same tool with what is `given` for the parameters before the `/` of its function."""
        return replace(self, function=partial(self.function, *given))

    @property
    def assumed_labels(self) -> Labels:
        """The labels that count: its own, or if it declares none, those of a tool about which nothing is known."""
        return UNDECLARED if self.labels is None else self.labels

    @property
    def usage(self) -> str:
        """How a person writes the tool as a command, such as `fs.read path [offset=…]`."""
        required = set(self.parameters.get("required", ()))
        words = [name if name in required else f"[{name}=…]" for name in self.arguments.__struct_fields__]
        return " ".join([self.name, *words])

    @property
    def summary(self) -> str:
        """The first line of its description."""
        return self.description.partition("\n")[0]

    def _explain_refusal(self, given: Mapping[str, Any], said: str) -> ToolError:
        fields = self.arguments.__struct_fields__
        for name in given:
            if name not in fields:
                advice = did_you_mean(str(name), fields) or f"it takes {', '.join(fields) or 'none'}"
                return ToolError(f"`{self.name}` has no argument `{name}`", help=advice, kind="invalid_input")
        what = said.replace("Object missing required field", "it needs").replace("`$.", "`").replace(" - at ", " for ")
        return ToolError(f"the arguments do not fit `{self.name}`: {what}", help=self.usage, kind="invalid_input")


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    path: str | None = None,
    for_people: bool = False,
    bound: bool = False,
    once: bool = False,
    reads: Reads | UnsetType | None = UNSET,
    brings: Brings | UnsetType | None = UNSET,
    reaches: Reaches | UnsetType | None = UNSET,
    counts_as: tuple[str, ...] = (),
    command: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    path: str | None = None,
    for_people: bool = False,
    bound: bool = False,
    once: bool = False,
    reads: Reads | UnsetType | None = UNSET,
    brings: Brings | UnsetType | None = UNSET,
    reaches: Reaches | UnsetType | None = UNSET,
    counts_as: tuple[str, ...] = (),
    command: str | None = None,
) -> Any:
    """Make a tool of a function; a plugin gives it to the agent with the hook `provide_tools`.

    Its name (`name`, else the function's own) is lower case, with dots between its parts. Its docstring tells the model
    what it does, its type hints what it takes; `Annotated[str, "what it is"]` describes an argument. The function may
    be `def` or `async def`; a parameter `context` gets the `ToolContext`. What it returns is the result: a text, a
    `ToolResult` with pictures, or anything that can be written as JSON. Raise `ToolError`, or any exception, to tell
    the model that it failed.

    If the process ends during a call, nobody knows whether the call took effect. Bub takes the turn again then. It
    calls a tool that is not `read_only` for that turn only after a person's new yes, and never one with `once`.

    `reads="private"`, `brings="untrusted"` and `reaches="outside"` declare what it does to information (`Labels`).
    One of the three declares them all: `reaches=None` alone says that the tool does nothing of that.

    Use `counts_as` for a tool that can do what other tools do: if a profile denies one of those, or asks about it, that
    holds for this tool, too.

    A tool that is `bound` is made once. `Tool.bind` gives it what differs from profile to profile: the parameters
    before its `/`, which are no arguments.
    """

    def make(wrapped: Callable[..., Any]) -> Tool:
        given = name or wrapped.__name__.strip("_")
        if _NAME.fullmatch(given) is None:
            raise ValueError(f"`{given}` cannot be the name of a tool: write it like `notes.add`")
        if inspect.isgeneratorfunction(wrapped) or inspect.isasyncgenfunction(wrapped):
            raise ValueError(f"the tool `{given}` yields: it has to return its whole result")
        said = description or inspect.getdoc(wrapped)
        if not said:
            raise ValueError(f"the tool `{given}` has no docstring that tells the model what it does")
        struct, takes_context = arguments_of(given, wrapped, bound)
        if path is not None and path not in struct.__struct_fields__:
            raise ValueError(f"the tool `{given}` has no argument `{path}`")
        schema, labels = schema_of(struct), declare(reads, brings, reaches)
        how = (read_only, path, for_people, takes_context, once, labels, tuple(counts_as), command)
        return Tool(given, said, wrapped, struct, schema, *how)

    return make if function is None else make(function)


class ToolPolicy(msgspec.Struct, frozen=True):
    """Which tools a profile may use (DESIGN §6): names or globs; `bash` is allowed only by its name.

    A tool of a server is allowed only by an entry that names the server, such as `mcp.time.*`.

    If the profile does not say, `allow` is None, and the tools that only read may be used. What `deny` names may not be
    used, even if `allow` names it. The policies `within` have to agree, so that a sub-agent may never do more than its
    caller. `unasked` are beginnings of commands, each with its tool, that need no question.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    within: tuple[ToolPolicy, ...] = ()
    unasked: tuple[tuple[str, Words], ...] = ()

    @classmethod
    def of(cls, said: Mapping[str, Any] | None) -> ToolPolicy:
        """The policy of a profile's `tools:`."""
        given = said or {}
        allow = given.get("allow")
        named = tuple(map(str, allow)) if allow is not None else None
        deny, ask = (tuple(map(str, given.get(key) or ())) for key in ("deny", "ask"))
        return cls(named, deny, ask, unasked=tuple(read_entries(given.get("unasked") or {})))

    def permits(self, tool: Tool) -> bool:
        """Whether a tool may be used, also if only after a person's yes."""
        if any(_fits(glob, name) for glob in self.deny for name in (tool.name, *tool.counts_as)):
            return False
        if self.allow is None:
            allowed = tool.read_only
        elif tool.name == BY_NAME:
            allowed = BY_NAME in self.allow
        else:
            allowed = any(allows(entry, tool.name) for entry in self.allow)
        return allowed and all(outer.permits(tool) for outer in self.within)

    def asks(self, tool: Tool) -> bool:
        """Whether a person has to say yes before each call."""
        return self._asks_itself(tool) or any(outer.asks(tool) for outer in self.within)

    def find_beginning(self, tool: Tool, words: Words) -> Words:
        """Return the words at the beginning of a command that `unasked` lists; none if a person has to be asked."""
        own = (entry for name, entry in self.unasked if name == tool.name)
        found = [find_beginning(own, words)] if self._asks_itself(tool) else []
        found += [outer.find_beginning(tool, words) for outer in self.within if outer.asks(tool)]
        return min(found, key=len, default=())

    def narrow(self, names: Iterable[str] | None, *, without: Iterable[str] = ()) -> ToolPolicy:
        """Return a policy that allows at most what this one allows; of that only `names`, if given."""
        allow = self.allow if names is None else tuple(names)
        return ToolPolicy(allow, tuple(without), (), (self,))

    def wants(self, server: str) -> bool:
        """Whether some tool of a server may be used, whatever its name is."""
        is_named = any(server_of(entry) == server for entry in self.allow or ())
        is_shut = any(covers(glob, f"{SERVED}{server}.*") for glob in self.deny)
        return is_named and not is_shut and all(outer.wants(server) for outer in self.within)

    def _asks_itself(self, tool: Tool) -> bool:
        asked = (*self.ask, *ASKED.difference(self.allow or ()))
        return any(_fits(glob, name) for glob in asked for name in (tool.name, *tool.counts_as))


def _fits(glob: str, name: str) -> bool:
    return glob == name or fnmatchcase(name, glob)


class ToolBox(msgspec.Struct, frozen=True):
    """The tools of a profile by name, and which of them may be used."""

    tools: Mapping[str, Tool]
    policy: ToolPolicy

    def find(self, name: str) -> Tool:
        """Find the tool of exactly this name.

        Raises `ToolError` with names that are close (BEHAVIOURS A18) if there is none, or if it may not be used.
        """
        found = self.tools.get(name)
        if found is None:
            raise ToolError(f"there is no tool `{name}`", help=self._close_to(name), kind="unknown")
        if not self.policy.permits(found):
            raise ToolError(f"the tool `{name}` is not allowed here", kind="denied")
        return found

    def usable(self) -> list[str]:
        """List the names of all tools that may be used, sorted."""
        return sorted(name for name, tool in self.tools.items() if self.policy.permits(tool))

    def for_model(self) -> ToolBox:
        """Return the box without the tools for people: a model that guesses such a name finds nothing."""
        return replace(self, tools={name: tool for name, tool in self.tools.items() if not tool.for_people})

    def narrow(self, names: Sequence[str] | None, *, without: Iterable[str] = ()) -> ToolBox:
        """Make a box for a sub-agent.

        Names may be in any case, as models write them. Raises `ToolError` for a name that no tool has.
        """
        known = {self._normalize(name): name for name in self.usable()}
        known |= {name: name for name in self.usable()}  # of two that are spelt alike, the one that is meant
        wanted = names
        if names is not None:
            wanted = [known.get(name) or known.get(self._normalize(name)) or self.find(name).name for name in names]
        return replace(self, policy=self.policy.narrow(wanted, without=without))

    def _close_to(self, name: str) -> str:
        """Name up to three usable tools that may have been meant, else all of them (BEHAVIOURS A18)."""
        spelt = {self._normalize(usable): usable for usable in self.usable()}
        close = [spelt[match] for match in difflib.get_close_matches(self._normalize(name), spelt, n=3)]
        if close:
            return f"did you mean {', '.join(f'`{match}`' for match in close)}?"
        return f"there are {', '.join(spelt.values())}" if spelt else "none may be used here"

    @staticmethod
    def _normalize(name: str) -> str:
        return name.lower().replace(".", "_")
