"""What was said is there for the next process, and no file holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import run_nacre

pytestmark = pytest.mark.postgres


def test_a_conversation_outlives_its_process(database_url: str, tmp_path: Path) -> None:
    """The terminal talks, starts again and goes on in the same session, from its own history."""
    for words in ("My cat is called Mopsi.", "/label cat", "What did I say?"):
        sent = run_nacre(tmp_path, "send", words, NACRE_DATABASE_URL=database_url)
        assert sent.returncode == 0, sent.stderr
    shown = run_nacre(tmp_path, "sessions", "show", "main", NACRE_DATABASE_URL=database_url)
    assert "User: My cat is called Mopsi." in shown.stdout
    assert "User: What did I say?" in shown.stdout
    assert list((tmp_path / ".nacre" / "agents").rglob("*.json*")) == []


def test_without_a_server_the_owner_reads_why(tmp_path: Path) -> None:
    """A sentence, with the place and without the password."""
    url = "postgresql://me:hushhush@127.0.0.1:1/mine"
    sent = run_nacre(tmp_path, "sessions", "list", NACRE_DATABASE_URL=url)
    assert sent.returncode == 1
    assert "'mine' on 127.0.0.1 cannot be used" in sent.stderr
    assert "hush" not in sent.stdout + sent.stderr
