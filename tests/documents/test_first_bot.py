"""Follows docs/first-bot.md: writes its files, runs them, and runs its test as an author would."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.documents.console import FENCE
from tests.servers.warm_python import run_warm

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("bot.py", "harbors.py", "test_bot.py", "group.py")


def write_files(folder: Path) -> None:
    """Writes the files of the page, each below the words that name it."""
    page = (DOCS / "first-bot.md").read_text(encoding="utf-8")
    files = [match for match in FENCE.finditer(page) if match[1] == "py"]
    for name, match in zip(NAMES, files, strict=True):
        named = re.findall(r"`(\w+\.py)`", page[: match.start()])
        assert named[-1] == name
        (folder / name).write_text(match[2], encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    write_files(tmp_path)
    return tmp_path


def run(home: Path, *words: str) -> str:
    """What a program of the page prints, without a key and a network."""
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(home),
        "TZ": "UTC",
        "PYTHONPATH": os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]),
    }
    ran = run_warm(*words, cwd=home, env=environment, timeout_seconds=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_the_page_leads_to_a_bot_in_a_group(home: Path) -> None:
    """The first program greets, the test passes, and both people of the group are answered."""
    assert "offline responder" in run(home, "bot.py")
    assert "1 passed" in run(home, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_bot.py")
    lines = run(home, "group.py").splitlines()
    assert [line.partition(":")[0] for line in lines if ": " in line][:1] == ["Ann"]
    assert any(line.startswith("Bob: ") for line in lines)
