"""`nacre`: its help, and its exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 128 + n ended by signal n.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from nacre import __version__
from nacre.cli.invocation import environment_of, shared_options
from nacre.cli.nouns import Noun
from nacre.cli.screen.screen import Tone, screen_on
from nacre.runtime.contracts.errors import AgentError, ConfigError
from nacre.runtime.settings.config import process_environment, settings_file

log = logging.getLogger(__name__)

_DEFAULT_COMMAND = "chat"
_TASKS: Mapping[str, tuple[str, ...]] = {
    "Talk": ("chat", "send", "sessions"),
    "Remember": ("search", "memory"),
    "Run": ("serve", "status", "usage", "doctor"),
    "Set up": ("init", "config", "import", "backup", "admin"),
}
"""The sections of `nacre --help`, which fits on one screen."""
_OPTIONS = "Everywhere: --state-dir DIR, --agent ID, --workspace DIR, --model NAME, --help."


class Program(Noun):
    """`nacre` itself."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command; errors do not quote the values of variables in the settings, such as keys."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            from nacre.runtime.settings.disk.variables import hide_values

            environment = environment_of(ctx)
            try:
                sentence = hide_values(str(error), settings_file(environment), environment)
            except ConfigError:  # there is no such file
                raise error from None
            if sentence == str(error):
                raise
            raise ConfigError(sentence) from None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """At most 24 lines of 80 columns: the commands by task, and the options of all."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        formatter.write_paragraph()
        for title, names in _TASKS.items():
            formatter.write(f"{title}:\n")
            for name in names:
                formatter.write(f"  {name:<9} {self.line(ctx, name)}\n")
        formatter.write(f"{_OPTIONS}\n")


@click.group(
    cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The `nacre` program: runs one command and ends the process with its code."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed by the caller, such as by `2>&-`
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    code = _run(arguments)
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:  # such as by the connection of `nacre acp`
                stream.flush()
        except OSError:
            code = code or 1
    logging.shutdown()
    # Commands close what they opened. Freeing all objects, as a usual exit does, made a search 17 % slower.
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
    except SystemExit as end:  # click raises it when nobody reads the output any more
        return _code(end.code)
    except ConfigError as error:
        return _failed(error, 2)
    except AgentError as error:
        return _failed(error, 1)
    except OSError as error:
        log.info("the system refused", exc_info=True)
        if str(error).endswith("."):  # a sentence of Nacre, such as of a store that cannot be reached
            return _failed(error, 1)
        reason = f"{error.strerror}, at {error.filename}" if error.strerror and error.filename else error
        return _failed(f"Nacre stopped because the system refused an operation: {reason}.", 1)
    except Exception as error:
        from nacre.sessions.contracts.errors import SessionError

        if isinstance(error, SessionError):
            return _failed(error, 1)
        log.exception("the program stopped")  # a bug: the screen shows a sentence, not the trace
        return _failed(
            f"Nacre stopped with an unexpected {type(error).__name__}: {error}. Please report it.", 1
        )


def _code(result: Any) -> int:
    return result if isinstance(result, int) else 0


def _failed(error: object, code: int, *, tone: Tone = "error") -> int:
    screen_on(sys.stderr, process_environment()).line(str(error), tone)
    return code
