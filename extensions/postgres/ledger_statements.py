"""All statements on the tables of the ledger, each for one agent. They depend on `schema/`."""

from __future__ import annotations

_CHAT = "channel = %(channel)s AND account = %(account)s AND chat_id = %(chat_id)s"
_WHO = "channel = %(channel)s AND account = %(account)s AND sender_id = %(sender_id)s"
_JOB = "SELECT id, answered_by, asker, text, rule, due_ms, problem FROM ledger_jobs WHERE agent = %(agent)s"

_OLD_LOCK = """
SELECT 1 FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint)
        = hashtextextended(%(agent)s, hashtextextended(current_schema()::text, 7))
"""
"""The lock that a serving program of an earlier version holds."""
IS_HELD = "SELECT ledger_is_held(%(agent)s, %(fence)s)"
HOLD = f"""
INSERT INTO ledger_holders AS held (agent, ledger_id, fence, holder, process)
VALUES (%(agent)s, %(ledger_id)s, 1, %(holder)s, %(process)s)
ON CONFLICT (agent) DO UPDATE SET fence = held.fence + 1, holder = EXCLUDED.holder,
    process = EXCLUDED.process, ledger_id = coalesce(nullif(held.ledger_id, ''), EXCLUDED.ledger_id)
WHERE NOT EXISTS (
    SELECT FROM processes WHERE number = held.process AND number <> EXCLUDED.process
        AND (alive_until > clock_timestamp() OR alive_until > %(seen)s::timestamptz))
    AND NOT EXISTS ({_OLD_LOCK})
RETURNING ledger_id, fence
"""
"""Takes a ledger whose process is silent and was silent at the last check (after an outage, all seem silent),
or which this process already holds."""
RELEASE = """
UPDATE ledger_holders SET process = NULL WHERE agent = %(agent)s AND process = %(process)s
"""

