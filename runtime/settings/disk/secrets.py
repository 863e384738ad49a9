"""Keys outside of the settings file: in the file `.env` beside it, or in the system's keyring.

`.env` has `NAME=value` lines for variables that are missing from the environment. The keyring is only asked
for names that the settings write as `${keyring:NAME}`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nacre.runtime.contracts.errors import ConfigError

ENVIRONMENT_FILE = ".env"
KEYRING_SERVICE = "nacre"
"""The service name of Nacre's secrets in the keyring."""


def with_environment_file(environment: Mapping[str, str], settings_file: Path) -> Mapping[str, str]:
    """The environment, with variables missing from it read from the `.env` beside the settings.

    Raises:
        ConfigError: the file exists and cannot be read.
    """
    file = settings_file.with_name(ENVIRONMENT_FILE)
    text = _text(file)
    if not text.strip():
        return environment
    kept = variables_in(text)
    return {**{name: value for name, value in kept.items() if value}, **environment}


def variables_in(text: str) -> Mapping[str, str]:
    """The variables in an environment file's text; those without a value are empty."""
    from dotenv import dotenv_values

    return {
        name: value or ""
        for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()
    }


def keep_in_file(file: Path, name: str, secret: str) -> None:
    """Sets a variable in an environment file, which only its owner may read afterwards.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    from dotenv.parser import parse_stream

    from nacre.sessions.contracts.errors import SessionError
    from nacre.sessions.disk.durable import locked, make_folder, replace_file

    file = file.resolve()
    try:
        make_folder(file.parent)
        with locked(file):
            lines = parse_stream(io.StringIO(_text(file)))
            text = "".join(line.original.string for line in lines if line.key != name)
            before = f"{text}\n" if text and not text.endswith("\n") else text
            quoted = secret.replace("\\", "\\\\").replace("'", "\\'")
            replace_file(file, f"{before}{name}='{quoted}'\n".encode())
    except (OSError, SessionError) as error:
        raise ConfigError(f"{file} was not changed: {error}") from error


def has_keyring() -> bool:
    """Whether the system has a usable keyring; `nacre[keyring]` installs the library for it."""
    keyring = _keyring()
    return keyring is not None and bool(keyring.get_keyring().priority > 0)


def keep_in_keyring(name: str, secret: str) -> None:
    """Stores a secret in the system's keyring, in place of another with this name.

    Raises:
        ConfigError: there is no keyring, or it is locked.
    """
    _ask_keyring("set_password", name, secret)


def from_keyring(name: str) -> str:
    """A secret from the system's keyring, or an empty string.

    Raises:
        ConfigError: there is no keyring, or it is locked.
    """
    return _ask_keyring("get_password", name) or ""


def _ask_keyring(question: str, name: str, *more: str) -> str | None:
    keyring = _keyring()
    if keyring is None:
        from nacre.installation import install_command  # its parser of TOML takes milliseconds

        raise ConfigError(
            f"{name} is in the system's keyring, but the package that reads it is not installed. "
            f"Install it with: {install_command('keyring')}"
        )
    try:
        answer: str | None = getattr(keyring, question)(KEYRING_SERVICE, name, *more)
    except (keyring.errors.KeyringError, OSError) as error:
        raise ConfigError(
            f"The system's keyring does not return {name}: {error}. Unlock it, or store the key elsewhere."
        ) from error
    return answer


def _keyring() -> Any:
    try:
        import keyring
    except ImportError:
        return None
    return keyring


def _text(file: Path) -> str:
    if not file.exists():
        return ""
    from nacre.sessions.contracts.errors import SessionError
    from nacre.sessions.disk.durable import read_plain

    try:
        found = read_plain(file.resolve())
        return found[0].decode("utf-8-sig") if found else ""
    except (SessionError, OSError, UnicodeDecodeError) as error:
        problem = str(error).rstrip(".")
        raise ConfigError(f"The file {file} cannot be read: {problem}. Repair or move it.") from error
