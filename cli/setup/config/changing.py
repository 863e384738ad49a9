"""Changes of the settings file: checked before they are written, and written as a whole. Edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import checked_settings

if TYPE_CHECKING:
    from nacre.runtime.settings.disk.keys import Key


def set_value(file: Path, environment: Mapping[str, str], key: Key, written: str) -> tuple[str, ...]:
    """Writes a value at a key; what the settings then are told about.

    `written` is JSON5, and text where it is none or where the setting wants a text.

    Raises:
        ConfigError: the value does not fit, or the file cannot be changed; it then stays as it was.
    """
    from nacre.runtime.settings.disk.json5_edits import with_value

    def put(value: Any) -> tuple[str, ...]:
        return change_file(file, environment, lambda text: with_value(text, key, value))

    *tried, last = _readings(written)
    for value in tried:
        with suppress(ConfigError):
            return put(value)
    return put(last)


def unset(file: Path, environment: Mapping[str, str], key: Key) -> tuple[str, ...]:
    """Takes a key out of the file. Raises as `set_value`."""
    from nacre.runtime.settings.disk.json5_edits import without

    return change_file(file, environment, lambda text: without(text, key))


def change_file(file: Path, environment: Mapping[str, str], change: Callable[[str], str]) -> tuple[str, ...]:
    """Puts `change(text)` in the place of the file's text, if it is one that Nacre can start with.

    The file that a link leads to is changed, its mode kept, its end of lines too. Two changes at the same
    time follow each other.

    Raises:
        ConfigError: what would be written does not fit, or the file cannot be read or written.
    """
    from nacre.memory.workspace.files import change_locked
    from nacre.runtime.settings.disk.settings_file import read_text

    told: tuple[str, ...] = ()

    def changed(_old: bytes | None) -> bytes:
        nonlocal told
        text = read_text(file)
        try:
            new = change(text)
        except ValueError as error:
            # What is no JSON5 at all has a better sentence of its own.
            checked_settings(text, file, environment)
            raise ConfigError(f"{file} was not changed: {error}. `nacre config edit` opens it.") from error
        told = checked_settings(new, file, environment)
        return new.encode("utf-8")

    is_new = not file.exists()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        change_locked(file.resolve(), changed, file.parent / "locks")
        if is_new:
            file.chmod(0o600)
    except OSError as error:
        raise ConfigError(f"{file} was not changed: {error.strerror or error}.") from error
    return told


def _readings(written: str) -> list[Any]:
    """What a value on the command line may be: first as JSON5, then as the text that it is."""
    import pyjson5

    try:
        value = pyjson5.decode(written)
    except pyjson5.Json5Exception:
        return [written]
    return [value] if isinstance(value, dict | list | bool | None) else [value, written]
