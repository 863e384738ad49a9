"""The tools and prompt parts that a bot author hands in, checked when the agent is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.recall.memory_tools import MEMORY_TOOL_NAMES
from nacre.runtime.tools.file_tools.files import FILE_TOOL_NAMES
from nacre.runtime.tools.function import FunctionTool, tool
from nacre.runtime.turn.loop.sub_agent import AuthorTool, SubAgent
from nacre.runtime.turn.prompt_parts.prompt_part import PromptFunction, PromptPart, prompt_part
from nacre.runtime.turn.prompt_parts.sections import instructions_part

BUILT_IN_TOOLS = frozenset({*FILE_TOOL_NAMES, *MEMORY_TOOL_NAMES})
"""Names that no other tool may have, whichever memory engine there is."""


def given_tools(
    given: Sequence[AuthorTool | Callable[..., Any]],
) -> tuple[AuthorTool, ...]:
    """Tools and sub-agents as they are, plain functions as tools.

    Raises:
        ConfigError: a function cannot be a tool, or two tools have one name.
    """
    tools: list[AuthorTool] = []
    taken = set(BUILT_IN_TOOLS)
    for item in given:
        try:
            made = item if isinstance(item, FunctionTool | SubAgent) else tool(item)
        except TypeError as error:
            raise ConfigError(
                f"{error} Change the function, or leave it out of Agent.open(tools=...)."
            ) from error
        if made.name in taken:
            raise ConfigError(
                f"There are two tools named {made.name!r}. Give yours another name: @tool(name='...')."
            )
        taken.add(made.name)
        tools.append(made)
    return tuple(tools)


def given_prompt_parts(
    instructions: str, given: Sequence[PromptPart | PromptFunction]
) -> tuple[PromptPart, ...]:
    """The author's instructions as the first part, then the parts; plain functions are made parts.

    Raises:
        ConfigError: a function cannot be a part, or two parts have one name.
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
