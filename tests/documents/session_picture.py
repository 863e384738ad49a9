"""The picture of a session in the README: the real `nacre chat` on a terminal, with a model of three answers.

`make picture` has the session again and draws it anew; so does `python -m tests.documents.session_picture`.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

import pyte
from pyte.screens import Char
from rich.color import ANSI_COLOR_NAMES
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.cli.talk.drawn_terminal import ROWS, DrawnTerminal
from tests.isolation import isolate
from tests.servers.provider_server import ProviderServer

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "session.svg"
COLUMNS = 92
MODEL = "openai/gpt-5-mini"

_LIGHT = TerminalTheme(
    (252, 252, 250),
    (40, 42, 46),
    [
        (60, 62, 66),
        (176, 48, 48),
        (40, 118, 68),
        (150, 104, 16),
        (44, 92, 168),
        (128, 70, 150),
        (20, 118, 130),
        (120, 122, 126),
    ],
    [
        (134, 138, 144),
        (200, 60, 60),
        (50, 140, 80),
        (176, 124, 24),
        (60, 112, 196),
        (150, 88, 174),
        (30, 140, 152),
        (60, 62, 66),
    ],
)
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def had_session(home: Path) -> str:
    """What a terminal gets of a session with three questions, escape sequences and all."""
    with ProviderServer() as server:
        state = home / ".nacre"
        state.mkdir()
        providers = {"openai": {"baseUrl": server.url, "apiKey": "none"}}
        (state / "nacre.json5").write_text(json.dumps({"models": {"providers": providers}}), encoding="utf-8")
        variables = {"NACRE_MODEL": MODEL, "NO_PROXY": "127.0.0.1"}
        with DrawnTerminal(home, "chat", columns=COLUMNS, **variables) as terminal:
            terminal.wait_until(_waits_for_words)
            for number, (words, tool, arguments, answer) in enumerate(_turns(state / "workspace"), start=1):
                server.tool_calls((tool, arguments))
                server.reply(answer)
                terminal.type(f"{words}\r")
                terminal.wait_until(partial(_was_answered, number))
            terminal.wait_until(lambda lines: " out, " in "\n".join(lines[-2:]))
            drawn = terminal.raw
            terminal.type("\x04")
            terminal.exit_code()
        return drawn


def _turns(workspace: Path) -> Iterator[tuple[str, str, dict[str, str], str]]:
    """What the owner says, the tool that the model calls with its arguments, and what it answers."""
    fact = "- The dentist is Dr. Alder in Porto; the next visit is on 3 December at 9:00."
    yield (
        "Remember that my dentist is Dr. Alder in Porto, next visit 3 December at 9:00",
        *("append", {"path": "MEMORY.md", "text": fact}),
        "Noted.",
    )
    yield (
        "They moved it to 4 December, 10:30",
        *("edit", {"path": "MEMORY.md", "old_text": "3 December at 9:00", "new_text": "4 December at 10:30"}),
        "Corrected: the visit is on **4 December at 10:30**.",
    )
    lines = (workspace / "MEMORY.md").read_text(encoding="utf-8").splitlines()
    [place] = (number for number, line in enumerate(lines, start=1) if "Alder" in line)
    yield (
        "What is coming up?",
        *("memory_search", {"query": "next visit December"}),
        "| When | What | From |\n|---|---|---|\n"
        f"| 4 December, 10:30 | Dr. Alder, Porto | `MEMORY.md#L{place}` |\n\nNothing else has a date.",
    )


def picture(drawn: str, title: str = "nacre chat") -> str:
    """The screen that an output draws, as SVG. It asks no server for a font."""
    screen = pyte.Screen(COLUMNS, ROWS)
    # pyte knows no dim letters; bright black is how most terminals draw them
    pyte.Stream(screen).feed(drawn.replace("\x1b[2m", "\x1b[90m"))
    lines = [_line(screen, row) for row in range(ROWS)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text("\n").join(lines))
    svg = console.export_svg(title=title, theme=_LIGHT, unique_id="nacre")
    return _FONT.sub("", svg).replace("Fira Code", "ui-monospace").rstrip() + "\n"


def write(file: Path = PICTURE) -> None:
    """Have the session and put its picture into the file."""
    with tempfile.TemporaryDirectory() as home:
        file.parent.mkdir(exist_ok=True)
        file.write_text(picture(had_session(Path(home))), encoding="utf-8")


def _waits_for_words(lines: list[str]) -> bool:
    return bool(lines) and lines[-1].strip() == "›"


def _was_answered(number: int, lines: list[str]) -> bool:
    said = [line for line in lines if line.startswith("› ")]
    return len(said) >= number and _waits_for_words(lines)


def _line(screen: pyte.Screen, row: int) -> Text:
    chars: Iterator[Char] = (screen.buffer[row][column] for column in range(screen.columns))
    line = Text()
    for style, run in groupby(chars, _style):
        line.append("".join(char.data for char in run), style)
    line.rstrip()
    return line


def _style(char: Char) -> Style:
    return Style(
        color=_color(char.fg),
        bgcolor=_color(char.bg),
        bold=char.bold,
        italic=char.italics,
        reverse=char.reverse,
    )


def _color(name: str) -> str | None:
    if name == "default":
        return None
    found = {"brown": "yellow", "brightbrown": "bright_yellow"}.get(name, name.replace("bright", "bright_"))
    return found if found in ANSI_COLOR_NAMES else f"#{name}"


if __name__ == "__main__":
    isolate()
    write()
