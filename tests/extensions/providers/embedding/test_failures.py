"""What a remote embedder does when a provider fails, stalls or has had enough, against a real HTTP server."""

from __future__ import annotations

import asyncio
import gc
import re
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest

from nacre.extensions.providers.embedding.daily_budget import EmbeddingBudget
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.memory.contracts.embedder import EmbeddingFailed, TextRefused
from nacre.runtime.models.scripted import Clock
from tests.extensions.providers.embedding.embedding_server import KEY, Answer, EmbeddingServer, opened
from tests.servers.provider_wire import embedding


@pytest.mark.covers("BATCH-4", "BATCH-5", "Q-16")
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
        await embedder.embed_documents(["connected now"])
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
@pytest.mark.covers("EMB-14", "BATCH-12", "Q-16")
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


@pytest.mark.covers("EMB-12")
async def test_without_a_key_nothing_is_sent(server: EmbeddingServer) -> None:
    """The sentence names the variable, and no other provider's key goes to this one."""
    async with opened(
        server, provider="mistral", api_key=None, key_variables=("NACRE_TEST_NO_SUCH_KEY",)
    ) as embedder:
        with pytest.raises(EmbeddingFailed, match="NACRE_TEST_NO_SUCH_KEY"):
            await embedder.embed_documents(["one"])

    assert server.asked == []


async def test_a_key_does_not_follow_a_redirect(server: EmbeddingServer) -> None:
    """The key is for the address that the owner named."""
    with EmbeddingServer() as elsewhere:
        server.fail(307, "moved", location=f"{elsewhere.url}/v1/embeddings")
        async with opened(server) as embedder:
            with pytest.raises(EmbeddingFailed, match="307"):
                await embedder.embed_documents(["one"])

    assert elsewhere.asked == []


async def test_a_page_in_place_of_an_answer_is_told(server: EmbeddingServer) -> None:
    """A wrong address often answers with a web page."""
    server.answers.append(Answer("<html>", raw=b"<html>welcome</html>"))
    async with opened(server) as embedder:
        with pytest.raises(EmbeddingFailed, match="did not answer with a JSON object"):
            await embedder.embed_documents(["one"])


@pytest.mark.covers("BATCH-5")
async def test_a_line_that_breaks_is_tried_again(server: EmbeddingServer) -> None:
    """A connection that closes in the middle of an answer, or before one, fails in passing."""
    server.answers.append(Answer({}, raw=b'{"data": [', breaks=True))
    server.answers.append(Answer({}, raw=b"", breaks=True))
    async with opened(server, waits=[]) as embedder:
        [vector] = await embedder.embed_documents(["one"])

    assert vector == pytest.approx(embedding("one"))
    assert len(server.asked) == 3


async def test_nobody_at_the_address_is_told() -> None:
    """The sentence has the address and what to look at."""
    with EmbeddingServer() as gone:
        url = gone.url
    endpoint = EmbeddingEndpoint(provider="ollama", model="m", base_url=f"{url}/v1", needs_key=False)
    embedder = HttpEmbedder(endpoint, now_seconds=lambda: 0.0)
    with pytest.raises(EmbeddingFailed, match=f"cannot be reached at {url}"):
        await embedder.embed_query("where?")
    await embedder.close()


async def test_a_provider_that_keeps_failing_is_left_alone(server: EmbeddingServer) -> None:
    """After three failures it rests for a minute, then for two; one success makes all good."""
    now = [1_000.0]
    endpoint = EmbeddingEndpoint(provider="openai", model="m", base_url=f"{server.url}/v1", api_key=KEY)
    embedder = HttpEmbedder(endpoint, now_seconds=lambda: now[0])
    for _ in range(3):
        server.fail(401, "wrong key")
        with pytest.raises(EmbeddingFailed, match=r"refused \(HTTP 401\)"):
            await embedder.embed_documents(["one"])
    with pytest.raises(EmbeddingFailed, match=r"HTTP 401.*not asked for another 60 seconds"):
        await embedder.embed_documents(["one"])
    assert len(server.asked) == 3

    now[0] += 61
    server.fail(401, "wrong key")
    with pytest.raises(EmbeddingFailed):
        await embedder.embed_documents(["one"])
    with pytest.raises(EmbeddingFailed, match="another 120 seconds"):
        await embedder.embed_documents(["one"])

    now[0] += 121
    assert await embedder.embed_documents(["one"])
    assert await embedder.embed_documents(["two"])
    await embedder.close()


