"""Changes the settings file. A change is checked before it is written as a whole. Edge."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import in_editor
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import checked_settings
from nacre.runtime.settings.disk.settings_file import read_text

if TYPE_CHECKING:
    from nacre.runtime.settings.keys import Key


def set_value(file: Path, environment: Mapping[str, str], key: Key, written: str) -> tuple[str, ...]:
    """Writes a value at a key, and returns remarks about the new settings.

    `written` is JSON5, or text if it is not JSON5 or the setting takes text.

    Raises:
        ConfigError: the value is invalid, or the file cannot be changed; it is then unchanged.
    """
    from nacre.runtime.settings.disk.json5_edits import readings, with_value

    def put(value: Any) -> tuple[str, ...]:
        return change_file(file, environment, lambda text: with_value(text, key, value))

    *first, last = readings(written)
    for value in first:
        with suppress(ConfigError):
            return put(value)
    return put(last)


def unset(file: Path, environment: Mapping[str, str], key: Key) -> tuple[str, ...]:
    """Removes a key from the file. Raises as `set_value`."""
    from nacre.runtime.settings.disk.json5_edits import without

    return change_file(file, environment, lambda text: without(text, key))


def change_file(file: Path, environment: Mapping[str, str], change: Callable[[str], str]) -> tuple[str, ...]:
    """Replaces the file's text by `change(text)`, if Nacre can start with that.

    Links are followed. Only the owner can read the file afterwards; a read-only file stays so. Line ends
    stay. Concurrent changes wait for each other.

    Raises:
        ConfigError: the new text is invalid, or the file cannot be read or written.
    """
    from nacre.sessions.contracts.errors import SessionError
    from nacre.sessions.disk.durable import locked, make_folder, read_plain, replace_file

    real = file.resolve()
    try:
        make_folder(file.parent)
        with locked(real):
            found = read_plain(real)
            text = found[0].decode("utf-8") if found else ""
            line_end = "\r\n" if "\r\n" in text else "\n"
            text = text.replace("\r\n", "\n")
            try:
                new = change(text)
            except ValueError as error:
                checked_settings(text, file, environment)  # has a better sentence for what is not JSON5
                raise ConfigError(
                    f"{file} was not changed: {error}. `nacre config edit` opens it."
                ) from error
            try:
                notices = checked_settings(new, file, environment)
            except ConfigError as error:
                raise ConfigError(f"Nothing was written. With this change: {error}") from error
            replace_file(real, new.replace("\n", line_end).encode("utf-8"))
            real.chmod(found[1].st_mode & 0o600 if found else 0o600)
    except (SessionError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} was not changed: {error}") from error
    return notices


def edit_file(file: Path, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Opens the file's text in an editor until it is valid, and writes it; `None` if nothing changed.

    Raises:
        ConfigError: no editor can be started, the file changed meanwhile, or the owner left an invalid text,
            which is then kept beside the file.
    """
    before = read_text(file)
    text = before or example()
    while True:
        new = in_editor(text, environment, extension=".json5")
        if new is None or new == (before or example()):
            return None
        try:
            checked_settings(new, file, environment)
        except ConfigError as error:
            click.echo(str(error), err=True)
            if sys.stdin.isatty() and click.confirm("Edit it again?", default=True, err=True):
                text = new
                continue
            raise _rejected(new, file, "It cannot be used") from error

        def replaced(now: str, new: str = new) -> str:
            if now != before:
                raise ConfigError("The file was changed meanwhile.")
            return new

        try:
            return change_file(file, environment, replaced)
        except ConfigError as error:
            raise _rejected(new, file, str(error).removesuffix(".")) from error


def example() -> str:
    """The commented settings of a new file."""
    return Path(__file__).with_name("example.json5").read_text(encoding="utf-8")


def _rejected(text: str, file: Path, why: str) -> ConfigError:
    place = file.with_name(f"{file.name}.rejected")
    try:
        place.write_text(text, encoding="utf-8")
        place.chmod(0o600)
    except OSError:  # the disk may be full
        with suppress(OSError):
            place.unlink(missing_ok=True)
        descriptor, name = mkstemp(prefix=f"{file.stem}-", suffix=file.suffix)
        os.close(descriptor)
        place = Path(name)
        place.write_text(text, encoding="utf-8")
    return ConfigError(f"{why}. {file} is unchanged; your text is in {place}.")
