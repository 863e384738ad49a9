"""For which commands the model is begun before the command line is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from nacre.cli.main import nacre
from nacre.cli.memory.open_index import local_model
from nacre.cli.memory.remembered_search import KEPT_FILE
from nacre.memory.embedders.e5 import E5Embedder, loaded_model
from tests.cli.program import environment, run_nacre

PROGRAM = """
import sys
from nacre.__main__ import begin_model_of_search
begin_model_of_search(sys.argv[1:])
if "nacre.memory.embedders.question_ahead" in sys.modules:
    from nacre.memory.embedders.question_ahead import QuestionAhead
    print(len(QuestionAhead("mast", program="").vector("mast")))
print("click" in sys.modules)
"""


def _begun(home: Path, *arguments: str, **variables: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        cwd=home,
        env=environment(home, **variables),
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one note, which was searched once."""
    path = tmp_path_factory.mktemp("home")
    log = path / ".nacre/workspace/memory/2026-01-20.md"
    log.parent.mkdir(parents=True)
    log.write_text("- Halcyon needs a new mast before June.\n", encoding="utf-8")
    assert "Halcyon" in run_nacre(path, "memory", "search", "mast").stdout
    return path


def test_a_search_begins_with_its_model(home: Path) -> None:
    """It answers the question, and click was not imported for it."""
    assert _begun(home, "memory", "search", "mast", "--json") == "384\nFalse\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("memory", "status"),
        ("memory",),
        ("memory", "search", "--help"),
        ("memory", "search", "mast", "--state-dir=elsewhere"),
        ("send", "-m", "memory search"),
    ],
    ids=" ".join,
)
def test_nothing_else_does(home: Path, arguments: tuple[str, ...]) -> None:
    """Neither other commands nor a search that is asked for help, or looks elsewhere."""
    assert _begun(home, *arguments) == "False\n"


def test_a_search_by_words_begins_with_no_model(home: Path) -> None:
    """And none whose settings were never read, or cannot be found."""
    assert _begun(home, "memory", "search", "mast", NACRE_STATE_DIR=str(home / "new")) == "False\n"
    assert _begun(home, "memory", "search", "mast", NACRE_STATE_DIR="~nobody/x") == "False\n"
    kept = home / ".nacre" / KEPT_FILE
    by_meaning = kept.read_text(encoding="utf-8")
    kept.write_text(by_meaning.replace('"by_meaning": true', '"by_meaning": false'), encoding="utf-8")
    begun = _begun(home, "memory", "search", "mast")
    kept.write_text(by_meaning, encoding="utf-8")
    assert begun == "False\n"


def test_a_program_that_has_the_model_asks_no_other() -> None:
    """It would load the same libraries once more."""
    assert loaded_model()
    assert local_model(click.Context(nacre), "mast", None) is E5Embedder