async def test_a_call_has_a_last_moment(server: EmbeddingServer) -> None:
    """However often something is asked again, a call ends."""
    server.hang()
    async with opened(server, total_seconds=0.2) as embedder:
        with pytest.raises(EmbeddingFailed, match=r"no embeddings of 1 texts within 0\.2 seconds"):
            await embedder.embed_documents(["one"])


async def test_a_day_s_tokens_are_an_end(server: EmbeddingServer, tmp_path: Path) -> None:
    """Documents wait for tomorrow, questions go on, and another process counts on."""
    clock = Clock()
    path = tmp_path / "memory" / "embedding-tokens.json"

    def budget() -> EmbeddingBudget:
        return EmbeddingBudget(path, daily_tokens=100, now=clock)

    async with opened(server, budget=budget()) as embedder:
        await embedder.embed_documents(["honey " * 40])
    async with opened(server, budget=budget()) as embedder:
        with pytest.raises(EmbeddingFailed, match=r"budget of 100 tokens a day.*\(61 today\)"):
            await embedder.embed_documents(["honey " * 40])
        assert await embedder.embed_query("honey?")
        clock.advance(days=1)
        assert await embedder.embed_documents(["honey " * 40])


async def test_a_broken_count_is_set_aside(server: EmbeddingServer, tmp_path: Path) -> None:
    """What cannot be read is kept beside the new count."""
    path = tmp_path / "embedding-tokens.json"
    path.write_text("{not a count")
    async with opened(server, budget=EmbeddingBudget(path, daily_tokens=100, now=Clock())) as embedder:
        await embedder.embed_documents(["honey"])

    [aside] = tmp_path.glob("embedding-tokens.json.corrupt-*")
    assert aside.read_text() == "{not a count"
    assert '"tokens": 2' in path.read_text()


async def test_first_calls_at_the_same_time_share_their_connections(server: EmbeddingServer) -> None:
    """Nothing is left open behind: of several clients made at once, all but one would never be closed."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        async with opened(server) as embedder:
            await asyncio.gather(*(embedder.embed_documents([f"text {number}"]) for number in range(8)))
        gc.collect()

    assert [str(each.message) for each in warned] == []


@pytest.mark.parametrize("status", [400, 401, 500])
async def test_no_key_stands_in_what_caused_a_failure(
    server: EmbeddingServer, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever logs a whole chain of errors writes no key, also where the provider quotes it."""
    caplog.set_level("DEBUG")
    for _ in range(8):
        server.fail(status, f"The key {KEY} of pass-word-1 is wrong.")
    async with opened(server, base_url=f"{server.url.replace('//', '//me:pass-word-1@')}/v1") as embedder:
        for asking in (embedder.embed_documents(["a"]), embedder.embed_query("a")):
            with pytest.raises(EmbeddingFailed) as failed:
                await asking
            told = "".join(traceback.format_exception(failed.value))
            assert KEY not in told
            assert "pass-word-1" not in told

    assert server.asked[0].headers["authorization"].startswith("Basic ")
    assert KEY not in caplog.text
    assert "pass-word-1" not in caplog.text


@pytest.mark.parametrize("key", [f"{KEY}\nsecond line", f"{KEY}…"])
async def test_a_key_that_cannot_be_sent_is_told_and_not_quoted(server: EmbeddingServer, key: str) -> None:
    """A line break that was copied along is no reason to ask a provider four times."""
    async with opened(server, api_key=key) as embedder:
        with pytest.raises(EmbeddingFailed, match="'authorization' for openai has a line break") as failed:
            await embedder.embed_documents(["a"])

    assert KEY not in "".join(traceback.format_exception(failed.value))
    assert server.asked == []


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, "memorySearch.remote.apiKey, or else the provider's in models.providers"),
        ({"headers": {"X-Api-Key": "wrong"}}, "memorySearch.remote.headers"),
        ({"api_key": None, "needs_key": False}, "It was sent no key"),
    ],
)
async def test_a_refused_key_is_told_where_it_stands(
    server: EmbeddingServer, options: dict[str, Any], advice: str
) -> None:
    """The sentence names the place where the key that was sent can be changed."""
    server.fail(401, "Who are you?")
    async with opened(server, **options) as embedder:
        with pytest.raises(EmbeddingFailed, match=re.escape(advice)):
            await embedder.embed_documents(["a"])
