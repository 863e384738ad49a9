"""Who was let in, and who asks to be."""

from __future__ import annotations

from nacre.bridges.ledger.contracts.records import StoredPerson, Who
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.rows import LedgerRows, Run


class PostgresPeople:
    """The people of a ledger."""

    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows

    async def role(self, who: Who) -> str:
        """What a sender was made."""
        found = await self._rows.read(statements.ROLE, **_named(who))
        return str(found[0][0]) if found else ""

    async def ask(
        self, who: Who, code: str, *, now_ms: int, since_ms: int, most: int, gives_way_ms: int = 0
    ) -> bool:
        """Keeps a code, unless its sender asks already, or too many do who asked after `gives_way_ms`."""
        named = _named(who)

        def work(run: Run) -> bool:
            run(statements.LOCK_PEOPLE)
            run(statements.FORGET_ASKING, since_ms=since_ms)
            asking = run(statements.ASKING_OF_ACCOUNT, channel=who[0], account=who[1])
            if (who[2],) in asking:
                return False
            if len(asking) >= most and not run(
                statements.GIVE_WAY, channel=who[0], account=who[1], gives_way_ms=gives_way_ms
            ):
                return False
            run(statements.ASK, **named, code=code, at_ms=now_ms)
            return True

        return await self._rows.write(work)

    async def asking(self, since_ms: int) -> tuple[StoredPerson, ...]:
        """Who asks to be let in."""
        return tuple(
            StoredPerson(*row) for row in await self._rows.read(statements.ASKING, since_ms=since_ms)
        )

    async def known(self) -> tuple[StoredPerson, ...]:
        """Who was let in."""
        return tuple(StoredPerson(*row) for row in await self._rows.read(statements.KNOWN))

    async def approve(self, code: str, role: str, *, now_ms: int, since_ms: int) -> Who | None:
        """Lets in who has a code."""

        def work(run: Run) -> Who | None:
            run(statements.LOCK_PEOPLE)
            who = _found(run, code, since_ms)
            run(statements.USE_CODE, code=code)
            if who is not None:
                run(statements.LET_IN, **_named(who), role=role, at_ms=now_ms)
            return who

        return await self._rows.write(work)

    async def deny(self, code: str, *, since_ms: int) -> Who | None:
        """Takes a code from who has it."""

        def work(run: Run) -> Who | None:
            run(statements.LOCK_PEOPLE)
            who = _found(run, code, since_ms)
            run(statements.DENY_CODE, code=code)
            return who

        return await self._rows.write(work)

    async def revoke(self, channel: str, sender_id: str) -> bool:
        """Takes back that a person was let in."""
        return bool(await self._rows.run(statements.REVOKE, channel=channel, sender_id=sender_id))


def _named(who: Who) -> dict[str, str]:
    return {"channel": who[0], "account": who[1], "sender_id": who[2]}


def _found(run: Run, code: str, since_ms: int) -> Who | None:
    found: list[Who] = run(statements.FIND_CODE, code=code, since_ms=since_ms)
    return found[0] if found else None
