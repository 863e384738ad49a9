"""What a bot author passes besides the settings, and what installed extensions add to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypedDict, get_args

from nacre.memory.contracts.facts import FactMemory
from nacre.record import Record
from nacre.runtime.commands.command import Command
from nacre.runtime.commands.function import FunctionCommand, checked_command
from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.contracts.policy import Audience
from nacre.runtime.extensions.choice import asks_backend, needed_by
from nacre.runtime.extensions.host import MakeToolSource, OpeningAgent
from nacre.runtime.extensions.loading import backend_of, load_extensions, no_backend
from nacre.runtime.hooks.hooks import Handler, HookTable
from nacre.runtime.recall.memory_backend import MemoryBackend
from nacre.runtime.recall.memory_core import MEMORY_TOOL_NAMES
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.file_tools import FILE_TOOL_NAMES
from nacre.runtime.tools.function import FunctionTool, ToolChats, are_chats
from nacre.runtime.turn.loop import UsageLimits
from nacre.runtime.turn.output import FINAL_ANSWER
from nacre.runtime.turn.prompt_part import PromptFunction, PromptPart, prompt_part
from nacre.runtime.turn.sub_agent import AuthorTool, SubAgent, made_tools, servers_of
from nacre.runtime.turn.system_prompt import instructions_part


class AuthorParts(Record):
    """What a bot author passes besides the settings. Without models or a memory engine, the settings decide.

    Of several models, the next one is asked when one fails; a text is the name of a model.
    """

    models: tuple[ChatModel | str, ...] = ()
    tools: tuple[AuthorTool, ...] = ()
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    hooks: HookTable = field(default_factory=lambda: HookTable())
    extension_hooks: tuple[tuple[str, Handler[Any, Any]], ...] = ()
    commands: tuple[Command, ...] = ()
    limits: UsageLimits | None = None
    prompt_parts: tuple[PromptPart, ...] = ()
    memory: MemoryPlugin | None = None
    memory_id: str = ""
    memory_backend: MemoryBackend | None = None
    tool_sources: tuple[MakeToolSource, ...] = ()
    facts: FactMemory | None = None


class SharedKeywords(TypedDict, total=False):
    """What can be passed to all agents of a runtime; see `Agent.open`."""

    model: ChatModel | str | Sequence[ChatModel | str] | None
    tools: Sequence[object]
    tool_chats: Sequence[ToolChats] | None
    instructions: str
    commands: Sequence[FunctionCommand]
    limits: UsageLimits | None
    prompt_parts: Sequence[PromptPart | PromptFunction]
    hooks: HookTable | None


class AgentKeywords(SharedKeywords, total=False):
    """What can be passed to one agent when it is opened; see `Agent.open`."""

    memory: MemoryPlugin | None


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "commands": (
        lambda given: not isinstance(given, str) and all(isinstance(each, FunctionCommand) for each in given),
        "a list of functions with @nacre.command",
    ),
    "hooks": (lambda given: isinstance(given, Mapping), "a table, hooks={'before_tool': handler}"),
    "instructions": (lambda given: isinstance(given, str), "a text"),
    "limits": (lambda given: isinstance(given, UsageLimits), "nacre.UsageLimits(…)"),
    "memory": (
        lambda given: hasattr(given, "start") and not isinstance(given, type),
        "an engine, such as nacre.MemoryPlugin describes",
    ),
}
"""Keywords that nothing else checks: whether a value is usable, and which values are."""


def author_parts(keywords: AgentKeywords) -> AuthorParts:
    """The parts among the keywords of `Agent.open`. Raises `ConfigError` if one cannot be used."""
    for name, (is_right, kind) in _KINDS.items():
        if (value := keywords.get(name)) is not None and not is_right(value):
            raise ConfigError(f"Agent.open({name}={value!r}) cannot be used. Give {kind}.")
    tools, chats = keywords.get("tools", ()), keywords.get("tool_chats")
    return AuthorParts(
        models=author_models(keywords.get("model")),
        tools=author_tools(tools, chats),
        servers=author_servers(tools, chats),
        commands=tuple(map(checked_command, keywords.get("commands", ()))),
        limits=keywords.get("limits"),
        hooks=keywords.get("hooks") or {},
        prompt_parts=author_prompt_parts(keywords.get("instructions", ""), keywords.get("prompt_parts", ())),
        memory=keywords.get("memory"),
    )


def author_models(model: ChatModel | str | Sequence[ChatModel | str] | None) -> tuple[ChatModel | str, ...]:
    """The models that an author passed; none for a single name, which is asked as the settings' model is.

    Raises:
        ConfigError: the list is empty, names a model twice, or has something that is neither model nor name.
    """
    if model is None or isinstance(model, str):
        return ()
    given = model if isinstance(model, Sequence) else (model,)
    wrong = [
        each
        for each in given
        if not isinstance(each, str) and (isinstance(each, type) or not hasattr(each, "stream"))
    ]
    if wrong or not given:
        what = f"{wrong[0]!r} is neither a model nor the name of one" if wrong else "the list is empty"
        raise ConfigError(
            f"Agent.open(model=...) cannot be used: {what}. Give models or names: [mine, 'openai/gpt-5']."
        )
    names = [each if isinstance(each, str) else each.name for each in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(
            f"Agent.open(model=[...]) has two models named {twice[0]!r}, and could not tell them apart. "
            "Leave one out, or give one another name, such as ScriptedModel(..., name='test/second')."
        )
    return tuple(given)


def extended(given: AuthorParts, opening: OpeningAgent) -> tuple[AuthorParts, Commands, tuple[str, ...]]:
    """`given` with what the extensions add, all chat commands, and sentences for the owner.

    A memory engine from the author takes precedence over an extension's.

    Raises:
        ConfigError: a command of the author has a malformed name, or one in use.
    """
    settings = opening.config.settings
    loaded = load_extensions(
        settings.plugins,
        built_in=needed_by(settings, has_model=bool(opening.config.model_name)),
        tool_names=(*BUILT_IN_TOOLS, *(tool.name for tool in given.tools)),
        part_names=[part.name for part in given.prompt_parts],
        commands=Commands(given.commands, reset_triggers=settings.session.reset_triggers),
        opening=opening,
    )
    for host in loaded.hosts:
        given = replace(
            given,
            tools=(*given.tools, *host.tools),
            prompt_parts=(*given.prompt_parts, *host.prompt_parts),
            extension_hooks=(*given.extension_hooks, *host.hooks),
            tool_sources=(*given.tool_sources, *host.tool_sources),
            facts=host.facts or given.facts,
        )
        if given.memory is None and host.engine is not None:
            given = replace(given, memory=host.engine, memory_id=host.extension_id)
    if not asks_backend(settings):
        return given, loaded.commands, loaded.notices
    name = settings.memory.backend
    given = replace(given, memory_backend=backend_of(loaded.hosts, name))
    missing = () if given.memory_backend else (no_backend(name),)
    return given, loaded.commands, (*loaded.notices, *missing)


BUILT_IN_TOOLS = frozenset({*FILE_TOOL_NAMES, *MEMORY_TOOL_NAMES, FINAL_ANSWER})
"""Names that no other tool may have, whichever memory engine is used."""


def author_tools(given: Sequence[object], chats: Sequence[ToolChats] | None) -> tuple[AuthorTool, ...]:
    """Tools and sub-agents as they are, plain functions as tools; `chats` are for those that name none.

    Raises:
        ConfigError: a function cannot be a tool, two tools have the same name, or `chats` has another word.
    """
    if chats is not None and not are_chats(chats):
        raise ConfigError(f"Agent.open(tool_chats={chats!r}) cannot be used. Use {get_args(Audience)}.")
    tools: list[AuthorTool] = []
    taken = set(BUILT_IN_TOOLS)
    try:
        all_made = made_tools(given)
    except TypeError as error:
        raise ConfigError(
            f"{error} Change the function, or leave it out of Agent.open(tools=...)."
        ) from error
    for made in all_made:
        if made.name == FINAL_ANSWER:
            raise ConfigError(
                f"The tool name {FINAL_ANSWER!r} is reserved for typed answers, see output_type. "
                "Give yours another name: @tool(name='...')."
            )
        if made.name in taken:
            raise ConfigError(
                f"There are two tools named {made.name!r}. Give yours another name: @tool(name='...')."
            )
        if isinstance(made, FunctionTool) and made.is_method:
            raise ConfigError(
                f"The tool {made.name!r} is a method without an object. Give the object that has it, "
                "Agent.open(tools=[my_object]), or the method of an object."
            )
        taken.add(made.name)
        tools.append(made if chats is None else _in_chats(made, frozenset(chats)))
    return tuple(tools)


def author_servers(given: Sequence[object], chats: Sequence[ToolChats] | None) -> Mapping[str, McpServer]:
    """The MCP servers among an author's tools; `chats` are for those that name none."""
    own = {} if chats is None else {"chats": tuple(chats)}
    return {
        name: server if "chats" in server.model_fields_set else server.model_copy(update=own)
        for name, server in servers_of(given).items()
    }