JOIN_OTHERS = """
INSERT INTO ledger_gateways (agent, process, holder)
SELECT agent, %(process)s, %(holder)s FROM ledger_holders AS held WHERE agent = %(agent)s AND EXISTS (
    SELECT FROM ledger_gateways AS other WHERE other.agent = held.agent AND other.process = held.process)
ON CONFLICT (agent, process) DO UPDATE SET holder = EXCLUDED.holder
RETURNING (SELECT ledger_id FROM ledger_holders AS held WHERE held.agent = %(agent)s),
    (SELECT fence FROM ledger_holders AS held WHERE held.agent = %(agent)s)
"""
"""Joins the programs that share a ledger, if one of them holds it, alive or not."""
ENTER = """
WITH gone AS (
    DELETE FROM ledger_gateways WHERE agent = %(agent)s AND process <> %(process)s
        AND NOT EXISTS (SELECT FROM processes WHERE number = process)
)
INSERT INTO ledger_gateways (agent, process, holder, wanted)
VALUES (%(agent)s, %(process)s, %(holder)s, %(wanted)s)
ON CONFLICT (agent, process) DO UPDATE SET wanted = EXCLUDED.wanted
"""
"""Says which accounts a program would serve, written as `channel/account`."""
GATEWAYS = """
SELECT each.process, coalesce(gateway.holder, ''), coalesce(gateway.wanted, '{}'),
    ARRAY(SELECT channel || '/' || account FROM ledger_accounts
        WHERE agent = %(agent)s AND process = each.process),
    alive_until::text, extract(epoch FROM nullif(alive_until, '-infinity') - clock_timestamp())::float8,
    each.process = held.process,
    ARRAY(SELECT channel || '/' || account FROM ledger_accounts AS mine
        WHERE agent = %(agent)s AND process = each.process AND process = %(process)s AND EXISTS (
            SELECT FROM ledger_outbound AS part WHERE part.agent = %(agent)s AND part.channel = mine.channel
                AND part.account = mine.account AND state IN ('pending', 'unsure')))
FROM ledger_holders AS held CROSS JOIN (
    SELECT process FROM ledger_gateways WHERE agent = %(agent)s
    UNION SELECT process FROM ledger_accounts WHERE agent = %(agent)s AND process IS NOT NULL) AS each
LEFT JOIN ledger_gateways AS gateway ON gateway.agent = %(agent)s AND gateway.process = each.process
LEFT JOIN processes ON number = each.process
WHERE held.agent = %(agent)s AND held.fence = %(fence)s
"""
"""All programs that share a ledger or hold an account, and the accounts of the reader with unsent parts."""
LEAD = """
UPDATE ledger_holders SET process = %(process)s, holder = %(holder)s
WHERE agent = %(agent)s AND fence = %(fence)s AND NOT EXISTS (
    SELECT FROM processes WHERE number = ledger_holders.process AND alive_until > clock_timestamp())
"""
TAKE = """
INSERT INTO ledger_accounts AS held (agent, channel, account, process)
VALUES (%(agent)s, %(channel)s, %(account)s, %(process)s)
ON CONFLICT (agent, channel, account) DO UPDATE SET process = EXCLUDED.process
WHERE held.process IS NOT DISTINCT FROM %(before)s::bigint OR held.process = EXCLUDED.process
RETURNING 1
"""
"""Takes a free account or one of a silent program, unless another program was faster."""
UNSURE_OF_ACCOUNT = """
UPDATE ledger_outbound SET state = 'unsure' WHERE agent = %(agent)s AND channel = %(channel)s
    AND account = %(account)s AND state = 'sending'
"""
GIVE_UP = """
UPDATE ledger_accounts SET process = NULL
WHERE agent = %(agent)s AND channel = %(channel)s AND account = %(account)s AND process = %(process)s
"""
LEAVE_OTHERS = "SELECT ledger_leave(%(agent)s, %(process)s)"
"""Gives up all accounts. `ledger_holders` then names another living program, if there is one."""
ACCOUNT_IS_HELD = """
SELECT account_is_held(%(agent)s, %(ledger_fence)s, %(ledger_process)s, %(channel)s, %(account)s)
"""
HOLDER = "SELECT holder FROM ledger_holders WHERE agent = %(agent)s AND ledger_id <> ''"
ALIVE = """
SELECT holder, alive_until::text,
    extract(epoch FROM nullif(alive_until, '-infinity') - clock_timestamp())::float8
FROM ledger_holders LEFT JOIN processes ON processes.number = process WHERE agent = %(agent)s
"""
IS_SERVED = f"""{_OLD_LOCK} UNION ALL
SELECT 1 FROM processes WHERE alive_until > clock_timestamp() AND number IN (
    SELECT process FROM ledger_holders WHERE agent = %(agent)s
    UNION SELECT process FROM ledger_gateways WHERE agent = %(agent)s)
"""
MARKS = "SELECT ledger_id, copied FROM ledger_holders WHERE agent = %(agent)s"
PUT_MARKS = """
INSERT INTO ledger_holders (agent, ledger_id, fence, holder, copied)
VALUES (%(agent)s, %(ledger_id)s, 1, '', %(copied)s)
ON CONFLICT (agent) DO UPDATE SET ledger_id = EXCLUDED.ledger_id, fence = ledger_holders.fence + 1,
    holder = '', copied = EXCLUDED.copied
"""
STOP_NUMBERING = {
    "inbound": "LOCK TABLE ledger_inbound IN SHARE ROW EXCLUSIVE MODE",
    "outbound": "LOCK TABLE ledger_outbound IN SHARE ROW EXCLUSIVE MODE",
}
_NUMBER_ON = "SELECT setval('{0}', greatest(%(number)s, nextval('{0}')))"
NUMBER_ON = {
    "inbound": _NUMBER_ON.format("ledger_inbound_number_seq"),
    "outbound": _NUMBER_ON.format("ledger_outbound_number_seq"),
}
"""Moves a table's next number above the copied rows. The lock keeps other agents from getting it twice."""
NOBODY_KNOWS = "UPDATE ledger_outbound SET state = 'unsure' WHERE agent = %(agent)s AND state = 'sending'"

