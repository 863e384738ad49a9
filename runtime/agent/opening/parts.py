"""What an open agent holds."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from nacre.memory.files.facts.fact_memory import FactMemory
from nacre.memory.workspace.history.keeping import HistoryKeeper
from nacre.runtime.agent.opening.running import Running
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.commands.registry import Commands
from nacre.runtime.endings.lifecycle import Lifecycle
from nacre.runtime.endings.upkeep import Upkeep
from nacre.runtime.lanes.lanes import Lanes
from nacre.runtime.settings.rereading import SettingsInFile
from nacre.runtime.turn.loop.limits import UsageLimits
from nacre.runtime.turn.parts import TurnParts


@dataclass(kw_only=True)
class AgentParts:
    """Everything that an open agent holds. `turn` alone is ever replaced, by one with changed settings.

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
    settings_file: SettingsInFile
    closing: AsyncExitStack

    def reread_settings(self) -> None:
        """Takes over what counts at once of changed settings. Turns that run keep what they began with."""
        settings = self.settings_file.look(self.turn.settings)
        if settings is not None:
            agent = settings.agent
            window = replace(self.turn.window, settings=agent.compaction, pruning=agent.context_pruning)
            self.turn = replace(self.turn, settings=settings, window=window)

    @property
    def agent_id(self) -> str:
        """Which of the agents of its state folder it is."""
        return self.turn.agent_id
