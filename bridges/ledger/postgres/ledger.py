"""The ledger of an agent in PostgreSQL, for one serving program at a time, wherever it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from nacre.bridges.contracts.bridge import Place, place_of
from nacre.bridges.ledger.contracts.owner_chats import is_owner_chat
from nacre.bridges.ledger.contracts.records import Along, Received, chat_of
from nacre.bridges.ledger.contracts.stored_inbound import asker_to_json, inbound_from_json, inbound_to_json
from nacre.bridges.ledger.postgres import statements
from nacre.bridges.ledger.postgres.holding import LOOK_SECONDS, Holding
from nacre.bridges.ledger.postgres.jobs import write_along
from nacre.bridges.ledger.postgres.outbox import PostgresOutbox, forget_old, kept_text, put_part
from nacre.bridges.ledger.postgres.rows import LedgerRows, Run
from nacre.bridges.ledger.postgres.tables import PostgresTables
from nacre.postgres.database import Database
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound


class PostgresLedger(PostgresTables):
    """The ledger of an agent. Open it with `open`."""

    notice = ""

    def __init__(
        self, rows: LedgerRows, *, now: Clock, ledger_id: str, holding: Holding, look_seconds: float
    ) -> None:
        super().__init__(rows)
        self._now = now
        self._holding: Holding | None = holding
        self._keeping = asyncio.create_task(holding.keep(look_seconds), name="ledger-lock")
        self.outbox = PostgresOutbox(rows, ledger_id=ledger_id)

    @classmethod
    async def open(
        cls,
        database: Database,
        url: str,
        *,
        agent: str,
        now: Clock,
        new_id: NewId,
        look_seconds: float = LOOK_SECONDS,
    ) -> Self:
        """Holds the ledger. What a program before was sending is `unsure` now, and it writes nothing more.

        Each `look_seconds` it looks whether its lock was lost with a connection, and takes it again.

        Raises:
            LedgerUnusable: the database cannot be used, or another program has the ledger.
        """
        rows = LedgerRows(database, agent)
        holding = await Holding.taken(rows, url, agent)

        def begin(run: Run) -> tuple[str, int]:
            [(ledger_id, fence)] = run(statements.HOLD, ledger_id=new_id(), holder=holding.holder)
            run(statements.NOBODY_KNOWS)
            return ledger_id, fence

        try:
            ledger_id, fence = await rows.write(begin)
        except BaseException:
            await asyncio.to_thread(holding.release)
            raise
        fenced = LedgerRows(database, agent, fence=fence)
        return cls(fenced, now=now, ledger_id=ledger_id, holding=holding, look_seconds=look_seconds)

    async def close(self) -> None:
        """Takes nothing more, and lets another program have it. Safe to repeat."""
        await super().close()
        holding, self._holding = self._holding, None
        if holding is not None:
            self._keeping.cancel()
            await asyncio.to_thread(holding.release)

    async def receive(
        self,
        inbound: Inbound,
        session_key: str,
        *,
        agent_id: str = "",
        cursor: str = "",
        along: Along | None = None,
    ) -> Received | None:
        """Keeps a message, its bridge's cursor, and `along`; `None` if the message came before."""
        at_ms, body, asker = epoch_ms(self._now()), inbound_to_json(inbound), asker_to_json(inbound)
        account = {"channel": inbound.channel, "account": inbound.account}

        def work(run: Run) -> int:
            if cursor:
                run(statements.PUT_CURSOR, **account, value=cursor)
            added = run(
                statements.RECEIVE,
                **account,
                chat_id=inbound.chat_id,
                message_id=inbound.message_id,
                session_key=session_key,
                answered_by=agent_id,
                at_ms=at_ms,
                body=body,
            )
            if added and is_owner_chat(inbound):
                run(statements.PUT_OWNER_CHAT, **account, answered_by=agent_id, at_ms=at_ms, inbound=asker)
            if along is not None:
                write_along(run, along)
            return int(added[0][0]) if added else 0

        number = await self._rows.write(work)
        received = Received(number=number, session_key=session_key, inbound=inbound, agent_id=agent_id)
        return received.named if number else None

    async def tell(self, asker: Inbound, texts: Sequence[str], *, along: Along | None = None) -> None:
        """Puts texts into the outbox that no message asked for, with `along`; both or none."""

        def work(run: Run) -> None:
            for text in texts:
                put_part(run, place_of(asker), text, answers="", asker=asker_to_json(asker))
            if along is not None:
                write_along(run, along)

        await self._rows.write(work)

    async def pass_over(self, inbound: Inbound, cursor: str) -> None:
        """Keeps the cursor of a message that nobody answers."""
        if cursor:
            account = {"channel": inbound.channel, "account": inbound.account}
            await self._rows.run(statements.PUT_CURSOR, **account, value=cursor)

    async def cursor(self, channel: str, account: str) -> str:
        """What a bridge last handed in as its cursor; empty before that."""
        found = await self._rows.read(statements.CURSOR, channel=channel, account=account)
        return str(found[0][0]) if found else ""

    async def open_messages(self) -> tuple[Received, ...]:
        """Everything that is not answered, in the order in which it came."""
        return tuple(
            Received(
                number=number,
                session_key=key,
                inbound=inbound_from_json(body),
                turn=turn,
                was_begun=was_begun,
                attempts=attempts,
                agent_id=agent_id,
                has_joined=has_joined,
            ).named
            for number, key, body, turn, was_begun, attempts, agent_id, has_joined in await self._rows.read(
                statements.OPEN_MESSAGES
            )
        )

    async def begin(self, batch: Sequence[Received]) -> None:
        """Notes that messages are handed to the agent, as one turn."""
        await self._rows.run(statements.BEGIN, numbers=_numbers(batch), turn=batch[0].number)

    async def join(self, received: Received, turn: int) -> None:
        """Notes that a message is about to be said into a turn that runs."""
        await self._rows.run(statements.JOIN, number=received.number, turn=turn)

    async def part(self, apart: Sequence[Received]) -> None:
        """Notes that messages did not join a turn after all."""
        await self._rows.run(statements.PART, numbers=_numbers(apart))

    async def drop(self, dropped: Sequence[Received]) -> None:
        """Notes that messages are not answered."""
        await self._rows.run(statements.DROP, numbers=_numbers(dropped))

    async def finish(self, batch: Sequence[Received], place: Place, texts: Sequence[str]) -> None:
        """Notes that a turn is over, and what is to be said of it; both or none."""
        last, turn = batch[-1].inbound, batch[0].number
        asker = asker_to_json(last)

        def work(run: Run) -> None:
            draft, rest = run(statements.DRAFT, turn=turn), list(texts)
            if draft and rest:
                first = kept_text(rest.pop(0))
                run(statements.DRAFT_BECOMES, number=draft[0][0], text=first, asker=asker)
            elif draft:
                run(statements.SET_STATE, number=draft[0][0], state="sent")
            for text in rest:
                put_part(run, place, text, answers=last.message_id, turn=turn, asker=asker)
            run(statements.DONE, numbers=_numbers(batch))
            forget_old(run, chat_of(last))

        await self._rows.write(work)


def _numbers(several: Sequence[Received]) -> list[int]:
    return [received.number for received in several]
