"""The tables of a ledger's file, and every statement on them. A contract: bytes on disk."""

from __future__ import annotations

_VERSION_1 = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE cursors (
    channel TEXT NOT NULL, account TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (channel, account)
) STRICT;

-- AUTOINCREMENT: keys of parts are made of these numbers, and a key is never used twice.
CREATE TABLE inbound (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    message_id TEXT,
    session_key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'dropped')),
    turn INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    received_ms INTEGER NOT NULL,
    body TEXT,
    UNIQUE (channel, account, chat_id, message_id)
) STRICT;
CREATE INDEX inbound_open ON inbound (seq) WHERE state IN ('waiting', 'running');
CREATE INDEX inbound_chat ON inbound (channel, account, chat_id, seq);

CREATE TABLE outbound (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    turn INTEGER NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    answers TEXT NOT NULL,
    text TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('draft', 'pending', 'sending', 'unsure', 'sent', 'failed')),
    is_draft INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    sent_id TEXT NOT NULL DEFAULT '',
    problem TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX outbound_open ON outbound (channel, account, chat_id, seq)
    WHERE state IN ('draft', 'pending', 'sending', 'unsure');
CREATE INDEX outbound_chat ON outbound (channel, account, chat_id, seq);
CREATE INDEX outbound_drafts ON outbound (turn) WHERE state = 'draft';

CREATE TABLE people (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('guest', 'owner')),
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (channel, account, sender_id)
) STRICT;

-- A code that was denied is empty; its line keeps the person from asking again.
CREATE TABLE pairings (
    code TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    asked_ms INTEGER NOT NULL,
    PRIMARY KEY (channel, account, sender_id)
) STRICT;
"""

_VERSION_2 = """
-- Which agent answers; a key begins with it: agent:<id>:…
ALTER TABLE inbound ADD COLUMN agent TEXT NOT NULL DEFAULT '';
UPDATE inbound SET agent = substr(session_key, 7, instr(substr(session_key, 7), ':') - 1)
    WHERE session_key LIKE 'agent:%:%';
-- 1: handed into the turn of `turn` while that ran.
ALTER TABLE inbound ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;

-- Who a part is for, as `asker_to_json` writes it; empty for parts that nobody asked for.
ALTER TABLE outbound ADD COLUMN asker TEXT NOT NULL DEFAULT '';

-- What was chosen for a session by /queue, /send and /activation.
CREATE TABLE choices (
    session_key TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session_key, name)
) STRICT;

-- Where the owner last wrote to an agent in private.
CREATE TABLE owner_chats (agent TEXT PRIMARY KEY, inbound TEXT NOT NULL) STRICT;
"""

_VERSION_3 = """
-- Where the owner last wrote to an agent in private, on each account.
ALTER TABLE owner_chats RENAME TO owner_chats_2;
CREATE TABLE owner_chats (
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    inbound TEXT NOT NULL,
    PRIMARY KEY (agent, channel, account)
) STRICT;
INSERT INTO owner_chats
    SELECT agent, json_extract(inbound, '$.channel'), json_extract(inbound, '$.account'), 0, inbound
    FROM owner_chats_2;
DROP TABLE owner_chats_2;

-- `rule` is a cron expression, empty for once. Without `due_ms` it does not come any more, and `problem` says
-- why. `asker` says where it was asked for and by whom, as `asker_to_json` writes it.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    asker TEXT NOT NULL,
    text TEXT NOT NULL,
    rule TEXT NOT NULL,
    made_ms INTEGER NOT NULL,
    due_ms INTEGER,
    problem TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX jobs_due ON jobs (due_ms) WHERE due_ms IS NOT NULL;

-- When an agent last had a heartbeat, or its heartbeats began.
CREATE TABLE heartbeats (agent TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) STRICT;

-- How each bridge was when that last changed, for a terminal beside the program. 0: no next try.
CREATE TABLE bridge_states (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    state TEXT NOT NULL,
    problem TEXT NOT NULL,
    restarts INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    next_try_ms INTEGER NOT NULL,
    PRIMARY KEY (channel, account)
) STRICT;
"""

MIGRATIONS = (_VERSION_1, _VERSION_2, _VERSION_3)
"""Each migrates a file from the version before it; the first creates the tables."""

_CHAT = "channel = :channel AND account = :account AND chat_id = :chat_id"
_WHO = "channel = :channel AND account = :account AND sender_id = :sender_id"
_JOB = "SELECT id, agent, asker, text, rule, due_ms, problem FROM jobs WHERE"
_NUMBERS = "seq IN (SELECT value FROM json_each(:numbers))"

PUT_ID = "INSERT OR IGNORE INTO meta VALUES ('id', :ledger_id)"
MARKS = "SELECT name, value FROM meta"
NOBODY_KNOWS = "UPDATE outbound SET state = 'unsure' WHERE state = 'sending'"

PUT_CURSOR = "INSERT OR REPLACE INTO cursors VALUES (:channel, :account, :value)"
CURSOR = "SELECT value FROM cursors WHERE channel = :channel AND account = :account"
RECEIVE = """
INSERT OR IGNORE INTO inbound
    (channel, account, chat_id, message_id, session_key, agent, state, received_ms, body)
