"""What every command starts from: the options that all share, the settings, the log. Light to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS = (
    (
        "--state-dir",
        "DIR",
        "NACRE_STATE_DIR",
        "Folder for everything that Nacre keeps, ~/.nacre unless given.",
    ),
    ("--workspace", "DIR", "NACRE_WORKSPACE", "Folder with the notes, <state-dir>/workspace unless given."),
    (
        "--model",
        "NAME",
        "NACRE_MODEL",
        "provider/model, as litellm names it; without one, Nacre works offline.",
    ),
)


def shared_options(command: Decorated) -> Decorated:
    """Adds the options that every command knows, before and after the command's name."""
    for flag, metavar, variable, text in reversed(_OPTIONS):
        command = click.option(
            flag,
            metavar=metavar,
            expose_value=False,
            callback=_keeper(variable),
            help=f"{text}  [env: {variable}]",
        )(command)
    return command


def _keeper(variable: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        overrides = context.ensure_object(dict)
        if value is not None:
            overrides[variable] = value

    return keep


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One run of the program: its environment, with what the options changed, and its settings."""

    environment: Mapping[str, str]
    config: Config
    log_file: Path

    def short(self, path: Path) -> str:
        """A path as people write it, with `~` for the home folder."""
        home = self.config.home
        return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def environment_of(context: click.Context) -> Mapping[str, str]:
    """The environment of the process, in which the options stand in for their variables: one precedence."""
    from nacre.runtime.settings.config import process_environment

    return {**process_environment(), **context.ensure_object(dict)}


def begin(context: click.Context) -> Invocation:
    """Reads the settings and opens the log.

    Raises:
        ConfigError: a setting or the settings file cannot be used.
    """
    from nacre.cli.logs import log_to_file, secret_values
    from nacre.runtime.settings.config import load_config

    environment = environment_of(context)
    config = load_config(environment)
    keys = tuple(
        provider.api_key for provider in config.settings.models.providers.values() if provider.api_key
    )
    log_file = log_to_file(config.state_dir, secrets=(*keys, *secret_values(environment)))
    return Invocation(environment=environment, config=config, log_file=log_file)
