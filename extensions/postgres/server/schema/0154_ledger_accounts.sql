-- Several programs serve one ledger: the members, and which of them holds each account, while it is alive.
-- `ledger_holders` names one of them, so that a program that has to be alone waits for all.
CREATE TABLE ledger_gateways (
    agent TEXT NOT NULL,
    process BIGINT NOT NULL,
    holder TEXT NOT NULL,
    wanted TEXT[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (agent, process)
);
CREATE TABLE ledger_accounts (
    agent TEXT NOT NULL,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    process BIGINT,
    PRIMARY KEY (agent, channel, account)
);
ALTER TABLE ledger_gateways ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON ledger_gateways USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));
ALTER TABLE ledger_accounts ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON ledger_accounts USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));

-- Whether a program still holds an account, in a ledger that nobody took for itself alone since then; a later
-- holder has to wait for the commit. Raises an error where it does not.
CREATE FUNCTION account_is_held(
    of_agent TEXT, of_fence BIGINT, of_process BIGINT, of_channel TEXT, of_account TEXT
) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM ledger_accounts
    WHERE agent = of_agent AND channel = of_channel AND account = of_account AND process = of_process FOR SHARE;
    IF NOT FOUND OR NOT EXISTS (SELECT FROM ledger_holders WHERE agent = of_agent AND fence = of_fence) THEN
        RAISE EXCEPTION 'another program serves the account' USING ERRCODE = 'NA001';
    END IF;
    RETURN TRUE;
END
$$;