VALUES (:channel, :account, :chat_id, nullif(:message_id, ''), :session_key, :answered_by, 'waiting', :at_ms,
    :body)
RETURNING seq
"""
"""NULL equals no other id, so a message without an id is never a duplicate."""
OPEN_MESSAGES = """
SELECT seq, session_key, body, turn, state = 'running', attempts, agent, joined FROM inbound
WHERE state IN ('waiting', 'running') AND body IS NOT NULL ORDER BY seq
"""
BEGIN = f"""
UPDATE inbound SET state = 'running', attempts = attempts + 1, turn = :turn
WHERE {_NUMBERS} AND state IN ('waiting', 'running')
"""
JOIN = "UPDATE inbound SET state = 'running', turn = :turn, joined = 1 WHERE seq = :number"
PART = f"UPDATE inbound SET state = 'waiting', turn = 0, joined = 0, attempts = 0 WHERE {_NUMBERS}"
DROP = f"UPDATE inbound SET state = 'dropped' WHERE {_NUMBERS}"
DONE = f"UPDATE inbound SET state = 'done', body = NULL WHERE {_NUMBERS}"
FORGET_INBOUND = f"""
DELETE FROM inbound WHERE {_CHAT} AND state IN ('done', 'dropped')
AND seq <= (SELECT seq FROM inbound WHERE {_CHAT} ORDER BY seq DESC LIMIT 1 OFFSET :most)
"""
FORGET_OUTBOUND = f"""
DELETE FROM outbound WHERE {_CHAT} AND state IN ('sent', 'failed')
AND seq <= (SELECT seq FROM outbound WHERE {_CHAT} ORDER BY seq DESC LIMIT 1 OFFSET :most)
"""

PUT_PART = """
INSERT INTO outbound
    (turn, channel, account, chat_id, thread_id, answers, text, state, is_draft, asker)
VALUES (:turn, :channel, :account, :chat_id, :thread_id, :answers, :text, :state, :state = 'draft', :asker)
RETURNING seq
"""
PUT_DRAFT = """
INSERT INTO outbound (turn, channel, account, chat_id, thread_id, answers, text, state, is_draft)
SELECT :turn, :channel, :account, :chat_id, :thread_id, :answers, :text, 'draft', TRUE
WHERE NOT EXISTS (SELECT 1 FROM outbound WHERE turn = :turn AND state = 'draft') RETURNING seq
"""
DRAFT = "SELECT seq, sent_id FROM outbound WHERE turn = :turn AND state = 'draft'"
DRAFT_BECOMES = """
UPDATE outbound SET text = :text, asker = :asker, state = iif(sent_id = '', 'unsure', 'pending')
WHERE seq = :number
"""
_PART_COLUMNS = """
SELECT seq, channel, account, chat_id, thread_id, answers, text, state, is_draft, attempts, sent_id, asker
FROM outbound WHERE"""
NEXT_PART = f"""{_PART_COLUMNS} {_CHAT} AND state IN ('pending', 'unsure') AND seq > :after
ORDER BY seq LIMIT 1
"""
CHATS = """
SELECT DISTINCT chat_id FROM outbound
WHERE channel = :channel AND account = :account AND state IN ('pending', 'unsure')
"""
SET_STATE = "UPDATE outbound SET state = :state WHERE seq = :number"
SENT = "UPDATE outbound SET sent_id = :sent_id, state = :state WHERE seq = :number"
DRAFTED = "UPDATE outbound SET sent_id = :sent_id WHERE seq = :number"
UNDRAFT = "DELETE FROM outbound WHERE seq = :number"
DROP_PARTS = f"""
DELETE FROM outbound
WHERE {_CHAT} AND thread_id = :thread_id AND state = 'pending' AND sent_id = '' AND turn <> 0
"""
NOT_SENT = """
UPDATE outbound SET state = :state, problem = :problem, attempts = attempts + 1 WHERE seq = :number
"""
NOT_DONE = """
SELECT state, count(*) FROM inbound WHERE state IN ('waiting', 'running') AND body IS NOT NULL GROUP BY state
UNION ALL
SELECT state, count(*) FROM outbound WHERE state IN ('pending', 'sending', 'unsure', 'failed') GROUP BY state
"""
SENT_FOR = """
SELECT coalesce(i.received_ms, 0), o.channel, o.chat_id, o.state, o.attempts, o.problem
FROM outbound AS o LEFT JOIN inbound AS i
    ON i.channel = o.channel AND i.account = o.account AND i.chat_id = o.chat_id AND i.message_id = o.answers
