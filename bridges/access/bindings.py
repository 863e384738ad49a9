"""Which agent answers a message, by the `bindings` in the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.inbound import Inbound
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


class BoundAgents:
    """The agents that answer; the first is the default. `settings` may be replaced while they run."""

    def __init__(self, agents: Sequence[Agent], settings: Settings) -> None:
        self.by_id = {agent.id: agent for agent in agents}
        self._default = agents[0]
        self.settings = settings
        """What holds for all chats: channels, bindings, messages, commands."""

    @property
    def default(self) -> Agent:
        return self._default

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.by_id.values())

    def for_message(self, inbound: Inbound) -> Agent:
        return self.by_id.get(bound_agent_id(inbound, self.settings.bindings)) or self._default

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
