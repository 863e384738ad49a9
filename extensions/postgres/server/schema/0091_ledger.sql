-- The ledger of the channels: what came in, what has to go out, and what changes in the same step. All of it
-- lies with the agent that answers what no binding names; `answered_by` is who answers. Times are epoch
-- milliseconds, messages and askers JSON.

-- Who serves. `fence` grows with each; what a former one still wants to write is refused. `ledger_id` stands in
-- the keys of parts.
CREATE TABLE ledger_holders (
    agent TEXT NOT NULL PRIMARY KEY,
    ledger_id TEXT NOT NULL,
    fence BIGINT NOT NULL,
    holder TEXT NOT NULL
);

CREATE TABLE ledger_cursors (
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (agent, channel, account)
);

-- Without a `message_id` it is never a duplicate. Without a `body` it is answered.
CREATE TABLE ledger_inbound (
    agent TEXT NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    message_id TEXT,
    session_key TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'dropped')),
    turn BIGINT NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    joined BOOLEAN NOT NULL DEFAULT FALSE,
    received_ms BIGINT NOT NULL,
    body TEXT,
    PRIMARY KEY (agent, number),
    UNIQUE (agent, channel, account, chat_id, message_id)
);
CREATE INDEX ledger_inbound_open ON ledger_inbound (agent, number) WHERE state IN ('waiting', 'running');
CREATE INDEX ledger_inbound_chat ON ledger_inbound (agent, channel, account, chat_id, number);

CREATE TABLE ledger_outbound (
    agent TEXT NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    turn BIGINT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    answers TEXT NOT NULL,
    text TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('draft', 'pending', 'sending', 'unsure', 'sent', 'failed')),
    was_draft BOOLEAN NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    sent_id TEXT NOT NULL DEFAULT '',
    problem TEXT NOT NULL DEFAULT '',
    asker TEXT NOT NULL,
    PRIMARY KEY (agent, number)
);
CREATE INDEX ledger_outbound_open ON ledger_outbound (agent, channel, account, chat_id, number)
    WHERE state IN ('draft', 'pending', 'sending', 'unsure');
CREATE INDEX ledger_outbound_chat ON ledger_outbound (agent, channel, account, chat_id, number);
CREATE INDEX ledger_outbound_drafts ON ledger_outbound (agent, turn) WHERE state = 'draft';

CREATE TABLE ledger_people (
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('guest', 'owner')),
    since_ms BIGINT NOT NULL,
    PRIMARY KEY (agent, channel, account, sender_id)
);

-- A code that was denied is empty; its line keeps the person from asking again.
CREATE TABLE ledger_pairings (
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    code TEXT NOT NULL,
    asked_ms BIGINT NOT NULL,
    PRIMARY KEY (agent, channel, account, sender_id)
);

CREATE TABLE ledger_choices (
    agent TEXT NOT NULL,
    session_key TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (agent, session_key, name)
);

CREATE TABLE ledger_owner_chats (
    agent TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    inbound TEXT NOT NULL,
    PRIMARY KEY (agent, answered_by, channel, account)
);

-- `rule` is a cron expression, empty for once. Without `due_ms` it does not come any more, and `problem` says why.
CREATE TABLE ledger_jobs (
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    asker TEXT NOT NULL,
    text TEXT NOT NULL,
    rule TEXT NOT NULL,
    made_ms BIGINT NOT NULL,
    due_ms BIGINT,
    problem TEXT NOT NULL,
    PRIMARY KEY (agent, id)
);

CREATE TABLE ledger_heartbeats (
    agent TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (agent, answered_by)
);

CREATE TABLE ledger_bridges (
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    state TEXT NOT NULL,
    problem TEXT NOT NULL,
    restarts INTEGER NOT NULL,
    since_ms BIGINT NOT NULL,
    next_try_ms BIGINT NOT NULL,
    PRIMARY KEY (agent, channel, account)
);

DO $$
DECLARE
    found NAME;
BEGIN
    FOR found IN
        SELECT relname FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
            AND relname LIKE 'ledger\_%'
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', found);
        EXECUTE format(
            'CREATE POLICY own_agents ON %I USING (agent IN '
            '(SELECT agent_roles.agent FROM agent_roles WHERE role = current_user))',
            found
        );
    END LOOP;
END
$$;
