"""Runs Python programs that start warm: forked from a process that has imported Nacre already.

Starting Python and importing Nacre is most of the time of a program that does little. A forked program is a
process of its own all the same: with its arguments, environment, folder, streams, signals, exit code and the
end of any Python program. The start itself, its time and imports, is tested with `subprocess`.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import termios
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

from nacre.cli.nouns import COMMANDS, built_in_commands
from nacre.memory.embedders.e5 import loaded_model

_IMPORTED_AHEAD = (
    *(module.partition(":")[0] for module, _ in COMMANDS.values()),
    *(command.entry.partition(":")[0] for command in built_in_commands().values()),
    "nacre.bridges.server",
    "nacre.cli.logs",
    "nacre.cli.main",
    "nacre.cli.talk.quiet_turn",
    "nacre.extensions.curation.note_changes",
    "nacre.extensions.providers.catalog",
    "nacre.extensions.providers.embedding.open_embedder",
    "nacre.extensions.providers.extension",
    "nacre.extensions.providers.openai_compatible.listing",
    "nacre.extensions.providers.openai_compatible.model",
    "nacre.runtime.agent.runtime",
    "nacre.runtime.agent.opening.assembly",
    "nacre.runtime.ledger.file_ledger",
    "nacre.runtime.models.offline.responder",
    "nacre.sessions.index.index",
    "nacre.sessions.stores.files",
    "nacre.memory.engine",
    "nacre.memory.files.file_reader",
    "nacre.memory.search.searching",
    "nacre.memory.stores.index_file",
    "nacre.memory.stores.sqlite.store",
    "nacre.memory.sync.status",
    "nacre.memory.sync.vectors",
    "nacre.memory.workspace.watcher",
    "nacre.workspace_template",
    "anyio",
    "certifi",
    "h2.connection",
    "httpcore",
    "httpx",
    "numpy",
    "msgspec",
    "pyjson5",
    "tzlocal",
    __name__,
)
"""What most programs import. Importing these opens nothing, so that a fork finds everything at rest."""
_MODEL = loaded_model()  # has no threads, so that each program that embeds a note finds it loaded


def run_warm(
    *arguments: str, cwd: Path, env: Mapping[str, str], stdin: str = "", timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """Runs `python <arguments>` to its end, where the arguments are `-m module …` or `script.py …`.

    Raises:
        subprocess.TimeoutExpired: it ran for too long; it was killed.
    """
    with ExitStack() as closing:
        streams = [closing.enter_context(tempfile.TemporaryFile()) for _ in ("stdout", "stderr")]
        read, write = os.pipe()
        with os.fdopen(write, "wb") as typed:
            # The pipe takes some thousand bytes before anybody reads them; no test says more than that.
            typed.write(stdin.encode())
        with os.fdopen(read) as reader:
            program = WarmProgram(*arguments, cwd=cwd, env=env, files=(reader, *streams))
        try:
            code = program.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            raise subprocess.TimeoutExpired(list(arguments), timeout_seconds, *map(_text, streams)) from None
        return subprocess.CompletedProcess(list(arguments), code, *map(_text, streams))


class WarmProgram:
    """A program that runs, with three files as its streams; its methods are those of `subprocess.Popen`."""

    stdout: IO[str] | None = None
    stderr: IO[str] | None = None

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        files: Sequence[IO[Any] | int],
        has_terminal: bool = False,
    ) -> None:
        """With `has_terminal` the first file is a terminal, whose Ctrl-C is a signal."""
        numbers = [file if isinstance(file, int) else file.fileno() for file in files]
        handed = [_Handed(number) for number in numbers]
        self._process = _context().Process(
            target=_run, args=(arguments, str(cwd), dict(env), handed, has_terminal)
        )
        self._process.start()

    @classmethod
    @contextmanager
    def piped(cls, *arguments: str, cwd: Path, env: Mapping[str, str]) -> Iterator[WarmProgram]:
        """Runs one whose output is read from `stdout` and `stderr`; it is killed if it does not end."""
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()
        with os.fdopen(out_read) as out, os.fdopen(error_read) as error, Path(os.devnull).open() as nothing:
            program = cls(*arguments, cwd=cwd, env=env, files=(nothing, out_write, error_write))
            os.close(out_write)
            os.close(error_write)
            program.stdout, program.stderr = out, error
            try:
                yield program
            finally:
                if program.poll() is None:
                    program.kill()
                    program.wait()

    def communicate(self, timeout_seconds: float | None = None) -> tuple[str, str]:
        """Its output, once it has ended: less than a pipe takes."""
        self.wait(timeout_seconds)
        assert self.stdout is not None
        assert self.stderr is not None
        return self.stdout.read(), self.stderr.read()

    def poll(self) -> int | None:
        """Its exit code; nothing while it runs."""
        return self._process.exitcode

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Its exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it goes on running.
        """
        self._process.join(timeout_seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a warm program", timeout_seconds or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Sends it a signal, if it has not ended."""
        if self._process.pid is not None and self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Ends it with SIGKILL."""
        self._process.kill()


class _Handed:
    """A file descriptor that becomes one of the new process on its way there."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (DupFd(self._number),)


def _taken(handed: Any) -> int:
    number: int = handed.detach()
    return number


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED_AHEAD))
    return context


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8").replace("\r\n", "\n")


def _run(
    arguments: Sequence[str], cwd: str, env: Mapping[str, str], files: Sequence[int], has_terminal: bool
) -> None:
    """In the new process: makes it what `python` makes of a process, and runs the program."""
    gc.freeze()  # What was imported ahead is no garbage, and looking through it again takes long.
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    if has_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # without a controlling terminal Ctrl-C would be a character
    sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for option in filter(None, env.get("PYTHONWARNINGS", "").split(",")):
        warnings._setoption(option)  # type: ignore[attr-defined]  # nothing public reads what `-W` reads
    os.chdir(cwd)
    more = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    try:
        if arguments[0] == "-m":
            sys.argv = [arguments[1], *arguments[2:]]
            sys.path[:0] = [cwd, *more]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [*arguments]
            sys.path[:0] = [str(Path(arguments[0]).parent), *more]
            runpy.run_path(arguments[0], run_name="__main__")
    except Exception:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        atexit._run_exitfuncs()
        gc.collect()  # What was never closed warns now, as when Python ends.
