"""The servers of the settings, and their tools in a turn: names, argument schemas, approval.

Opening a chat reads the stored lists of tools and starts no server. The first turn starts the servers without
a list, or with an old one, in the background. A call starts its server if necessary.

A schema comes from a third party, so checking it has a bounded cost: no regular expression in it is run or
compiled, and a validation stops after 5,000 keywords. The server checks what is not checked here.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import model_validator

from nacre.extensions.mcp.client.server import Server
from nacre.extensions.mcp.client.tool_list import ListedTool, ToolList
from nacre.record import Record
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.extensions.installed.settings_schema import TooManySteps, bounded
from nacre.runtime.settings.sections.hooks import ToolNames
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.tools.toolbox import ToolArguments, ToolFailed, ToolOutput

MOST_NAME_CHARS = 64
"""The limit of OpenAI and Anthropic. Both accept letters, digits, `_` and `-`."""
SEPARATOR = "__"
"""Separates server and tool. No tool of Nacre has two underscores, so none can be mistaken for a server's."""
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8
MOST_SCHEMA_CHARS = 30_000
"""A tool with a larger schema is left out: the schema is sent with each request."""
MOST_REFERENCES = 100
"""A tool whose schema has more distinct `$ref` is left out: each of them is resolved."""
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Argument names that providers accept."""
WAIT_SECONDS = 3.0
"""How long a first turn waits for servers whose tools are unknown; later turns have them."""
LIST_MAX_AGE_MS = 24 * 60 * 60 * 1000
"""An older list is requested again during the first turn."""
MOST_NAMED = 5
"""The most withheld tools that a notice names."""


def tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """The name of a server's tool in a turn, `server__tool`.

    Characters that providers do not accept become `_`. A name that is too long or in `taken` ends in a digest
    of both names, so that it stays the same across starts.
    """
    plain = _NOT_ALLOWED.sub("_", f"{server}{SEPARATOR}{tool}")
    if len(plain) <= MOST_NAME_CHARS and plain not in taken:
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: MOST_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


class ServerArguments(ToolArguments):
    """The arguments of one server tool, unchanged, in `values`."""

    schema_of_tool: ClassVar[Mapping[str, Any]] = {"type": "object"}
    values: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _fit(cls, arguments: Any) -> Any:
        problem = _mismatch(arguments, cls.schema_of_tool)
        if problem:
            raise ValueError(problem)
        return {"values": arguments}

    @classmethod
    def model_json_schema(cls, *_asked: Any, **_options: Any) -> dict[str, Any]:
        return copy.deepcopy(dict(cls.schema_of_tool))


def arguments_of(schema: Mapping[str, Any]) -> type[ServerArguments]:
    """The argument class of a tool with a valid schema."""
    return type("ServerArguments", (ServerArguments,), {"schema_of_tool": schema, "__module__": __name__})


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Why a tool with this schema is left out, as a sentence; empty if it can be used."""
    # slow to import, and only needed with a server
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError
    from jsonschema.validators import validator_for

    try:
        chars = len(json.dumps(schema))
    except (TypeError, ValueError, RecursionError):
        return "Its schema is not valid JSON."
    if chars > MOST_SCHEMA_CHARS:
        return f"Its schema has {chars} characters; the limit is {MOST_SCHEMA_CHARS}."
    if schema.get("type") != "object":
        return "Its schema does not declare the arguments as an object."
    combinators = [word for word in ("anyOf", "oneOf", "allOf") if word in schema]
    if combinators:
        return f"Its schema has {combinators[0]} at the top level, which providers reject."
    references = set(_references(schema))
    if len(references) > MOST_REFERENCES:
        return f"Its schema has {len(references)} references; the limit is {MOST_REFERENCES}."
    remote = next((ref for ref in sorted(references) if not ref.startswith("#")), "")
    if remote:
        return f"Its schema refers to {remote[:200]!r}, and schemas are never fetched."
    validator = validator_for(schema, default=Draft202012Validator)
    try:
        # Without formats: the format of `pattern` would compile the expression.
        validator.check_schema(schema, format_checker=FormatChecker(formats=()))
    except SchemaError as error:
        return f"Its schema is not a JSON schema: {error.message[:200]}."
    except Exception as error:  # noqa: BLE001 - jsonschema documents no exhaustive list of exceptions
        return f"Its schema cannot be used: {type(error).__name__}: {str(error)[:200]}."
    for name in schema.get("properties", {}):
        if not _PROPERTY.fullmatch(name):
            return f"Its argument {name[:80]!r} has a name that providers reject."
    return _unresolved(schema, references)


def _unresolved(schema: Mapping[str, Any], references: set[str]) -> str:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for ref in sorted(references):
        try:
            resolver.lookup(ref)
        except Unresolvable:
            return f"Its schema refers to {ref[:200]!r}, which it does not contain."
    return ""


def _references(schema: Any) -> Iterator[str]:
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            found = value.get("$ref")
            if isinstance(found, str):
                yield found
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def _mismatch(values: Any, schema: Mapping[str, Any]) -> str:
    from referencing.jsonschema import EMPTY_REGISTRY

    try:
        # With an empty registry, references to addresses are not fetched.
        error = next(bounded(schema)(schema, registry=EMPTY_REGISTRY).iter_errors(values), None)
    except TooManySteps:
        return ""
    except Exception as failure:  # noqa: BLE001 - see above
        return f"The schema cannot be used: {type(failure).__name__}."
    if error is None:
        return ""
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message[:300]}" if place else error.message[:300]


