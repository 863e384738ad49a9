"""The connections of the queue: what they do may be forgotten by a server that crashes, and is done again."""

from __future__ import annotations

import pytest

from nacre.postgres.patient_connector import patient_connector

pytestmark = pytest.mark.postgres


async def test_only_the_queue_does_not_wait_for_the_disk(database_url: str) -> None:
    """Its own connections say so; others of the same server wait."""
    import psycopg

    connector = patient_connector(database_url, 2)
    await connector.open_async()
    try:
        found = await connector.execute_query_one_async("SHOW synchronous_commit")
    finally:
        await connector.close_async()
    with psycopg.connect(database_url) as connection:
        others = connection.execute("SHOW synchronous_commit").fetchone()
    assert (found, others) == ({"synchronous_commit": "off"}, ("on",))
