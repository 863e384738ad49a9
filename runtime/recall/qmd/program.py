"""The program qmd, run without a shell: the only file that starts it.

What it may say is bounded, and so is its time."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.records.record import Record

MOST_CHARS = 200_000
"""More than this of either stream ends the program: no answer of qmd is as long."""
MOST_QUERY_CHARS = 2_000
"""A longer question is cut: the system limits how long an argument may be."""
_SAID_CHARS = 300
_END_SECONDS = 5.0
_ERROR_LINE = re.compile(r"\w*error: ", re.IGNORECASE)
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
_PASSED_ON_BEGINNINGS = ("LC_", "NODE_", "CUDA_", "GGML_", "HF_", "LLAMA_", "QMD_", "HTTP", "NO_PROXY")
_NEVER = ("QMD_TRUST_", "QMD_CONFIG_DIR", "NODE_OPTIONS")


class QmdFailed(MemoryIndexError):
    """qmd did not do what it was asked for. `said` has its own words, of which the sentence shows a part."""

    def __init__(self, sentence: str, said: str = "") -> None:
        super().__init__(sentence)
        self.said = said or sentence


class QmdSlow(QmdFailed):
    """It took too long, and was ended."""


class Said(Record):
    """What a run of the program wrote, and its exit code; a negative one is the signal that ended it."""

    code: int
    out: str
    err: str

    def or_failed(self, doing: str) -> Said:
        """The same, if it ended well.

        Raises:
            QmdFailed: it did not; `doing` says what it was to do.
        """
        if self.code == 0:
            return self
        ended = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        text = self.err.strip() or self.out.strip()
        lines = [line.strip() for line in text.splitlines()]
        # a program in JavaScript shows its own source first, and where it was
        telling = next((line for line in lines if _ERROR_LINE.match(line)), " ".join(lines))
        words = " ".join(telling.split())[:_SAID_CHARS]
        sentence = f"{doing} ended with {ended}{f': {words}' if words else ''}"
        raise QmdFailed(sentence, said=f"{self.err}\n{self.out}")


class Program:
    """One way to start qmd: the words of `memory.qmd.command`, and the whole environment that it gets."""

    def __init__(self, command: str, *, environment: Mapping[str, str], user_folder: Path) -> None:
        self._command = command
        self._environment = environment
        self._user_folder = user_folder

    async def run(self, *arguments: str, seconds: float) -> Said:
        """Runs it to its end.

        Raises:
            QmdFailed: it cannot be started, or writes without end.
            QmdSlow: it did not end within `seconds`.
        """
        name = f"qmd {arguments[0]}"
        try:
            process = await asyncio.create_subprocess_exec(
                *_words(self._command, self._user_folder),
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # from any other folder upwards it would take a project's own index for the one to use
                cwd=self._user_folder.anchor,
                env=self._environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise QmdFailed(
                f"{self._command!r} cannot be started: {str(error).removesuffix('.')}. Install qmd "
                "(npm install -g @tobilu/qmd), or name it in memory.qmd.command"
            ) from error
        has_ended = False
        try:
            async with asyncio.timeout(seconds):
                out, err = await asyncio.gather(
                    _written(process, process.stdout), _written(process, process.stderr)
                )
                code = await process.wait()
                has_ended = True
        except TimeoutError as error:
            raise QmdSlow(f"{name} timed out after {seconds * 1000:.0f}ms") from error
        finally:
            if not has_ended:
                await _ended(process)
        if max(len(out), len(err)) > MOST_CHARS:
            raise QmdFailed(f"{name} wrote too much output: more than {MOST_CHARS} characters")
        return Said(code=code, out=out.decode("utf-8", "replace"), err=err.decode("utf-8", "replace"))


def is_installed(command: str, *, environment: Mapping[str, str], user_folder: Path) -> bool:
    """Whether the first word of the command is a program that can be started."""
    try:
        first = _words(command, user_folder)[0]
    except ValueError:  # a quotation without its end
        return False
    return shutil.which(first, path=environment.get("PATH", os.defpath)) is not None


def program_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What qmd needs of a program's environment: where things are, proxies, its own options.

    Not among it are keys of providers, and what would make it trust a configuration that lies in a folder.
    """
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED_ON or name.upper().startswith(_PASSED_ON_BEGINNINGS)
        if not name.startswith(_NEVER)
    }


def as_argument(text: str) -> str:
    """A question as one argument that is no option: one line, cut, without what a system does not pass on."""
    line = " ".join(text.replace("\0", " ").split())[:MOST_QUERY_CHARS]
    return line.encode("utf-8", "ignore").decode().lstrip("-").strip()


def _words(command: str, user_folder: Path) -> Sequence[str]:
    words = shlex.split(command) or ["qmd"]
    first = words[0]
    return [str(user_folder / first[2:]) if first.startswith("~/") else first, *words[1:]]


async def _written(process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None) -> bytearray:
    """All that it writes. If that is more than `MOST_CHARS`, the program is ended and the rest thrown away.

    The rest is read all the same: asyncio tells of a program's end only when its pipes are at theirs.
    """
    assert stream is not None, "it was asked for"
    data = bytearray()
    while piece := await stream.read(65_536):
        if len(data) > MOST_CHARS:
            continue
        data += piece
        if len(data) > MOST_CHARS:
            _kill(process)
    return data


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kills it with everything that it started: qmd is a launcher that starts another process."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Kills it and waits for its end, but not for a process that left its group and holds its pipes."""
    _kill(process)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.gather(_written(process, process.stdout), _written(process, process.stderr))
            await process.wait()
