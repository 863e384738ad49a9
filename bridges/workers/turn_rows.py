"""Turns as rows: asked for by whoever has the chat, taken by a worker, and their outcome. Edge.

waiting ─► running ─► done      taken again, with a later fence, when nobody is at it any more
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from nacre.bridges.ledger.contracts.stored_inbound import inbound_from_json, inbound_to_json
from nacre.bridges.workers import statements
from nacre.bridges.workers.questions import asked_by, question_of
from nacre.postgres.database import Database
from nacre.postgres.jobs import JobQueue
from nacre.records.record import Record
from nacre.runtime.contracts.events import ApprovalAsked
from nacre.runtime.contracts.inbound import Inbound

if TYPE_CHECKING:
    from nacre.postgres.pool import Connection

KEPT_SECONDS = 86_400.0
"""For so long an outcome is there for a program that hands its message in again."""


class TakenTurn(Record):
    """A turn that a worker has, and the number by which the database knows it from others that had it.

    `tries` counts the workers that took it, this one included, and were not heard of again. `words` is the
    number of the last message that was said into it before.
    """

    agent_id: str
    id: str
    inbound: Inbound
    fence: int
    tries: int
    words: int = 0


class Outcome(NamedTuple):
    """How a turn ended, as `event_of` reads it, and the names of the messages that were said into it and
    that it heard."""

    text: str
    heard: tuple[str, ...]


class OpenTurns(Record):
    """How many turns of an agent wait or run, and which leases on its sessions there are.

    `waiting_seconds` is for how long the oldest of those that wait has, and `oldest_seconds` when the oldest
    of all was asked for. `leases_run_out` counts sessions whose holder went without a word.
    """

    waiting: int
    running: int
    waiting_seconds: float
    oldest_seconds: float
    leases: int
    leases_run_out: int


class TurnRows:
    """The turns of a database, and the jobs that hand them out. All methods raise `DatabaseError`."""

    def __init__(self, database: Database, jobs: JobQueue) -> None:
        self._database = database
        self._jobs = jobs

    async def ask(self, agent_id: str, session_key: str, inbound: Inbound) -> str:
        """Has a turn run by some worker; its id. One that was asked for before is not asked for again."""
        turn_id = _id_of(inbound)
        row = {
            "agent": agent_id,
            "id": turn_id,
            "key": session_key,
            "inbound": inbound_to_json(inbound),
            "is_redelivered": inbound.redelivered,
        }

        def work(connection: Connection) -> None:
            connection.execute(
                statements.FORGET, {"agent": agent_id, "key": session_key, "seconds": KEPT_SECONDS}
            )
            if connection.execute(statements.ASK, row).rowcount:
                self._jobs.add(
                    connection, {"agent": agent_id, "turn": turn_id}, lock=f"{agent_id} {session_key}"
                )

        await self._database.write(work)
        return turn_id

    async def take(self, agent_id: str, turn_id: str) -> TakenTurn | None:
        """Takes a turn from whoever had it; `None` when it is done."""
        row = await self._one(statements.TAKE, agent=agent_id, id=turn_id)
        if row is None:
            return None
        fence, tries, body, is_redelivered = row
        inbound = inbound_from_json(body)
        turn = TakenTurn(agent_id=agent_id, id=turn_id, inbound=inbound, fence=fence, tries=tries)
        if fence == 1:
            return replace(turn, inbound=replace(inbound, redelivered=is_redelivered))
        # What an earlier worker's turn heard stands in the transcript; the rest gets turns of its own.
        said = await self._words(turn)
        again = replace(inbound, redelivered=True, joined_by=tuple(name for _, name, _ in said))
        return replace(turn, inbound=again, words=max((number for number, _, _ in said), default=0))

    async def say_into(self, agent_id: str, turn_id: str, inbound: Inbound) -> None:
        """Says a message into a turn, wherever it runs, unless it is over."""
        words = {"name": inbound.inbound_id, "inbound": inbound_to_json(inbound)}
        values = {"agent": agent_id, "id": turn_id, **words}
        await self._database.write(lambda connection: connection.execute(statements.SAY_INTO, values))

    async def said_into(self, turn: TakenTurn, after: int) -> list[tuple[int, Inbound]]:
        """What was said into a turn behind the message of a number, with the numbers."""
        turn = replace(turn, words=after)
        return [(number, inbound_from_json(body)) for number, _, body in await self._words(turn)]

    async def heard(self, turn: TakenTurn, name: str) -> None:
        """Notes that a turn heard a message that was said into it."""
        values = {"agent": turn.agent_id, "id": turn.id, "name": name}
        await self._database.write(lambda connection: connection.execute(statements.HEARD, values))

    async def ask_owner(self, turn: TakenTurn, asked: ApprovalAsked) -> None:
        """Keeps a question for whoever has the chat, unless another one took the turn meanwhile."""
        named = {"agent": turn.agent_id, "id": turn.id, "fence": turn.fence}
        values = {**named, "approval": asked.approval_id, "body": question_of(asked)}
        await self._database.write(lambda connection: connection.execute(statements.ASKS, values))

    async def questions(
        self, wanted: Mapping[str, Sequence[str]]
    ) -> list[tuple[tuple[str, str], ApprovalAsked]]:
        """The questions of turns that were not told so far, with the agent and id of each turn."""

        def work(connection: Connection) -> list[tuple[tuple[str, str], ApprovalAsked]]:
            return [
                ((agent_id, turn_id), asked_by(approval_id, body))
                for agent_id, ids in wanted.items()
                for turn_id, approval_id, body in connection.execute(
                    statements.QUESTIONS, {"agent": agent_id, "ids": list(ids)}
                ).fetchall()
            ]

        return await self._database.read(work)

    async def told(self, agent_id: str, turn_id: str, asked: ApprovalAsked) -> None:
        """Notes that a question is on its way to the owner."""
        values = {"agent": agent_id, "id": turn_id, "approval": asked.approval_id}
        await self._database.write(lambda connection: connection.execute(statements.TOLD, values))

    async def finish(self, turn: TakenTurn, outcome: str) -> bool:
        """Keeps the outcome, unless another one took the turn meanwhile; whether it was kept."""
        values = {"agent": turn.agent_id, "id": turn.id, "fence": turn.fence, "outcome": outcome}
        row: Any = await self._database.single(
            lambda connection: connection.execute(statements.FINISH, values).fetchone()
        )
        return row is not None

    async def give_back(self, turn: TakenTurn) -> bool:
        """Leaves a turn to the next one; whether it was still this worker's."""
        row = await self._one(statements.GIVE_BACK, agent=turn.agent_id, id=turn.id, fence=turn.fence)
        return row is not None

    async def stop(self, agent_id: str, session_key: str, outcome: str) -> None:
        """Ends all turns of a session with an outcome; what their workers still say is refused."""
        values = {"agent": agent_id, "key": session_key, "outcome": outcome}
        await self._database.write(lambda connection: connection.execute(statements.STOP, values))

    async def holds(self, turn: TakenTurn) -> bool:
        """Whether nobody took or ended a turn since."""
        values = {"agent": turn.agent_id, "id": turn.id, "fence": turn.fence}
        found: Any = await self._database.single(
            lambda connection: connection.execute(statements.HOLDS, values).fetchone()
        )
        return found is not None

    async def outcomes(self, wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Outcome]:
        """The outcomes of those turns that are over, of ids by agent."""

        def work(connection: Connection) -> dict[tuple[str, str], Outcome]:
            return {
                (agent_id, turn_id): Outcome(outcome, tuple(heard))
                for agent_id, ids in wanted.items()
                for turn_id, outcome, heard in connection.execute(
                    statements.OUTCOMES, {"agent": agent_id, "ids": list(ids)}
                ).fetchall()
            }

        return await self._database.read(work)

    async def open_turns(self, agent_id: str) -> OpenTurns:
        """What is not over of an agent, all of one moment."""

        def work(connection: Connection) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
            found = connection.execute(statements.OPEN, {"agent": agent_id}).fetchall()
            return found, connection.execute(statements.LEASES, {"agent": agent_id}).fetchone() or (0, 0)

        found, (leases, run_out) = await self._database.read(work)
        states = {state: (number, seconds) for state, number, seconds in found}
        waiting, waiting_seconds = states.get("waiting", (0, 0.0))
        return OpenTurns(
            waiting=waiting,
            running=states.get("running", (0, 0.0))[0],
            waiting_seconds=waiting_seconds,
            oldest_seconds=max((seconds for _, seconds in states.values()), default=0.0),
            leases=leases,
            leases_run_out=run_out,
        )

    async def _words(self, turn: TakenTurn) -> list[tuple[int, str, str]]:
        values = {"agent": turn.agent_id, "id": turn.id, "after": turn.words}
        found: list[tuple[int, str, str]] = await self._database.read(
            lambda connection: connection.execute(statements.WORDS, values).fetchall()
        )
        return found

    async def _one(self, statement: str, **values: object) -> Any:
        return await self._database.write(
            lambda connection: connection.execute(statement.encode(), values).fetchone()
        )


def _id_of(inbound: Inbound) -> str:
    """The message's name among all, with a mark of its words: a number of one ledger may be another's too."""
    mark = hashlib.sha256(inbound.text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{inbound.inbound_id} {mark}"
