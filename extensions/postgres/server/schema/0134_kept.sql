-- What is counted and forgotten without reading what is long over.
CREATE INDEX ledger_outbound_failed ON ledger_outbound (agent) WHERE state = 'failed';
CREATE INDEX turns_over ON turns (done_at) WHERE state = 'done';

-- Agents whose turns no worker takes.
CREATE TABLE paused_agents (
    agent TEXT NOT NULL PRIMARY KEY,
    since TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE paused_agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON paused_agents USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));
