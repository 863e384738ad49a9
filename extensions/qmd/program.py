"""Runs the program qmd without a shell and reads its output, which is not trusted.

Its time and the length of its output are limited.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.record import Record

MOST_CHARS = 200_000
"""The limit of either stream, above which the program is killed; no answer of qmd is this long."""
MOST_QUERY_CHARS = 2_000
"""Longer questions are cut, because systems limit the length of arguments."""
_SHOWN_ERROR_CHARS = 300
_END_SECONDS = 5.0
_ERROR_LINE = re.compile(r"\w*error: ", re.IGNORECASE)
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
_PASSED_ON_BEGINNINGS = ("LC_", "NODE_", "CUDA_", "GGML_", "HF_", "LLAMA_", "QMD_", "HTTP", "NO_PROXY")
_NEVER = ("QMD_TRUST_", "QMD_CONFIG_DIR", "NODE_OPTIONS")


class QmdFailed(MemoryIndexError):
    """qmd failed. `output` is its full output, of which the message shows a part."""

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.output = output or sentence


class QmdSlow(QmdFailed):
    """qmd took too long and was killed."""


class Output(Record):
    """The output of a run and its exit code; a negative code is the signal that ended it."""

    code: int
    out: str
    err: str

    def or_failed(self, command: str) -> Output:
        """Returns itself if the exit code is 0.

        Raises:
            QmdFailed: it is not; the message names the `command`.
        """
        if self.code == 0:
            return self
        ended = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        text = self.err.strip() or self.out.strip()
        lines = [line.strip() for line in text.splitlines()]
        # JavaScript programs print their source and a stack trace around the error.
        shown = next((line for line in lines if _ERROR_LINE.match(line)), " ".join(lines))
        words = " ".join(shown.split())[:_SHOWN_ERROR_CHARS]
        sentence = f"{command} ended with {ended}{f': {words}' if words else ''}"
        raise QmdFailed(sentence, output=f"{self.err}\n{self.out}")


class Program:
    """The command line of `memory.qmd.command` and its whole environment."""

    def __init__(self, command: str, *, environment: Mapping[str, str], user_folder: Path) -> None:
        self._command = command
        self._environment = environment
        self._user_folder = user_folder

    async def run(self, *arguments: str, seconds: float) -> Output:
        """Runs the program and waits for it.

        Raises:
            QmdFailed: it cannot be started, or its output is too long.
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
                # qmd looks for the index of a project in this folder and above it.
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
                    _read(process, process.stdout), _read(process, process.stderr)
                )
                code = await process.wait()
                has_ended = True
        except TimeoutError as error:
            raise QmdSlow(f"{name} timed out after {seconds * 1000:.0f}ms") from error
        finally:
            if not has_ended:
                await _end(process)
        if max(len(out), len(err)) > MOST_CHARS:
            raise QmdFailed(f"{name} wrote too much output: more than {MOST_CHARS} characters")
        return Output(code=code, out=out.decode("utf-8", "replace"), err=err.decode("utf-8", "replace"))


def is_installed(command: str, *, environment: Mapping[str, str], user_folder: Path) -> bool:
    """Whether the first word of the command is a program that exists."""
    try:
        first = _words(command, user_folder)[0]
    except ValueError:  # an unclosed quotation mark
        return False
    return shutil.which(first, path=environment.get("PATH", os.defpath)) is not None


