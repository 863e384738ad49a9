"""Optional libraries of the tests: whether they are there, without the seconds that importing one takes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest


def needs(*names: str, why: str) -> None:
    """Skips the module that calls it where one of these packages is not installed."""
    if None in map(find_spec, names):
        pytest.skip(why, allow_module_level=True)


@pytest.fixture
def keyring_file(tmp_path: Path) -> Iterator[Path]:
    """The file of a keyring of plain text, which the system's stands back for meanwhile."""
    keyring = pytest.importorskip("keyring", reason="the extra `keyring` is not installed")
    backend = pytest.importorskip("keyrings.alt.file", reason="keyrings.alt is not installed")
    plain, own = backend.PlaintextKeyring(), keyring.get_keyring()
    plain.file_path = str(tmp_path / "keyring.cfg")
    keyring.set_keyring(plain)
    yield Path(plain.file_path)
    keyring.set_keyring(own)
