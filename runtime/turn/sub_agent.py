"""What a sub-agent is: a name, instructions, tools of its own, and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from pydantic import Field

from nacre.record import Record
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.tools.function import FunctionTool, ToolChats, ToolContext, tool
from nacre.runtime.tools.toolbox import CallScope, ToolArguments
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
        description="What it is to do, with all that it has to know: it sees nothing of this conversation.",
    )


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

    @property
    def depth(self) -> int:
        """How many sub-agents are nested, this one included."""
        return 1 + max((tool.depth for tool in self.tools if isinstance(tool, SubAgent)), default=0)

    def as_tool(self, run: RunSubAgent) -> FunctionTool[..., Any]:
        """The tool that hands a task to `run` and returns the text that the task ended with."""

        async def work(task: str, context: ToolContext) -> str:
            return await run(self, task, context.scope)

        # The shape is known, so that no function is looked into in each turn.
        return FunctionTool(
            function=work,
            name=self.name,
            description=self.description,
            arguments=TaskArguments,
            chats=self.chats,
            timeout_seconds=self.timeout_seconds,
            context_name="context",
            needs_approval=False,
        )


AuthorTool: TypeAlias = FunctionTool[..., Any] | SubAgent
RunSubAgent: TypeAlias = Callable[[SubAgent, str, CallScope], Awaitable[str]]


def sub_agent(
    *,
    name: str,
    description: str,
    instructions: str,
    tools: Sequence[AuthorTool | Callable[..., Any]] = (),
    model: ChatModel | str | None = None,
    limits: UsageLimits | None = None,
    notes: bool = False,
    chats: Sequence[ToolChats] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    output_type: TypeForm[Any] | None = None,
) -> SubAgent:
    """Makes a tool that works on a task in a turn of its own, which sees nothing but the task.

    The calling model reads `name` and `description`, the sub-agent's model reads `instructions`. The
    sub-agent has only these `tools`: functions as for `tool`, or further sub-agents. With `notes`, it also
    has the chat's tools for files and memory. `model` is a `ChatModel` or a name such as
    `openai/gpt-5-mini`; the default is the model of the chat. `limits` bounds one task; its usage also
    counts for the calling turn and its limits. `chats` are those in which the sub-agent is offered; it
    never sees more than its chat may. A task that takes longer than `timeout_seconds` is stopped. With
    `output_type`, as in `Agent.respond`, the result is JSON of that type.

    Raises:
        ConfigError: the `output_type` has no schema.
        TypeError: a name, a tool or the model cannot be used; the message says why.
    """
    made = tuple(each if isinstance(each, FunctionTool | SubAgent) else tool(each) for each in tools)
    names = [each.name for each in made] + [FINAL_ANSWER] * (output_type is not None)
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise TypeError(f"The sub-agent {name!r} has two tools named {twice[0]!r}. Give one another name.")
    if isinstance(model, str) and not all(model.partition("/")):
        raise TypeError(f"The sub-agent {name!r} has the model {model!r}. Write provider/model.")
    if not instructions.strip():
        raise TypeError(
            f"The sub-agent {name!r} has no instructions. Its model reads nothing else but the task."
        )
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
    )
    if agent.depth > MOST_DEPTH:
        raise TypeError(
            f"The sub-agent {name!r} stands {agent.depth} deep; at most {MOST_DEPTH} may. Take a level out."
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
