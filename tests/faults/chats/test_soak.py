"""A thousand chats in one process, which is killed twice: each message answered once, in its order."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.bridges.line_channel import LineServer
from tests.runtime.agents import user_texts

DRIVER = Path(__file__).with_name("soak_driver.py")
CHATS = 1_000
ROUNDS = 3
MOST_MIB_MORE = 48
"""What the program may hold more after the last round than after the one before it."""


class Program:
    """The program that answers, as a process of its own."""

    def __init__(self, state_dir: Path, port: int, ids: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(state_dir), str(port), ids],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def mib(self, order: str = "more") -> float:
        """Asks how much memory it holds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def end(self, *, kill: bool) -> None:
        """Ends it, by force or in peace."""
        if kill:
            self._process.kill()
        else:
            self.mib("end")
        self._process.communicate(timeout=60)
        assert self._process.returncode == (-signal.SIGKILL if kill else 0)


def _speak(server: LineServer, random: Random, number: int) -> None:
    """Every chat speaks, some say several things at once; the server repeats itself and hangs up."""
    for chat in random.sample(range(CHATS), CHATS):
        for part in range(random.choice((1, 1, 1, 1, 3))):
            kind = "direct" if chat % 3 else "group"
            server.say(f"{number}.{part}", chat=f"c{chat}", sender=f"s{chat}", chat_kind=kind)
        if random.random() < 0.1:
            server.say_again(random.randint(1, len(server.says)))
        if random.random() < 0.005:
            server.cut()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_thousand_chats_are_each_answered_once_and_in_order(tmp_path: Path) -> None:
    """Bursts, duplicates, broken connections and two kills: counted at the receiver and on disk."""
    random = Random(13)
    mib: list[float] = []
    with LineServer() as server:
        program = Program(tmp_path, server.port, "0")
        for number in range(ROUNDS):
            _speak(server, random, number)
            if number in (1, 2):
                half = len(server.sent) + CHATS // 2
                server.wait_for(lambda at, half=half: len(at.sent) >= half, 300)
                program.end(kill=True)
                program = Program(tmp_path, server.port, str(number))
            server.wait_for(lambda at: len(at.sent) >= len(at.says), 300)
            mib.append(program.mib())
        program.end(kill=False)

    for chat in {said["chat"] for said in server.says}:
        wanted = [f"re: {said['text']}" for said in server.says if said["chat"] == chat]
        assert server.shown(chat) == wanted
    heard = [
        text
        for file in (tmp_path / "agents" / "main" / "sessions").glob("*.jsonl")
        for text in user_texts(file)
    ]
    assert sorted(heard) == sorted(said["text"] for said in server.says)
    assert mib[2] - mib[1] < MOST_MIB_MORE
    print(f"{len(server.says)} messages, 2 kills, MiB after each round: {mib}")  # noqa: T201 - figures of docs/engineering/faults.md
