"""Recordings written down through the real litellm, asked over HTTP on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.extensions.providers.litellm import LiteLLMTranscriber
from nacre.runtime.contracts.errors import ModelError, SpendingCapReached
from nacre.runtime.models.scripted import Clock
from nacre.runtime.models.spending import SpendingLedger, spending
from tests.extensions.providers.json_service import usage_folder
from tests.extensions.providers.transcription_server import TranscriptionServer


@pytest.fixture
def server() -> Iterator[TranscriptionServer]:
    """One that answers rightly unless told otherwise."""
    with TranscriptionServer() as running:
        yield running


@asynccontextmanager
async def opened(
    url: str,
    *,
    name: str = "openai/whisper-1",
    key: str | None = "sk-secret",
    language: str = "",
    folder: Path | None = None,
    cap_usd: float | None = None,
) -> AsyncIterator[LiteLLMTranscriber]:
    """A transcriber that asks this address."""
    with usage_folder(folder) as usage:
        ledger = SpendingLedger(usage, agent_id="main", now=Clock(), cap_usd=lambda: cap_usd)
        transcriber = LiteLLMTranscriber(
            name, base_url=url, api_key=key, language=language, now_seconds=lambda: 0.0, ledger=ledger
        )
        try:
            yield transcriber
        finally:
            await transcriber.close()


async def heard(transcriber: LiteLLMTranscriber, seconds: float = 20.0) -> str:
    """What it hears in a recording."""
    return await transcriber.transcribe("recording.ogg", b"The bees swarm.", timeout_seconds=seconds)


@pytest.mark.parametrize(
    "name", ["openai/whisper-1", "openai/gpt-4o-mini-transcribe", "groq/whisper-large-v3"]
)
async def test_a_recording_becomes_words(server: TranscriptionServer, name: str) -> None:
    """Recording, model, language and key arrive, and nothing that is meant for litellm."""
    async with opened(f"{server.url}/v1", name=name, language="en") as transcriber:
        assert await heard(transcriber) == "The bees swarm."
    [form], [path], [headers] = server.forms, server.paths, server.headers
    assert path == "/v1/audio/transcriptions"
    assert headers["authorization"] == "Bearer sk-secret"
    assert form.pop("response_format", "json") in ("json", "verbose_json")
    assert form == {
        "model": name.partition("/")[2],
        "language": "en",
        "file": "The bees swarm.",
        "file_name": "recording.ogg",
    }


async def test_a_server_of_ones_own_needs_no_key(
    server: TranscriptionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """litellm refuses to ask such a one without any."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with opened(f"{server.url}/v1", key=None) as transcriber:
        assert await heard(transcriber) == "The bees swarm."


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((500, '{"error": {"message": "down"}}'), "failed at the provider"),
        ((401, '{"error": {"message": "bad key sk-secret"}}'), "refused"),
        ((429, '{"error": {"message": "slow down"}}'), "limits how often"),
        ((404, '{"error": {"message": "no such model"}}'), "does not know the model"),
        ((400, '{"error": {"message": "the format is not supported"}}'), "openai/whisper-1"),
        ((200, '{"text": 7}'), "openai/whisper-1"),
        ((200, '{"words": []}'), "openai/whisper-1"),
        ((200, "[]"), "openai/whisper-1"),
        ((200, "no JSON"), "openai/whisper-1"),
    ],
)
async def test_a_wrong_answer_becomes_a_sentence(
    server: TranscriptionServer, answer: tuple[int, str], sentence: str
) -> None:
    """Without the key, and asked once."""
    server.answer = answer
    async with opened(f"{server.url}/v1") as transcriber:
        with pytest.raises(ModelError, match=sentence) as caught:
            await heard(transcriber)
    assert "sk-secret" not in str(caught.value) + caught.value.detail
    assert len(server.forms) == 1


async def test_a_slow_server_is_left(server: TranscriptionServer) -> None:
    """After the time that it was given, and it is not asked again."""
    server.holds = True
    async with opened(f"{server.url}/v1") as transcriber:
        with pytest.raises(ModelError):
            await heard(transcriber, 0.1)
    assert len(server.forms) == 1


async def test_a_recording_and_a_key_do_not_go_to_another_host(server: TranscriptionServer) -> None:
    """A server that sends on to another gets no further."""
    with TranscriptionServer() as other:
        server.location = f"{other.url}/v1/audio/transcriptions"
        async with opened(f"{server.url}/v1") as transcriber:
            with pytest.raises(ModelError, match="sends requests on"):
                await heard(transcriber)
        assert other.forms == []


async def test_nobody_there_is_told_with_the_address() -> None:
    """A server that is gone."""
    with TranscriptionServer() as server:
        url = server.url
    async with opened(f"{url}/v1") as transcriber:
        with pytest.raises(ModelError, match=r"http://127\.0\.0\.1"):
            await heard(transcriber)


async def test_a_recording_is_reserved_counted_and_stopped_by_the_cap(
    server: TranscriptionServer, tmp_path: Path
) -> None:
    """Its bytes tell how long it can be at most; a second one that the cap does not pay for is not sent."""
    async with opened(f"{server.url}/v1", folder=tmp_path, cap_usd=0.00015) as transcriber:
        await heard(transcriber)
        with pytest.raises(SpendingCapReached, match=r"usage\.dailyCapUsd"):
            await heard(transcriber)
    assert len(server.forms) == 1
    [spent] = spending(tmp_path)
    assert (spent.purpose, spent.model) == ("transcription", "openai/whisper-1")
    assert spent.usage.cost_usd == pytest.approx(0.0001, rel=0.1)


@pytest.mark.parametrize(
    ("model", "told", "usd"),
    [
        ("whisper-1", {"duration": 60.0}, 0.006),
        ("gpt-4o-transcribe", {"usage": {"type": "duration", "seconds": 60}}, 0.006),
    ],
)
async def test_what_the_provider_counted_is_written_down(
    server: TranscriptionServer, tmp_path: Path, model: str, told: dict[str, object], usd: float
) -> None:
    """In place of the most that the recording could have cost."""
    server.told = told
    async with opened(f"{server.url}/v1", name=f"openai/{model}", folder=tmp_path) as transcriber:
        await heard(transcriber)
    [spent] = spending(tmp_path)
    assert spent.usage.cost_usd == pytest.approx(usd)
