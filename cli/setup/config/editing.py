"""The settings in the owner's editor: what cannot be used never takes the place of what can. Edge."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from nacre.cli.invocation import in_editor
from nacre.cli.setup.config.changing import change_file
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import checked_settings
from nacre.runtime.settings.disk.settings_file import read_text


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
                raise _kept(new, file, "The file was changed by somebody else meanwhile")
            return new

        return change_file(file, environment, taken)


def example() -> str:
    """The commented settings that a new file begins with."""
    return Path(__file__).with_name("example.json5").read_text(encoding="utf-8")


def _kept(text: str, file: Path, why: str) -> ConfigError:
    place = file.with_name(f"{file.name}.rejected")
    place.write_text(text, encoding="utf-8")
    place.chmod(0o600)
    return ConfigError(f"{why}. {file} is as it was; what you wrote is in {place}.")
