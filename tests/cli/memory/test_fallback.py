"""A fallback over several commands, each a process of its own, with providers on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import run_nacre
from tests.extensions.providers.embedding.embedding_server import Answer, Asked, EmbeddingServer

QUESTION = "who keeps bees"


class TwoProviders(EmbeddingServer):
    """One under `/first`, which refuses every key while `is_down`, and one under `/second`."""

    is_down = True

    def route(self, asked: Asked, method: str, raw: bytes) -> Answer | None:
        """A refusal from the one that is down."""
        if self.is_down and asked.path.startswith("/first"):
            return Answer({"error": {"message": "no such account"}}, 401)
        return None

    def documents(self) -> list[str]:
        """Every note that was sent to somebody, in order."""
        texts = [text for asked in self.asked for text in asked.body["input"]]
        return [text for text in texts if text.endswith("behind the mill.")]


@pytest.fixture
def server() -> Iterator[TwoProviders]:
    """A server on loopback."""
    with TwoProviders() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, server: TwoProviders) -> Path:
    """A home with two notes and the settings for both providers."""
    notes = tmp_path / ".nacre/workspace/memory"
    notes.mkdir(parents=True)
    for name in ("Anna", "Boris"):
        (notes / f"{name.lower()}.md").write_text(f"{name} keeps bees behind the mill.\n", encoding="utf-8")
    search = {
        "provider": "openai",
        "fallback": "ollama",
        "remote": {"baseUrl": f"{server.url}/first/v1", "apiKey": "sk-secret"},
    }
    write_settings(tmp_path, search, {"ollama": {"baseUrl": f"{server.url}/second/v1"}})
    return tmp_path


def write_settings(home: Path, search: dict[str, Any], providers: dict[str, Any]) -> None:
    """The settings of a state folder."""
    settings = {"agents": {"defaults": {"memorySearch": search}}, "models": {"providers": providers}}
    (home / ".nacre").mkdir(exist_ok=True)
    (home / ".nacre/nacre.json5").write_text(json.dumps(settings), encoding="utf-8")


def searched(home: Path) -> dict[str, Any]:
    """What a search in a process of its own found."""
    found: dict[str, Any] = json.loads(run_nacre(home, "memory", "search", "--json", QUESTION).stdout)
    return found


def status_of(home: Path) -> dict[str, Any]:
    """What a process of its own says of the index."""
    [agent] = json.loads(run_nacre(home, "memory", "status", "--json").stdout)
    found: dict[str, Any] = agent["status"]
    return found


@pytest.mark.covers("SEED-8", "SEED-13", "PART-26", "ATT-8")
def test_the_next_command_uses_the_fallbacks_vectors_and_says_why(home: Path, server: TwoProviders) -> None:
    """What one process left its provider for, the next ones know: they ask the fallback, and tell it."""
    indexed = run_nacre(home, "memory", "index")
    found, told = searched(home), run_nacre(home, "memory", "search", QUESTION)
    status, shown = status_of(home), run_nacre(home, "memory", "status").stdout

    assert (indexed.returncode, len(server.documents())) == (0, 2)
    assert (found["mode"], found["provider"], found["degraded"]) == ("hybrid", "ollama", None)
    assert len(found["results"]) == 2
    assert found["fallback"]["from"] == "openai"
    assert "HTTP 401" in found["fallback"]["reason"]
    assert "HTTP 401" in told.stderr
    assert "ollama" in told.stderr
    assert (status["provider"], status["pendingVectors"], status["vector"]["entries"]) == ("ollama", 0, 2)
    assert (status["dirty"], status["fallback"]["from"]) == (False, "openai")
    assert status["fallback"]["retryAt"]
    assert "Fallback:          for openai (text-embedding-3-small)." in shown
    assert "sk-secret" not in json.dumps([found, status]) + told.stderr + shown


@pytest.mark.covers("SEED-13", "PART-12")
def test_nothing_is_made_twice_and_the_first_provider_comes_back(home: Path, server: TwoProviders) -> None:
    """While it fails nothing is made anew; when it answers `memory index`, all vectors are its own."""
    for _ in range(2):
        run_nacre(home, "memory", "index")
        searched(home)
    assert len(server.documents()) == 2, "the second index run made nothing again"

    server.is_down = False
    found = searched(home)
    assert (found["provider"], len(server.documents())) == ("ollama", 2), "a search never switches"
    back = run_nacre(home, "memory", "index")
    found, status = searched(home), status_of(home)

    assert (back.stderr.count("instead"), "2 vectors made" in back.stdout) == (0, True)
    assert (found["mode"], found["provider"], found["fallback"]) == ("hybrid", "openai", None)
    assert (status["vector"]["entries"], status["pendingVectors"], status["fallback"]) == (2, 0, None)
    assert status["identityProblem"] is None


@pytest.mark.parametrize(
    ("library", "memory_search", "said"),
    [
        (
            "llama_cpp",
            {"provider": "gguf"},
            "needs llama-cpp-python, which is not installed. Install it with: ",
        ),
        (
            "sentence_transformers",
            {"provider": "sentence-transformers", "model": "all-MiniLM-L6-v2"},
            "needs sentence-transformers, which is not installed. Install it with",
        ),
    ],
)
@pytest.mark.covers("SEED-24", "PART-6", "PART-14")
def test_a_missing_library_is_told_before_the_first_index(
    tmp_path: Path, library: str, memory_search: dict[str, str], said: str
) -> None:
    """By `memory status` of a fresh install, and by the first message that is sent."""
    if find_spec(library):
        pytest.skip(f"{library} is installed here")
    write_settings(tmp_path, memory_search, {})
    text = run_nacre(tmp_path, "memory", "status").stdout
    sent = run_nacre(tmp_path, "send", "hello")

    assert "Embeddings:        unavailable: The embedding model" in text
    assert said in text
    assert "Search:            lexical" in text
    assert said in sent.stderr


@pytest.mark.covers("CLI-3", "SEED-24")
def test_a_missing_key_is_told_before_the_first_index(tmp_path: Path) -> None:
    """`memory status` of a fresh install knows it without asking anybody."""
    write_settings(tmp_path, {"provider": "openai"}, {})
    text = run_nacre(tmp_path, "memory", "status").stdout
    [agent] = json.loads(run_nacre(tmp_path, "memory", "status", "--json").stdout)

    assert "Embeddings:        unavailable: " in text
    assert "OPENAI_API_KEY" in agent["embeddingProbe"]["error"]
    assert agent["embeddingProbe"]["ok"] is False
    assert "Search:            lexical" in text
