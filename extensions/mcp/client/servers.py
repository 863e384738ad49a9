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
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from nacre.extensions.mcp.client.tool_list import ApprovedTools, ListedTool, StoredToolList, ToolList
from nacre.installation import install_command
from nacre.record import Record
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.extensions.installed.settings_schema import TooManySteps, bounded, schema_problem
from nacre.runtime.settings.sections.hooks import ToolNames
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.function import FunctionTool
from nacre.runtime.tools.toolbox import ToolArguments, ToolFailed, ToolOutput
from nacre.sessions.contracts.errors import SessionError

if TYPE_CHECKING:
    from nacre.extensions.mcp.client.session import ServerSession

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
MOST_PAUSE_SECONDS = 300.0
"""The upper limit of the pause before a restart, which doubles with each failure in a row."""
MOST_WAIT_SECONDS = 2.0
"""A call waits at most this long for the end of a pause; otherwise it fails immediately."""
MOST_UNANSWERED = 2
"""After this many abandoned calls in a row, a server is considered to hang and is ended."""


class Server:
    """One server of the settings. `listed` is its last known list of tools, or `None`.

    A task holds the session, because the task that opens the library's objects must also close them.
    """

    def __init__(
        self, name: str, settings: McpServer, *, home: Path, folder: Path, now_ms: Callable[[], int]
    ) -> None:
        self.name = name
        self.settings = settings
        self._home = home
        self._now_ms = now_ms
        self._stored_list = StoredToolList(folder, name, settings)
        self.listed: ToolList | None = self._stored_list.read()
        self._approved = ApprovedTools(folder, name, settings)
        self._first_digests: Mapping[str, str] = _digests(self.listed)
        self.problem = ""
        self._holding: asyncio.Task[None] | None = None
        self._opening: asyncio.Future[ServerSession | None] | None = None
        self._wake = asyncio.Event()
        self._wants_end = self._has_other_tools = False
        self._failures = self._unanswered = 0
        self._retry_at = 0.0

    @property
    def is_running(self) -> bool:
        return self._opening is not None and self._opening.done() and self._opening.result() is not None

    @property
    def is_starting(self) -> bool:
        return self._opening is not None and not self._opening.done()

    def begin(self) -> asyncio.Future[ServerSession | None]:
        """Starts the server if necessary. The result is its session, or `None` if it could not be started."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_future()
            before, self._wake = self._holding, asyncio.Event()
            self._wants_end = self._has_other_tools = False
            self._holding = asyncio.create_task(
                self._hold_session(before, self._opening), name=f"mcp {self.name}"
            )
        return self._opening

    def approved(self) -> Mapping[str, str]:
        """The digests of the approved tools, by name; those of the first list until one is stored."""
        known = self._approved.digests()
        return self._first_digests if known is None else known

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        """Calls one of its tools.

        Raises:
            ToolFailed: the tool failed, or the server is unavailable; the message is for the model.
        """
        session = await self._session()
        from nacre.extensions.mcp.client.session import ServerLost

        try:
            output = await session.call(tool, arguments)
        except ToolFailed:
            self._reset_failures()
            raise
        except ServerLost as error:
            self._lose(str(error))
            raise ToolFailed(
                f"The server {self.name!r} was lost during the call ({error}). What it has already "
                "done stays done. It is restarted at the next call."
            ) from error
        except asyncio.CancelledError:
            self._unanswered += 1
            if self._unanswered >= MOST_UNANSWERED:
                self._lose(f"it did not answer {self._unanswered} calls in a row")
            raise
        self._reset_failures()
        return output

    def status(self) -> str:
        tools = f"{len(self.listed.tools)} tools" if self.listed else "tools unknown"
        if self.is_running:
            return f"running, {tools}"
        if self.problem:
            return f"unavailable: {self.problem}"
        return f"{'starting' if self.is_starting else 'not started yet'}, {tools}"

    async def close(self) -> None:
        self._wants_end = True
        self._wake.set()
        if self._holding is not None:
            if not self.is_running:
                self._holding.cancel()  # its handshake may take long
            await asyncio.wait([self._holding])

    async def _session(self) -> ServerSession:
        loop = asyncio.get_running_loop()
        if self._opening is None:
            seconds = self._retry_at - loop.time()
            if seconds > MOST_WAIT_SECONDS:
                raise ToolFailed(
                    f"The server {self.name!r} is unavailable: {self.problem}. "
                    f"It is retried in {seconds:.0f} seconds; do without it until then."
                )
            await asyncio.sleep(max(0.0, seconds))
        session = await asyncio.shield(self.begin())
        if session is None:
            raise ToolFailed(f"The server {self.name!r} could not be started: {self.problem}.")
        return session

    def _reset_failures(self) -> None:
        self._failures = self._unanswered = 0

    def _lose(self, problem: str) -> None:
        """Gives up the session. The next call opens another one after a pause."""
        if self._opening is None:
            return
        log.warning("the MCP server %s is lost: %s", self.name, problem)
        opening, self._opening = self._opening, None
        if not opening.done():
            opening.set_result(None)
        self.problem = problem
        self._unanswered = 0
        pause = min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 20))
        self._failures += 1
        self._retry_at = asyncio.get_running_loop().time() + pause
        self._wants_end = True
        self._wake.set()

    async def _hold_session(
        self, before: asyncio.Task[None] | None, opening: asyncio.Future[ServerSession | None]
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._run_session(opening)
        except asyncio.CancelledError:
            raise
        except ImportError as error:
            log.warning("MCP servers need a library: %s", error)
            command = install_command("mcp")
            problem = f"the library mcp cannot be imported ({error}); install it with `{command}`"
        except Exception as error:
            log.info("the MCP server %s", self.name, exc_info=True)
            problem = str(error) or type(error).__name__
        else:
            return
        if self._opening is opening:
            self._lose(problem)

    async def _run_session(self, opening: asyncio.Future[ServerSession | None]) -> None:
        # on a thread: the library takes half a second to import
        library = await asyncio.to_thread(import_module, "nacre.extensions.mcp.client.session")
        wake = self._wake

        def ended(error_line: str) -> None:
            if self._opening is opening and opening.done() and not self._wants_end:
                self._lose(error_line or "it ended")

        def changed() -> None:
            self._has_other_tools = True
            wake.set()

        async with library.server_session(self.name, self.settings, self._home, ended, changed) as session:
            await self._list_tools(session)
            if not opening.done():
                self.problem = ""
                opening.set_result(session)
            while self._opening is opening and not self._wants_end:
                await wake.wait()
                wake.clear()
                if self._has_other_tools and not self._wants_end:
                    self._has_other_tools = False
                    await self._list_tools(session)

    async def _list_tools(self, session: ServerSession) -> None:
        async with asyncio.timeout(self.settings.start_seconds):
            tools = await session.tools()
        listed = ToolList(at_ms=self._now_ms(), tools=tools)
        await self._approve_first(self.listed or listed)
        if self.listed is None or self.listed.tools != tools:
            log.info("the MCP server %s has %d tools", self.name, len(tools))
        self.listed = listed
        await asyncio.to_thread(self._stored_list.write, listed)

    async def _approve_first(self, listed: ToolList) -> None:
        """Approves the first list of a server that was just added to the settings."""
        self._first_digests = self._first_digests or _digests(listed)
        if self._approved.digests() is not None:
            return
        try:
            await asyncio.to_thread(self._approved.approve, listed.tools, is_first=True)
        except (SessionError, OSError) as error:
            log.warning("the approved tools of the MCP server %s cannot be kept: %s", self.name, error)


def _digests(listed: ToolList | None) -> Mapping[str, str]:
    return {tool.name: tool.digest for tool in listed.tools} if listed else {}


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


def tool_schema_problem(schema: Mapping[str, Any]) -> str:
    """Why a tool with this schema is left out, as a sentence; empty if it can be used."""
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
    if problem := schema_problem(schema, what="Its schema"):
        return problem[:300]
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
    except Exception as failure:  # noqa: BLE001 - jsonschema may raise anything for a foreign schema
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
    """All enabled servers. `home` expands `~`; lists of tools are stored in `folder`.

    `wait_seconds` is how long a first turn waits for servers whose tools are unknown; later turns have them.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        *,
        home: Path,
        folder: Path,
        now_ms: Callable[[], int],
        wait_seconds: float = 3.0,
    ) -> None:
        self._now_ms = now_ms
        self._wait_seconds = wait_seconds
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
            await asyncio.wait(starting, timeout=self._wait_seconds)

    def tools(self, taken: Collection[str]) -> tuple[FunctionTool[..., Any], ...]:
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
        unavailable = [
            f"The MCP server {server.name!r} is unavailable: {server.problem}. "
            "A call of one of its tools tries again."
            for server in self._servers
            if server.problem
        ]
        starting = [
            f"The MCP server {server.name!r} is still starting: its tools come with a later turn of this "
            "program. `nacre admin mcp tools` waits for them."
            for server in self._servers
            if server.listed is None and server.is_starting
        ]
        return (*(line for lines in self._left_out.values() for line in lines), *unavailable, *starting)

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
            problem = tool_schema_problem(tool.schema)
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
                f"{names}{more}. To review and approve them: nacre admin mcp tools, "
                f"nacre admin mcp approve {server.name}"
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
