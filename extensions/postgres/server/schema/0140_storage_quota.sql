-- What an agent may keep, in bytes of conversations and notes; 0 without a limit.
ALTER TABLE agent_quotas ADD COLUMN max_bytes BIGINT NOT NULL DEFAULT 0;

-- The bytes of an agent's conversations and notes.
CREATE FUNCTION stored_bytes(of_agent TEXT) RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT (SELECT coalesce(sum(size_bytes), 0) FROM transcripts WHERE agent = of_agent)::bigint
        + (SELECT coalesce(sum(octet_length(body)), 0) FROM documents WHERE agent = of_agent)::bigint
$$;

-- Which limit an agent has reached; empty without one.
CREATE FUNCTION quota_reached(of_agent TEXT) RETURNS TEXT LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT CASE WHEN quota_is_used(quota) THEN 'day'
            WHEN max_bytes > 0 AND stored_bytes(of_agent) >= max_bytes THEN 'storage' END
        FROM agent_quotas AS quota WHERE agent = of_agent), '')
$$;
