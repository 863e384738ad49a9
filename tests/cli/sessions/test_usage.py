"""`nacre usage` and the cap of a day, with the real program against a loopback provider."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import run_here, run_nacre
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

MODEL = "openai/gpt-4o-mini"
REPLY_USD = 1000 * 0.15e-6 + 500 * 0.6e-6
"""A thousand tokens in, five hundred out, by litellm's price map."""
CAP_USD = 0.1


def _settings(home: Path, server: ProviderServer, **usage: Any) -> None:
    state = home / ".nacre"
    state.mkdir(mode=0o700, exist_ok=True)
    settings = {
        "usage": usage,
        "models": {"providers": {"openai": {"baseUrl": server.url, "apiKey": "k"}}},
        "agents": {
            "defaults": {
                "model": {"primary": MODEL},
                "memorySearch": {"provider": "none"},
                "userTimezone": "UTC",
            }
        },
    }
    (state / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")


def _spend_elsewhere(home: Path, usd: float) -> None:
    """What another agent of the state folder paid today."""
    [path] = (home / ".nacre" / "usage").glob("*.jsonl")
    usage = {"input": 1, "cost": {"total": usd}}
    line = {"v": 1, "at": 1, "agent": "other", "model": MODEL, "purpose": "turn", "usage": usage}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _usage(home: Path, by: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run_here(home, "usage", "--by", by, "--json").stdout)
    return told


def test_tokens_and_money_by_purpose_model_session_and_day(tmp_path: Path) -> None:
    """Every grouping tells the same calls; without the usage files the transcripts still
    know the replies, and a total stands below the table."""
    with ProviderServer() as server:
        _settings(tmp_path, server)
        server.reply("Good evening.", usage=wire.usage(1000, 500))
        server.reply("Still here.", usage=wire.usage(1000, 500))
        run_nacre(tmp_path, "send", "Hello")
        run_nacre(tmp_path, "send", "Are you there?", "--session", "work")
        purposes, models = _usage(tmp_path, "purpose"), _usage(tmp_path, "model")
        sessions, days = _usage(tmp_path, "session"), _usage(tmp_path, "day")
        shown = run_here(tmp_path, "usage").stdout
        written = (tmp_path / ".nacre" / "usage").iterdir()
        lines = [json.loads(line) for path in written for line in path.read_text("utf-8").splitlines()]
        shutil.rmtree(tmp_path / ".nacre" / "usage")
        without_files = _usage(tmp_path, "purpose")

    assert purposes["rows"][0]["purpose"] == "reply"
    assert purposes["total"]["inputTokens"] == 2000
    assert purposes["total"]["costUsd"] == pytest.approx(2 * REPLY_USD)
    assert purposes["todayUsd"] == pytest.approx(2 * REPLY_USD)
    assert [row["model"] for row in models["rows"]] == [MODEL]
    assert {row["session"] for row in sessions["rows"]} == {"agent:main:main", "agent:main:direct:work"}
    assert len(days["rows"]) == 1
    assert shown.splitlines()[0].split() == ["DAY", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"]
    assert shown.splitlines()[-1].split() == ["total", "2", "2,000", "0", "1,000", "$0.0009"]
    assert [(line["v"], line["purpose"], line["agent"]) for line in lines] == [(1, "turn", "main")] * 2
    assert without_files["rows"] == purposes["rows"]


def test_the_offline_responder_is_free(tmp_path: Path) -> None:
    """It asks nobody, so its price is known."""
    run_nacre(tmp_path, "send", "Hello")
    assert _usage(tmp_path, "day")["total"]["costUsd"] == 0
    assert "no price known" not in run_here(tmp_path, "usage").stdout


def test_a_server_of_this_machine_without_a_key_is_free(tmp_path: Path) -> None:
    """Nobody sells its model."""
    with ProviderServer() as server:
        server.reply("Good evening.", usage=wire.usage(1000, 500))
        run_nacre(tmp_path, "config", "set", "models.providers.desk.baseUrl", server.url)
        run_nacre(tmp_path, "--model", "desk/qwen3", "send", "Hello")
        shown, trace = run_here(tmp_path, "usage").stdout, run_here(tmp_path, "sessions", "trace").stdout
    assert "no price known" not in shown + trace
    assert trace.count("500 out, $0") == 2
    assert shown.splitlines()[-1].endswith("$0.0000")


def test_a_model_without_a_price_is_not_free(tmp_path: Path) -> None:
    """Its rows say so, in JSON too; a sum with others is of these alone and names it."""
    with ProviderServer() as server:
        _settings(tmp_path, server)
        server.reply("Good evening.", usage=wire.usage(1000, 500))
        run_nacre(tmp_path, "--model", "openai/house-made", "send", "Hello")
        assert run_here(tmp_path, "sessions", "trace").stdout.count("500 out, no price known") == 2
        alone, alone_shown = _usage(tmp_path, "day"), run_here(tmp_path, "usage").stdout
        server.reply("Still here.", usage=wire.usage(1000, 500))
        run_nacre(tmp_path, "send", "Are you there?")
        models, shown = _usage(tmp_path, "model"), run_here(tmp_path, "usage").stdout

    assert (alone["total"]["costUsd"], alone["rows"][0]["costUsd"]) == (None, None)
    assert alone_shown.splitlines()[-1].endswith("500  no price known")
    assert {row["model"]: row["costUsd"] for row in models["rows"]} == {
        MODEL: pytest.approx(REPLY_USD),
        "openai/house-made": None,
    }
    assert (models["total"]["costUsd"], models["total"]["unpricedCalls"]) == (pytest.approx(REPLY_USD), 1)
    assert "without a known price: openai/house-made." in shown


def test_the_cap_keeps_what_is_left_for_replies_and_then_stops_them(tmp_path: Path) -> None:
    """From four fifths on, the name of an ended session is not asked of the model, and a reply still is; at
    the cap a reply fails with a sentence that names the setting, and no request is sent."""
    with ProviderServer() as server:
        _settings(tmp_path, server, dailyCapUsd=CAP_USD)
        server.reply("Good evening.", usage=wire.usage(1000, 500))
        run_nacre(tmp_path, "send", "Remember that my boat is called Halcyon.")
        _spend_elsewhere(tmp_path, CAP_USD * 0.8)
        ended = run_nacre(tmp_path, "send", "/new")
        server.reply("Once more.", usage=wire.usage(1000, 500))
        last = run_nacre(tmp_path, "send", "Are you there?")
        _spend_elsewhere(tmp_path, CAP_USD * 0.2)
        refused = run_nacre(tmp_path, "send", "And now?")
        asked = len(server.requests)
        told = run_here(tmp_path, "usage").stdout

    assert ended.returncode == 0
    assert last.stdout == "Once more.\n"
    assert refused.returncode == 1
    assert "usage.dailyCapUsd" in refused.stderr
    assert asked == 2
    assert "of $0.10 (usage.dailyCapUsd)" in told
