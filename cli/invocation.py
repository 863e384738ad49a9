"""The start of every command: shared options, settings, log. Fast to import."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from nacre.cli.screen.screen import Tone, screen_on
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import SETTINGS_FILE, Config, home_folder, load_config, process_environment

if TYPE_CHECKING:
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.ledger.tables import LedgerTables

T = TypeVar("T")
_OPTIONS = (
    ("--state-dir", "DIR", "State folder; default: ~/.nacre."),
    ("--agent", "ID", "An agent of agents.list."),
    ("--workspace", "DIR", "Notes folder, in the state folder."),
    ("--model", "NAME", "provider/model; offline without one."),
)


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Passes the context, and adds the options that every command takes, before and after its name."""
    command = click.pass_context(command)
    for flag, metavar, text in reversed(_OPTIONS):
        variable = f"NACRE_{flag.removeprefix('--').replace('-', '_').upper()}"
        command = click.option(
            flag,
            metavar=metavar,
            expose_value=False,
            callback=partial(_keep, variable),
            help=f"{text}  [env: {variable}]",
        )(command)
    return command


def json_option(text: str = "Print JSON.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds `--json`, the argument `as_json` of the command."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def day_option(flag: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds an option that takes a day, such as `2026-01-20` or `last March`."""
    return click.option(flag, metavar="DAY", callback=_checked_day, help=text)


def _checked_day(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from nacre.memory.contracts.errors import DayUnknown
    from nacre.memory.text.days.day_limits import checked_day

    try:
        return checked_day(value)
    except DayUnknown as error:
        raise click.BadParameter(str(error)) from None


def _keep(variable: str, context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    overrides = context.ensure_object(dict)
    if value is not None:
        overrides[variable] = value


class Voice(Record):
    """The output of a command. The environment decides how it looks."""

    environment: Mapping[str, str]

    def say(self, *lines: str) -> None:
        """Shows lines on standard output."""
        self._show(sys.stdout, lines, "plain")

    def warn(self, *lines: str, tone: Tone = "warning") -> None:
        """Shows lines on standard error."""
        self._show(sys.stderr, lines, tone)

    def short(self, path: Path) -> str:
        """A path as people write it, with `~` for the home folder."""
        home = home_folder(self.environment)
        return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)

    def _show(self, stream: TextIO, lines: Sequence[str], tone: Tone) -> None:
        screen = screen_on(stream, self.environment)
        for line in lines:
            screen.line(line, tone)


class Invocation(Voice):
    """One run of the program: its environment, including the options, and its settings."""

    config: Config
    log_file: Path

    @property
    def is_default_agent(self) -> bool:
        """Whether this command uses the default agent."""
        return any(agent.id == self.config.agent_id and agent.is_default for agent in self.config.agents)


def in_editor(
    text: str, environment: Mapping[str, str], *, extension: str = ".md", file: Path | None = None
) -> str | None:
    """The text as the owner saved it in an editor; `None` if they did not save it. Blocks.

    With a `file`, that file is edited in place and the result is `None`.

    Raises:
        ConfigError: no editor can be started.
    """
    try:
        if file is not None:
            click.edit(filename=str(file), env=dict(environment))
            return None
        return click.edit(text, extension=extension, require_save=True, env=dict(environment))
    except click.ClickException as error:
        raise ConfigError(f"{error.message}. Set EDITOR to one that is installed.") from error


def run_reporting(
    invocation: Voice, work: Coroutine[Any, Any, int], *failures: type[Exception], prefix: str = ""
) -> int:
    """Runs `work` until it is done or a signal ends it; one of `failures` becomes a message and code 1."""
    from nacre.cli.signals import run_until_signal

    try:
        return run_until_signal(work)
    except failures as error:
        invocation.warn(f"{prefix}{error}", tone="error")
        return 1


def check_library(module: str, *, library: str, command: str) -> None:
    """Checks that a library which a command needs can be imported. Its extra has the name of the module.

    Raises:
        click.ClickException: it cannot be imported.
    """
    from importlib import import_module

    from nacre.installation import install_command

    try:
        import_module(module)
    except ImportError as error:
        raise click.ClickException(
            f"`{command}` needs the library {library}, which cannot be imported ({error}). "
            f"Install it with `{install_command(module)}`."
        ) from error


def with_ledger(invocation: Invocation, work: Callable[[LedgerTables, Clock], Awaitable[T]]) -> T:
    """Opens the tables of the ledger for `work` and returns its result. Blocks.

    Raises:
        click.ClickException: the ledger cannot be used.
    """
    import asyncio

    from nacre.closing import using
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.storage import ledger_of

    async def run() -> T:
        async with using(await ledger_of(invocation.config).open_tables()) as tables:
            return await work(tables, invocation.config.clock)

    try:
        return asyncio.run(run())
    except LedgerUnusable as error:
        raise click.ClickException(str(error)) from error


def environment_of(context: click.Context) -> Mapping[str, str]:
    """The environment of the process, with the options in place of their variables."""
    return {**process_environment(), **context.ensure_object(dict)}


def begin(context: click.Context) -> Invocation:
    """Reads the settings and opens the log.

    Raises:
        ConfigError: a setting or the settings file cannot be used.
    """
    from nacre.cli.logs import log_to_file, secret_values
    from nacre.runtime.settings.disk.secrets import with_environment_file

    environment = environment_of(context)
    config = load_config(environment)
    written = [provider.api_key for provider in config.settings.models.providers.values()]
    keys = [key for key in (*written, *(profile.api_key for profile in config.auth.profiles)) if key]
    known = with_environment_file(environment, config.state_dir / SETTINGS_FILE)
    log_file = log_to_file(config.state_dir, secrets=(*keys, *secret_values(known)))
    return Invocation(environment=environment, config=config, log_file=log_file)
