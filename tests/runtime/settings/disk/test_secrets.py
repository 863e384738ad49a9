"""Keys outside of the settings file: in `.env` beside it, and in the system's keyring."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.disk.secrets import from_keyring, keep_in_file, keep_in_keyring

SETTINGS = '{models: {providers: {openai: {apiKey: "${%s}"}}}}'


def _key(state: Path, **environment: str) -> str:
    config = load_config({"HOME": str(state), **environment}, state_dir=state)
    return config.settings.models.providers["openai"].api_key


@pytest.mark.parametrize("secret", ["sk-bees", "with 'quotes' and \\n", 'a"b#c $HOME ${X}'])
def test_a_key_of_the_environment_file_fills_in_a_variable(tmp_path: Path, secret: str) -> None:
    """The environment goes before it; the file is the owner's alone, and what stood there stays."""
    (tmp_path / "nacre.json5").write_text(SETTINGS % "BEES_KEY")
    (tmp_path / ".env").write_text("# mine\nexport OTHER=1")
    keep_in_file(tmp_path / ".env", "BEES_KEY", secret)

    assert _key(tmp_path) == secret
    assert _key(tmp_path, BEES_KEY="sk-now") == "sk-now"
    assert (tmp_path / ".env").read_text().startswith("# mine\nexport OTHER=1\n")
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600


def test_a_key_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """All other lines stay; a file that cannot be read stays whole."""
    (tmp_path / ".env").write_text("# mine\nexport BEES_KEY=first\n\nOTHER='two\nlines'\nBEES_KEY=\n")
    keep_in_file(tmp_path / ".env", "BEES_KEY", "second")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / ".env").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        keep_in_file(tmp_path / "bad" / ".env", "BEES_KEY", "x")

    assert (tmp_path / ".env").read_text() == "# mine\n\nOTHER='two\nlines'\nBEES_KEY='second'\n"
    assert (tmp_path / "bad" / ".env").read_bytes() == b"\xff\xfe\x00"


def test_the_file_of_another_program_in_its_place_is_told(tmp_path: Path) -> None:
    """A folder of that name, which virtual environments are often called, stops nothing with a trace."""
    (tmp_path / "nacre.json5").write_text(SETTINGS % "BEES_KEY")
    (tmp_path / ".env").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)


def test_the_keyring_is_asked_for_what_the_settings_say_it_has(keyring_file: Path, tmp_path: Path) -> None:
    """And a key that is not there is named with the way to put it there; a new one takes its place."""
    (tmp_path / "nacre.json5").write_text(SETTINGS % "keyring:BEES_KEY")
    [told] = load_config({"HOME": str(tmp_path), "BEES_KEY": "sk-env"}, state_dir=tmp_path).notices
    assert "keyring set nacre BEES_KEY" in told
    keep_in_keyring("BEES_KEY", "sk-wasps")
    keep_in_keyring("BEES_KEY", "sk-bees")

    assert _key(tmp_path) == from_keyring("BEES_KEY") == "sk-bees"
    assert keyring_file.is_file()
