"""`nacre chat`: on a terminal, and as a filter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.cli.talk.piped_chat import input_lines
from tests.cli.program import WAIT_SECONDS, Terminal, environment, run_nacre
from tests.cli.talk.test_send import PROVIDER, write_provider
from tests.servers.provider_server import ProviderServer


def test_a_conversation_in_a_terminal(tmp_path: Path) -> None:
    """Remember, ask, complete a command, paste lines, leave: all on one terminal, offline."""
    with Terminal(tmp_path) as terminal:
        terminal.wait_for("offline: no model is connected")
        terminal.wait_for("`nacre init` connects one")
        terminal.wait_for("Notes in ~/.nacre/workspace")
        terminal.wait_for("›")
        terminal.type("Remember that my boat is called Halcyon.\r")
        terminal.wait_for("· append")
        terminal.wait_for("Halcyon.”")
        terminal.type("\x1b[200~What is my boat\ncalled?\x1b[201~\r")
        terminal.wait_for("· memory_search: 1 passage")
        terminal.wait_for("#L1")
        terminal.type("/sta\t\r")
        terminal.wait_for("🧵 Session: agent:main:main")
        terminal.wait_for("›")
        terminal.type("\x03")
        terminal.wait_for("Press Ctrl-C again, or use Ctrl-D or /quit, to leave.")
        terminal.type("\x03")
        assert terminal.exit_code() == 0
    history = tmp_path / ".nacre/chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "+What is my boat\n+called?\n" in history.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.covers("ATT-15")
def test_what_was_typed_ahead_outlives_a_stop(tmp_path: Path) -> None:
    """Words that were typed while an answer came stand at the next prompt, also after Ctrl-C."""
    with ProviderServer() as server:
        write_provider(tmp_path, server)
        with Terminal(tmp_path, "chat", **PROVIDER) as terminal:
            terminal.wait_for("›")
            server.stall("One two three four")
            terminal.type("count, please\r")
            terminal.wait_for("One two three")
            terminal.type("and what comes next?")
            terminal.type("\x03")
            terminal.wait_for("· stopped")
            terminal.wait_for("and what comes next?")
            server.reply("Five comes.")
            terminal.type("\r")
            terminal.wait_for("Five comes.")
            terminal.wait_for("›")
            terminal.type("\x04")
            assert terminal.exit_code() == 0


def test_stopping_an_answer_and_ending_the_program(tmp_path: Path) -> None:
    """Ctrl-C stops a stream that hangs and keeps its half; silence and escapes show nothing; SIGTERM ends."""
    with ProviderServer() as server:
        write_provider(tmp_path, server)
        with Terminal(tmp_path, "chat", **PROVIDER) as terminal:
            terminal.wait_for("Nacre 0.1.0 · openai/test-model")
            terminal.wait_for("›")
            server.stall("One two three four")
            terminal.type("count, please\r")
            terminal.wait_for("One two three")
            terminal.type("\x03")
            terminal.wait_for("· stopped")
            terminal.wait_for("›")
            server.reply("NO_REPLY")
            terminal.type("and now say nothing\r")
            terminal.wait_for("· (nothing to say)")
            terminal.wait_for("›")
            server.reply("A note: \x1b]52;c;aGk=\x07\x1b[2Jend")
            terminal.type("what does the note say?\r")
            terminal.wait_for("␛]52;c;aGk=␇␛[2Jend")
            terminal.wait_for("›")
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.exit_code() == 128 + signal.SIGTERM
    assert "NO_REPLY" not in terminal.raw
    assert "\x1b]52" not in terminal.raw
    assert "\x1b[2J" not in terminal.raw
    transcripts = (tmp_path / ".nacre/agents/main/sessions").glob("*.jsonl")
    assert "One two three" in "".join(path.read_text(encoding="utf-8") for path in transcripts)


def test_without_a_terminal_each_line_is_a_message(tmp_path: Path) -> None:
    """Replies go to standard output, the rest to standard error; blank lines and `\\r` are no messages."""
    said = "Remember that my boat is called Halcyon.\r\n\n/status\nWhat is my boat called?"
    lines = f"{said}\n/quit\nRemember that nobody reads this."

    run = run_nacre(tmp_path, stdin=lines)

    assert run.returncode == 0
    assert run.stdout.index("Halcyon") < run.stdout.index("🧵 Session: ") < run.stdout.index("#L1")
    assert "\x1b" not in run.stdout + run.stderr
    assert "nobody" not in run.stdout
    assert run.stderr.splitlines()[-1].startswith("· memory_search: 1 passage")


def test_a_reader_that_leaves_ends_the_chat_quietly(tmp_path: Path) -> None:
    """In `yes /help | nacre | head -1` the program ends when head does, without a trace."""
    command = f"yes /help | {sys.executable} -m nacre | head -1"

    run = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=WAIT_SECONDS,
    )

    assert run.stdout == "Conversation:\n"
    assert run.stderr == ""


async def test_input_lines_survive_any_cut() -> None:
    """Lines come whole, however the bytes arrive; a broken byte costs itself only."""
    reader, writer = os.pipe()
    pieces = ["naïve\r\nsecond".encode()[:3], "naïve\r\nsecond".encode()[3:], b" line\nbad \xff byte"]
    for piece in pieces:
        os.write(writer, piece)
    os.close(writer)
    try:
        assert [line async for line in input_lines(reader)] == ["naïve", "second line", "bad \ufffd byte"]
    finally:
        os.close(reader)
