"""No statement of a workspace looks at another agent's rows."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.memory.workspace.documents import statements
from tests.sessions.stores.postgres.test_statements import scans

STATEMENTS = {name: text for name, text in vars(statements).items() if name.isupper() and name[0] != "_"}
VALUES: dict[str, Any] = {
    **dict.fromkeys(("agent", "name", "low", "high"), "x"),
    **{key: ["x"] for key in ("names", "above", "lows", "highs")},
    **dict.fromkeys(("most", "revision"), 1),
    "body": b"x",
}


@pytest.mark.postgres
def test_a_plan_stays_with_one_agent(database_url: str) -> None:
    """The server finds rows by a key that begins with the agent, whatever the statement does."""
    import psycopg

    looked_at = set()
    with psycopg.connect(database_url) as connection:
        connection.execute("SET enable_seqscan = off")
        for name, text in STATEMENTS.items():
            row = connection.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), VALUES).fetchone()
            for scan in scans(row[0][0]["Plan"] if row else {}):
                looked_at.add(scan["Relation Name"])
                assert "agent = " in (scan.get("Index Cond") or scan.get("Recheck Cond", "")), (
                    f"{name}: {scan}"
                )
    assert looked_at == {"workspaces", "documents"}


def test_each_statement_names_its_agent() -> None:
    """Also those that look at no table."""
    assert [name for name, text in STATEMENTS.items() if "%(agent)s" not in text] == []