PUT_CURSOR = """
INSERT INTO ledger_cursors (agent, channel, account, value)
VALUES (%(agent)s, %(channel)s, %(account)s, %(value)s)
ON CONFLICT (agent, channel, account) DO UPDATE SET value = EXCLUDED.value
"""
CURSOR = """
SELECT value FROM ledger_cursors
WHERE agent = %(agent)s AND channel = %(channel)s AND account = %(account)s
"""
RECEIVE = """
INSERT INTO ledger_inbound
    (agent, channel, account, chat_id, message_id, session_key, answered_by, state, received_ms, body)
VALUES (%(agent)s, %(channel)s, %(account)s, %(chat_id)s, nullif(%(message_id)s::text, ''), %(session_key)s,
    %(answered_by)s, 'waiting', %(at_ms)s, %(body)s)
ON CONFLICT (agent, channel, account, chat_id, message_id) DO NOTHING RETURNING number
"""
RECEIVE_ALL = """
SELECT ledger_receive(%(agent)s, %(ledger_fence)s, %(channel)s, %(account)s, %(chat_id)s, %(message_id)s,
    %(session_key)s, %(answered_by)s, %(at_ms)s, %(body)s, %(cursor)s, %(owner_chat)s, %(receipt)s,
    %(begins)s)
"""
"""`PUT_CURSOR`, `RECEIVE` and `PUT_OWNER_CHAT` as one statement. `receipt` is unique for each call."""
RECEIVE_AND_ASK = f"""
WITH received (number) AS MATERIALIZED ({RECEIVE_ALL}), asked AS (
    INSERT INTO turns (agent, id, session_key, inbound, is_redelivered, stream)
    SELECT %(answered_by)s, %(turn)s, %(session_key)s, %(body)s, FALSE, %(stream)s FROM received
    WHERE number IS NOT NULL ON CONFLICT DO NOTHING RETURNING id
)
SELECT number, EXISTS (SELECT FROM asked) FROM received
"""
"""The same, and requests the turn of the message from a worker. Returns whether the turn is new."""
FINISH_ALL = """
SELECT ledger_finish(%(agent)s, %(ledger_fence)s, %(numbers)s::bigint[], %(turn)s, %(channel)s, %(account)s,
    %(chat_id)s, %(thread_id)s, %(answers)s, %(asker)s, %(texts)s::text[], %(kept_in)s::text[], %(most)s::int)
"""
"""Stores the end of a turn in one statement."""
FINISH_AND_SEND = f"""
SELECT ledger_send_first(%(agent)s, %(turn)s, %(channel)s, %(account)s, %(chat_id)s, ({FINISH_ALL})),
    number, sent_id
FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT number, sent_id FROM ledger_outbound
    WHERE agent = %(agent)s AND turn = %(turn)s AND state = 'draft' AND sent_id <> '' LIMIT 1) AS it ON TRUE
"""
"""The same, and records that the first part is about to be sent. Returns its number, or the number and the id
of the shown draft that it replaces, because a statement does not see the writes of its own functions."""
OPEN_MESSAGES = """
SELECT number, session_key, body, turn, state = 'running', attempts, answered_by, joined FROM ledger_inbound
WHERE agent = %(agent)s AND state IN ('waiting', 'running') AND body IS NOT NULL ORDER BY number
"""
BEGIN = """
UPDATE ledger_inbound SET state = 'running', attempts = attempts + 1, turn = %(turn)s
WHERE agent = %(agent)s AND number = ANY(%(numbers)s::bigint[]) AND state IN ('waiting', 'running')
"""
JOIN = """
UPDATE ledger_inbound SET state = 'running', turn = %(turn)s, joined = TRUE
WHERE agent = %(agent)s AND number = %(number)s
"""
PART = """
UPDATE ledger_inbound SET state = 'waiting', turn = 0, joined = FALSE, attempts = 0
WHERE agent = %(agent)s AND number = ANY(%(numbers)s::bigint[])
"""
DROP = """
UPDATE ledger_inbound SET state = 'dropped'
WHERE agent = %(agent)s AND number = ANY(%(numbers)s::bigint[])
"""
DONE = """
UPDATE ledger_inbound SET state = 'done', body = NULL
WHERE agent = %(agent)s AND number = ANY(%(numbers)s::bigint[])
"""
FORGET_INBOUND = f"""
DELETE FROM ledger_inbound WHERE agent = %(agent)s AND {_CHAT} AND state IN ('done', 'dropped')
AND number <= (
    SELECT number FROM ledger_inbound WHERE agent = %(agent)s AND {_CHAT}
    ORDER BY number DESC LIMIT 1 OFFSET %(most)s)
"""
FORGET_OUTBOUND = f"""
DELETE FROM ledger_outbound WHERE agent = %(agent)s AND {_CHAT} AND state IN ('sent', 'failed')
AND number <= (
    SELECT number FROM ledger_outbound WHERE agent = %(agent)s AND {_CHAT}
    ORDER BY number DESC LIMIT 1 OFFSET %(most)s)
"""

