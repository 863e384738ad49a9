"""Runs the real `nacre` in a process of its own, with pipes or on a terminal, in an empty home."""

from __future__ import annotations

import fcntl
import logging
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from click.testing import CliRunner

from nacre.cli.main import nacre
from tests.servers.warm_python import WarmProgram, run_warm

WAIT_SECONDS = 60.0

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")


def environment(home: Path, **more: str) -> dict[str, str]:
    """The variables of a fresh login with this home folder; of the test run's own, where programs lie."""
    return {
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "xterm-256color",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PROMPT_TOOLKIT_NO_CPR": "1",
        **more,
    }


def run_nacre(
    home: Path, *arguments: str, stdin: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, without a terminal, in a process that starts warm."""
    return run_warm(
        *("-m", "nacre", *arguments),
        cwd=home,
        env=environment(home, **variables),
        stdin=stdin or "",
        timeout_seconds=WAIT_SECONDS,
    )


def run_cold(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end as a shell starts it: the installed program, which takes far longer."""
    return subprocess.run(
        [Path(sys.executable).with_name("nacre"), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=home,
        env=environment(home),
        timeout=WAIT_SECONDS,
    )


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def run_here(home: Path, *arguments: str, **variables: str) -> Ended:
    """Runs a command in this process, because starting Python would be most of a test's time."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        result = CliRunner().invoke(
            nacre,
            list(arguments),
            env=environment(home, **variables),
            standalone_mode=False,
            catch_exceptions=False,
        )
    finally:
        for handler in root.handlers:
            if handler not in handlers:
                handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("nacre").setLevel(logging.NOTSET)
        logging.captureWarnings(False)
        logging.raiseExceptions = True
    return Ended(result.return_value or 0, result.stdout, result.stderr)


class Terminal:
    """`nacre` on a pseudo-terminal; `shown` is all its output without escape sequences."""

    def __init__(self, home: Path, *arguments: str, columns: int = 100, **variables: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.raw = ""
        self._seen = 0
        self.process = WarmProgram(
            *("-m", "nacre", *arguments),
            cwd=home,
            env=environment(home, **variables),
            files=(slave,) * 3,
            has_terminal=True,
        )
        os.close(slave)

    @property
    def shown(self) -> str:
        """Everything printed so far, without escape sequences."""
        return _ESCAPES.sub("", self.raw).replace("\r", "")

    def type(self, text: str) -> None:
        """Presses keys; `\\r` is Enter, `\\x03` Ctrl-C, `\\x04` Ctrl-D."""
        os.write(self._master, text.encode("utf-8"))

    def wait_for(self, text: str) -> None:
        """Reads until `text` is shown behind what was waited for before.

        Raises:
            AssertionError: the program ended, or a minute passed, without it.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := self.shown.find(text, self._seen)) < 0:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} was never shown after: {self.shown[self._seen :]!r}")
        self._seen = found + len(text)

    def exit_code(self) -> int:
        """Reads what is left and waits for the end of the program."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(WAIT_SECONDS)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)
