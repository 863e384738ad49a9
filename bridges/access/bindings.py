"""Which agent answers a message, by the `bindings` in the settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from nacre.bridges.access.people import who_of
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import Who
from nacre.runtime.settings.sections.channels import Binding
from nacre.runtime.settings.settings import Settings


def bound_agent_id(inbound: Inbound, bindings: Sequence[Binding]) -> str:
    """The id of the agent to which the settings bind a message; empty if there is none.

    The most specific binding counts: for a chat, then for an account, then for all accounts. Of equals, the
    first counts.
    """

    def rank(binding: Binding) -> int:
        return binding.match.rank(inbound, ids_fold_case=inbound.ids_fold_case is True)

    best = max(bindings, key=rank, default=None)
    return best.agent_id.strip().lower() if best is not None and rank(best) else ""


OpenAgent: TypeAlias = Callable[[str], Awaitable[Agent]]
"""Opens the agent of an id, which stays open."""


class BoundAgents:
    """The agents that answer; the first is the default. `settings` may be replaced while they run."""

    def __init__(
        self, agents: Sequence[Agent], settings: Settings, *, open_agent: OpenAgent | None = None
    ) -> None:
        self.by_id = {agent.id: agent for agent in agents}
        self._default = agents[0]
        self._open_agent = open_agent
        self._own_ids: dict[Who, str] = {}
        self.on_added: Callable[[Agent], None] = lambda _agent: None
        """Called with an agent that is opened later."""
        self.settings = settings
        """The settings of all chats: channels, bindings, messages, commands."""

    @property
    def default(self) -> Agent:
        return self._default

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.by_id.values())

    def for_message(self, inbound: Inbound) -> Agent:
        """The agent of a message, as `find` found it last."""
        own_id = self._own_ids.get(who_of(inbound), "") if inbound.chat_kind == "direct" else ""
        agent_id = own_id or bound_agent_id(inbound, self.settings.bindings)
        return self.by_id.get(agent_id) or self._default

    async def find(self, inbound: Inbound, own_agent: str) -> Agent:
        """The agent of a message that arrives: in private the sender's own one, if there is one.

        Raises `AgentError` if that cannot be opened. No other agent answers in its place.
        """
        self._own_ids.pop(who_of(inbound), None)
        if own_agent and inbound.chat_kind == "direct":
            await self.open(own_agent)
            self._own_ids[who_of(inbound)] = own_agent
        return self.for_message(inbound)

    async def open(self, agent_id: str) -> None:
        """Opens an agent that the settings do not name, unless it is open. Raises `AgentError`."""
        if agent_id in self.by_id:
            return
        if self._open_agent is None:
            raise ConfigError(f"The agent {agent_id!r} cannot be opened here.")
        agent = await self._open_agent(agent_id)
        if self.by_id.setdefault(agent_id, agent) is agent:
            self.on_added(agent)

    def unknown_bindings(self, settings: Settings) -> tuple[str, ...]:
        """Sentences about bindings that name an unknown agent."""
        names = dict.fromkeys(binding.agent_id.strip().lower() for binding in settings.bindings)
        known = ", ".join(self.by_id)
        return tuple(
            f"bindings names the agent {name!r}, which does not exist; {self._default.id} answers instead. "
            f"The agents are {known}."
            for name in names
            if name not in self.by_id
        )
