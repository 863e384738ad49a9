-- Turns that any worker may run. `id` is the message's name among all channels, so that one that is handed in
-- again is no second turn. `fence` is raised by whoever takes the turn; what an earlier one says is refused.
-- `tries` counts who took it and did not give it back.
CREATE TABLE turns (
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    inbound TEXT NOT NULL,
    is_redelivered BOOLEAN NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'done')),
    fence BIGINT NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    outcome TEXT,
    asked_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    done_at TIMESTAMPTZ,
    PRIMARY KEY (agent, id)
);
CREATE INDEX turns_done ON turns (agent, session_key, done_at) WHERE state = 'done';
CREATE INDEX turns_open ON turns (agent, asked_at) WHERE state <> 'done';
