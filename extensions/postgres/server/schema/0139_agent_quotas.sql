-- What an agent may use a day (UTC), 0 without a limit, and what its turns used on `day`.
CREATE TABLE agent_quotas (
    agent TEXT NOT NULL PRIMARY KEY,
    daily_tokens BIGINT NOT NULL DEFAULT 0,
    daily_usd DOUBLE PRECISION NOT NULL DEFAULT 0,
    day DATE NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC')::date,
    tokens BIGINT NOT NULL DEFAULT 0,
    usd DOUBLE PRECISION NOT NULL DEFAULT 0
);
CREATE INDEX agent_quotas_day ON agent_quotas (day);
ALTER TABLE agent_quotas ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_agents ON agent_quotas USING (agent IN
    (SELECT agent_roles.agent FROM agent_roles WHERE role = current_user));

-- Whether an agent has used up what it may use today.
CREATE FUNCTION quota_is_used(quota agent_quotas) RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
    SELECT quota.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
        AND (quota.daily_tokens > 0 AND quota.tokens >= quota.daily_tokens
            OR quota.daily_usd > 0 AND quota.usd >= quota.daily_usd)
$$;
