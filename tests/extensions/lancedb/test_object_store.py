"""The table in an object store: a real S3 server on this machine, with the keys of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.lancedb.table import TableUnusable
from tests.extensions.lancedb.homes import call, home, owner, started, texts
from tests.libraries import needs

needs("lancedb", why="the extra lancedb is not installed")
needs("moto", "boto3", why="moto[server] is not installed: make lancedb")

BUCKET = "memories"


@pytest.fixture
def options() -> Iterator[dict[str, str]]:
    """How to reach a fresh server with one empty bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "of-the-test", "aws_secret_access_key": "of-the-test"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=BUCKET)
    try:
        yield {**keys, "aws_region": "us-east-1", "aws_endpoint": endpoint, "allow_http": "true"}
    finally:
        client.close()
        server.stop()


def there(options: dict[str, str], bucket: str = BUCKET) -> dict[str, Any]:
    """Settings of a table in a bucket."""
    return {"dbPath": f"s3://{bucket}/of/{{agentId}}", "storageOptions": options}


@pytest.mark.covers("SEED-32")
async def test_memories_lie_in_an_object_store(tmp_path: Path, options: dict[str, str]) -> None:
    """Stored, found after a restart, forgotten, by two agents; nothing of it lies on this disk."""
    config = there(options)
    work = home(tmp_path, agent_id="work", config=config)
    async with started(home(tmp_path, config=config)) as engine, started(work) as other:
        stored = await call(engine, "memory_store", text="The boat is called Halcyon.")
        await call(other, "memory_store", owner(agent_id="work"), text="The boat is sold.")
    async with started(home(tmp_path, config=config)) as engine:
        assert await texts(engine, "boat") == ["The boat is called Halcyon."]
        assert (await call(engine, "memory_forget", memoryId=stored["id"]))["action"] == "deleted"
        assert await texts(engine, "boat") == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
async def test_a_bucket_that_is_not_there_is_told(tmp_path: Path, options: dict[str, str]) -> None:
    """With the address, and without the keys."""
    with pytest.raises(TableUnusable, match="s3://nowhere/of/main could not be opened") as told:
        async with started(home(tmp_path, config=there(options, "nowhere"))):
            pass

    assert "of-the-test" not in str(told.value)
