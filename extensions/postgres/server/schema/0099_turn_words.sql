-- What is said into a turn while some worker runs it. `name` is the message's name among all channels;
-- `heard`: it stands in the conversation, and needs no turn of its own.
CREATE TABLE turn_words (
    agent TEXT NOT NULL,
    turn TEXT NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    name TEXT NOT NULL,
    inbound TEXT NOT NULL,
    heard BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (agent, turn, number),
    FOREIGN KEY (agent, turn) REFERENCES turns (agent, id) ON DELETE CASCADE
);
ALTER TABLE turn_words ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON turn_words USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));
