"""Turns as rows: requested by a gateway, claimed by a worker, with their outcome.

waiting ─► running ─► done      claimed again, with a later fence, if its process is silent
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple, TypeAlias

from nacre.extensions.postgres.server.connections import DatabaseError
from nacre.extensions.postgres.server.database import CHANNEL, Database, TakenLane
from nacre.extensions.postgres.workers.stored_events import UNREADABLE, parse_question, question_of
from nacre.record import Record
from nacre.runtime.contracts.events import ApprovalAsked
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import inbound_from_json, inbound_to_json
from nacre.sessions.contracts.messages import Usage

if TYPE_CHECKING:
    from nacre.extensions.postgres.server.connections import Connection


log = logging.getLogger(__name__)

ASK: LiteralString = """
INSERT INTO turns (agent, id, session_key, inbound, is_redelivered, stream)
VALUES (%(agent)s, %(id)s, %(key)s, %(inbound)s, %(is_redelivered)s, %(stream)s)
ON CONFLICT (agent, id) DO UPDATE SET stream = EXCLUDED.stream WHERE turns.state <> 'done'
RETURNING xmax = 0
"""
"""If another program requested the turn, its end is reported to this one from now on. In an inserted row,
PostgreSQL leaves `xmax` at 0."""
CLAIM: LiteralString = """
WITH free AS MATERIALIZED (
    SELECT agent, id FROM turns AS turn
    WHERE (state = 'waiting' AND due_at NOT BETWEEN clock_timestamp() AND clock_timestamp() + '1 minute'
        OR state = 'running' AND (due_at <= clock_timestamp()
            OR process = %(process)s AND agent || ' ' || id <> ALL(%(mine)s::text[])
            OR %(is_steady)s AND NOT EXISTS (
                SELECT FROM processes WHERE number = turn.process AND alive_until > clock_timestamp())))
        AND NOT EXISTS (SELECT FROM paused_agents AS paused WHERE paused.agent = turn.agent)
        AND NOT EXISTS (
            SELECT FROM turns AS earlier WHERE earlier.agent = turn.agent AND earlier.state <> 'done'
                AND earlier.session_key = turn.session_key AND earlier.number < turn.number)
    ORDER BY number LIMIT %(most)s FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE turns SET state = 'running', process = %(process)s, fence = fence + 1, tries = tries + 1,
        due_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM free WHERE turns.agent = free.agent AND turns.id = free.id AND turns.state <> 'done'
    RETURNING turns.*
)
SELECT claimed.agent, id, fence, tries, inbound, is_redelivered, ARRAY(
    SELECT json_build_array(turn_words.number, name)::text FROM turn_words
    WHERE turn_words.agent = claimed.agent AND turn = id ORDER BY turn_words.number), session_key,
    quota_reached(claimed.agent), stream, lane.*
FROM claimed LEFT JOIN LATERAL
    lane_take(claimed.agent, session_key, 'turn ' || id, %(process)s) AS lane ON TRUE
"""
"""Claims turns of all agents, each the first of its session: waiting ones, those of silent processes, those
without progress, and those of this process that it does not know because the answer to a claim was lost.
Returns the messages that joined them, and takes the lane of the session, if it is free."""
ADMISSION: LiteralString = """
SELECT EXISTS (SELECT FROM paused_agents WHERE agent = %(agent)s), quota_reached(%(agent)s), EXISTS (
    SELECT FROM processes WHERE places > 0 AND alive_until > clock_timestamp())
"""
_COUNT: LiteralString = """
    UPDATE agent_quotas AS quota SET day = (clock_timestamp() AT TIME ZONE 'UTC')::date,
        tokens = CASE day WHEN (clock_timestamp() AT TIME ZONE 'UTC')::date THEN tokens ELSE 0 END
            + %(tokens)s,
        usd = CASE day WHEN (clock_timestamp() AT TIME ZONE 'UTC')::date THEN usd ELSE 0 END + %(usd)s"""
COUNT: LiteralString = f"{_COUNT} WHERE quota.agent = %(agent)s"
_LEFT: LiteralString = """
WITH left_lanes AS (
    UPDATE lanes SET held_until = '-infinity'
    FROM unnest(%(lane_agents)s::text[], %(lane_keys)s::text[], %(lane_fences)s::bigint[])
        AS mine (agent, key, fence)
    WHERE lanes.agent = mine.agent AND lanes.key = mine.key AND lanes.fence = mine.fence
)"""
"""Frees the lanes of a turn in the statement that stores its outcome, even if another worker has the turn."""
GIVE_BACK: LiteralString = f"""{_LEFT}
UPDATE turns SET state = 'waiting', tries = tries - %(uncounted)s, process = NULL,
    due_at = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running'
