"""`nacre`: the commands, and how failures leave the program. Loads a command only when it is called.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 128 + n ended by signal n.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from nacre import __version__
from nacre.cli.invocation import environment_of, shared_options
from nacre.cli.screen.examples import EXAMPLES, epilog, with_examples
from nacre.cli.screen.screen import Tone, screen_on
from nacre.runtime.contracts.errors import AgentError, ConfigError
from nacre.runtime.settings.config import process_environment, settings_file

log = logging.getLogger(__name__)

COMMANDS: Mapping[str, tuple[str, str]] = {
    "chat": ("nacre.cli.talk.chat", "Talk to the assistant in this terminal (the default)."),
    "send": ("nacre.cli.talk.send", "Send one message and print the reply."),
    "serve": (
        "nacre.cli.serving.serve",
        "Run the channels and services of the settings until a signal.",
    ),
    "status": (
        "nacre.cli.serving.status",
        "Show the model, notes, sessions and cost, and the channels of `nacre serve`.",
    ),
    "doctor": (
        "nacre.cli.setup.doctor.command",
        "Find problems and say how to solve them.",
    ),
    "log": (
        "nacre.cli.serving.log",
        "Show the end of the log, which never contains what people said.",
    ),
    "schedule": (
        "nacre.cli.serving.schedule",
        "List, create and remove scheduled jobs.",
    ),
    "sessions": (
        "nacre.cli.sessions.commands",
        "List, show, export and delete conversations, or resume one.",
    ),
    "context": (
        "nacre.cli.sessions.context",
        "Show what the model would get now, with sizes in tokens.",
    ),
    "usage": (
        "nacre.cli.sessions.usage",
        "Show the tokens and cost of models and embeddings.",
    ),
    "memory": ("nacre.cli.memory.commands", "Search, inspect and maintain the notes and their index."),
    "skills": ("nacre.cli.permissions.skills", "List and check the skills of the workspace."),
    "extensions": (
        "nacre.cli.setup.lists.extensions",
        "List installed extensions and whether they are on.",
    ),
    "hooks": ("nacre.cli.permissions.hooks", "List the hooks of the workspace and trust them."),
    "pairing": (
        "nacre.cli.permissions.pairing",
        "List who may write to the assistant, and admit people.",
    ),
    "config": ("nacre.cli.setup.config.commands", "Show and change the settings."),
    "agents": ("nacre.cli.setup.lists.agents", "List the agents that the settings name."),
    "completion": (
        "nacre.cli.setup.completion",
        "Print a script for Tab completion in your shell.",
    ),
    "init": ("nacre.cli.setup.init", "Set up the assistant: folders, model, channels."),
}
_DEFAULT_COMMAND = "chat"
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Talk": ("chat", "send", "sessions", "context", "usage"),
    "Remember": ("memory", "ltm", "import", "backup", "restore"),
    "Set up": ("init", "config", "agents", "skills", "hooks", "extensions", "completion"),
    "Run": ("serve", "status", "doctor", "log", "schedule", "pairing", "token", "mcp"),
}
"""The sections of `nacre --help`; what is in none of them comes last."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they run; help needs their one-line texts alone."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_top_level()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from nacre.cli.extension_commands import extension_command

            return extension_command(ctx, cmd_name)
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return with_examples(command, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a slip is told which command is the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            nearest = get_close_matches(args[0].lower(), self.list_commands(ctx), n=1)
            if not nearest:
                raise
            raise click.UsageError(f"{error.message} Did you mean {nearest[0]!r}?", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; what the settings took from a variable, such as a key, is not told in a failure."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            from nacre.runtime.settings.disk.variables import values_unseen

            environment = environment_of(ctx)
            try:
                told = values_unseen(str(error), settings_file(environment), environment)
            except ConfigError:  # there is no such file
                raise error from None
            if told == str(error):
                raise
            raise ConfigError(told) from None

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        left = {name: text for name, (_, text) in COMMANDS.items()} | _top_level()
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, left.pop(name)) for name in names if name in left])
        with formatter.section("More"):
            formatter.write_dl(list(left.items()))


def _top_level() -> dict[str, str]:
    """The help of the commands that built-in extensions add directly below `nacre`."""
    from nacre.cli.extension_commands import built_in_commands

    return {name: command.help for name, command in built_in_commands().items() if " " not in name}


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="nacre", message="%(prog)s %(version)s")
@shared_options
def nacre(context: click.Context) -> int | None:
    """A personal assistant whose memory is plain Markdown. Without a command: nacre chat."""
    if context.invoked_subcommand is not None:
        return None
    command = nacre.get_command(context, _DEFAULT_COMMAND)
    assert command is not None
    with command.make_context(_DEFAULT_COMMAND, [], parent=context) as inner:
        code: int | None = command.invoke(inner)
        return code


nacre.epilog = epilog(EXAMPLES[""])


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The `nacre` program: runs one command and ends the process with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    _leave(_run(arguments))


def _leave(code: int) -> NoReturn:
    """Ends the process at once. Commands close what they opened; taking the interpreter apart object by
    object, as a usual exit does, made a search 17 % slower and `nacre send` 14 %."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # no stream at all, one that broke, or was closed
            code = code or 1
    logging.shutdown()
    os._exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return _code(nacre.main(args=arguments, prog_name="nacre", standalone_mode=False))
    except click.ClickException as error:
        with io.StringIO() as text:
            error.show(text)
            return _failed(text.getvalue().rstrip(), error.exit_code, tone="plain")
    except (KeyboardInterrupt, click.Abort):
        return 130
    except SystemExit as end:  # click's way out when nobody reads the output any more
        return _code(end.code)
    except ConfigError as error:
        return _failed(error, 2)
    except AgentError as error:
        return _failed(error, 1)
    except OSError as error:
        log.info("the system refused", exc_info=True)
        if str(error).endswith("."):  # a sentence of Nacre's own, where a store cannot be reached
            return _failed(error, 1)
        return _failed(f"Nacre stopped, because the system refused something: {error}.", 1)
    except Exception as error:
        # A bug: the trace belongs into the log, a sentence onto the screen.
        log.exception("the program broke off")
        return _failed(
            f"Nacre broke off on an unexpected {type(error).__name__}: {error}. Please report it.", 1
        )


def _code(result: Any) -> int:
    return result if isinstance(result, int) else 0


def _failed(error: object, code: int, *, tone: Tone = "error") -> int:
    screen_on(sys.stderr, process_environment()).line(str(error), tone)
    return code