PUT_PART = """
INSERT INTO ledger_outbound
    (agent, turn, channel, account, chat_id, thread_id, answers, text, state, was_draft, asker)
VALUES (%(agent)s, %(turn)s, %(channel)s, %(account)s, %(chat_id)s, %(thread_id)s, %(answers)s, %(text)s,
    %(state)s, %(state)s = 'draft', %(asker)s)
RETURNING number
"""
PUT_DRAFT = """
INSERT INTO ledger_outbound
    (agent, turn, channel, account, chat_id, thread_id, answers, text, state, was_draft, asker)
SELECT agent, %(turn)s, channel, account, %(chat_id)s, %(thread_id)s, %(answers)s, %(text)s, 'draft', TRUE, ''
FROM (SELECT %(agent)s::text, %(channel)s::text, %(account)s::text) AS new (agent, channel, account)
WHERE agent = %(agent)s AND NOT EXISTS (SELECT FROM ledger_outbound AS there
    WHERE there.agent = new.agent AND there.turn = %(turn)s AND there.state = 'draft')
RETURNING number
"""
DRAFT = """
SELECT number, sent_id FROM ledger_outbound WHERE agent = %(agent)s AND turn = %(turn)s AND state = 'draft'
"""
DRAFT_BECOMES = """
UPDATE ledger_outbound
SET text = %(text)s, asker = %(asker)s, state = CASE WHEN sent_id = '' THEN 'unsure' ELSE 'pending' END
WHERE agent = %(agent)s AND number = %(number)s
"""
_PART_COLUMNS = """
SELECT number, channel, account, chat_id, thread_id, answers, text, state, was_draft::int, attempts, sent_id,
    asker
FROM ledger_outbound WHERE agent = %(agent)s AND"""
NEXT_PART = f"""{_PART_COLUMNS} {_CHAT} AND state IN ('pending', 'unsure') AND number > %(after)s
ORDER BY number LIMIT 1
"""
CHATS = """
SELECT DISTINCT chat_id FROM ledger_outbound
WHERE agent = %(agent)s AND channel = %(channel)s AND account = %(account)s AND state IN ('pending', 'unsure')
"""
SET_STATE = "UPDATE ledger_outbound SET state = %(state)s WHERE agent = %(agent)s AND number = %(number)s"
SENT = """
UPDATE ledger_outbound AS part SET sent_id = %(sent_id)s, state = %(state)s
WHERE agent = %(agent)s AND number = %(number)s
RETURNING state = 'sent' AND NOT EXISTS (SELECT FROM ledger_outbound AS other
    WHERE other.agent = part.agent AND other.channel = part.channel AND other.account = part.account
        AND other.chat_id = part.chat_id AND other.state IN ('pending', 'unsure')
        AND other.number <> part.number)
"""
DRAFTED = "UPDATE ledger_outbound SET sent_id = %(sent_id)s WHERE agent = %(agent)s AND number = %(number)s"
UNDRAFT = "DELETE FROM ledger_outbound WHERE agent = %(agent)s AND number = %(number)s"
DROP_PARTS = f"""
DELETE FROM ledger_outbound
WHERE agent = %(agent)s AND {_CHAT} AND thread_id = %(thread_id)s AND state = 'pending' AND sent_id = ''
    AND turn <> 0
"""
NOT_SENT = """
UPDATE ledger_outbound SET state = %(state)s, problem = %(problem)s, attempts = attempts + 1
WHERE agent = %(agent)s AND number = %(number)s
"""
NOT_DONE = """
SELECT state, count(*) FROM ledger_inbound
WHERE agent = %(agent)s AND state IN ('waiting', 'running') AND body IS NOT NULL GROUP BY state
UNION ALL
SELECT state, count(*) FROM ledger_outbound
WHERE agent = %(agent)s AND state IN ('pending', 'sending', 'unsure') GROUP BY state
UNION ALL
SELECT 'failed', count(*) FROM ledger_outbound
WHERE agent = %(agent)s AND state = 'failed' HAVING count(*) > 0
"""
SENT_FOR = """
SELECT coalesce(i.received_ms, 0), o.channel, o.chat_id, o.state, o.attempts, o.problem
FROM ledger_outbound AS o LEFT JOIN ledger_inbound AS i ON i.agent = o.agent AND i.channel = o.channel
    AND i.account = o.account AND i.chat_id = o.chat_id AND i.message_id = o.answers
WHERE o.agent = %(agent)s AND o.channel = %(channel)s AND o.account = %(account)s
    AND o.chat_id = %(chat_id)s AND o.answers = %(message_id)s
ORDER BY o.number
"""