"""
OWN_CHANNEL: LiteralString = "nacre_ended_"
"""The prefix of the channels on which gateways hear that their own turns have ended."""
FINISH: LiteralString = f"""{_LEFT}, counted AS ({_COUNT}
    FROM turns WHERE quota.agent = %(agent)s AND turns.agent = %(agent)s AND id = %(id)s
        AND turns.fence = %(fence)s AND state = 'running'
)
UPDATE turns SET state = 'done', outcome = %(outcome)s, inbound = '', done_at = clock_timestamp()
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s
    AND (state = 'running' OR state = 'done' AND outcome = %(outcome)s)
RETURNING stream, EXISTS (SELECT FROM turns AS next WHERE next.agent = turns.agent
    AND next.session_key = turns.session_key AND next.state = 'waiting')
"""
"""Succeeds also if the outcome was stored before and the answer was lost. Counts the usage of the turn once.
Returns who hears of it, and whether its session has another turn."""
NOTIFY: LiteralString = """
SELECT pg_notify(channel, payload)::text
FROM unnest(%(channels)s::text[], %(payloads)s::text[]) AS each (channel, payload)
"""
"""Separate from the change that it reports: transactions that notify commit one at a time, and this one does
not wait for the disk."""
STOP_WORD = "stop "
STOP: LiteralString = """
UPDATE turns SET state = 'done', outcome = %(outcome)s, inbound = '', done_at = clock_timestamp()
WHERE agent = %(agent)s AND session_key = %(key)s AND state <> 'done'
    AND (id = ANY(%(ids)s::text[]) OR stream <> %(besides)s::text)
RETURNING pg_notify('nacre_turns', 'ended')::text, pg_notify('nacre_turns', 'said')::text
"""
LOOK: LiteralString = """
SELECT turns.agent, turns.id, ARRAY(
    SELECT json_build_array(number, inbound)::text FROM turn_words
    WHERE turn_words.agent = turns.agent AND turn = turns.id AND turn_words.number > mine.words
    ORDER BY number)
FROM unnest(%(agents)s::text[], %(ids)s::text[], %(fences)s::bigint[], %(words)s::bigint[])
    AS mine (agent, id, fence, words)
JOIN turns ON turns.agent = mine.agent AND turns.id = mine.id AND turns.fence = mine.fence
WHERE state = 'running'
"""
"""The turns that a worker still holds, with the new messages that joined each."""
PROGRESS: LiteralString = """
UPDATE turns SET due_at = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running'
"""
NEWS: LiteralString = """
SELECT turns.agent, id, CASE state WHEN 'done' THEN outcome END, ARRAY(
    SELECT name FROM turn_words WHERE turn_words.agent = turns.agent AND turn = turns.id AND heard), ARRAY(
    SELECT json_build_array(approval, body)::text FROM turn_questions
    WHERE turn_questions.agent = turns.agent AND turn = turns.id AND NOT told ORDER BY number)
FROM unnest(%(agents)s::text[], %(ids)s::text[]) AS wanted (agent, turn)
JOIN turns ON turns.agent = wanted.agent AND id = wanted.turn
WHERE state = 'done' OR EXISTS (
    SELECT FROM turn_questions WHERE turn_questions.agent = turns.agent AND turn = turns.id AND NOT told)
"""
SAY_INTO: LiteralString = """
INSERT INTO turn_words (agent, turn, name, inbound)
SELECT agent, id, %(name)s, %(inbound)s FROM turns
WHERE agent = %(agent)s AND id = %(id)s AND state <> 'done'
    AND NOT EXISTS (SELECT FROM turn_words WHERE agent = %(agent)s AND turn = %(id)s AND name = %(name)s)
