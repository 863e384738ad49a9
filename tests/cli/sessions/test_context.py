"""`nacre sessions context` and `/context`: what the model would get now is what the provider then gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.cli.sessions.context import NO_SESSION
from tests.cli.program import run_here, run_nacre
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer


@pytest.mark.covers("A15-2")
def test_the_parts_are_what_the_next_request_holds(tmp_path: Path) -> None:
    """Each text that is shown, tools apart, stands in the next request in this order, and the parts that the
    provider read from its cache are marked; /context says the same without the texts."""
    with ProviderServer() as server:
        state = tmp_path / ".nacre"
        state.mkdir(mode=0o700)
        settings = {
            "models": {"providers": {"openai": {"baseUrl": server.url, "apiKey": "k"}}},
            "agents": {
                "defaults": {
                    "model": {"primary": "openai/gpt-4o-mini"},
                    "memorySearch": {"provider": "none"},
                }
            },
        }
        (state / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")
        server.reply("Good evening.", usage=wire.usage(300, 20, cached_tokens=2100))
        run_nacre(tmp_path, "send", "My boat is called Halcyon.")

        told = json.loads(run_here(tmp_path, "sessions", "context", "--json", "--full").stdout)
        shown = run_here(tmp_path, "sessions", "context").stdout
        full = run_here(tmp_path, "sessions", "context", "main", "--full").stdout
        in_chat = run_nacre(tmp_path, "send", "/context").stdout
        missing = run_nacre(tmp_path, "sessions", "context", "nobody")
        server.reply("Yes.", usage=wire.usage(2400, 20))
        run_nacre(tmp_path, "send", "Is she?")
        sent = server.requests[-1]["messages"]

    names = [part["name"] for part in told["parts"]]
    texts = {part["name"]: part["text"] for part in told["parts"]}
    system = sent[0]["content"] if isinstance(sent[0]["content"], str) else json.dumps(sent[0]["content"])
    assert names[0].startswith("tools (")
    assert names[1:4] == ["instructions", "AGENTS.md", "SOUL.md"]
    assert names[-1] == "conversation (2)"
    places = [system.index(texts[name].strip()) for name in ("instructions", "AGENTS.md", "USER.md")]
    assert places == sorted(places)
    assert "My boat is called Halcyon." in texts["conversation (2)"]
    assert told["tokens"] == sum(part["tokens"] for part in told["parts"])
    assert told["lastCacheReadTokens"] == 2100
    cached = [part["isCached"] for part in told["parts"]]
    assert cached[0]
    assert not cached[-1]
    assert cached == sorted(cached, reverse=True)
    assert "2.1k of 2.4k tokens" in shown
    assert "━━━ AGENTS.md ━━━" in full
    assert "AGENTS.md" in in_chat
    assert "Halcyon" not in in_chat
    assert missing.returncode == 1
    assert missing.stderr == f"{NO_SESSION.format(key='nobody')}\n"
    assert "There is no session" in missing.stderr
