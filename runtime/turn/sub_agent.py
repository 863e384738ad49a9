"""Tools of bot authors that are not functions: sub-agents, toolsets, and MCP servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import Field, ValidationError

from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.settings.sections.mcp import McpServer
from nacre.runtime.tools.function import FunctionTool, ToolChats, ToolContext, check_name, tool
from nacre.runtime.tools.toolbox import CallScope, ToolArguments, ToolOutput, problems_of
from nacre.runtime.turn.loop import UsageLimits
from nacre.runtime.turn.output import FINAL_ANSWER, Output, TypeForm, output_of

TIMEOUT_SECONDS = 600.0
"""How long a sub-agent may work on one task, unless its author says otherwise."""
MOST_DEPTH = 3
"""How many sub-agents may be nested."""


class TaskArguments(ToolArguments):
    """The arguments of a call to a sub-agent."""

    task: str = Field(
        min_length=1,
        description="The task, with everything it needs to know: it sees nothing of this conversation.",
    )


class HandOffArguments(ToolArguments):
    """The arguments of a hand-off."""

    task: str = Field(min_length=1, description="The task. It has read this conversation.")


class SubAgent(Record):
    """A tool that works on a task in a turn of its own, made by `sub_agent`."""

    name: str
    description: str
    instructions: str
    tools: tuple[AuthorTool, ...]
    model: ChatModel | str | None
    limits: UsageLimits | None
    notes: bool
    chats: frozenset[ToolChats] | None
    timeout_seconds: float
    output: Output | None = None
    hand_off: bool = False

    @property
    def depth(self) -> int:
        return 1 + max((tool.depth for tool in self.tools if isinstance(tool, SubAgent)), default=0)

    def as_tool(self, run: RunSubAgent) -> FunctionTool[..., Any]:
        """The tool that passes a task to `run` and returns its final text."""

        async def work(task: str, context: ToolContext) -> ToolOutput:
            return ToolOutput(text=await run(self, task, context.scope), is_answer=self.hand_off)

        # Built directly: `tool` would inspect the function in each turn.
        return FunctionTool(
            function=work,
            name=self.name,
            description=self.description,
            arguments=HandOffArguments if self.hand_off else TaskArguments,
            chats=self.chats,
            timeout_seconds=self.timeout_seconds,
            context_name="context",
            needs_approval=False,
        )


class Toolset:
    """Several tools as one: `Agent.open(tools=[Toolset(Shop(), prefix="shop_")])`.

    `given` are functions, objects whose methods are tools, classes of such objects, which are called without
    arguments, sub-agents and further toolsets. `prefix` begins each name. `chats`, `timeout_seconds` and
    `needs_approval` apply to tools that do not set them. `servers` are MCP servers, by name.

    Raises:
        TypeError: something given cannot be a tool; the message says why.
    """

    def __init__(
        self,
        *given: object,
        prefix: str = "",
        chats: Sequence[ToolChats] | None = None,
        timeout_seconds: float | None = None,
        needs_approval: bool = False,
    ) -> None:
        tools: list[AuthorTool] = []
        for each in made_tools(given):
            check_name(prefix + each.name)
            each = replace(
                each,
                name=prefix + each.name,
                chats=each.chats if chats is None or each.chats is not None else frozenset(chats),
            )
            if isinstance(each, FunctionTool):
                seconds = timeout_seconds if each.timeout_seconds is None else each.timeout_seconds
                approval = each.needs_approval or needs_approval
                each = replace(each, timeout_seconds=seconds, needs_approval=approval)
            tools.append(each)
        self.tools: tuple[AuthorTool, ...] = tuple(tools)
        self.servers: Mapping[str, McpServer] = servers_of(given)


def mcp_server(
    name: str,
    *,
    command: str = "",
    args: Sequence[str] = (),
    env: Mapping[str, str] = MappingProxyType({}),
    cwd: str = "",
    url: str = "",
    headers: Mapping[str, str] = MappingProxyType({}),
    only: Sequence[str] = (),
    chats: Sequence[ToolChats] | None = None,
    trusted: Sequence[str] = (),
    timeout_seconds: float | None = None,
) -> Toolset:
    """The tools of an MCP server: `Agent.open(tools=[mcp_server("files", command="files-server")])`.

    The rules are those of `mcp.servers` in the settings: each tool is named `name__tool`, and the owner
    approves calls unless the server marks the tool as read-only or it is `trusted`. The server is started by
    a `command` with `args`, or reached at a `url`. `only` selects tools by the server's names.

    Raises:
        ConfigError: neither a command nor a URL is given, or both are.
    """
    given: dict[str, Any] = {"command": command, "args": tuple(args), "env": env, "cwd": cwd, "url": url}
    given |= {"headers": headers, "tools": {"allow": tuple(only)}, "trusted": tuple(trusted)}
    given |= {} if chats is None else {"chats": tuple(chats)}
    given |= {} if timeout_seconds is None else {"timeout_seconds": timeout_seconds}
    tools = Toolset()
    try:
        tools.servers = {name: McpServer.model_validate(given)}
    except ValidationError as error:
        raise ConfigError(f"mcp_server({name!r}) cannot be used: {problems_of(error)}.") from error
    return tools


def listed_tools(given: object) -> Iterable[object]:
    """Returns a list of tools. Raises `ConfigError` if it is a single tool or text."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        name = getattr(given, "__name__", getattr(given, "name", repr(given)))
        raise ConfigError(f"tools= takes a list. Write tools=[{name}].")
    return given