RETURNING pg_notify('nacre_turns', 'said')::text
"""
HEARD: LiteralString = """
UPDATE turn_words SET heard = TRUE WHERE agent = %(agent)s AND turn = %(id)s AND name = %(name)s
"""
ASKS: LiteralString = """
INSERT INTO turn_questions (agent, turn, approval, body)
SELECT agent, id, %(approval)s, %(body)s FROM turns
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running' ON CONFLICT DO NOTHING
RETURNING pg_notify('nacre_turns', 'ended')::text
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
FORGET_OVER: LiteralString = """
DELETE FROM turns WHERE (agent, id) IN (
    SELECT agent, id FROM turns
    WHERE state = 'done' AND done_at < clock_timestamp() - make_interval(secs => %(seconds)s)
    ORDER BY done_at LIMIT %(most)s FOR UPDATE SKIP LOCKED)
"""
OPEN: LiteralString = """
SELECT state, count(*), extract(epoch FROM clock_timestamp() - min(asked_at))::float
FROM turns WHERE agent = %(agent)s AND state <> 'done' GROUP BY state
"""
USED_UP: LiteralString = """
SELECT count(*) FROM agent_quotas AS quota
WHERE day = (clock_timestamp() AT TIME ZONE 'UTC')::date AND quota_is_used(quota)
"""
LANES: LiteralString = """
SELECT count(*) FILTER (WHERE is_held), count(*) FILTER (WHERE NOT is_held) FROM (
    SELECT CASE held_until WHEN 'infinity' THEN EXISTS (
        SELECT FROM processes WHERE number = life AND alive_until > clock_timestamp())
        ELSE held_until > clock_timestamp() END AS is_held
    FROM lanes WHERE agent = %(agent)s AND held_until > '-infinity') AS held
"""
WORKERS: LiteralString = """
SELECT count(*), coalesce(sum(places), 0)::bigint FROM processes
WHERE places > 0 AND alive_until > clock_timestamp()
"""


TurnKey: TypeAlias = tuple[str, str]
"""The agent and ID of a turn."""
LaneFences: TypeAlias = Mapping[tuple[str, str], int]
"""The fences of lanes, by agent and session key."""
_NO_LANES: LaneFences = {}
KEPT_SECONDS = 86_400.0
"""How long an outcome is stored for a program that submits its message again."""


class TakenTurn(Record):
    """A turn that a worker holds, with the fence that distinguishes it from earlier workers.

    `tries` counts the workers that claimed it and became silent, including this one. `words` is the number of
    the last message that had joined it. `stream` is the channel on which its events are heard, if anywhere.
    """

    agent_id: str
    id: str
    session_key: str
    inbound: Inbound
    fence: int
    tries: int
    words: int = 0
    quota_reached: str = ""
    stream: str = ""

    @property
    def key(self) -> TurnKey:
        """The agent and ID."""
        return self.agent_id, self.id

    @property
    def place(self) -> dict[str, object]:
        """The parameters that identify it in statements."""
        return {"agent": self.agent_id, "id": self.id, "fence": self.fence}


class Admission(NamedTuple):
    """Whether an agent is paused, the limit that it has reached, if any, and whether a worker lives."""

    is_paused: bool
    quota_reached: str
    has_workers: bool


class Outcome(NamedTuple):
    """The outcome of a turn, for `events_of`, and the names of messages that joined it and that it read."""

    text: str
    heard: tuple[str, ...]


