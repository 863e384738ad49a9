-- The channel of NOTIFY on which the gateway that asked for a turn hears its events; empty if nobody listens. Its name
-- is a secret, because notifications have no row security: who may read the turn may hear it.
ALTER TABLE turns ADD COLUMN stream TEXT NOT NULL DEFAULT '';
