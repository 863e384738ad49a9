"""The interface through which extensions provide tools, commands, hooks and services.

An entry point of the group `nacre.extensions` names a function `register(host)`, or an object or module that
has one. It is called once for each agent that is opened, before the first message. What it adds has the same
interfaces and defaults as the arguments of `Agent.open`: tools and prompt parts are for the owner's private
chats unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeAlias, TypeVar

from nacre.memory.contracts.facts import FactMemory
from nacre.record import Record
from nacre.runtime.commands.command import Command
from nacre.runtime.commands.function import FunctionCommand, checked_command
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.extensions.service import MakeMount, Service, TurnWorkers
from nacre.runtime.hooks.hooks import Handler, checked_name
from nacre.runtime.providers.provider import Lend
from nacre.runtime.recall.memory_backend import MemoryBackend
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.config import Config
from nacre.runtime.tools.function import FunctionTool, ToolSource, tool
from nacre.runtime.turn.prompt_part import PromptFunction, PromptPart, prompt_part
from nacre.runtime.turn.sub_agent import AuthorTool, SubAgent

T = TypeVar("T")
MakeToolSource: TypeAlias = Callable[[Config, Clock], ToolSource]


class OpeningAgent(Record):
    """The agent that is being opened.

    `embedder` lends an embedder that the agents of this process share; without it, each has its own. Call
    `on_note` with the name of a note that you have written. `closing` is closed with the agent.
    """

    config: Config
    now: Clock
    embedder: Lend | None
    on_note: Callable[[str], None]
    closing: AsyncExitStack


class ExtensionHost:
    """Receives what an extension provides. Each method raises an exception for invalid values.

    `settings` is `plugins.entries.<id>.config`, validated against the manifest's schema.
    """

    def __init__(self, *, extension_id: str, settings: Mapping[str, Any], may_be_memory: bool) -> None:
        self.extension_id = extension_id
        self.settings = settings
        self._may_be_memory = may_be_memory
        self.tools: list[AuthorTool] = []
        self.commands: list[Command] = []
        self.prompt_parts: list[PromptPart] = []
        self.hooks: list[tuple[str, Handler[Any, Any]]] = []
        self.engine: MemoryPlugin | None = None
        self.backend: MemoryBackend | None = None
        self.tool_sources: list[MakeToolSource] = []
        self.services: list[Service] = []
        self.http_mounts: list[MakeMount] = []
        self.workers: TurnWorkers | None = None
        self.facts: FactMemory | None = None
        self.openings: list[Callable[[OpeningAgent], None]] = []

    def tool(self, function: AuthorTool | Callable[..., Any]) -> None:
        """Adds a tool (see `nacre.tool`) or a sub-agent (see `nacre.sub_agent`)."""
        self.tools.append(function if isinstance(function, FunctionTool | SubAgent) else tool(function))

    def command(self, command: FunctionCommand) -> None:
        """Adds a chat command made by `nacre.command`."""
        self.commands.append(checked_command(command))

    def prompt_part(self, function: PromptPart | PromptFunction) -> None:
        """Adds a section of the system prompt (see `nacre.prompt_part`)."""
        self.prompt_parts.append(function if isinstance(function, PromptPart) else prompt_part(function))

    def hook(self, name: str, handler: Handler[Any, Any]) -> None:
        """Adds a handler for an event of the agent (see `nacre.Hooks`)."""
        self.hooks.append((checked_name(name), _callable(handler, f"the hook {name!r}")))

    def on_open(self, add: Callable[[OpeningAgent], None]) -> None:
        """Calls `add` when an agent opens, to add to the host what depends on the agent's settings."""
        self.openings.append(_callable(add, "on_open"))

    def fact_memory(self, facts: FactMemory) -> None:
        """Replaces the facts and notes behind `agent.memory`."""
        if not isinstance(facts, FactMemory):
            raise TypeError(f"a fact memory must be a FactMemory, not {type(facts).__name__}")
        self.facts = facts

    def memory_engine(self, engine: MemoryPlugin) -> None:
        """Sets the memory engine (see `nacre.MemoryPlugin`). The manifest's `kind` must be `memory`."""
        if not self._may_be_memory:
            raise ValueError("its manifest does not say that its kind is memory")
        if not isinstance(engine, MemoryPlugin):
            raise TypeError(f"a memory engine must be a MemoryPlugin, not {type(engine).__name__}")
        if self.engine is not None:
            raise ValueError("it provides two memory engines, but only one is possible")
        self.engine = engine

    def memory_backend(self, backend: MemoryBackend) -> None:
        """Adds a search program in front of memory-core, used if `memory.backend` is this id."""
        if not isinstance(backend, MemoryBackend):
            raise TypeError(f"a memory backend must be a MemoryBackend, not {type(backend).__name__}")
        self.backend = backend

    def tool_source(self, make: MakeToolSource) -> None:
        """Adds a source of changing tools. `make(config, now)` opens it when the agent opens."""
        self.tool_sources.append(_callable(make, "tool_source"))

    def service(self, service: Service) -> None:
        """Adds a service that `nacre serve` runs beside the channels."""
        if not isinstance(service, Service):
            raise TypeError(f"a service must be a Service, not {type(service).__name__}")
        self.services.append(service)

    def http_mount(self, make: MakeMount) -> None:
        """Adds routes to the HTTP server of `nacre serve`. `make(configs, now)` is called when it starts."""
        self.http_mounts.append(_callable(make, "http_mount"))

    def turn_workers(self, workers: TurnWorkers) -> None:
        """Sets the programs that run turns if `storage.driver` names this extension."""
        if self.workers is not None:
            raise ValueError("it provides two kinds of workers, but only one is possible")
        self.workers = workers


def _callable(value: T, what: str) -> T:
    if not callable(value):
        raise TypeError(f"{what} has the value {value!r}, which is not callable")
    return value


class Extension(Protocol):
    def register(self, host: ExtensionHost, /) -> None:
        """Adds what the extension provides to `host`."""
