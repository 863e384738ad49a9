"""Defects that other programs of this kind had with their transcripts, and that must not come back."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.extensions.providers.completions.messages import completion_arguments
from nacre.runtime.contracts.model import ModelRequest, SystemPrompt
from nacre.sessions.contracts.messages import message_text
from nacre.sessions.disk.json_text import to_line
from nacre.sessions.entries.entries import SessionHeader, header_to_json
from nacre.sessions.view.transcript import build_transcript, newest_turns
from tests.sessions.talk import STAMP, Branch, answer, opened, result, said, set_aside_in, user

ROOT = Path(__file__).parents[3]
HEADER = to_line(header_to_json(SessionHeader(id="s-1", timestamp=STAMP, cwd="/w")))


def line(entry_id: str, parent: str | None, content: object) -> bytes:
    message = {"role": "user", "content": content, "timestamp": 1}
    return to_line(
        {"type": "message", "id": entry_id, "parentId": parent, "timestamp": STAMP, "message": message}
    )


@pytest.mark.covers("W5-1", "A8-4")
def test_a_crash_before_the_first_answer_keeps_the_question(tmp_path: Path) -> None:
    """A process killed right behind its first append has the header and the question on disk."""
    path = tmp_path / "s.jsonl"
    script = (
        "import asyncio, os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.sessions.talk import opened, user\n"
        "async def main():\n"
        "    journal = await opened(Path(sys.argv[1]))\n"
        "    await journal.append(user('the first question'))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=ROOT, env=os.environ, timeout=60, check=False
    )
    assert run.returncode == -signal.SIGKILL

    journal = asyncio.run(opened(path))
    assert (said(journal.tree.branch()), journal.notices) == (["the first question"], ())


@pytest.mark.covers("A6-3", "W5-2")
async def test_a_file_without_a_header_is_never_overwritten(tmp_path: Path) -> None:
    """What stood in it is beside it, byte for byte, and its entries go on at the same path."""
    path = tmp_path / "given-name.jsonl"
    path.write_bytes(before := line("a", None, "one") + line("b", "a", "two"))
    journal = await opened(path)
    assert set_aside_in(tmp_path) == [before]
    assert (journal.path, said(journal.tree.branch())) == (path, ["one", "two"])
    assert json.loads(path.read_bytes().split(b"\n")[0])["type"] == "session"
    assert said((await opened(path)).tree.branch()) == ["one", "two"]


@pytest.mark.covers("W5-3")
async def test_a_broken_line_orphans_nothing_older(tmp_path: Path) -> None:
    """Behind a line that cannot be read, the conversation still reaches back to its first word."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        HEADER + line("a", None, "one") + b'{"type":"message","id":"b",\n' + line("c", "b", "three")
    )
    journal = await opened(path)
    assert [message_text(item.message) for item in journal.transcript()] == ["one", "three"]
    assert "unreadable line" in journal.notices[0]


@pytest.mark.covers("W5-4")
async def test_parents_in_a_circle_come_to_an_end(tmp_path: Path) -> None:
    """Entries that name each other as parents are read once each, and told."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEADER + line("a", "b", "one") + line("b", "a", "two") + line("c", "c", "three"))
    journal = await asyncio.wait_for(opened(path), timeout=60)
    assert [message_text(item.message) for item in journal.transcript()] == ["one", "two", "three"]
    assert len(journal.notices) == 2


@pytest.mark.covers("W5-5")
async def test_merging_user_messages_loses_no_string_content(tmp_path: Path) -> None:
    """Contents that are plain strings in the file are all there in what Anthropic is sent."""
    path = tmp_path / "s.jsonl"
    blocks = [{"type": "text", "text": "two"}]
    path.write_bytes(HEADER + line("a", None, "one") + line("b", "a", blocks) + line("c", "b", "three"))
    assert await sent(path) == [{"role": "user", "content": "one\n\ntwo\n\nthree"}]


@pytest.mark.covers("W5-6")
def test_a_limit_on_history_never_cuts_off_the_summary() -> None:
    """However few turns are sent, what stands for everything before them is sent as well."""
    branch = Branch([user("one"), answer("first"), user("two"), answer("second")])
    branch.compact("e3", "They talked about bees.")
    branch.say(user("three"))
    items = newest_turns(build_transcript(branch.entries), 1, is_compacted=True)
    assert "They talked about bees." in message_text(items[0].message)
    assert [message_text(item.message) for item in items[1:]] == ["three"]


@pytest.mark.covers("W5-7", "A8-4")
async def test_a_question_without_an_answer_stays_in_the_conversation(tmp_path: Path) -> None:
    """When a turn died before its answer, its question is sent together with the next one."""
    path = tmp_path / "s.jsonl"
    journal = await opened(path)
    for message in (user("hi"), answer("hello"), user("what died?"), user("and this?")):
        await journal.append(message)
    assert await sent(path) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "what died?\n\nand this?"},
    ]
    assert said(journal.tree.branch()) == ["hi", "hello", "what died?", "and this?"]


@pytest.mark.covers("W17-1")
async def test_half_made_calls_of_a_broken_off_answer_are_never_sent(tmp_path: Path) -> None:
    """No call, no result and no empty id of an aborted or failed answer reaches a provider again."""
    path = tmp_path / "s.jsonl"
    journal = await opened(path)
    for message in (
        user("go"),
        answer("I will", "c1", stop_reason="aborted"),
        result("c1"),
        answer("", "c2", stop_reason="error"),
        result("", "of nobody"),
        answer("", "", "c3"),
        result("c3"),
        user("again"),
    ):
        await journal.append(message)
    messages = await sent(path)
    assert [message["role"] for message in messages] == ["user", "assistant", "assistant", "tool", "user"]
    assert messages[1] == {"role": "assistant", "content": "I will"}
    assert [call["id"] for call in messages[2]["tool_calls"]] == ["c3"]


async def sent(path: Path) -> list[dict[str, object]]:
    """What Anthropic would be sent of a transcript."""
    items = (await opened(path)).transcript()
    request = ModelRequest(system=SystemPrompt(stable=""), messages=tuple(item.message for item in items))
    messages: list[dict[str, object]] = completion_arguments(request, model_name="vertex_ai/claude")[
        "messages"
    ]
    return [without_marks(message) for message in messages]


def without_marks(message: dict[str, object]) -> dict[str, object]:
    """A message without the marks for the prompt cache."""
    content = message["content"]
    if isinstance(content, list) and all(block.get("type") == "text" for block in content):
        return {**message, "content": "\n\n".join(block["text"] for block in content)}
    return message
