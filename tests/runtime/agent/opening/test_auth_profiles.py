"""An install that was moved here with the keys of its sign-in: they reach their providers and nobody else."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.events import TurnFailed
from tests.cli.program import run_nacre
from tests.runtime.agents import events_of, opened, said, write_settings
from tests.runtime.settings.disk.test_auth_profiles import write_profiles
from tests.servers.provider_server import ProviderServer

PROFILE = {"type": "api_key", "provider": "openai", "key": "moved-0123456789"}


def moved(state_dir: Path, url: str, **provider: str) -> Path:
    """Settings and profiles of an install whose provider is at `url`; the file of its profiles."""
    search = {"provider": "openai", "remote": {"baseUrl": f"{url}/v1"}}
    settings: dict[str, Any] = {
        "models": {"providers": {"openai": {"baseUrl": url, **provider}}},
        "agents": {"defaults": {"model": "openai/gpt-4o", "memorySearch": search}},
    }
    write_settings(state_dir, settings)
    return write_profiles(state_dir / "agents/main", profiles={"openai:default": PROFILE})


@pytest.mark.covers("SEED-20")
async def test_a_moved_install_works_and_keeps_its_file_closed(tmp_path: Path) -> None:
    """The profile's key serves chats and embeddings; the file is not written, only closed to others."""
    async with ProviderServer(expected_key=PROFILE["key"]) as server:
        file = moved(tmp_path, server.url)
        file.chmod(0o644)
        before = file.read_bytes()
        server.reply("hello")
        async with opened(tmp_path, None) as agent:
            (agent.workspace / "MEMORY.md").write_text("Nora keeps bees.\n")
            await agent._parts.turn.memory.sync()
            reply = await agent.respond(said("hi"))
        assert reply is not None
        assert reply.text == "hello"
        assert server.embedding_requests

    assert file.read_bytes() == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.covers("SEED-20")
async def test_a_key_of_the_settings_goes_before_the_profile(tmp_path: Path) -> None:
    """It stands beside the address that it is for."""
    async with ProviderServer(expected_key="sk-written") as server:
        moved(tmp_path, server.url, apiKey="sk-written")
        server.reply("hello")
        async with opened(tmp_path, None) as agent:
            reply = await agent.respond(said("hi"))
        assert reply is not None
        assert reply.text == "hello"


async def test_a_refused_key_is_told_with_its_place(tmp_path: Path) -> None:
    """The sentence names the profile and its file, and what goes before it; never the key."""
    async with ProviderServer(expected_key="sk-other") as server:
        file = moved(tmp_path, server.url)
        async with opened(tmp_path, None) as agent:
            events = await events_of(agent, said("hi"))

    assert isinstance(events[-1], TurnFailed)
    assert f"'openai:default' in {file}" in str(events[-1].error)
    assert PROFILE["key"] not in repr(events[-1])


def test_no_log_holds_the_key(tmp_path: Path) -> None:
    """Not even when the provider's answer quotes it, and it does not look like a key."""
    with ProviderServer() as server:
        server.error(400, f"bad request with {PROFILE['key']}")
        moved(tmp_path / ".nacre", server.url)
        ended = run_nacre(tmp_path, "send", "hi")

    written = [path.read_text(errors="replace") for path in (tmp_path / ".nacre/logs").iterdir()]
    assert "bad request with [key]" in "".join(written)
    assert not [text for text in (ended.stdout, ended.stderr, *written) if PROFILE["key"] in text]
