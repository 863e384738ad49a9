"""`nacre chat` as it looks: the real program on a terminal, its screen read at 60 and 120 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.cli.screen.plain import cell_width
from tests.cli.talk.drawn_terminal import DrawnTerminal
from tests.cli.talk.test_send import PROVIDER, write_provider
from tests.servers.provider_server import ProviderServer

ANSWER = """# Plan for 船

Some **bold** words with `code` that go on and on until they have to break between two words of the line.

| Name | 値 | Note 🎉 |
|------|---:|------|
| Halcyon | 12 | a boat of some length, with words that wrap at sixty columns |
| 船の名前 | 3 | ok |

- one
- two

```python
def f(x: int) -> str:
    return str(x)
```

The end of it."""


@pytest.mark.parametrize(
    ("columns", "laid_out"),
    [
        (
            60,
            [
                "Some bold words with code that go on and on until they have",
                "to break between two words of the line.",
                "",
                "Name       値   Note 🎉",
                "─" * 60,
                "Halcyon    12   a boat of some length, with words that wrap",
                "                at sixty columns",
                "船の名前    3   ok",
            ],
        ),
        (
            120,
            [
                "Some bold words with code that go on and on until they have to break between two words of "
                "the line.",
                "",
                "Name       値   Note 🎉",
                "─" * 76,
                "Halcyon    12   a boat of some length, with words that wrap at sixty columns",
                "船の名前    3   ok",
            ],
        ),
    ],
)
def test_an_answer_is_drawn_as_it_comes(tmp_path: Path, columns: int, laid_out: list[str]) -> None:
    """Headings, tables, lists and code fit the width and stand there once, without signs of Markdown."""
    with ProviderServer() as server:
        write_provider(tmp_path, server)
        with DrawnTerminal(tmp_path, "chat", columns=columns, **PROVIDER) as terminal:
            terminal.wait_until(_is_asked)
            server.reply(ANSWER)
            terminal.type("a plan, please\r")
            lines = terminal.wait_until(lambda lines: "The end of it." in lines and _is_asked(lines))
            terminal.type("\x04")
            assert terminal.exit_code() == 0
    said = lines.index("› a plan, please")
    assert lines[said + 1 : said + 3] == ["Plan for 船", ""]
    assert lines[said + 3 : said + 3 + len(laid_out)] == laid_out
    rest = lines[said + 3 + len(laid_out) : -1]
    assert rest[:8] == [
        "",
        " • one",
        " • two",
        "",
        "  def f(x: int) -> str:",
        "      return str(x)",
        "",
        "The end of it.",
    ]
    assert max(map(cell_width, lines)) <= columns
    assert "openai/test-model" in lines[-2]


def test_a_chat_with_tools_files_pastes_and_stops(tmp_path: Path) -> None:
    """A change shows its diff and opens; lines, a paste and a file are sent whole; Ctrl-C never leaves."""
    (tmp_path / "notes on boats.txt").write_text("Halcyon lies in Porto.", encoding="utf-8")
    paste = "\n".join(f"row {number}" for number in range(30))
    with ProviderServer() as server:
        write_provider(tmp_path, server)
        with DrawnTerminal(tmp_path, "chat", columns=60, **PROVIDER) as terminal:
            terminal.wait_until(_is_asked)
            server.tool_calls(("append", {"path": "MEMORY.md", "text": "- The boat is called Halcyon."}))
            server.reply("Noted.")
            terminal.type("note it\\\rplease\r")
            lines = terminal.wait_until(lambda lines: "Noted." in lines and _is_asked(lines))
            call = next(number for number, line in enumerate(lines) if line.startswith("· append"))
            assert "MEMORY.md" in lines[call]
            assert "  + - The boat is called Halcyon." in lines[call + 1 : call + 3]

            terminal.type("/details\r")
            terminal.wait_until(lambda lines: "  text: - The boat is called Halcyon." in lines)
            terminal.wait_until(lambda lines: _is_asked(lines) and "█" in lines[-2])

            server.stall("One two three")
            terminal.type(f'\x1b[200~{paste}\x1b[201~ and @"notes on b\t\r')
            terminal.wait_until(lambda lines: "One two three" in lines)
            assert any("[paste 1: 30 lines] and @" in line for line in terminal.lines)
            terminal.type("typed ahead")
            terminal.type("\x03\x03")
            terminal.wait_until(lambda lines: lines[-1:] == ["› typed ahead"])
            assert "· stopped" in terminal.lines
            terminal.type("\x03\x04")
            assert terminal.exit_code() == 0
    first, asked = (server.requests[number]["messages"][-1]["content"] for number in (0, 2))
    assert "note it\nplease" in json.dumps(first).encode().decode("unicode_escape")
    assert paste in _text(asked)
    assert "Halcyon lies in Porto." in _text(asked)
    history = (tmp_path / ".nacre/chat_history").read_text(encoding="utf-8")
    assert "+row 29 and @" in history


def _is_asked(lines: list[str]) -> bool:
    """Whether the chat waits for words."""
    return lines[-1:] == ["›"]


def _text(content: object) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part.get("text", "")) for part in parts)


def test_an_editor_that_reads_lines_has_the_keyboard(tmp_path: Path) -> None:
    """`/edit` lends the terminal with its line editing: ed needs it, and so do questions of a script."""
    editor = tmp_path / "ask-and-write"
    editor.write_text('#!/bin/sh\nprintf "Say it: "\nread line\necho "$line" > "$1"\n')
    editor.chmod(0o755)
    with DrawnTerminal(tmp_path, "chat", columns=80, EDITOR=str(editor), VISUAL=str(editor)) as terminal:
        terminal.wait_until(_is_asked)
        terminal.type("/edit\r")
        terminal.wait_for("Say it: ")
        terminal.type("Remember that the boat is called Halcyon.\r")
        lines = terminal.wait_until(lambda lines: "I wrote this down" in "".join(lines) and _is_asked(lines))
        assert "› Remember that the boat is called Halcyon." in lines
        terminal.type("still here?\r")  # the prompt has the keyboard again
        terminal.wait_until(lambda lines: "› still here?" in lines and _is_asked(lines))
        terminal.type("\x04")
        assert terminal.exit_code() == 0
