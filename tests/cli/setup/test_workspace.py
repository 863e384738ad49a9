"""`nacre workspace`: as the document shows it, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.program import run_nacre
from tests.house.tree import ROOT

pytestmark = pytest.mark.postgres


def test_the_document_is_true(database_url: str, tmp_path: Path) -> None:
    """Each command of `docs/postgres.md` answers as it is shown there."""
    run_nacre(tmp_path, "init", NACRE_DATABASE_URL=database_url)
    section = (ROOT / "docs/postgres.md").read_text().split("## The notes in a folder")[1]
    block = section.split("```text\n")[1].split("```")[0]

    for command, answer in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
        if command.startswith("nacre "):
            ended = run_nacre(tmp_path, *command.split()[1:], NACRE_DATABASE_URL=database_url)
            assert (ended.stdout + ended.stderr, ended.returncode) == (answer, 0)
        else:
            line, name = re.fullmatch(r'echo "(.*)" >> (.*)', command).groups()  # type: ignore[union-attr] # as shown
            with (tmp_path / name).open("a") as file:
                file.write(f"{line}\n")


def test_a_conflict_is_told_and_ends_with_one(database_url: str, tmp_path: Path) -> None:
    """Two folders stand for two people; the second one's push and pull say what is the matter."""

    def run(*arguments: str) -> tuple[int, str]:
        ended = run_nacre(tmp_path, "workspace", *arguments, NACRE_DATABASE_URL=database_url)
        return ended.returncode, ended.stdout + ended.stderr

    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "plan.md").write_text(f"{folder}\n")
    assert run("push", "one") == (0, "1 brought to the workspace: plan.md\n")

    code, told = run("push", "two")
    assert (code, "plan.md changed in the workspace as well" in told) == (1, True)
    pulled = run_nacre(tmp_path, "workspace", "pull", "two", "--json", NACRE_DATABASE_URL=database_url)
    assert (pulled.returncode, json.loads(pulled.stdout)["conflicts"]) == (1, ["plan.md"])
    assert "In conflict: plan.md." in pulled.stderr
    code, told = run("push", "two")
    assert (code, "plan.md still has a conflict" in told) == (1, True)
    assert (tmp_path / "two/plan.md").read_text().startswith("<<<<<<< this folder\ntwo\n")
