"""Kill -9 at every step between a message and its delivery: at the receiver 0 lost, 0 twice, or marked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from nacre.bridges.contracts.bridge import Capabilities
from nacre.bridges.delivery.outgoing import REPEAT_MARK
from tests.bridges.faults.kill_driver import TAIL
from tests.bridges.line_channel import ALL, READ_BACK, LineServer
from tests.runtime.agents import user_texts

DRIVER = Path(__file__).with_name("kill_driver.py")
ROOT = Path(__file__).parents[3]
SIGKILL = 9
SAID = (("a", "one"), ("a", "two"), ("b", "three"))
NEITHER = Capabilities(greatest_length=200)
EDITED = Capabilities(greatest_length=200, can_edit=True, edit_seconds=0.005)

Order = Callable[[dict[str, object]], int | None]


@contextmanager
def driver(program: Path = DRIVER) -> Iterator[Order]:
    """Runs a program that forks for each order, and says by which signal the fork ended; `None` is well."""
    process = subprocess.Popen(
        [sys.executable, str(program)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def order(what: dict[str, object]) -> int | None:
        stdin.write(json.dumps(what) + "\n")
        stdin.flush()
        ended = json.loads(stdout.readline())
        assert ended["signal"] is not None or ended["status"] == 0, ended
        return ended["signal"]  # type: ignore[no-any-return]

    try:
        yield order
    finally:
        stdin.close()
        process.wait(60)
        stdout.close()


def _problem(server: LineServer, state: Path) -> str:
    """What is wrong with what the receiver shows or the transcripts hold; nothing if all is well."""
    for chat in ("a", "b"):
        wanted = [f"re: {text}{TAIL}" for where, text in SAID if where == chat]
        shown = server.shown(chat)
        whole = [text.removeprefix(REPEAT_MARK) for text in shown if text.endswith(TAIL)]
        if list(dict.fromkeys(whole)) != wanted:
            return f"in {chat}: {shown}"
        plain = [text for text in shown if text in wanted]
        if len(set(plain)) != len(plain):
            return f"said twice in {chat}: {shown}"
        cut = [text for text in shown if not text.endswith(TAIL)]
        if not all(any(full.startswith(text) for full in wanted) for text in cut):
            return f"neither an answer nor the beginning of one in {chat}: {shown}"
    files = (state / "agents/main/sessions").glob("*.jsonl")
    heard = sorted(text for file in files for text in user_texts(file))
    return "" if heard == sorted(text for _, text in SAID) else f"the transcripts hold {heard}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("can", "may_repeat", "may_be_cut"),
    [
        pytest.param(ALL, False, False, id="idempotent and edits"),
        pytest.param(READ_BACK, False, False, id="read back"),
        pytest.param(NEITHER, True, False, id="neither"),
        pytest.param(EDITED, True, True, id="edits alone"),
    ],
)
def test_a_kill_at_any_step_loses_and_doubles_nothing(
    tmp_path: Path, can: Capabilities, may_repeat: bool, may_be_cut: bool
) -> None:
    """Three messages in two chats; each step is killed once, and a second process goes on."""
    kills, repeats, problems = 0, 0, []
    with driver() as order:
        for kill_at in range(1, 400):
            with LineServer() as server:
                for chat, text in SAID:
                    server.say(text, chat=chat, sender=chat)
                what: dict[str, object] = {
                    "state": str(tmp_path / str(kill_at)),
                    "port": server.port,
                    "can": asdict(can),
                    "said": len(SAID),
                }
                ended = order({**what, "kill_at": kill_at, "ids": "a"})
                if ended == SIGKILL:
                    kills += 1
                    assert order({**what, "kill_at": 0, "ids": "b"}) is None
                problem = _problem(server, tmp_path / str(kill_at))
                marked = sum(REPEAT_MARK in sent.text for sent in server.sent)
                cut = sum(not sent.text.endswith(TAIL) for sent in server.sent)
                if problem or (marked and not may_repeat) or (cut and not may_be_cut):
                    problems.append(f"step {kill_at}: {problem} {[sent.text for sent in server.sent]}")
                repeats += marked
            if ended is None:
                break
    assert problems == []
    assert kills > 30
    assert bool(repeats) == may_repeat
    print(f"{kills} kills, {repeats} repeats marked")  # noqa: T201 - a figure of docs/engineering/faults.md