ROLE = f"SELECT role, own_agent FROM ledger_people WHERE agent = %(agent)s AND {_WHO}"
LOCK_PEOPLE = "SELECT pg_advisory_xact_lock(hashtextextended(%(agent)s, 5))"
"""Serializes pairing requests and answers, because the number of open requests is limited."""
FORGET_ASKING = "DELETE FROM ledger_pairings WHERE agent = %(agent)s AND asked_ms <= %(since_ms)s"
ASKING_OF_ACCOUNT = """
SELECT sender_id FROM ledger_pairings
WHERE agent = %(agent)s AND channel = %(channel)s AND account = %(account)s
"""
GIVE_WAY = """
DELETE FROM ledger_pairings
WHERE agent = %(agent)s AND channel = %(channel)s AND account = %(account)s AND sender_id = (
    SELECT sender_id FROM ledger_pairings
    WHERE agent = %(agent)s AND channel = %(channel)s AND account = %(account)s
      AND asked_ms <= %(gives_way_ms)s AND code <> ''
    ORDER BY asked_ms LIMIT 1
)
RETURNING sender_id
"""
ASK = """
INSERT INTO ledger_pairings (agent, channel, account, sender_id, code, asked_ms)
VALUES (%(agent)s, %(channel)s, %(account)s, %(sender_id)s, %(code)s, %(at_ms)s)
"""
ASKING = """
SELECT channel, account, sender_id, asked_ms, code FROM ledger_pairings
WHERE agent = %(agent)s AND asked_ms > %(since_ms)s AND code <> '' ORDER BY asked_ms
"""
KNOWN = """
SELECT channel, account, sender_id, since_ms, '', role, own_agent FROM ledger_people
WHERE agent = %(agent)s ORDER BY since_ms
"""
FIND_CODE = """
SELECT channel, account, sender_id FROM ledger_pairings
WHERE agent = %(agent)s AND code = %(code)s AND code <> '' AND asked_ms > %(since_ms)s
"""
USE_CODE = "DELETE FROM ledger_pairings WHERE agent = %(agent)s AND code = %(code)s"
DENY_CODE = "UPDATE ledger_pairings SET code = '' WHERE agent = %(agent)s AND code = %(code)s"
LET_IN = """
INSERT INTO ledger_people (agent, channel, account, sender_id, role, since_ms, own_agent)
VALUES (%(agent)s, %(channel)s, %(account)s, %(sender_id)s, %(role)s, %(at_ms)s, %(own_agent)s)
ON CONFLICT (agent, channel, account, sender_id)
DO UPDATE SET role = EXCLUDED.role, since_ms = EXCLUDED.since_ms, own_agent = EXCLUDED.own_agent
"""
REVOKE = """
DELETE FROM ledger_people
WHERE agent = %(agent)s AND channel = %(channel)s AND sender_id = %(sender_id)s RETURNING 1
"""

