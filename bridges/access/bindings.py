"""Which agent answers a message: by chat, account and channel, as `bindings` in the settings say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.settings.sections.channels import Binding
from nacre.runtime.settings.settings import Settings


def bound_to(inbound: Inbound, bindings: Sequence[Binding]) -> str:
    """The id of the agent that the settings name for a message; empty where they name none. Pure.

    The most specific binding counts: one of a chat, then one of an account, then one of every account;
    among equals the first.
    """
    folds = inbound.ids_fold_case is True
    ranked = ((binding.match.rank(inbound, ids_fold_case=folds), binding) for binding in bindings)
    found = [each for each in ranked if each[0]]
    return max(found, key=lambda each: each[0])[1].agent_id.strip().lower() if found else ""


class BoundAgents:
    """The agents that answer; the first is the default one. `settings` may be replaced while they run."""

    def __init__(self, agents: Sequence[Agent], settings: Settings) -> None:
        self._agents = {agent.id: agent for agent in agents}
        self._default = agents[0]
        self.settings = settings
        """What holds for all chats: channels, bindings, messages, commands."""

    @property
    def default(self) -> Agent:
        """The agent that answers what no binding names."""
        return self._default

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def named(self, agent_id: str) -> Agent | None:
        """The agent of this id, if it is one of these."""
        return self._agents.get(agent_id)

    def of(self, inbound: Inbound) -> Agent:
        """The agent that answers a message."""
        return self._agents.get(bound_to(inbound, self.settings.bindings)) or self._default

    def unknown(self, settings: Settings) -> tuple[str, ...]:
        """Sentences about bindings of settings that name no agent of these."""
        names = dict.fromkeys(binding.agent_id.strip().lower() for binding in settings.bindings)
        known = ", ".join(self._agents)
        return tuple(
            f"bindings names the agent {name!r}, which there is not; {self._default.id} answers there. "
            f"The agents are {known}."
            for name in names
            if name not in self._agents
        )
