"""Another embedding model for 10,000 chunks: searched all the while, killed twice, paid for once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.corpus import write_workspace
from tests.cli.program import environment, run_nacre
from tests.extensions.providers.embedding.embedding_server import EmbeddingServer

CHUNKS = 10_000
IN_FLIGHT_TEXTS = 4 * 20
"""What four requests at a time have on the way when a process is killed."""


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """A server on loopback."""
    with EmbeddingServer() as server:
        yield server


def choose(home: Path, server: EmbeddingServer, model: str) -> None:
    """Writes settings with this model, in the state folder of a fresh login."""
    search = {
        "provider": "openai",
        "model": model,
        "remote": {"baseUrl": f"{server.url}/v1", "apiKey": "sk-secret"},
    }
    state = home / ".nacre"
    state.mkdir(exist_ok=True)
    (state / "nacre.json5").write_text(json.dumps({"agents": {"defaults": {"memorySearch": search}}}))


def sent(server: EmbeddingServer, model: str) -> Counter[str]:
    """How often each text went to the server for a model."""
    bodies = [asked.body for asked in list(server.asked)]
    return Counter(text for body in bodies if body["model"] == model for text in body["input"])


def killed_index(home: Path, server: EmbeddingServer, *, after_requests: int) -> str:
    """Starts `nacre memory index`, kills it after so many requests; what it told of its progress."""
    server.expect(after_requests)
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre", "memory", "index"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
        env=environment(home),
    )
    assert server.reached.wait(60)
    process.send_signal(signal.SIGKILL)
    _, told = process.communicate()
    return told


@pytest.mark.slow
def test_a_switch_is_searched_through_killed_and_paid_once(tmp_path: Path, server: EmbeddingServer) -> None:
    """Words answer until the new vectors are there; what was stored before a kill is not asked for again."""
    choose(tmp_path, server, "old")
    questions = write_workspace(tmp_path / ".nacre" / "workspace", chunks=CHUNKS)
    first = run_nacre(tmp_path, "memory", "index")
    choose(tmp_path, server, "new")
    told = killed_index(tmp_path, server, after_requests=100)
    between = json.loads(run_nacre(tmp_path, "memory", "search", "--json", questions[0]).stdout)
    told += killed_index(tmp_path, server, after_requests=100)
    [status] = json.loads(run_nacre(tmp_path, "memory", "status", "--json").stdout)
    last = run_nacre(tmp_path, "memory", "index")
    after = json.loads(run_nacre(tmp_path, "memory", "search", "--json", questions[0]).stdout)

    assert first.returncode == last.returncode == 0, (first.stderr, last.stderr)
    texts, again = sent(server, "old"), sent(server, "new")
    assert len(texts) >= CHUNKS * 0.9
    assert set(texts) <= set(again)
    twice = sum(count - 1 for text, count in again.items() if text in texts)
    assert twice <= 2 * IN_FLIGHT_TEXTS, "only what was on the way at a kill is asked for again"
    assert sum(texts.values()) == len(texts)
    assert between["results"], "the old index answers by words"
    assert 0 < status["status"]["pendingVectors"] < len(texts)
    assert "mbedding" in told
    assert after["results"]
