"""A day of an agent: thousands of turns, hundreds of compactions, kills, a provider that misbehaves."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.stores.sqlite.connection import open_connection, quick_check
from tests.faults.apart.soak_driver import PRIVATE
from tests.faults.drivers import ROOT
from tests.runtime.agents import entries, window_settings, write_settings
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import Step, drop, error, overflow, reply, stall, tool_calls, usage

DRIVER = Path(__file__).with_name("soak_driver.py")
TURNS = int(os.environ.get("NACRE_SOAK_TURNS", "400"))
SEED = int(os.environ.get("NACRE_SOAK_SEED", "11"))
MISBEHAVES = 0.02
WRITES_OF_A_LIFE = (1, 7_000)
SUMMARY = "## Goal\nFeed the bees before the frost.\n" + "- The hive is fed.\n" * 20

_TURN = re.compile(r"turn-(\d+):")


class Provider:
    """Answers every request in the words that its purpose wants, or fails in one of many ways.

    `heard` are the turns whose words reached it; `leaks` are requests of a group with what is private.
    """

    def __init__(self, chance: random.Random) -> None:
        self.heard: set[int] = set()
        self.leaks: list[str] = []
        self.asked: Counter[str] = Counter()
        self._chance = chance

    def __call__(self, request: Mapping[str, Any]) -> Step:
        text = json.dumps(request["messages"][-1]["content"])
        if "several people can read" in json.dumps(request["messages"][0]) and PRIVATE in json.dumps(request):
            self.leaks.append(text[:200])
        purpose, good = self._good(request, text)
        self.asked[purpose] += 1
        if self._chance.random() >= MISBEHAVES:
            return good
        self.asked["misbehaved"] += 1
        return self._chance.choice(
            [
                error(500, "internal"),
                error(429, "slow down", retry_after=1),
                drop("The be"),
                Step(text="The be", ending="cut"),
                reply(""),
                tool_calls(("append", '{"path": "memory/'), ("unknown", {})),
                overflow(),
                stall("The"),
            ]
        )

    def _good(self, request: Mapping[str, Any], text: str) -> tuple[str, Step]:
        used = usage(len(json.dumps(request["messages"])) // 4, 20)
        last = request["messages"][-1]
        if "memory flush" in text:
            arguments = {"path": "", "text": f"- note {self.asked.total()}"}
            return "flush", tool_calls(("append", arguments), usage=used)
        if "<conversation>" in text or "## Goal" in text:
            return "compaction", reply(SUMMARY, usage=used)
        turns = [int(found) for found in _TURN.findall(text)]
        if last["role"] != "user" or not turns:
            return "other", reply("NO_REPLY", usage=used)
        self.heard.add(turns[-1])
        return "turn", reply(f"answer-{turns[-1]}.", usage=used)


def life(state_dir: Path, first: int, kill_before: int) -> tuple[list[list[Any]], int]:
    """What a child told from a turn on, and how it ended."""
    arguments = [str(state_dir), str(first), str(TURNS), str(kill_before)]
    run = subprocess.run(
        [sys.executable, str(DRIVER), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, -signal.SIGKILL), run.stderr[-3_000:]
    return [json.loads(line) for line in run.stdout.splitlines()], run.returncode


def lives(state_dir: Path, chance: random.Random) -> Iterator[list[list[Any]]]:
    """What each child told, one after the other, until the day is over."""
    first = 0
    while True:
        told, code = life(state_dir, first, chance.randint(*WRITES_OF_A_LIFE))
        yield told
        if code == 0:
            return
        # a turn in which the process died is not said again: its words are kept or were never heard
        first = max([first, *(number + 1 for what, number, *_ in told if what == "begins")])


def words_on_disk(state_dir: Path) -> tuple[Counter[int], set[str], int]:
    """Which turns stand in the transcripts and how often, what was answered, and how many compactions."""
    turns: Counter[int] = Counter()
    answers: set[str] = set()
    compactions = 0
    for file in (state_dir / "agents/main/sessions").glob("*.jsonl"):
        lines = entries(file)  # every line is JSON
        ids = [entry["id"] for entry in lines]
        assert len(ids) == len(set(ids))
        known = {None, *ids}
        assert all(entry.get("parentId") in known for entry in lines[1:])
        for entry in lines:
            compactions += entry["type"] == "compaction"
            if entry["type"] == "message":
                text = json.dumps(entry["message"]["content"])
                if entry["message"]["role"] == "user":
                    turns.update(int(found) for found in _TURN.findall(text))
                elif entry["message"]["role"] == "assistant":
                    answers.update(re.findall(r"answer-\d+\.", text))
    return turns, answers, compactions


@pytest.mark.slow
def test_a_day_of_kills_and_failures_loses_no_word(tmp_path: Path) -> None:
    """What was heard or answered in 24 hours is on disk, once; nothing private is in a group's request.

    `NACRE_SOAK_TURNS` and `NACRE_SOAK_SEED` choose another day.
    """
    chance = random.Random(SEED)
    provider = Provider(random.Random(SEED + 1))
    settings = window_settings()
    defaults = settings["agents"]["defaults"]
    defaults |= {"model": "openai/test-model", "memorySearch": {"provider": "none"}}
    with ProviderServer(responder=provider) as server:
        settings["models"] = {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}}
        write_settings(tmp_path, settings)
        stretches = list(lives(tmp_path, chance))

    told = [line for stretch in stretches for line in stretch]
    answered = {number: text for what, number, text in (line for line in told if line[0] == "answered")}
    failed = sum(line[0] == "failed" for line in told)
    turns, answers, compactions = words_on_disk(tmp_path)
    print(  # noqa: T201 - the figures of docs/engineering/faults.md
        f"{TURNS} turns, {len(stretches) - 1} kills, {compactions} compactions, "
        f"{provider.asked['misbehaved']} misbehaved, {failed} turns failed, {dict(provider.asked)}"
    )
    assert provider.leaks == []
    assert [number for number, times in turns.items() if times > 1] == []
    assert sorted({*provider.heard, *answered} - turns.keys()) == []
    assert [
        text for text in answered.values() if re.fullmatch(r"answer-\d+\.", text) and text not in answers
    ] == []
    assert len(answered) > TURNS * 0.9
    assert compactions > TURNS // 15
    assert len(stretches) > TURNS // 500
    assert json.loads((tmp_path / "agents/main/sessions/sessions.json").read_text())
    assert quick_check(open_connection(tmp_path / "memory/main.sqlite", read_only=True)) == ""
    chats = list((tmp_path / "workspace/chats").rglob("*.md"))
    assert chats
    assert not [path for path in chats if PRIVATE in path.read_text()]
