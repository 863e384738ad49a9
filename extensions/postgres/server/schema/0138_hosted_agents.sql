-- Agents that no settings name: each is a user's, with the settings of agents.defaults.
CREATE TABLE hosted_agents (
    agent TEXT NOT NULL PRIMARY KEY,
    made_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE hosted_agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON hosted_agents USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));

-- The agent that alone answers a person in private; empty if the settings choose.
ALTER TABLE ledger_people ADD COLUMN own_agent TEXT NOT NULL DEFAULT '';
CREATE INDEX ledger_people_own ON ledger_people (own_agent) WHERE own_agent <> '';
