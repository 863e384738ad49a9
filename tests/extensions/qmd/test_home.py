"""The folders that qmd works in: its own, with the models that the owner's own qmd has already."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.extensions.qmd.home import QmdHome


@pytest.mark.covers("QMD-45")
def test_models_that_are_there_are_shared_by_a_link(tmp_path: Path) -> None:
    """Made once; a folder of models that qmd filled itself stays, and without any there is no link."""
    cache = tmp_path / "cache"
    home = QmdHome(tmp_path / "agent" / "qmd")
    home.make(cache)
    assert not (home.cache / "qmd" / "models").is_symlink()

    (cache / "qmd" / "models").mkdir(parents=True)
    (cache / "qmd" / "models" / "embed.gguf").write_bytes(b"weights")
    home.make(cache)
    home.make(cache)
    own = home.cache / "qmd" / "models"
    assert own.is_symlink()
    assert (own / "embed.gguf").read_bytes() == b"weights"

    filled = QmdHome(tmp_path / "other" / "qmd")
    (filled.cache / "qmd" / "models").mkdir(parents=True)
    filled.make(cache)
    assert not (filled.cache / "qmd" / "models").is_symlink()