def with_servers(config: Config, given: AuthorParts) -> Config:
    """The settings with the author's MCP servers.

    Raises:
        ConfigError: a server of the settings has the same name as one of the author's.
    """
    if not given.servers:
        return config
    servers = config.settings.mcp.servers
    if twice := sorted(set(servers) & set(given.servers)):
        raise ConfigError(f"mcp.servers has a server named {twice[0]!r}, too. Give yours another name.")
    mcp = config.settings.mcp.model_copy(update={"servers": {**servers, **given.servers}})
    return replace(config, settings=config.settings.model_copy(update={"mcp": mcp}))


def _in_chats(tool: AuthorTool, chats: frozenset[ToolChats]) -> AuthorTool:
    if isinstance(tool, SubAgent):
        tool = replace(tool, tools=tuple(_in_chats(each, chats) for each in tool.tools))
    return replace(tool, chats=chats) if tool.chats is None else tool


def author_prompt_parts(
    instructions: str, given: Sequence[PromptPart | PromptFunction]
) -> tuple[PromptPart, ...]:
    """The author's instructions as the first part, then the parts; plain functions become parts.

    Raises:
        ConfigError: a function cannot be a part, or two parts have the same name.
    """
    parts = [instructions_part(instructions)] if instructions.strip() else []
    for item in given:
        try:
            part = item if isinstance(item, PromptPart) else prompt_part(item)
        except TypeError as error:
            raise ConfigError(
                f"{error} Change the function, or leave it out of Agent.open(prompt_parts=...)."
            ) from error
        if part.name in {other.name for other in parts}:
            raise ConfigError(
                f"There are two prompt parts named {part.name!r}. Name one: @prompt_part(name='...')."
            )
        parts.append(part)
    return tuple(parts)
