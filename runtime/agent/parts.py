"""What an open agent holds."""

from __future__ import annotations

from dataclasses import dataclass

from nacre.runtime.commands.chosen_models import ChosenModels
from nacre.runtime.endings.lifecycle import Lifecycle
from nacre.runtime.endings.upkeep import Upkeep
from nacre.runtime.lanes.lanes import Lanes
from nacre.runtime.turn.parts import TurnParts


@dataclass(frozen=True, kw_only=True)
class AgentParts:
    """Everything that an open agent holds."""

    agent_id: str
    turn: TurnParts
    chosen: ChosenModels
    lanes: Lanes
    lifecycle: Lifecycle
    upkeep: Upkeep
    notices: tuple[str, ...]
