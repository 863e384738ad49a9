"""`nacre import` for an agent whose notes and sessions lie in a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import run_nacre
from tests.extensions.importers import exports

pytestmark = pytest.mark.postgres


def test_an_export_comes_into_a_database(database_url: str, tmp_path: Path) -> None:
    """Sessions and notes become rows, and a second import finds them."""
    archive = exports.chatgpt(tmp_path / "export.zip")
    words = ("import", "chatgpt", str(archive), "--json")
    first = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url)
    assert first.returncode == 0, first.stderr
    again = json.loads(run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url).stdout)["counts"]
    assert (again["sessions"]["alreadyHere"], again["notes"]["alreadyHere"]) == (3, 2)
    listed = run_nacre(tmp_path, "sessions", "list", "--all", NACRE_DATABASE_URL=database_url).stdout
    assert "\nchatgpt-knots-" in listed
    assert not list((tmp_path / ".nacre").rglob("sessions/*.jsonl"))
