-- A role that is not the tables' owner sees the rows of those agents alone that the owner names for it here.
-- The owner is not bound by this, so a program that connects as the owner notices nothing.
CREATE TABLE agent_roles (
    agent TEXT NOT NULL,
    role NAME NOT NULL,
    PRIMARY KEY (agent, role)
);
ALTER TABLE agent_roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON agent_roles FOR SELECT USING (role = current_user);

DO $$
DECLARE
    found NAME;
BEGIN
    FOR found IN
        SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
            AND attname = 'agent' AND NOT relrowsecurity
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
