"""`nacre admin worker`, and `nacre serve` that leaves turns to it, without a database."""

from __future__ import annotations

from pathlib import Path

from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings


def test_workers_need_a_database(tmp_path: Path) -> None:
    """Both say which setting names one, and end as for other wrong settings."""
    write_settings(tmp_path / ".nacre", {"storage": {"workers": True}})
    for command in (("admin", "worker"), ("serve",)):
        ended = run_nacre(tmp_path, *command)
        assert ended.returncode == 2
        assert "storage.url" in ended.stderr
