"""The one place that says of a message whether it is answered, when it comes and as long as that takes."""

from __future__ import annotations

from nacre.bridges.access.people import People
from nacre.bridges.access.rules import Verdict, judge
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.settings.settings import Settings

UNKNOWN = "I do not know you yet. My owner can let you in within an hour: nacre pairing approve {code}"


class Gate:
    """The gate of one agent. Who was let in is read anew each time: a terminal may have changed it."""

    def __init__(self, people: People, settings: Settings, *, new_id: NewId) -> None:
        self._people = people
        self._settings = settings
        self._new_id = new_id

    async def verdict(self, inbound: Inbound) -> Verdict:
        """What becomes of a message now."""
        return judge(inbound, self._settings, await self._people.role(inbound))

    async def still_holds(self, inbound: Inbound) -> bool:
        """Whether a message that was taken would be taken again, with the same rights."""
        verdict = await self.verdict(inbound)
        return verdict.outcome == "answer" and verdict.is_owner == inbound.is_owner

    async def invitation(self, inbound: Inbound) -> str:
        """What an unknown sender is told; nothing when they were told already, or too many ask."""
        code = await self._people.ask(inbound, self._new_id)
        return UNKNOWN.format(code=code) if code else ""
