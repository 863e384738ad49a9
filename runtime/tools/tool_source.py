"""A source of tools that come and go while the agent runs, such as the servers of `mcp.servers`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.tools.function import FunctionTool


class ToolSource(Protocol):
    """Tools for the turns of an agent. Several agents of a process may share a source."""

    async def ready(self, policy: ChatPolicy) -> None:
        """Prepares the tools for such a chat before a turn, as far as a few seconds suffice."""

    def tools(self, taken: Collection[str]) -> tuple[FunctionTool[..., Any], ...]:
        """The tools that are known now, under names that are not in `taken`."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the owner: tools that are left out, servers that do not answer."""

    def status(self) -> tuple[str, ...]:
        """Each server with its state."""

    async def close(self) -> None:
        """Ends what runs."""