WHERE o.channel = :channel AND o.account = :account AND o.chat_id = :chat_id AND o.answers = :message_id
ORDER BY o.seq
"""

ROLE = f"SELECT role, '' FROM people WHERE {_WHO}"
LOCK_PEOPLE = LOCK_JOBS = "SELECT 1"
"""A writer has the file for itself."""
FORGET_ASKING = "DELETE FROM pairings WHERE asked_ms <= :since_ms"
ASKING_OF_ACCOUNT = "SELECT sender_id FROM pairings WHERE channel = :channel AND account = :account"
GIVE_WAY = """
DELETE FROM pairings WHERE rowid = (
    SELECT rowid FROM pairings
    WHERE channel = :channel AND account = :account AND asked_ms <= :gives_way_ms AND code <> ''
    ORDER BY asked_ms LIMIT 1)
RETURNING sender_id
"""
ASK = "INSERT INTO pairings VALUES (:code, :channel, :account, :sender_id, :at_ms)"
ASKING = """
SELECT channel, account, sender_id, asked_ms, code FROM pairings
WHERE asked_ms > :since_ms AND code <> '' ORDER BY asked_ms
"""
KNOWN = "SELECT channel, account, sender_id, since_ms, '', role FROM people ORDER BY since_ms"
FIND_CODE = """
SELECT channel, account, sender_id FROM pairings WHERE code = :code AND code <> '' AND asked_ms > :since_ms
"""
USE_CODE = "DELETE FROM pairings WHERE code = :code"
DENY_CODE = "UPDATE pairings SET code = '' WHERE code = :code"
LET_IN = "INSERT OR REPLACE INTO people VALUES (:channel, :account, :sender_id, :role, :at_ms)"
REVOKE = "DELETE FROM people WHERE channel = :channel AND sender_id = :sender_id RETURNING 1"

CHOICES = "SELECT session_key, name, value FROM choices"
PUT_CHOICE = "INSERT OR REPLACE INTO choices VALUES (:session_key, :name, :value)"
FORGET_CHOICE = "DELETE FROM choices WHERE session_key = :session_key AND name = :name"
PUT_OWNER_CHAT = """
INSERT OR REPLACE INTO owner_chats VALUES (:answered_by, :channel, :account, :at_ms, :inbound)
"""
OWNER_CHATS = "SELECT inbound FROM owner_chats WHERE agent = :answered_by ORDER BY at_ms DESC"
FORGET_BRIDGES = "DELETE FROM bridge_states"
PUT_BRIDGE = """
INSERT INTO bridge_states VALUES (:channel, :account, :state, :problem, :restarts, :since_ms, :next_try_ms)
"""
BRIDGES = """
SELECT channel, account, state, problem, restarts, since_ms, next_try_ms FROM bridge_states
ORDER BY channel, account
"""

COUNT_JOBS = "SELECT count(*) FROM jobs WHERE agent = :answered_by"
ADD_JOB = """
INSERT INTO jobs (id, agent, asker, text, rule, made_ms, due_ms, problem)
VALUES (:id, :answered_by, :asker, :text, :rule, :made_ms, :due_ms, :problem)
"""
JOBS_OF = f"{_JOB} agent = :answered_by ORDER BY due_ms IS NULL, due_ms, made_ms"
JOBS_DUE = f"{_JOB} due_ms <= :at_ms ORDER BY due_ms, made_ms"
JOBS_RECURRING = f"{_JOB} due_ms > :at_ms AND rule <> ''"
NEXT_DUE = "SELECT min(due_ms) FROM jobs"
REMOVE_JOB = "DELETE FROM jobs WHERE id = :id RETURNING 1"
MOVE_JOB = """
UPDATE jobs SET due_ms = :due_ms, problem = :problem WHERE id = :id AND due_ms IS :before_ms RETURNING 1
"""
END_JOB = "DELETE FROM jobs WHERE id = :id AND due_ms IS :before_ms RETURNING 1"
FIRST_BEAT = "INSERT OR IGNORE INTO heartbeats VALUES (:answered_by, :at_ms)"
BEATEN = """
UPDATE heartbeats SET at_ms = :at_ms WHERE agent = :answered_by AND at_ms = :before_ms RETURNING 1
"""
LAST_BEAT = "SELECT at_ms FROM heartbeats WHERE agent = :answered_by"
