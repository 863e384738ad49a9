"""The ledger's tables, as numbered migrations. A contract: bytes on disk."""

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
"""Each brings a file from the version before it to its own; the first makes the tables."""
