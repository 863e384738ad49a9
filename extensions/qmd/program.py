"""The program qmd: starts it without a shell, and reads its answers, none of which is trusted.

What it may say is bounded, and so is its time."""

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
_BUSY = re.compile(r"database is (?:locked|busy)|SQLITE_BUSY|timed out", re.IGNORECASE)
_DAMAGED = re.compile(r"file is not a database|disk image is malformed", re.IGNORECASE)
_BROKEN_INDEX = re.compile(
    r"ENOTDIR.*(?:\\0|\\x00|\\u0000|\0|null byte)|(?:\\0|\\x00|\\u0000|\0|null byte).*ENOTDIR"
    r"|UNIQUE constraint failed: documents",
    re.IGNORECASE | re.DOTALL,
)
_URI = re.compile(r"qmd://([^/]+)/(.+)", re.DOTALL)
_LINES = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? @@")
_LISTED = re.compile(r"^(\S+) \(qmd://", re.MULTILINE)
_PIECES = 200
_SHOWN_CHARS = 200


class Place(Record):
    """Where qmd found something: lines from 1, both included; `score` 0…1."""

    collection: str
    path: str
    start_line: int
    end_line: int
    score: float


def places(said: Said, mode: str) -> list[Place]:
    """The places of an answer, in its order; what names no document is left out.

    Raises:
        QmdFailed: it is no answer.
    """
    return [place for item in _array(said, mode) if (place := _place(item)) is not None]


def refuses_option(said: Said) -> bool:
    """Whether this build of qmd does not know the command, or one of its options."""
    return said.code != 0 and _OPTION.search(f"{said.err}\n{said.out}") is not None


def misses_collection(said: Said) -> bool:
    """Whether a collection that was asked is not there."""
    return said.code != 0 and _NO_COLLECTION.search(f"{said.err}\n{said.out}") is not None


def is_busy(problem: str) -> bool:
    """Whether it may work in a moment."""
    return _BUSY.search(problem) is not None


def is_damaged(problem: str) -> bool:
    """Whether qmd's index is no index any more."""
    return _DAMAGED.search(problem) is not None


def needs_repair(problem: str) -> bool:
    """Whether qmd's index is in a state that only making the collections anew mends."""
    return _BROKEN_INDEX.search(problem) is not None


def listed_collections(said: Said) -> frozenset[str]:
    """The names in `qmd collection list`, which newer builds print as text and others as JSON."""
    try:
        found = json.loads(said.out)
    except (ValueError, RecursionError):
        return frozenset(_LISTED.findall(said.out))
    items = found if isinstance(found, list) else []
    names = (item.get("name") if isinstance(item, dict) else item for item in items)
    return frozenset(name for name in names if isinstance(name, str))


def _array(said: Said, mode: str) -> list[Any]:
    for found in _json_in(said.out):
        if isinstance(found, list):
            return found
    lines = (said.out if said.out.strip() else said.err).splitlines()
    if any(_NOTHING.fullmatch(line.strip()) for line in lines):
        return []
    shown = " ".join(said.out.split())[:_SHOWN_CHARS] or "nothing"
    raise QmdFailed(f"qmd {mode} returned invalid JSON: {shown}")


def _json_in(text: str) -> Iterator[Any]:
    """The whole text as JSON; else each piece of JSON that begins at a bracket, with noise around it."""
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
        # a tag such as [1] or ["warn"] of a log line is no answer
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
