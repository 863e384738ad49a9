"""Every statement on the tables of a workspace. A contract with `postgres/schema/0040_documents.sql`.

Each names its agent, and a test reads the server's plan of each to hold that it looks at no other's rows.
"""

from __future__ import annotations

_MARKS = "revision, changed_us, coalesce(octet_length(body), 0), body IS NULL"

REVISION = "SELECT revision FROM workspaces WHERE agent = %(agent)s"
COUNT = """
INSERT INTO workspaces AS counted (agent, revision) VALUES (%(agent)s, 1)
ON CONFLICT (agent) DO UPDATE SET revision = counted.revision + 1 RETURNING revision
"""
"""The number of a write. Until its commit no other write of the agent begins."""

NAMED = f"SELECT name, {_MARKS} FROM documents WHERE agent = %(agent)s AND name = ANY (%(names)s)"
BODIES = f"""
SELECT name, {_MARKS}, substring(body FROM 1 FOR %(most)s)
FROM documents WHERE agent = %(agent)s AND name = ANY (%(names)s)
"""
IN_RANGES = """
SELECT asked.number, found.* FROM unnest(%(lows)s::text[], %(highs)s::text[])
    WITH ORDINALITY AS asked (low, high, number)
CROSS JOIN LATERAL (
    SELECT name, revision, changed_us, coalesce(octet_length(body), 0), body IS NULL FROM documents
    WHERE agent = %(agent)s AND name >= asked.low COLLATE "C" AND name < asked.high COLLATE "C" OFFSET 0
) AS found
ORDER BY asked.number, found.name
"""
"""What lies in several ranges of names, range by range."""
ALL = "SELECT name, body, revision FROM documents WHERE agent = %(agent)s ORDER BY name"
SHAPE = """
SELECT
    EXISTS (SELECT FROM documents WHERE agent = %(agent)s AND name >= %(low)s AND name < %(high)s)
    OR EXISTS (SELECT FROM documents WHERE agent = %(agent)s AND name = %(name)s AND body IS NULL),
    EXISTS (SELECT FROM documents WHERE agent = %(agent)s AND name = ANY (%(above)s) AND body IS NOT NULL)
"""
"""Whether a name is a folder, and whether a file stands where one of its folders would."""

PUT = """
INSERT INTO documents (agent, name, body, revision, changed_us)
VALUES (%(agent)s, %(name)s, %(body)s, %(revision)s,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT (agent, name) DO UPDATE
SET body = EXCLUDED.body, revision = EXCLUDED.revision, changed_us = EXCLUDED.changed_us
"""
REMOVE = "DELETE FROM documents WHERE agent = %(agent)s AND name = %(name)s"

NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, %(agent)s::text"
"""The time that rows are stamped with, in microseconds since the epoch."""