class TurnRows:
    """The turns of a database. All methods but `notify` raise `DatabaseError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ask(self, agent_id: str, session_key: str, inbound: Inbound) -> tuple[str, bool]:
        """Requests a turn from the workers, or the end of one that was requested before.

        Returns its id, and whether it is new, so that it has no outcome yet.
        """
        turn_id = id_of_turn(inbound)
        rows = await self._run(
            ASK,
            agent=agent_id,
            id=turn_id,
            key=session_key,
            inbound=inbound_to_json(inbound),
            is_redelivered=inbound.redelivered,
            stream=self._database.process.stream,
        )
        await self.notify([(CHANNEL, "asked")])
        return turn_id, bool(rows and rows[0][0])

    async def claim(
        self, most: int, progress_seconds: float, *, mine: Collection[TurnKey] = ()
    ) -> list[TakenTurn]:
        """Claims up to `most` turns, oldest first, each the first of its session.

        `mine` are the turns that this process runs already. A turn without progress for `progress_seconds`
        may be claimed by others. A turn with an unreadable message ends.
        """
        process = self._database.process
        rows = await self._run(
            CLAIM,
            process=process.number,
            is_steady=process.is_steady,
            most=most,
            mine=[f"{agent_id} {turn_id}" for agent_id, turn_id in mine],
            seconds=progress_seconds,
        )
        for agent_id, *_, key, _, _, fence, line, name, transcript, lines, size_bytes in rows:
            if fence is not None:
                lane = TakenLane(fence, line, name, transcript, lines, size_bytes)
                process.taken_lanes[agent_id, key] = lane
        turns = []
        for row in rows:
            try:
                turns.append(_turn_from_row(*row[:10]))
            except (KeyError, TypeError, ValueError) as error:
                log.warning("the turn %s of %s cannot be read: %s", row[1], row[0], error)
                key = row[0], row[7]
                lanes = {key: process.taken_lanes.pop(key).fence} if key in process.taken_lanes else {}
                place = {"agent": row[0], "id": row[1], "fence": row[2]}
                await self._run(FINISH, **place, **_columns(lanes), **_used(None), outcome=UNREADABLE)
        return turns

    async def admission(self, agent_id: str) -> Admission:
        """Whether a turn of an agent may start, and who could run it."""
        [row] = await self._run(ADMISSION, agent=agent_id)
        return Admission(*row)

    async def count(self, agent_id: str, usage: Usage) -> None:
        """Counts what an agent used outside of workers for its quota."""
        values = {"agent": agent_id, **_used(usage)}
        await self._database.write(lambda connection: connection.execute(COUNT, values))

    async def say_into(self, agent_id: str, turn_id: str, inbound: Inbound) -> None:
        """Adds a message to a turn, wherever it runs, unless the turn is over."""
        name, body = inbound.inbound_id, inbound_to_json(inbound)
        await self._run(SAY_INTO, agent=agent_id, id=turn_id, name=name, inbound=body)

    async def look(self, turns: Mapping[TurnKey, TakenTurn]) -> dict[TurnKey, list[tuple[int, Inbound]]]:
        """The turns that a worker still holds, each with the messages that joined it after `words`."""
        values = [(turn.agent_id, turn.id, turn.fence, turn.words) for turn in turns.values()]
        agents, ids, fences, words = map(list, zip(*values, strict=True))
        rows = await self._run(LOOK, agents=agents, ids=ids, fences=fences, words=words)
        return {(agent_id, turn_id): [*_readable(said)] for agent_id, turn_id, said in rows}

    async def heard(self, turn: TakenTurn, name: str) -> None:
        """Records that a turn has read a message that joined it."""
        await self._run(HEARD, agent=turn.agent_id, id=turn.id, name=name)

    async def ask_owner(self, turn: TakenTurn, asked: ApprovalAsked) -> None:
        """Stores a question for the gateway, unless another worker has taken the turn."""
        await self._run(ASKS, **turn.place, approval=asked.approval_id, body=question_of(asked))

    async def told(self, key: TurnKey, asked: ApprovalAsked) -> None:
        """Records that a question was passed on to the owner."""
        await self._run(TOLD, agent=key[0], id=key[1], approval=asked.approval_id)

    async def progressed(self, turn: TakenTurn, progress_seconds: float) -> None:
        """Extends the time after which others may claim a turn without progress."""
        await self._run(PROGRESS, **turn.place, seconds=progress_seconds)

    async def notify(self, payloads: Sequence[tuple[str, str]]) -> None:
        """Sends payloads, each on its channel. If that fails, listeners find the changes later."""
        channels, texts = map(list, zip(*payloads, strict=True))
        try:
            await self._run(NOTIFY, channels=channels, payloads=texts)
        except DatabaseError as error:
            log.warning("programs are not notified of turns: %s", error)

    async def finish(
        self,
        turn: TakenTurn,
        outcome: str,
        lanes: LaneFences = _NO_LANES,
        usage: Usage | None = None,
        payloads: Sequence[str] = (),
    ) -> bool | None:
        """Stores the outcome and frees the turn's lanes; `None` if another worker took or ended the turn.

        Returns whether another turn of its session waits.
        `usage` counts for the agent's quota. `payloads` are the last ones of its stream.
        """
        place = {**turn.place, **_columns(lanes), **_used(usage)}
        rows = await self._run(FINISH, **place, outcome=outcome)
        for stream, has_next in rows:
            ended = json.dumps([*turn.key, turn.fence, -1]) + "\n"
            told = [(stream, each) for each in (*payloads, ended) if stream]
            all_hear = [] if stream.startswith(OWN_CHANNEL) else [(CHANNEL, "ended")]
            await self.notify([*told, *all_hear])
            return bool(has_next)
        return None

    async def give_back(
        self, turn: TakenTurn, *, is_counted: bool, pause_seconds: float, lanes: LaneFences = _NO_LANES
    ) -> None:
        """Returns a turn and its lanes to the queue after a pause.

        `is_counted`: whether this counts as a failed attempt.
        """
        values = {"uncounted": 0 if is_counted else 1, "seconds": pause_seconds, **_columns(lanes)}
        await self._run(GIVE_BACK, **turn.place, **values)

    async def stop(
        self,
        agent_id: str,
        session_key: str,
        outcome: str,
        ids: Collection[str],
        *,
        besides: str | None = None,
    ) -> None:
        """Ends turns of a session with an outcome: those with `ids`, and if `besides` is given, also those of
        other channels. Later writes of their workers are refused.
        """
        await self._run(STOP, agent=agent_id, key=session_key, outcome=outcome, ids=[*ids], besides=besides)

    async def forget_over(self) -> None:
        """Removes turns of all agents that ended more than `KEPT_SECONDS` ago, in batches."""
        await self._run(FORGET_OVER, seconds=KEPT_SECONDS, most=5_000)

    async def news(self, wanted: Collection[TurnKey]) -> dict[TurnKey, Outcome | list[ApprovalAsked]]:
        """The outcomes of finished turns, and the unasked questions of running ones."""
        agents, ids = [agent_id for agent_id, _ in wanted], [turn_id for _, turn_id in wanted]
        rows = await self._run(NEWS, agents=agents, ids=ids)
        return {
            (agent_id, turn_id): Outcome(outcome, tuple(heard))
            if outcome is not None
            else [parse_question(*json.loads(each)) for each in questions]
            for agent_id, turn_id, outcome, heard, questions in rows
        }

    async def figures(self, agent_id: str) -> dict[str, float]:
        """A snapshot of an agent's unfinished turns and of the workers; see `TurnWorkers`."""

        def work(connection: Connection) -> list[Any]:
            found = connection.execute(OPEN, {"agent": agent_id}).fetchall()
            lanes = connection.execute(LANES, {"agent": agent_id}).fetchone()
            workers, used_up = (connection.execute(each).fetchone() or (0, 0) for each in (WORKERS, USED_UP))
            return [found, lanes or (0, 0), workers, used_up]

        found, (leases, run_out), (workers, places), (used_up, *_) = await self._database.read(work)
        states = {state: (number, seconds) for state, number, seconds in found}
        waiting, waiting_seconds = states.get("waiting", (0, 0.0))
        return {
            "waiting": waiting,
            "running": states.get("running", (0, 0.0))[0],
            "waiting_seconds": waiting_seconds,
            "oldest_seconds": max((seconds for _, seconds in states.values()), default=0.0),
            "leases": leases,
            "leases_run_out": run_out,
            "workers": workers,
            "places": places,
            "agents_over_quota": used_up,
        }

    async def _run(self, statement: LiteralString, **values: object) -> list[Any]:
        def work(connection: Connection) -> list[Any]:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

        return await self._database.single(work)


