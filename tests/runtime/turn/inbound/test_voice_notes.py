"""Voice notes: written down by a model where one is set, else told as files that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.events import TurnFailed
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.turn.inbound.inbound_message import is_audio, sent_name
from nacre.sessions.contracts.messages import message_text
from tests.extensions.providers.litellm.transcription_server import TranscriptionServer
from tests.runtime.agents import events_of, opened, said, transcript_file, user_texts, write_settings

VOICE = Attachment(name="voice.ogg", mime_type="audio/ogg", data=b"The bees swarm in May.")
HEAD = "attachment 'voice.ogg', audio/ogg, 22 bytes"


@pytest.fixture
def server() -> Iterator[TranscriptionServer]:
    """One that answers rightly unless told otherwise."""
    with TranscriptionServer() as running:
        yield running


def audio_settings(server: TranscriptionServer, *models: str, **audio: Any) -> dict[str, Any]:
    """Settings with these models, at this server."""
    pairs = [model.partition("/") for model in models or ("openai/whisper-1",)]
    return {
        "models": {"providers": {"openai": {"baseUrl": f"{server.url}/v1", "apiKey": "sk-secret"}}},
        "tools": {
            "media": {"audio": {"models": [{"provider": a, "model": b} for a, _, b in pairs], **audio}}
        },
    }


async def seen_of(state_dir: Path, settings: dict[str, Any], file: Attachment = VOICE, text: str = "") -> str:
    """What the model that answers reads of a message with a file; the transcript has the same."""
    write_settings(state_dir, settings)
    model = ScriptedModel(says("I see."))
    async with opened(state_dir, model) as agent:
        await agent.respond(said(text, attachments=(file,)))
    seen = message_text(model.requests[0].messages[-1])
    assert user_texts(transcript_file(state_dir))[-1] == seen
    return seen


async def test_a_voice_note_is_read(tmp_path: Path, server: TranscriptionServer) -> None:
    """What was said stands in the message, marked as what a model heard; the file's name stays here."""
    seen = await seen_of(tmp_path, audio_settings(server), text="Listen:")
    assert seen == (
        f"Listen:\n[{HEAD}; this is what a model heard in the recording:]\n"
        "The bees swarm in May.\n[end of 'voice.ogg']"
    )
    assert [form["file_name"] for form in server.forms] == ["recording.ogg"]


async def test_a_command_that_is_spoken_is_none(tmp_path: Path, server: TranscriptionServer) -> None:
    """The words of a recording are data."""
    spoken = Attachment(name="a.mp3", mime_type="audio/mpeg", data=b"/new")
    assert "\n/new\n" in await seen_of(tmp_path, audio_settings(server), spoken)


@pytest.mark.parametrize(
    ("audio", "answer", "problem"),
    [
        ({"models": []}, None, "no model that writes recordings down is set in tools.media.audio.models"),
        ({"enabled": False}, None, "no model that writes recordings down is set"),
        ({"models": [{"type": "cli", "command": "whisper"}]}, None, "no model that writes recordings down"),
        ({"maxBytes": 21}, None, "recordings of more than 21 bytes are not written down"),
        ({}, (401, "{}"), "the model that writes recordings down could not be had"),
        ({}, (200, '{"text": " "}'), "no words were heard in it"),
    ],
)
async def test_what_is_not_written_down_is_told(
    tmp_path: Path, server: TranscriptionServer, audio: dict[str, Any], answer: Any, problem: str
) -> None:
    """In the words for every file that cannot be read, and without what the provider said."""
    server.answer = answer
    seen = await seen_of(tmp_path, audio_settings(server, **audio))
    assert seen.startswith(f"[{HEAD}: not readable here: {problem}")
    assert len(server.forms) == bool(answer)


async def test_a_slow_model_costs_its_time(tmp_path: Path, server: TranscriptionServer) -> None:
    """Then the person is answered without."""
    server.holds = True
    seen = await seen_of(tmp_path, audio_settings(server, timeoutSeconds=0.1))
    assert seen.endswith("not readable here: it was not written down within 0.1 s]")


@pytest.mark.parametrize("message_id", ["", "7"])
async def test_what_is_stopped_meanwhile(
    tmp_path: Path, server: TranscriptionServer, message_id: str
) -> None:
    """The words stay; a message with an id is handed in again, and is not on disk with its files unread."""
    server.holds = True
    write_settings(tmp_path, audio_settings(server))
    async with opened(tmp_path, ScriptedModel()) as agent:
        inbound = said("Listen:", attachments=(VOICE,), message_id=message_id)
        turn = asyncio.create_task(events_of(agent, inbound))
        await asyncio.to_thread(server.wait_for, lambda server: server.forms)
        assert agent.stop(inbound)
        assert isinstance((await turn)[-1], TurnFailed)
    kept = f"Listen:\n[{HEAD}: not readable here: the turn was stopped before it was read]"
    assert user_texts(transcript_file(tmp_path)) == ([] if message_id else [kept])


async def test_the_next_model_is_asked(tmp_path: Path, server: TranscriptionServer) -> None:
    """Where the first cannot be had."""
    settings = audio_settings(server, "groq/whisper-large-v3", "openai/whisper-1")
    with TranscriptionServer() as gone:
        settings["models"]["providers"]["groq"] = {"baseUrl": f"{gone.url}/v1", "apiKey": "gsk-1"}
    assert "The bees swarm in May." in await seen_of(tmp_path, settings)


async def test_a_file_that_a_bridge_did_not_fetch_is_not_sent(
    tmp_path: Path, server: TranscriptionServer
) -> None:
    """Its own reason is told."""
    large = Attachment(name="voice.ogg", mime_type="audio/ogg", data=b"", problem="it is too large")
    seen = await seen_of(tmp_path, audio_settings(server), large)
    assert seen.endswith("not readable here: it is too large]")
    assert server.forms == []


@pytest.mark.parametrize(
    ("name", "mime_type", "sent"),
    [
        ("voice.ogg", "audio/ogg; codecs=opus", "recording.ogg"),
        ("Ann and I", "audio/mp4", "recording.m4a"),
        ("a.opus", "application/octet-stream", "recording.ogg"),
        ("a", "audio/*", "recording.ogg"),
        ("a.exe", "AUDIO/WEBM", "recording.webm"),
        ("a.ogg", "text/plain", ""),
        ("a.mp4", "video/mp4", ""),
        ("a.bin", "application/octet-stream", ""),
    ],
)
def test_what_counts_as_a_recording(name: str, mime_type: str, sent: str) -> None:
    """By its type, or by its name where the type says nothing; it is sent under a name of ours."""
    file = Attachment(name=name, mime_type=mime_type, data=b"1")
    assert (sent_name(file) if is_audio(file) else "") == sent
