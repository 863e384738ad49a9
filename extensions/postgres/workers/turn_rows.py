"""Turns as rows: asked for by whoever has the chat, taken by a worker, and their outcome. Edge.

waiting ─► running ─► done      taken again, with a later fence, when nobody is at it any more
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from nacre.extensions.postgres.server.database import Database
from nacre.extensions.postgres.server.job_queue import JobQueue
from nacre.extensions.postgres.workers.stored_events import asked_by, question_of
from nacre.record import Record
from nacre.runtime.contracts.events import ApprovalAsked
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import inbound_from_json, inbound_to_json

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


FORGET: LiteralString = """
DELETE FROM turns WHERE agent = %(agent)s AND session_key = %(key)s AND state = 'done'
    AND done_at < clock_timestamp() - make_interval(secs => %(seconds)s)
"""
ASK: LiteralString = """
INSERT INTO turns (agent, id, session_key, inbound, is_redelivered)
VALUES (%(agent)s, %(id)s, %(key)s, %(inbound)s, %(is_redelivered)s) ON CONFLICT DO NOTHING
"""
TAKE: LiteralString = """
UPDATE turns SET state = 'running', fence = fence + 1, tries = tries + 1
WHERE agent = %(agent)s AND id = %(id)s AND state <> 'done' RETURNING fence, tries, inbound, is_redelivered
"""
GIVE_BACK: LiteralString = """
UPDATE turns SET state = 'waiting', tries = tries - 1
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running' RETURNING id
"""
FINISH: LiteralString = """
UPDATE turns SET state = 'done', outcome = %(outcome)s, inbound = '', done_at = clock_timestamp()
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s
    AND (state = 'running' OR state = 'done' AND outcome = %(outcome)s) RETURNING id
"""
"""Also when it was kept already and nobody heard of it."""
STOP: LiteralString = """
UPDATE turns SET state = 'done', outcome = %(outcome)s, inbound = '', done_at = clock_timestamp()
WHERE agent = %(agent)s AND session_key = %(key)s AND state <> 'done'
"""
HOLDS: LiteralString = """
SELECT 1 FROM turns WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running'
"""
OUTCOMES: LiteralString = """
SELECT id, outcome, ARRAY(
    SELECT name FROM turn_words WHERE agent = %(agent)s AND turn = turns.id AND heard)
FROM turns WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND state = 'done'
"""
SAY_INTO: LiteralString = """
INSERT INTO turn_words (agent, turn, name, inbound)
SELECT agent, id, %(name)s, %(inbound)s FROM turns
WHERE agent = %(agent)s AND id = %(id)s AND state <> 'done'
"""
WORDS: LiteralString = """
SELECT number, name, inbound FROM turn_words
WHERE agent = %(agent)s AND turn = %(id)s AND number > %(after)s ORDER BY number
"""
HEARD: LiteralString = """
UPDATE turn_words SET heard = TRUE WHERE agent = %(agent)s AND turn = %(id)s AND name = %(name)s
"""
ASKS: LiteralString = """
INSERT INTO turn_questions (agent, turn, approval, body)
SELECT agent, id, %(approval)s, %(body)s FROM turns
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running' ON CONFLICT DO NOTHING
"""
QUESTIONS: LiteralString = """
SELECT turn, approval, body FROM turn_questions
WHERE agent = %(agent)s AND turn = ANY(%(ids)s) AND NOT told ORDER BY number
"""
TOLD: LiteralString = """
UPDATE turn_questions SET told = TRUE
WHERE agent = %(agent)s AND turn = %(id)s AND approval = %(approval)s
"""
ENDED: LiteralString = """
SELECT id, outcome,
    (SELECT string_agg(inbound, E'\\n') FROM turn_words WHERE agent = %(agent)s AND turn = turns.id),
    (SELECT string_agg(body, E'\\n') FROM turn_questions WHERE agent = %(agent)s AND turn = turns.id)
FROM turns WHERE agent = %(agent)s AND state = 'done'
"""
FORGET_ENDED: LiteralString = """
DELETE FROM turns WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND state = 'done'
"""
WAITING: LiteralString = """
SELECT id, inbound FROM turns WHERE agent = %(agent)s AND state <> 'done' AND state = 'waiting'
"""
FORGET_WAITING: LiteralString = """
DELETE FROM turns WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND state = 'waiting'
"""
OPEN: LiteralString = """
SELECT state, count(*), extract(epoch FROM clock_timestamp() - min(asked_at))::float
FROM turns WHERE agent = %(agent)s AND state <> 'done' GROUP BY state
"""
LEASES: LiteralString = """
SELECT count(*) FILTER (WHERE held_until > clock_timestamp()),
    count(*) FILTER (WHERE held_until <= clock_timestamp() AND held_until <> '-infinity')