CHOICES = "SELECT session_key, name, value FROM ledger_choices WHERE agent = %(agent)s"
PUT_CHOICE = """
INSERT INTO ledger_choices (agent, session_key, name, value)
VALUES (%(agent)s, %(session_key)s, %(name)s, %(value)s)
ON CONFLICT (agent, session_key, name) DO UPDATE SET value = EXCLUDED.value
"""
FORGET_CHOICE = """
DELETE FROM ledger_choices WHERE agent = %(agent)s AND session_key = %(session_key)s AND name = %(name)s
"""
PUT_OWNER_CHAT = """
INSERT INTO ledger_owner_chats (agent, answered_by, channel, account, at_ms, inbound)
VALUES (%(agent)s, %(answered_by)s, %(channel)s, %(account)s, %(at_ms)s, %(inbound)s)
ON CONFLICT (agent, answered_by, channel, account)
DO UPDATE SET at_ms = EXCLUDED.at_ms, inbound = EXCLUDED.inbound
"""
OWNER_CHATS = """
SELECT inbound FROM ledger_owner_chats
WHERE agent = %(agent)s AND answered_by = %(answered_by)s ORDER BY at_ms DESC
"""
FORGET_BRIDGES = """
DELETE FROM ledger_bridges AS bridge WHERE agent = %(agent)s AND NOT EXISTS (
    SELECT FROM ledger_accounts AS held JOIN processes ON number = process
    WHERE held.agent = %(agent)s AND held.channel = bridge.channel AND held.account = bridge.account
        AND process IS DISTINCT FROM %(ledger_process)s::bigint AND alive_until > clock_timestamp())
"""
"""All but those of accounts that other programs hold."""
PUT_BRIDGE = """
INSERT INTO ledger_bridges (agent, channel, account, state, problem, restarts, since_ms, next_try_ms)
VALUES (%(agent)s, %(channel)s, %(account)s, %(state)s, %(problem)s, %(restarts)s, %(since_ms)s,
    %(next_try_ms)s)
ON CONFLICT (agent, channel, account) DO NOTHING
"""
BRIDGES = """
SELECT channel, account, state, problem, restarts, since_ms, next_try_ms, coalesce((
    SELECT holder FROM ledger_accounts AS held JOIN ledger_gateways AS gateway USING (agent, process)
    WHERE agent = %(agent)s AND held.channel = bridge.channel AND held.account = bridge.account), '')
FROM ledger_bridges AS bridge
WHERE agent = %(agent)s ORDER BY channel COLLATE "C", account COLLATE "C"
"""

