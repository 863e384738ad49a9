"""What a remote embedder sends and what it takes for an answer, against a real HTTP server."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.memory.contracts.embedder import EmbeddingFailed, TextRefused
from tests.extensions.providers.embedding.embedding_server import KEY, Answer, EmbeddingServer, opened
from tests.servers.provider_wire import embedding


@pytest.mark.parametrize("provider", ["openai", "mistral", "voyage", "ollama", "gemini"])
@pytest.mark.covers("EMB-1", "EMB-3")
async def test_each_provider_gives_a_vector_for_each_text(server: EmbeddingServer, provider: str) -> None:
    """Vectors come in the order of the texts, with the key and the owner's headers sent."""
    async with opened(server, provider=provider, headers={"X-Organisation": "bees"}) as embedder:
        vectors = await embedder.embed_documents(["honey", "wax and honey"])

    assert vectors == [pytest.approx(embedding("honey")), pytest.approx(embedding("wax and honey"))]
    [asked] = server.asked
    assert asked.headers["x-organisation"] == "bees"
    sent_key = asked.headers["x-goog-api-key" if provider == "gemini" else "authorization"]
    assert sent_key.removeprefix("Bearer ") == KEY


@pytest.mark.covers("EMB-9")
async def test_voyage_is_told_question_from_document(server: EmbeddingServer) -> None:
    """Voyage embeds the two differently."""
    async with opened(server, provider="voyage") as embedder:
        await embedder.embed_query("where?")
        await embedder.embed_documents(["here"])

    assert [asked.body["input_type"] for asked in server.asked] == ["query", "document"]


@pytest.mark.covers("EMB-3")
async def test_gemini_is_told_question_from_document(server: EmbeddingServer) -> None:
    """Gemini embeds the two differently too, under its own names."""
    async with opened(server, provider="gemini") as embedder:
        await embedder.embed_query("where?")
        await embedder.embed_documents(["here"])

    question, document = server.asked
    assert (question.path, question.body["taskType"]) == ("/v1beta/models/m:embedContent", "RETRIEVAL_QUERY")
    assert document.path == "/v1beta/models/m:batchEmbedContents"
    assert document.body["requests"][0]["taskType"] == "RETRIEVAL_DOCUMENT"


async def test_numbers_in_the_answer_decide_the_order(server: EmbeddingServer) -> None:
    """A provider may answer out of order."""
    server.give([0.0, 2.0], [3.0, 0.0], indices=[1, 0])
    async with opened(server) as embedder:
        assert await embedder.embed_documents(["one", "two"]) == [[1.0, 0.0], [0.0, 1.0]]


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
@pytest.mark.covers("Q-15")
async def test_answers_that_cannot_be_used_are_refused(
    server: EmbeddingServer, vectors: list[Any], indices: list[int | None] | None, words: str
) -> None:
    """Wrong counts, numbers and vectors fail with a sentence, and nothing of them is used."""
    server.give(*vectors, indices=indices)
    async with opened(server) as embedder:
        with pytest.raises(EmbeddingFailed, match=words):
            await embedder.embed_documents(["one", "two"])


@pytest.mark.covers("BATCH-1")
async def test_long_lists_go_in_requests_of_eight_thousand_tokens(server: EmbeddingServer) -> None:
    """Texts are packed in order, and one that is too large for a request goes alone."""
    texts = ["a " * 8_000, "b " * 8_000, "c " * 20_000, "d"]
    async with opened(server) as embedder:
        vectors = await embedder.embed_documents(texts)

    assert [[text[0] for text in asked.body["input"]] for asked in server.asked] == [["a", "b"], ["c"], ["d"]]
    assert vectors == [pytest.approx(embedding(text)) for text in texts]


async def test_a_server_of_ones_own_needs_no_key(server: EmbeddingServer) -> None:
    """A compatible server is asked without a key of anybody."""
    async with opened(server, provider="mine", api_key=None, needs_key=False) as embedder:
        await embedder.embed_documents(["one"])

    assert "authorization" not in server.asked[0].headers


def test_the_fingerprint_stands_for_what_changes_the_vectors() -> None:
    """Address, model and plain headers change it; keys, secret headers and a slash at the end do not."""

    def fingerprint(**changes: Any) -> str:
        values = {"provider": "openai", "model": "m", "base_url": "https://one.example/v1", **changes}
        return HttpEmbedder(EmbeddingEndpoint(**values), now_seconds=lambda: 0.0).facts.fingerprint

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


@pytest.mark.covers("CHUNK-5")
def test_a_model_that_reads_little_gets_pieces() -> None:
    """Whole chunks for models that take any of them, pieces of half the length for others."""

    def pieces(max_input_tokens: int) -> int | None:
        endpoint = EmbeddingEndpoint(
            provider="ollama", model="m", base_url="http://one.example/v1", max_input_tokens=max_input_tokens
        )
        return HttpEmbedder(endpoint, now_seconds=lambda: 0.0).facts.piece_tokens

    assert [pieces(32_000), pieces(2_048), pieces(512)] == [None, None, 256]