FROM lanes WHERE agent = %(agent)s
"""
"""Of lanes that were left nothing is held."""


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
            connection.execute(FORGET, {"agent": agent_id, "key": session_key, "seconds": KEPT_SECONDS})
            if connection.execute(ASK, row).rowcount:
                self._jobs.add(
                    connection, {"agent": agent_id, "turn": turn_id}, lock=f"{agent_id} {session_key}"
                )

        await self._database.write(work)
        return turn_id

    async def take(self, agent_id: str, turn_id: str) -> TakenTurn | None:
        """Takes a turn from whoever had it; `None` when it is done."""
        row = await self._one(TAKE, agent=agent_id, id=turn_id)
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
        await self._database.write(lambda connection: connection.execute(SAY_INTO, values))

    async def said_into(self, turn: TakenTurn, after: int) -> list[tuple[int, Inbound]]:
        """What was said into a turn behind the message of a number, with the numbers."""
        turn = replace(turn, words=after)
        return [(number, inbound_from_json(body)) for number, _, body in await self._words(turn)]

    async def heard(self, turn: TakenTurn, name: str) -> None:
        """Notes that a turn heard a message that was said into it."""
        values = {"agent": turn.agent_id, "id": turn.id, "name": name}
        await self._database.write(lambda connection: connection.execute(HEARD, values))

    async def ask_owner(self, turn: TakenTurn, asked: ApprovalAsked) -> None:
        """Keeps a question for whoever has the chat, unless another one took the turn meanwhile."""
        named = {"agent": turn.agent_id, "id": turn.id, "fence": turn.fence}
        values = {**named, "approval": asked.approval_id, "body": question_of(asked)}
        await self._database.write(lambda connection: connection.execute(ASKS, values))

    async def questions(
        self, wanted: Mapping[str, Sequence[str]]
    ) -> list[tuple[tuple[str, str], ApprovalAsked]]:
        """The questions of turns that were not told so far, with the agent and id of each turn."""

        def work(connection: Connection) -> list[tuple[tuple[str, str], ApprovalAsked]]:
            return [
                ((agent_id, turn_id), asked_by(approval_id, body))
                for agent_id, ids in wanted.items()
                for turn_id, approval_id, body in connection.execute(
                    QUESTIONS, {"agent": agent_id, "ids": list(ids)}
                ).fetchall()
            ]

        return await self._database.read(work)

    async def told(self, agent_id: str, turn_id: str, asked: ApprovalAsked) -> None:
        """Notes that a question is on its way to the owner."""
        values = {"agent": agent_id, "id": turn_id, "approval": asked.approval_id}
        await self._database.write(lambda connection: connection.execute(TOLD, values))

    async def finish(self, turn: TakenTurn, outcome: str) -> bool:
        """Keeps the outcome, unless another one took the turn meanwhile; whether it was kept."""
        values = {"agent": turn.agent_id, "id": turn.id, "fence": turn.fence, "outcome": outcome}
        row: Any = await self._database.single(
            lambda connection: connection.execute(FINISH, values).fetchone()
        )
        return row is not None

    async def give_back(self, turn: TakenTurn) -> bool:
        """Leaves a turn to the next one; whether it was still this worker's."""
        row = await self._one(GIVE_BACK, agent=turn.agent_id, id=turn.id, fence=turn.fence)
        return row is not None

    async def stop(self, agent_id: str, session_key: str, outcome: str) -> None:
        """Ends all turns of a session with an outcome; what their workers still say is refused."""
        values = {"agent": agent_id, "key": session_key, "outcome": outcome}
        await self._database.write(lambda connection: connection.execute(STOP, values))

    async def holds(self, turn: TakenTurn) -> bool:
        """Whether nobody took or ended a turn since."""
        values = {"agent": turn.agent_id, "id": turn.id, "fence": turn.fence}
        found: Any = await self._database.single(
            lambda connection: connection.execute(HOLDS, values).fetchone()
        )
        return found is not None

    async def outcomes(self, wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Outcome]:
        """The outcomes of those turns that are over, of ids by agent."""

        def work(connection: Connection) -> dict[tuple[str, str], Outcome]:
            return {
                (agent_id, turn_id): Outcome(outcome, tuple(heard))
                for agent_id, ids in wanted.items()
                for turn_id, outcome, heard in connection.execute(
                    OUTCOMES, {"agent": agent_id, "ids": list(ids)}
                ).fetchall()
            }

        return await self._database.read(work)

    async def open_turns(self, agent_id: str) -> OpenTurns:
        """What is not over of an agent, all of one moment."""

        def work(connection: Connection) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
            found = connection.execute(OPEN, {"agent": agent_id}).fetchall()
            return found, connection.execute(LEASES, {"agent": agent_id}).fetchone() or (0, 0)

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
            lambda connection: connection.execute(WORDS, values).fetchall()
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


async def forget_turns(database: Database, agent_id: str, says: Callable[[str], bool]) -> int:
    """Removes the rows of ended turns that `says` is true of, with what was said into them; how many.

    Whoever hands such a message in again has its answer from the transcript. Raises `DatabaseError`.
    """

    def work(connection: Connection) -> int:
        rows = connection.execute(ENDED, {"agent": agent_id}).fetchall()
        ids = [turn_id for turn_id, *texts in rows if any(says(text or "") for text in texts)]
        connection.execute(FORGET_ENDED, {"agent": agent_id, "ids": ids})
        return len(ids)

    return await database.write(work)


async def forget_waiting_turns(
    database: Database, agent_id: str, says: Callable[[str], bool], *, dry_run: bool
) -> int:
    """Removes the turns that no worker has begun and that `says` is true of; how many there are.

    The job of such a turn finds none, and is done. Raises `DatabaseError`.
    """

    def work(connection: Connection) -> int:
        rows = connection.execute(WAITING, {"agent": agent_id}).fetchall()
        ids = [turn_id for turn_id, inbound in rows if says(inbound)]
        if not dry_run:
            connection.execute(FORGET_WAITING, {"agent": agent_id, "ids": ids})
        return len(ids)

    return await database.write(work)
