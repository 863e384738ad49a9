"""The tools that a bot author hands in, checked when the agent is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.recall.memory_tools import MEMORY_TOOL_NAMES
from nacre.runtime.tools.files import FILE_TOOL_NAMES
from nacre.runtime.tools.function import FunctionTool, tool


def given_tools(
    given: Sequence[FunctionTool[..., Any] | Callable[..., Any]],
) -> tuple[FunctionTool[..., Any], ...]:
    """Tools as they are, plain functions as tools.

    Raises:
        ConfigError: a function cannot be a tool, or two tools have one name.
    """
    tools: list[FunctionTool[..., Any]] = []
    taken = {*FILE_TOOL_NAMES, *MEMORY_TOOL_NAMES}
    for item in given:
        try:
            made = item if isinstance(item, FunctionTool) else tool(item)
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
