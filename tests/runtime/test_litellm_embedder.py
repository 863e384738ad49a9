"""The remote embedder against a real HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nacre.memory.embedder import EmbeddingFailed, TextRefused
from nacre.runtime.models.embedding_wire import EmbeddingEndpoint
from nacre.runtime.models.litellm_embedder import LiteLLMEmbedder
from tests.provider_wire import embedding
from tests.runtime.embedding_server import EmbeddingServer

KEY = "sk-a-secret-key-0123456789"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """A server on loopback."""
    with EmbeddingServer() as server:
        yield server


@asynccontextmanager
async def opened(
    server: EmbeddingServer, *, provider: str = "openai", waits: list[float] | None = None, **options: Any
) -> AsyncIterator[LiteLLMEmbedder]:
    """An embedder at that server; what it would wait between retries goes to `waits`."""

    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    seconds = {name: options.pop(name) for name in ("query_seconds", "request_seconds") if name in options}
    version = "v1beta" if provider == "gemini" else "v1"
    endpoint = EmbeddingEndpoint(
        **{
            "provider": provider,
            "model": "m",
            "base_url": f"{server.url}/{version}",
            "api_key": KEY,
            **options,
        }
    )
    embedder = LiteLLMEmbedder(endpoint, now_seconds=lambda: 0.0, sleep=sleep, **seconds)
    try:
        yield embedder
    finally:
        await embedder.close()


@pytest.mark.parametrize("provider", ["openai", "mistral", "voyage", "ollama", "gemini"])
async def test_each_provider_gives_a_vector_for_each_text(server: EmbeddingServer, provider: str) -> None:
    """Vectors come in the order of the texts, with the key and the owner's headers sent."""
    async with opened(server, provider=provider, headers={"X-Organisation": "bees"}) as embedder:
        vectors = await embedder.embed_documents(["honey", "wax and honey"])

    assert [list(vector) for vector in vectors] == [embedding("honey"), embedding("wax and honey")]
    [asked] = server.asked
    assert asked.headers["x-organisation"] == "bees"
    sent_key = asked.headers["x-goog-api-key" if provider == "gemini" else "authorization"]
    assert sent_key.removeprefix("Bearer ") == KEY


async def test_voyage_is_told_question_from_document(server: EmbeddingServer) -> None:
    """Voyage embeds the two differently."""
    async with opened(server, provider="voyage") as embedder:
        await embedder.embed_query("where?")
        await embedder.embed_documents(["here"])

    assert [asked.body["input_type"] for asked in server.asked] == ["query", "document"]


async def test_gemini_is_told_question_from_document(server: EmbeddingServer) -> None:
    """Gemini embeds the two differently too, under its own names."""
    async with opened(server, provider="gemini") as embedder:
        await embedder.embed_query("where?")
        await embedder.embed_documents(["here"])

    kinds = [asked.body["requests"][0]["taskType"] for asked in server.asked]
    assert kinds == ["RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"]


async def test_a_note_is_never_taken_for_a_file_to_fetch(server: EmbeddingServer) -> None:
    """A text that begins like a file of Gemini's is sent as text."""
    async with opened(server, provider="gemini") as embedder:
        await embedder.embed_documents(["files/secret", "data:text/plain;base64,aGk="])

    [asked] = server.asked
    sent = [request["content"]["parts"][0] for request in asked.body["requests"]]
    assert sent == [{"text": " files/secret"}, {"text": " data:text/plain;base64,aGk="}]


async def test_numbers_in_the_answer_decide_the_order(server: EmbeddingServer) -> None:
    """A provider may answer out of order."""
    server.give([0.0, 2.0], [0.0, 1.0], indices=[1, 0])
    async with opened(server) as embedder:
        assert await embedder.embed_documents(["one", "two"]) == [[0.0, 1.0], [0.0, 2.0]]


@pytest.mark.parametrize(
    ("vectors", "indices", "words"),
    [
        ([[1.0]], None, "1 vectors for 2 texts"),
        ([[1.0], [2.0]], [0, 0], "does not say which text"),
        ([[1.0], []], None, "empty"),
        ([[1.0, 1.0], [0.0, 0.0]], None, "all zero"),
        ([[1.0, 1.0], [1.0, float("nan")]], None, "finite"),
        ([[1.0, 1.0], [1.0]], None, "1 numbers long where others have 2"),
    ],
)
async def test_answers_that_cannot_be_used_are_refused(
    server: EmbeddingServer, vectors: list[Any], indices: list[int | None] | None, words: str
) -> None:
    """Wrong counts, numbers and vectors fail with a sentence, and nothing of them is used."""
    server.give(*vectors, indices=indices)
    async with opened(server) as embedder:
        with pytest.raises(EmbeddingFailed, match=words):
            await embedder.embed_documents(["one", "two"])


async def test_long_lists_go_in_requests_of_eight_thousand_tokens(server: EmbeddingServer) -> None:
    """Texts are packed in order, and one that is too large for a request goes alone."""
    texts = ["a " * 8_000, "b " * 8_000, "c " * 20_000, "d"]
    async with opened(server) as embedder:
        vectors = await embedder.embed_documents(texts)

    assert [[text[0] for text in asked.body["input"]] for asked in server.asked] == [["a", "b"], ["c"], ["d"]]
    assert [list(vector) for vector in vectors] == [embedding(text) for text in texts]