def made_tools(given: object) -> tuple[AuthorTool, ...]:
    """The tools in a list of an author.

    Raises:
        ConfigError: it is not a list.
        TypeError: something cannot be a tool; the message says why.
    """
    tools: list[AuthorTool] = []
    for each in listed_tools(given):
        made = _object_of(each) if isinstance(each, type) else each
        if isinstance(made, Toolset):
            tools += made.tools
        elif isinstance(made, FunctionTool | SubAgent):
            tools.append(made)
        elif methods := _methods(made):
            tools += methods
        elif callable(made):
            tools.append(tool(made))
        else:
            raise TypeError(f"{made!r} is not a tool: give a typed function or an object with such methods.")
    return tuple(tools)


def _object_of(given: type) -> object:
    try:
        return given()
    except TypeError as error:
        raise TypeError(f"{error}. Give an object of the class, tools=[{given.__name__}(…)].") from error


def servers_of(given: Iterable[object]) -> dict[str, McpServer]:
    """The MCP servers of the toolsets among `given`, by name."""
    sets = [each for each in given if isinstance(each, Toolset)]
    return {name: server for each in sets for name, server in each.servers.items()}


def _methods(given: object) -> list[AuthorTool]:
    """The tools among the methods of an object, in the order in which its class has them."""
    members = {name: member for kind in reversed(type(given).__mro__) for name, member in vars(kind).items()}
    return [
        getattr(given, name)
        for name, member in members.items()
        if isinstance(getattr(member, "__func__", member), FunctionTool)  # a static method has one
    ]


def chosen_names(choice: object) -> tuple[str, ...]:
    """The names of tools as in `Agent.open(tools=)`, or a pattern with `*`. Raises like `made_tools`."""
    if isinstance(choice, str):
        return (choice,)
    return (*(tool.name for tool in made_tools([choice])), *(f"{name}__*" for name in servers_of([choice])))


AuthorTool: TypeAlias = FunctionTool[..., Any] | SubAgent
RunSubAgent: TypeAlias = Callable[[SubAgent, str, CallScope], Awaitable[str]]


def sub_agent(
    *,
    name: str,
    description: str,
    instructions: str,
    tools: Sequence[object] = (),
    model: ChatModel | str | None = None,
    limits: UsageLimits | None = None,
    notes: bool = False,
    chats: Sequence[ToolChats] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    output_type: TypeForm[Any] | None = None,
    hand_off: bool = False,
) -> SubAgent:
    """Makes a tool that works on a task in a turn of its own, which sees only the task.

    The calling model reads `name` and `description`, the sub-agent's model reads `instructions`. The
    sub-agent has only these `tools`: functions as for `tool`, or further sub-agents. With `notes`, it also
    has the chat's tools for files and memory. `model` is a `ChatModel` or a name such as
    `openai/gpt-5-mini`; the default is the model of the chat. `limits` bounds one task, whose usage also
    counts for the calling turn. It is offered in `chats`, and never sees more than its chat may. A task is
    stopped after `timeout_seconds`. With `output_type`, as in `Agent.respond`, the result is JSON of that
    type. With `hand_off`, it reads the messages of the conversation, without tool calls and their results,
    and its last message is the reply of the turn.

    Raises:
        ConfigError: the `output_type` has no schema.
        TypeError: a name, a tool or the model cannot be used; the message says why.
    """
    made = made_tools(tools)
    if servers_of(tools):
        raise TypeError(f"The sub-agent {name!r} has an MCP server. Give the server to Agent.open(tools=).")
    names = [each.name for each in made] + [FINAL_ANSWER] * (output_type is not None)
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise TypeError(f"The sub-agent {name!r} has two tools named {twice[0]!r}. Give one another name.")
    if isinstance(model, str) and not all(model.partition("/")):
        raise TypeError(f"The sub-agent {name!r} has the model {model!r}. Write provider/model.")
    if not instructions.strip():
        raise TypeError(f"The sub-agent {name!r} has no instructions. Its model reads little else.")
    agent = SubAgent(
        name=name,
        description=description.strip(),
        instructions=instructions.strip(),
        tools=made,
        model=model,
        limits=limits,
        notes=notes,
        chats=None if chats is None else frozenset(chats),
        timeout_seconds=timeout_seconds,
        output=None if output_type is None else output_of(output_type),
        hand_off=hand_off,
    )
    if agent.depth > MOST_DEPTH:
        raise TypeError(
            f"The sub-agent {name!r} is nested {agent.depth} deep; the most is {MOST_DEPTH}. Remove a level."
        )
    _check_as_tool(agent, chats)
    return agent


def _check_as_tool(agent: SubAgent, chats: Sequence[ToolChats] | None) -> None:

    async def work(task: str) -> str:
        return task

    if not agent.description:
        raise TypeError(
            f"The sub-agent {agent.name!r} has no description. The model reads it to know when to call."
        )
    tool(name=agent.name or "?", description=agent.description, chats=chats)(work)
