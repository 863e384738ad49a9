"""Changes of the settings file: checked before they are written, and written as a whole. Edge."""

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

    `written` is JSON5, and text where it is none or where the setting wants a text.

    Raises:
        ConfigError: the value does not fit, or the file cannot be changed; it then stays as it was.
    """
    from nacre.runtime.settings.disk.json5_edits import readings, with_value

    def put(value: Any) -> tuple[str, ...]:
        return change_file(file, environment, lambda text: with_value(text, key, value))

    *tried, last = readings(written)
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

    The file that a link leads to is changed; it becomes its owner's alone, and stays read-only if it was. Its
    ends of lines stay. Two changes at the same time follow each other.

    Raises:
        ConfigError: what would be written does not fit, or the file cannot be read or written.
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
            new = _changed(text.replace("\r\n", "\n"), change, file, environment)
            try:
                told = checked_settings(new, file, environment)
            except ConfigError as error:
                raise ConfigError(f"Nothing was written. With this change: {error}") from error
            replace_file(real, new.replace("\n", line_end).encode("utf-8"))
            real.chmod(found[1].st_mode & 0o600 if found else 0o600)
    except (SessionError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} was not changed: {error}") from error
    return told


def _changed(text: str, change: Callable[[str], str], file: Path, environment: Mapping[str, str]) -> str:
    try:
        return change(text)
    except ValueError as error:
        checked_settings(text, file, environment)  # what is no JSON5 at all has a better sentence of its own
        raise ConfigError(f"{file} was not changed: {error}. `nacre config edit` opens it.") from error


def edited(file: Path, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Opens the file's text in an editor until it can be used, and writes it; `None` if nothing changed.

    Raises:
        ConfigError: no editor can be started, the file changed meanwhile, or the text cannot be used and
            was left so; it is then kept beside the file.
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
            raise _kept(new, file, "It cannot be used") from error

        def taken(now: str, new: str = new) -> str:
            if now != before:
                raise ConfigError("The file was changed by somebody else meanwhile.")
            return new

        try:
            return change_file(file, environment, taken)
        except ConfigError as error:
            raise _kept(new, file, str(error).removesuffix(".")) from error


def example() -> str:
    """The commented settings that a new file begins with."""
    return Path(__file__).with_name("example.json5").read_text(encoding="utf-8")


def _kept(text: str, file: Path, why: str) -> ConfigError:
    place = file.with_name(f"{file.name}.rejected")
    try:
        place.write_text(text, encoding="utf-8")
        place.chmod(0o600)
    except OSError:  # the disk that has no room for the settings may have none for these either
        with suppress(OSError):
            place.unlink(missing_ok=True)
        descriptor, name = mkstemp(prefix=f"{file.stem}-", suffix=file.suffix)
        os.close(descriptor)
        place = Path(name)
        place.write_text(text, encoding="utf-8")
    return ConfigError(f"{why}. {file} is as it was; what you wrote is in {place}.")
