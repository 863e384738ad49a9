"""The one place that says of a message whether it is answered, when it comes and as long as that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nacre.bridges.access.people import People
from nacre.bridges.access.rules import Verdict, judge
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.settings.settings import Settings

UNKNOWN = "I do not know you yet. My owner can let you in within an hour: nacre pairing approve {code}"


class Gate:
    """The one gate. Settings and who was let in are read anew each time: an owner may have changed them."""

    def __init__(
        self,
        people: People,
        settings: Callable[[], Settings],
        *,
        activation: Callable[[Inbound], str],
        new_id: NewId,
    ) -> None:
        """`activation` is what `/activation` chose for a group: `mention`, `always`, or nothing."""
        self._people = people
        self._activation = activation
        self._settings = settings
        self._new_id = new_id

    async def verdict(self, inbound: Inbound) -> Verdict:
        """What becomes of a message now."""
        return judge(
            inbound,
            self._settings(),
            await self._people.role(inbound),
            activation=self._activation(inbound),
        )

    async def still_holds(self, inbound: Inbound) -> bool:
        """Whether a message that was taken would be taken again, with the same rights.

        It was meant for the assistant then, whatever has to be said to be heard since.
        """
        verdict = await self.verdict(replace(inbound, is_mentioned=True))
        return verdict.outcome == "answer" and verdict.is_owner == inbound.is_owner

    async def invitation(self, inbound: Inbound) -> str:
        """What an unknown sender is told; nothing when they were told already, or too many ask."""
        code = await self._people.ask(inbound, self._new_id)
        return UNKNOWN.format(code=code) if code else ""