class _CachedTools(Record):
    """The tools of a server for a turn, and the lists from which they were made."""

    listed: tuple[ListedTool, ...]
    approved: Mapping[str, str]
    tools: tuple[FunctionTool[..., Any], ...]


class ToolServers:
    """All enabled servers. `home` expands `~`; lists of tools are stored in `folder`."""

    def __init__(
        self, servers: Mapping[str, McpServer], *, home: Path, folder: Path, now_ms: Callable[[], int]
    ) -> None:
        self._now_ms = now_ms
        self._servers = [
            Server(name, settings, home=home, folder=folder, now_ms=now_ms)
            for name, settings in servers.items()
            if settings.enabled
        ]
        self._waited_for: set[str] = set()
        self._cached: dict[str, _CachedTools] = {}
        self._left_out: dict[str, tuple[str, ...]] = {}

    async def ready(self, policy: ChatPolicy) -> None:
        """Prepares the tools of such a chat and waits a short time for unknown ones."""
        starting = []
        for server in self._servers:
            if policy.audience not in server.settings.chats or server.name in self._waited_for:
                continue
            self._waited_for.add(server.name)
            if server.listed is None:
                starting.append(server.begin())
            elif self._now_ms() - server.listed.at_ms > LIST_MAX_AGE_MS:
                server.begin()
        if starting:
            await asyncio.wait(starting, timeout=WAIT_SECONDS)

    def tools(self, taken: Collection[str]) -> tuple[FunctionTool[..., Any], ...]:
        """The known tools whose names are not in `taken`."""
        names = set(taken)
        found: list[FunctionTool[..., Any]] = []
        for server in self._servers:
            for tool in self._of(server):
                if tool.name not in names:
                    names.add(tool.name)
                    found.append(tool)
        return tuple(found)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner about tools that are left out and servers that are unavailable."""
        unavailable = [
            f"The MCP server {server.name!r} is unavailable: {server.problem}."
            for server in self._servers
            if server.problem
        ]
        return (*(line for lines in self._left_out.values() for line in lines), *unavailable)

    def status(self) -> tuple[str, ...]:
        return tuple(f"{server.name} ({server.status()})" for server in self._servers)

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers))

    def _of(self, server: Server) -> tuple[FunctionTool[..., Any], ...]:
        listed = server.listed
        if listed is None:
            return ()
        approved = server.approved()
        cached = self._cached.get(server.name)
        if cached is None or cached.listed != listed.tools or cached.approved != approved:
            tools = self._tools(server, listed, approved)
            cached = _CachedTools(listed=listed.tools, approved=approved, tools=tools)
            self._cached[server.name] = cached
        return cached.tools

    def _tools(
        self, server: Server, listed: ToolList, approved: Mapping[str, str]
    ) -> tuple[FunctionTool[..., Any], ...]:
        tools_by_name: dict[str, FunctionTool[..., Any]] = {}
        left_out, withheld = [], []
        for tool in listed.tools:
            if not server.settings.tools.admits(tool.name):
                continue
            if approved.get(tool.name) != tool.digest:
                withheld.append(tool.name)
                continue
            problem = schema_problem(tool.schema)
            if problem:
                left_out.append(
                    f"The tool {tool.name[:80]!r} of the MCP server {server.name!r} is left out. {problem}"
                )
                continue
            name = tool_name(server.name, tool.name, tools_by_name)
            tools_by_name.setdefault(name, _function_tool(server, tool, name))
        if withheld:
            names = ", ".join(repr(name[:80]) for name in withheld[:MOST_NAMED])
            more = f" and {len(withheld) - MOST_NAMED} more" if len(withheld) > MOST_NAMED else ""
            left_out.append(
                f"The MCP server {server.name!r} has new or changed tools, which are withheld: "
                f"{names}{more}. To review and approve them: nacre mcp tools, nacre mcp approve {server.name}"
            )
        self._left_out[server.name] = tuple(left_out)
        return tuple(tools_by_name.values())


def _function_tool(server: Server, tool: ListedTool, name: str) -> FunctionTool[..., Any]:
    settings = server.settings
    is_trusted = bool(settings.trusted) and ToolNames(allow=settings.trusted).admits(tool.name)

    async def call(values: dict[str, Any]) -> ToolOutput:
        if server.listed is None or tool not in server.listed.tools:
            raise ToolFailed(
                f"The server {server.name!r} has changed this tool; the owner must approve it first."
            )
        return await server.call(tool.name, values)

    def why(**_arguments: Any) -> str:
        return f"{tool.name} of the server {server.name} is not marked as read-only"

    return FunctionTool(
        function=call,
        name=name,
        description=tool.description,
        arguments=arguments_of(tool.schema),
        chats=frozenset(settings.chats),
        timeout_seconds=settings.timeout_seconds,
        context_name="",
        needs_approval=False if is_trusted or tool.is_read_only else why,
    )
