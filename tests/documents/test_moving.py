"""docs/moving.md from its first command to its last, in a home with what the four programs leave."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.cli.program import run_nacre
from tests.cli.setup.moving import exports, sources
from tests.documents.console import commands, fences, matches

PAGE = Path(__file__).parents[2] / "docs" / "moving.md"


def test_moving_in_goes_as_the_page_says(tmp_path: Path) -> None:
    """Each command in its order answers as shown."""
    sources.openclaw(tmp_path / ".openclaw")
    sources.hermes(tmp_path / ".hermes")
    exports.claude(tmp_path / "Downloads/claude")
    exports.chatgpt(tmp_path / "Downloads/chatgpt.zip")
    blocks = list(fences(PAGE.read_text(encoding="utf-8"), "console"))
    assert len(blocks) > 5
    for block in blocks:
        for command, shown in commands(block):
            words = shlex.split(command.replace("~/", f"{tmp_path}/"))
            assert words[0] == "nacre"
            run = run_nacre(tmp_path, *words[1:])
            assert run.returncode == 0, run.stderr
            assert matches(shown, run.stdout), f"{command} printed:\n{run.stdout}"
