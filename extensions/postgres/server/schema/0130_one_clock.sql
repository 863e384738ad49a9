-- The one clock: what a process holds is its own until `alive_until`, which each live process moves on.
-- `places`: how many turns it runs at once, 0 where it is no worker. It belongs to no agent.
CREATE TABLE processes (
    number BIGINT PRIMARY KEY,
    places INTEGER NOT NULL,
    alive_until TIMESTAMPTZ NOT NULL,
    role NAME NOT NULL DEFAULT current_user
);
ALTER TABLE processes ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON processes FOR SELECT USING (TRUE);
CREATE POLICY own_insert ON processes FOR INSERT WITH CHECK (role = current_user);
CREATE POLICY own_update ON processes FOR UPDATE USING (role = current_user);
CREATE POLICY own_delete ON processes FOR DELETE USING (role = current_user);

-- A lane is held until 'infinity', while the process `life` is alive. '-infinity' is a lane that was left, and a
-- moment is the lease of a program before this one.
CREATE INDEX lanes_held ON lanes (agent) WHERE held_until > '-infinity';

-- Turns are their own queue: those of a session by `number`. One that waits is due at `due_at`; one that runs is
-- another worker's when `process` is silent, or when it made no progress until `due_at`.
ALTER TABLE turns
    ADD COLUMN number BIGINT GENERATED ALWAYS AS IDENTITY,
    ADD COLUMN process BIGINT,
    ADD COLUMN due_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity';
CREATE INDEX turns_queue ON turns (number) WHERE state <> 'done';
CREATE INDEX turns_of_session ON turns (agent, session_key, number) WHERE state <> 'done';
