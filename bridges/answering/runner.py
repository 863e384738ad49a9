"""Who runs the turn that a chat asks for. A contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.events import Event
from nacre.runtime.contracts.inbound import Inbound


class TurnRunner(Protocol):
    """Runs turns, in this process or in others."""

    def stream(self, agent: Agent, inbound: Inbound) -> AsyncGenerator[Event, None]:
        """The events of the turn of a message; the last one says how it ended.

        A message that is handed in again goes on with the turn that it had.
        """

    def runs_here(self, agent: Agent, inbound: Inbound) -> bool:
        """Whether a message's turn runs in this process, so that its end may be that message's doing."""

    def stop(self, agent: Agent, inbound: Inbound) -> None:
        """Ends the turns of a message's session."""

    def join(self, agent: Agent, inbound: Inbound) -> bool:
        """Says something into the turn of a message's session; whether there is one.

        The turn's events say whether it was heard: `MessageJoined`.
        """


class RunHere:
    """Runs each turn in this process."""

    def stream(self, agent: Agent, inbound: Inbound) -> AsyncGenerator[Event, None]:
        """The agent's own events."""
        return agent.stream(inbound)

    def runs_here(self, agent: Agent, inbound: Inbound) -> bool:  # noqa: ARG002 - all are alike
        """Each does."""
        return True

    def stop(self, agent: Agent, inbound: Inbound) -> None:
        """Ends them at once."""
        agent.stop(inbound)

    def join(self, agent: Agent, inbound: Inbound) -> bool:
        """Says it at once."""
        return agent.join(inbound)