async def test_vectors_in_base64_are_the_same_vectors(server: EmbeddingServer) -> None:
    """OpenAI and Voyage send a quarter of the bytes that way."""
    async with opened(server, compact=True) as embedder:
        [vector] = await embedder.embed_documents(["wax and honey"])

    assert server.asked[0].body["encoding_format"] == "base64"
    assert vector == pytest.approx(embedding("wax and honey"), abs=1e-6)


async def test_half_a_number_in_base64_is_refused(server: EmbeddingServer) -> None:
    """Bytes that are no whole floats are no vector."""
    server.give("AAAA")
    async with opened(server) as embedder:
        with pytest.raises(TextRefused, match="empty or no list"):
            await embedder.embed_documents(["one"])


@pytest.mark.covers("EMB-11")
async def test_a_strange_text_does_not_spoil_its_neighbours(server: EmbeddingServer) -> None:
    """One vector without a direction among good ones is that text's refusal; the caller halves the batch."""
    server.give([1.0, 0.0], [0.0, 0.0])
    async with opened(server) as embedder:
        with pytest.raises(TextRefused, match="all zero"):
            await embedder.embed_documents(["good", "\u200b"])


@pytest.mark.parametrize(
    ("provider", "model", "question", "note"),
    [
        ("ollama", "nomic-embed-text:v1.5", "search_query: bees", "search_document: bees"),
        ("mine", "intfloat/multilingual-e5-small", "query: bees", "passage: bees"),
        (
            "mine",
            "ggml-org/embeddinggemma-300M",
            "task: search result | query: bees",
            "title: none | text: bees",
        ),
        ("ollama", "snowflake-arctic-embed2", "query: bees", "bees"),
        ("openai", "text-embedding-3-small", "bees", "bees"),
        ("mine", "bge-m3", "bees", "bees"),
    ],
)
async def test_open_models_get_the_words_they_were_trained_with(
    server: EmbeddingServer, provider: str, model: str, question: str, note: str
) -> None:
    """Questions and notes are told apart where the model's card says so."""
    async with opened(server, provider=provider, model=model) as embedder:
        await embedder.embed_query("bees")
        await embedder.embed_documents(["bees"])

    assert [asked.body["input"] for asked in server.asked] == [[question], [note]]


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "dimensions"),
        ("ollama", "dimensions"),
        ("voyage", "output_dimension"),
        ("mistral", "output_dimension"),
    ],
)
async def test_shorter_vectors_are_asked_for_and_made(
    server: EmbeddingServer, provider: str, name: str
) -> None:
    """A server that does not know the parameter sends whole vectors: they are cut and brought to length 1."""
    async with opened(server, provider=provider, dimensions=2) as embedder:
        server.give([3.0, 4.0, 12.0])
        [vector] = await embedder.embed_documents(["one"])

    assert server.asked[0].body[name] == 2
    assert vector == pytest.approx([0.6, 0.8])


async def test_gemini_is_asked_for_shorter_vectors(server: EmbeddingServer) -> None:
    """Gemini has a name of its own for it, in each request of a batch."""
    server.answers.append(Answer({"embeddings": [{"values": [3.0, 4.0]}]}))
    async with opened(server, provider="gemini", dimensions=2) as embedder:
        [vector] = await embedder.embed_documents(["one"])

    assert server.asked[0].body["requests"][0]["outputDimensionality"] == 2
    assert vector == pytest.approx([0.6, 0.8])


@pytest.mark.covers("EMB-1")
async def test_the_owner_s_header_wins(server: EmbeddingServer) -> None:
    """Also over the one with the key."""
    async with opened(server, headers={"Authorization": "Basic bees"}) as embedder:
        await embedder.embed_documents(["one"])

    assert server.asked[0].headers["authorization"] == "Basic bees"


async def test_a_server_without_base64_is_asked_again_once(server: EmbeddingServer) -> None:
    """It refuses a field that it does not know; from then on it is asked for numbers."""
    server.fail(422, "extra inputs are not permitted: encoding_format")
    async with opened(server, compact=True) as embedder:
        [vector] = await embedder.embed_documents(["wax"])
        await embedder.embed_documents(["honey"])

    assert ["encoding_format" in asked.body for asked in server.asked] == [True, False, False]
    assert vector == pytest.approx(embedding("wax"), abs=1e-6)


async def test_a_refused_text_is_no_refused_format(server: EmbeddingServer) -> None:
    """Once a server has sent base64, a refusal is about a text, and costs one request."""
    async with opened(server, compact=True) as embedder:
        await embedder.embed_documents(["wax"])
        server.fail(400, "maximum context length exceeded")
        with pytest.raises(TextRefused):
            await embedder.embed_documents(["honey"])
        assert len(server.asked) == 2