def _readable(said: list[str]) -> Iterator[tuple[int, Inbound]]:
    for number, body in map(json.loads, said):
        with suppress(KeyError, TypeError, ValueError):  # such a message gets its own turn
            yield number, inbound_from_json(body)


def _used(usage: Usage | None) -> dict[str, object]:
    return {"tokens": usage.context_tokens if usage else 0, "usd": usage.cost_usd if usage else 0.0}


def _columns(lanes: LaneFences) -> dict[str, object]:
    return {
        "lane_agents": [agent for agent, _ in lanes],
        "lane_keys": [key for _, key in lanes],
        "lane_fences": list(lanes.values()),
    }


def _turn_from_row(
    agent_id: str,
    turn_id: str,
    fence: int,
    tries: int,
    body: str,
    is_redelivered: bool,
    said: list[str],
    session_key: str,
    quota_reached: str,
    stream: str,
) -> TakenTurn:
    inbound, words = inbound_from_json(body), [json.loads(each) for each in said]
    if fence == 1:
        again = replace(inbound, redelivered=is_redelivered)
    else:  # the transcript has what an earlier worker's turn has read; the rest gets turns of its own
        again = replace(inbound, redelivered=True, joined_by=tuple(name for _, name in words))
    last = max((number for number, _ in words), default=0) if fence > 1 else 0
    return TakenTurn(
        agent_id=agent_id,
        id=turn_id,
        session_key=session_key,
        inbound=again,
        fence=fence,
        tries=tries,
        words=last,
        quota_reached=quota_reached,
        stream=stream,
    )


def id_of_turn(inbound: Inbound) -> str:
    """The message's ID with a digest of its text, because two ledgers may use the same number."""
    mark = hashlib.sha256(inbound.text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{inbound.inbound_id} {mark}"


async def forget_turns(database: Database, agent_id: str, says: Callable[[str], bool]) -> int:
    """Removes finished turns that `says` accepts, with the messages that joined them; returns their number.

    If such a message is submitted again, its answer comes from the transcript. Raises `DatabaseError`.
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
    """Removes waiting turns that `says` accepts, and returns their number. Raises `DatabaseError`."""

    def work(connection: Connection) -> int:
        rows = connection.execute(WAITING, {"agent": agent_id}).fetchall()
        ids = [turn_id for turn_id, inbound in rows if says(inbound)]
        if not dry_run:
            connection.execute(FORGET_WAITING, {"agent": agent_id, "ids": ids})
        return len(ids)

    return await database.write(work)