async def test_a_busy_provider_is_asked_again_when_it_says(server: EmbeddingServer) -> None:
    """429 and 5xx are asked again, after the time the provider names, and one request each time."""
    waits: list[float] = []
    server.fail(429, "slow down", retry_after="7")
    server.fail(503, "try later")
    async with opened(server, waits=waits) as embedder:
        await embedder.embed_documents(["one"])

    assert len(server.asked) == 3
    assert waits[0] == 7.0
    assert waits[1] >= 4.0


async def test_a_question_is_asked_once(server: EmbeddingServer) -> None:
    """Somebody waits for a search, so a failure is told at once."""
    waits: list[float] = []
    server.fail(503, "try later")
    async with opened(server, waits=waits) as embedder:
        with pytest.raises(EmbeddingFailed, match=r"openai/m.*503"):
            await embedder.embed_query("where?")

    assert (len(server.asked), waits) == (1, [])


async def test_a_silent_provider_is_given_up(server: EmbeddingServer) -> None:
    """An answer that does not come ends in a sentence after the time for it."""
    async with opened(server, query_seconds=0.3) as embedder:
        await embedder.embed_documents(["litellm is loaded now"])
        server.hang()
        with pytest.raises(EmbeddingFailed, match="did not answer in time"):
            await embedder.embed_query("where?")

    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."),
        (400, "The input token count (3000) exceeds the maximum number of tokens allowed (2048)."),
        (400, "Too many tokens overall, split into more batches."),
        (400, "The example at index 0 has too many tokens and does not fit into the model's context window."),
        (413, "payload too large"),
    ],
)
async def test_a_text_that_is_too_long_is_refused(server: EmbeddingServer, status: int, message: str) -> None:
    """The index notes such a text and goes on with the others."""
    server.fail(status, message)
    async with opened(server) as embedder:
        with pytest.raises(TextRefused, match="openai/m"):
            await embedder.embed_documents(["long"])


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_other_refusals_are_failures_of_the_provider(server: EmbeddingServer, status: int) -> None:
    """A wrong key or model is told, asked once, and marks no text as refused."""
    server.fail(status, f"no such thing for key {KEY} and header hunter2hunter2")
    async with opened(server, headers={"X-Auth-Token": "hunter2hunter2"}) as embedder:
        with pytest.raises(EmbeddingFailed) as failure:
            await embedder.embed_documents(["one"])

    assert not isinstance(failure.value, TextRefused)
    assert len(server.asked) == 1
    chain = [failure.value, failure.value.__cause__]
    told = " ".join(f"{error} {getattr(error, 'detail', '')}" for error in chain)
    assert KEY not in told
    assert "hunter2" not in told


async def test_without_a_key_nothing_is_sent(server: EmbeddingServer) -> None:
    """The sentence names the variable, and no other provider's key goes to this one."""
    async with opened(
        server, provider="mistral", api_key=None, key_variables=("NACRE_TEST_NO_SUCH_KEY",)
    ) as embedder:
        with pytest.raises(EmbeddingFailed, match="NACRE_TEST_NO_SUCH_KEY"):
            await embedder.embed_documents(["one"])

    assert server.asked == []


async def test_a_server_of_ones_own_needs_no_key(server: EmbeddingServer) -> None:
    """A compatible server is asked without a key of anybody."""
    async with opened(server, provider="mine", api_key=None, needs_key=False) as embedder:
        await embedder.embed_documents(["one"])

    assert server.asked[0].headers["authorization"] == "Bearer no-key"


def test_the_fingerprint_stands_for_what_changes_the_vectors() -> None:
    """Address, model and plain headers change it; keys, secret headers and a slash at the end do not."""

    def fingerprint(**changes: Any) -> str:
        values = {"provider": "openai", "model": "m", "base_url": "https://one.example/v1", **changes}
        return LiteLLMEmbedder(EmbeddingEndpoint(**values), now_seconds=lambda: 0.0).fingerprint

    plain = fingerprint()
    assert {
        fingerprint(api_key="a"),
        fingerprint(api_key="b"),
        fingerprint(headers={"Authorization": "Bearer x", "X-Api-Key": "y"}),
        fingerprint(base_url="https://user:pass@one.example/v1/"),
    } == {plain}
    others = [
        fingerprint(base_url="https://two.example/v1"),
        fingerprint(model="n"),
        fingerprint(headers={"OpenAI-Organization": "bees"}),
        fingerprint(headers={"OpenAI-Organization": "ants"}),
    ]
    assert len({plain, *others}) == 5


def test_a_model_that_reads_little_gets_pieces() -> None:
    """Whole chunks for models that take any of them, pieces of half the length for others."""

    def pieces(max_input_tokens: int) -> int | None:
        endpoint = EmbeddingEndpoint(
            provider="ollama", model="m", base_url="http://one.example/v1", max_input_tokens=max_input_tokens
        )
        return LiteLLMEmbedder(endpoint, now_seconds=lambda: 0.0).piece_tokens

    assert [pieces(32_000), pieces(2_048), pieces(512)] == [None, None, 256]