LOCK_JOBS = "SELECT pg_advisory_xact_lock(hashtextextended(%(agent)s, 6))"
"""Serializes additions, because the number of jobs per agent is limited."""
COUNT_JOBS = "SELECT count(*) FROM ledger_jobs WHERE agent = %(agent)s AND answered_by = %(answered_by)s"
ADD_JOB = """
INSERT INTO ledger_jobs (agent, id, answered_by, asker, text, rule, made_ms, due_ms, problem)
VALUES (%(agent)s, %(id)s, %(answered_by)s, %(asker)s, %(text)s, %(rule)s, %(made_ms)s, %(due_ms)s,
    %(problem)s)
"""
JOBS_OF = f"{_JOB} AND answered_by = %(answered_by)s ORDER BY due_ms NULLS LAST, made_ms"
JOBS_DUE = f"{_JOB} AND due_ms <= %(at_ms)s ORDER BY due_ms, made_ms"
JOBS_RECURRING = f"{_JOB} AND due_ms > %(at_ms)s AND rule <> ''"
NEXT_DUE = "SELECT min(due_ms) FROM ledger_jobs WHERE agent = %(agent)s"
REMOVE_JOB = "DELETE FROM ledger_jobs WHERE agent = %(agent)s AND id = %(id)s RETURNING 1"
MOVE_JOB = """
UPDATE ledger_jobs SET due_ms = %(due_ms)s, problem = %(problem)s
WHERE agent = %(agent)s AND id = %(id)s AND due_ms IS NOT DISTINCT FROM %(before_ms)s::bigint RETURNING 1
"""
END_JOB = """
DELETE FROM ledger_jobs
WHERE agent = %(agent)s AND id = %(id)s AND due_ms IS NOT DISTINCT FROM %(before_ms)s::bigint RETURNING 1
"""
FIRST_BEAT = """
INSERT INTO ledger_heartbeats (agent, answered_by, at_ms) VALUES (%(agent)s, %(answered_by)s, %(at_ms)s)
ON CONFLICT DO NOTHING
"""
BEATEN = """
UPDATE ledger_heartbeats SET at_ms = %(at_ms)s
WHERE agent = %(agent)s AND answered_by = %(answered_by)s AND at_ms = %(before_ms)s RETURNING 1
"""
LAST_BEAT = """
SELECT at_ms FROM ledger_heartbeats WHERE agent = %(agent)s AND answered_by = %(answered_by)s
"""


_REPEATABLE = (BEGIN, JOIN, PART, DROP, SET_STATE, SENT, PUT_DRAFT, DRAFTED, UNDRAFT, DROP_PARTS)
FENCED = {
    statement: statement.replace(
        "WHERE agent = %(agent)s", "WHERE agent = %(agent)s AND ledger_is_held(%(agent)s, %(ledger_fence)s)"
    )
    for statement in _REPEATABLE
} | {each: each for each in (RECEIVE_ALL, RECEIVE_AND_ASK, FINISH_ALL, FINISH_AND_SEND)}
"""Idempotent statements that check the fence themselves. The server raises an error if a later program
serves."""
_CHECKED = f"FROM ({ACCOUNT_IS_HELD}) AS checked (is_held) WHERE is_held"
_RECEIVE_SHARED, _FINISH_SHARED = (
    f"""{each.replace("%(ledger_fence)s", "NULL")} {_CHECKED}""" for each in (RECEIVE_ALL, FINISH_ALL)
)
SHARED = {
    statement: statement.replace(
        "WHERE agent = %(agent)s",
        "WHERE agent = %(agent)s AND account_is_held(%(agent)s, %(ledger_fence)s, %(ledger_process)s, "
        "channel, account)",
    )
    for statement in _REPEATABLE
} | {
    RECEIVE_ALL: _RECEIVE_SHARED,
    RECEIVE_AND_ASK: RECEIVE_AND_ASK.replace(RECEIVE_ALL, _RECEIVE_SHARED),
    FINISH_ALL: _FINISH_SHARED,
    FINISH_AND_SEND: FINISH_AND_SEND.replace(FINISH_ALL, _FINISH_SHARED),
}
"""The same where several programs share the ledger: each checks that its program holds the account."""