def program_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that qmd needs: places, proxies, and its own options.

    Keys of providers are left out, and variables that would make qmd trust a configuration in a folder.
    """
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED_ON or name.upper().startswith(_PASSED_ON_BEGINNINGS)
        if not name.startswith(_NEVER)
    }


def as_argument(text: str) -> str:
    """A question as an argument: one line of limited length that is not an option."""
    line = " ".join(text.replace("\0", " ").split())[:MOST_QUERY_CHARS]
    return line.encode("utf-8", "ignore").decode().lstrip("-").strip()


def _words(command: str, user_folder: Path) -> Sequence[str]:
    words = shlex.split(command) or ["qmd"]
    first = words[0]
    return [str(user_folder / first[2:]) if first.startswith("~/") else first, *words[1:]]


async def _read(process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None) -> bytearray:
    """The output on one stream. Above `MOST_CHARS`, the program is killed and the rest is discarded.

    The rest is still read, because asyncio reports the end of a program only after that of its pipes.
    """
    assert stream is not None
    data = bytearray()
    while piece := await stream.read(65_536):
        if len(data) > MOST_CHARS:
            continue
        data += piece
        if len(data) > MOST_CHARS:
            _kill(process)
    return data


def _kill(process: asyncio.subprocess.Process) -> None:
    # With its children, because qmd is a launcher that starts another process.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: asyncio.subprocess.Process) -> None:
    _kill(process)
    ending = asyncio.create_task(_ended(process))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:  # a search cancels the other questions when one has failed
        await asyncio.wait([ending])
        raise


async def _ended(process: asyncio.subprocess.Process) -> None:
    # Does not wait for a process that has left the group and holds the pipes.
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.gather(_read(process, process.stdout), _read(process, process.stderr))
            await process.wait()


_NOTHING = re.compile(
    r"(?:\[[^\]\n]*\]\s*|(?:warning|info|error|qmd):\s*)*no results found\.?", re.IGNORECASE
)
_OPTION = re.compile(
    r"(?:unknown|unrecogni[sz]ed|unexpected|invalid|unsupported)\s+(?:flag|option|argument|command|mode)"
    r"|(?:flag|option) (?:provided but )?not (?:defined|supported)",
    re.IGNORECASE,
)
_NO_COLLECTION = re.compile(
    r"collection (?:not found|.* (?:does not exist|not found))|no such collection", re.IGNORECASE
)
BUSY = re.compile(r"database is (?:locked|busy)|SQLITE_BUSY|timed out", re.IGNORECASE)
"""Output of a command that may work in a moment."""
DAMAGED = re.compile(r"file is not a database|disk image is malformed", re.IGNORECASE)
BROKEN_INDEX = re.compile(
    r"ENOTDIR.*(?:\\0|\\x00|\\u0000|\0|null byte)|(?:\\0|\\x00|\\u0000|\0|null byte).*ENOTDIR"
    r"|UNIQUE constraint failed: documents",
    re.IGNORECASE | re.DOTALL,
)
"""Output if the index can only be repaired by creating the collections again."""
_URI = re.compile(r"qmd://([^/]+)/(.+)", re.DOTALL)
_LINES = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? @@")
_LISTED = re.compile(r"^(\S+) \(qmd://", re.MULTILINE)
_PIECES = 200
_SHOWN_CHARS = 200


class Place(Record):
    """Where qmd found something: lines from 1, inclusive; `score` 0 to 1."""

    collection: str
    path: str
    start_line: int
    end_line: int
    score: float


def places(output: Output, mode: str) -> list[Place]:
    """The places in an answer, in its order. Items that name no document are left out.

    Raises:
        QmdFailed: the answer is invalid.
    """
    return [place for item in _array(output, mode) if (place := _place(item)) is not None]


def refuses_option(output: Output) -> bool:
    """Whether this build of qmd does not know the command or one of its options."""
    return output.code != 0 and _OPTION.search(f"{output.err}\n{output.out}") is not None


def misses_collection(output: Output) -> bool:
    return output.code != 0 and _NO_COLLECTION.search(f"{output.err}\n{output.out}") is not None


def listed_collections(output: Output) -> frozenset[str]:
    """The names in `qmd collection list`, which newer builds print as text and older ones as JSON."""
    try:
        found = json.loads(output.out)
    except (ValueError, RecursionError):
        return frozenset(_LISTED.findall(output.out))
    items = found if isinstance(found, list) else []
    names = (item.get("name") if isinstance(item, dict) else item for item in items)
    return frozenset(name for name in names if isinstance(name, str))


def _array(output: Output, mode: str) -> list[Any]:
    for found in _json_in(output.out):
        if isinstance(found, list):
            return found
    lines = (output.out if output.out.strip() else output.err).splitlines()
    if any(_NOTHING.fullmatch(line.strip()) for line in lines):
        return []
    shown = " ".join(output.out.split())[:_SHOWN_CHARS] or "nothing"
    raise QmdFailed(f"qmd {mode} returned invalid JSON: {shown}")


def _json_in(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    try:
        yield decoder.decode(text)
        return
    except (ValueError, RecursionError):
        pass
    start = -1
    for _ in range(_PIECES):
        start = text.find("[", start + 1)
        if start < 0:
            return
        try:
            found, _end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        # a tag of a log line, such as [1] or ["warn"], is not an answer
        if not found or all(isinstance(item, dict) for item in found):
            yield found


def _place(item: Any) -> Place | None:
    if not isinstance(item, dict):
        return None
    file, score, snippet = item.get("file"), item.get("score"), item.get("snippet")
    named = _URI.fullmatch(file) if isinstance(file, str) else None
    if named is None or isinstance(score, bool) or not isinstance(score, int | float):
        return None
    if not math.isfinite(score):
        return None
    header = _LINES.search(snippet) if isinstance(snippet, str) else None
    line = item.get("line")
    start = int(header[1]) if header else line if isinstance(line, int) else 1
    count = int(header[2] or 1) if header else 1
    start = max(1, start)
    return Place(
        collection=named[1],
        path=named[2],
        start_line=start,
        end_line=start + max(1, count) - 1,
        score=min(1.0, max(0.0, float(score))),
    )
