-- Tool calls that wait for their owner; `body` is what a file of one holds.
CREATE TABLE approvals (
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (agent, id)
);
ALTER TABLE approvals ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON approvals USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));

-- What a turn that some worker runs asks its owner. `told`: the question is in the outbox of the channels.
CREATE TABLE turn_questions (
    agent TEXT NOT NULL,
    turn TEXT NOT NULL,
    approval TEXT NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    body TEXT NOT NULL,
    told BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (agent, turn, approval),
    FOREIGN KEY (agent, turn) REFERENCES turns (agent, id) ON DELETE CASCADE
);
ALTER TABLE turn_questions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON turn_questions USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));
