"""Every statement on the table of approvals. A contract with `postgres/schema/0106_approvals.sql`.

Each names its agent; a test reads the server's plans.
"""

from __future__ import annotations

from typing import LiteralString

PUT: LiteralString = """
INSERT INTO approvals (agent, id, session_key, body)
VALUES (%(agent)s, %(id)s, %(key)s, %(body)s) ON CONFLICT DO NOTHING RETURNING id
"""
ONE: LiteralString = "SELECT body FROM approvals WHERE agent = %(agent)s AND id = %(id)s"
LOCKED: LiteralString = f"{ONE} FOR UPDATE"
ALL: LiteralString = "SELECT id, body FROM approvals WHERE agent = %(agent)s"
SET: LiteralString = "UPDATE approvals SET body = %(body)s WHERE agent = %(agent)s AND id = %(id)s"
REMOVE: LiteralString = "DELETE FROM approvals WHERE agent = %(agent)s AND id = %(id)s"
HOLDS: LiteralString = """
SELECT 1 FROM lanes WHERE agent = %(agent)s AND key = %(key)s AND fence = %(fence)s FOR SHARE
"""
"""Whether a turn still has its session; who takes it over waits for the commit."""
