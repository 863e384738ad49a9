"""What an open agent holds."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

from nacre.memory.files.facts.fact_memory import FactMemory
from nacre.memory.workspace.history.keeping import HistoryKeeper
from nacre.runtime.agent.opening.running import Running
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.registry import Commands
from nacre.runtime.endings.lifecycle import Lifecycle
from nacre.runtime.endings.upkeep import Upkeep
from nacre.runtime.lanes.lanes import Lanes
from nacre.runtime.turn.loop.limits import UsageLimits
from nacre.runtime.turn.parts import TurnParts


@dataclass(frozen=True, kw_only=True)
class AgentParts:
    """Everything that an open agent holds.

    `limits` are those of a turn that names none. `closing` releases what is held, in the opposite order of
    its opening.
    """

    turn: TurnParts
    chosen: ChosenModels
    lanes: Lanes
    lifecycle: Lifecycle
    upkeep: Upkeep
    notices: tuple[str, ...]
    commands: Commands
    limits: UsageLimits | None
    running: Running
    facts: FactMemory
    history: HistoryKeeper
    closing: AsyncExitStack

    @property
    def agent_id(self) -> str:
        """Which of the agents of its state folder it is."""
        return self.turn.agent_id
