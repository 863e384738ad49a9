"""docs/walkthrough.md and docs/moving.md from their first command to the last: one home and one owner each.

In the home lies what other programs left; the walk has a model on loopback.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import environment, run_nacre
from tests.documents.console import commands, fences, matches
from tests.extensions.importers import exports, sources
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer
from tests.servers.warm_python import run_warm

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "walkthrough.md"
MOVING = DOCS / "moving.md"
ADDRESS = "http://127.0.0.1:8000/v1"
"""Where the page says that a server listens; the test puts its own in the place."""
RUN_SECONDS = 60
SAID = "› "
"""What the owner types in a chat."""

FACT = "- The dentist is Dr. Alder in Porto; the next visit is on 3 December at 9:00."


def answer(request: Mapping[str, Any]) -> wire.Step:
    """What the model of the page says, by what was said last."""
    last = request["messages"][-1]
    words = str(last["content"])
    if last["role"] == "tool":
        return wire.reply("The visit is on **3 December at 9:00**." if "Alder" in words else "Noted.")
    if "When do I" in words:
        return wire.tool_calls(("memory_search", {"query": "dentist visit"}))
    if "dentist is" in words:
        return wire.tool_calls(("append", {"path": f"memory/{datetime.now(UTC).date()}.md", "text": FACT}))
    if "boat" in words:
        return wire.tool_calls(
            ("append", {"path": f"memory/{datetime.now(UTC).date()}.md", "text": "- The boat is for sale."})
        )
    return wire.reply("Good day.")


@pytest.mark.slow
def test_the_walkthrough_goes_as_it_says(tmp_path: Path) -> None:
    """Each command in its order answers as shown; what a block types in a chat is typed."""
    blocks = list(fences(PAGE.read_text(encoding="utf-8"), "console"))
    assert len(blocks) > 5
    sources.openclaw(tmp_path / ".openclaw")
    with ProviderServer(responder=answer, models=["qwen3"]) as server:
        for block in blocks:
            for command, shown in commands(block.replace(ADDRESS, server.url)):
                printed = _run(command, shown, tmp_path)
                expected = "".join(line for line in shown.splitlines(True) if not line.startswith(SAID))
                assert matches(expected, printed), f"{command} printed:\n{printed}"


def test_moving_in_goes_as_the_page_says(tmp_path: Path) -> None:
    """Each command in its order answers as shown, in a home with what the four programs leave."""
    sources.openclaw(tmp_path / ".openclaw")
    sources.hermes(tmp_path / ".hermes")
    exports.claude(tmp_path / "Downloads/claude")
    exports.chatgpt(tmp_path / "Downloads/chatgpt.zip")
    blocks = list(fences(MOVING.read_text(encoding="utf-8"), "console"))
    assert len(blocks) > 5
    for block in blocks:
        for command, shown in commands(block):
            program, *words = shlex.split(command.replace("~/", f"{tmp_path}/"))
            assert program == "nacre"
            run = run_nacre(tmp_path, *words)
            assert run.returncode == 0, run.stderr
            assert matches(shown, run.stdout), f"{command} printed:\n{run.stdout}"


def _run(command: str, shown: str, home: Path) -> str:
    variables = environment(home, NO_PROXY="127.0.0.1", COLUMNS="100", EDITOR="true")
    if not command.startswith("nacre "):
        return subprocess.run(
            ["sh", "-ec", command], cwd=home, env=variables, capture_output=True, text=True, check=True
        ).stdout
    typed = "".join(line.removeprefix(SAID) for line in shown.splitlines(True) if line.startswith(SAID))
    run = run_warm(
        "-m",
        *shlex.split(command, comments=True),
        cwd=home,
        env=variables,
        stdin=typed,
        timeout_seconds=RUN_SECONDS,
    )
    assert run.returncode == 0, f"{command}: {run.stderr}"
    return run.stdout
