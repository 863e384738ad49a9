"""Embeds a question in a separate process, before the search. Imports little, so that it starts at once.

A command that searches once takes as long to load the model as to load and open the rest of Nacre. Python
runs one thread of a process at a time, so the model runs in a separate process, on another core.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = "from nacre.memory.embedders.e5_model import answer_on_pipe; answer_on_pipe()"
_MOST_CHARS = 2_000
"""More than the model reads, and less than a pipe holds without a reader on any system."""

_without_question: list[subprocess.Popen[bytes]] = []


def begin_model() -> None:
    """Starts to load the model before the question is known, for the next `QuestionAhead`.

    Without one, the process ends with this one.
    """
    if not is_loaded_here() and (process := _started(_PROGRAM)) is not None:
        _without_question.append(process)


def is_loaded_here() -> bool:
    """Whether this process has loaded the model's libraries, as a program that embeds notes does."""
    return "onnxruntime" in sys.modules


class QuestionAhead:
    """Starts to embed `question` at once, in the process of `begin_model` if there is one.

    Otherwise `program` is the Python code of the process: it reads a text and writes a vector.
    """

    def __init__(self, question: str, *, program: str = _PROGRAM) -> None:
        self._question = _plain(question)
        self._process = _without_question.pop() if _without_question else _started(program)
        if self._process is not None and (pipe := self._process.stdin) is not None:
            with contextlib.suppress(OSError), pipe:  # if the process has ended, it has no answer
                pipe.write(self._question.encode("utf-8", "replace"))

    def vector(self, text: str) -> Sequence[float]:
        """Waits for the vector of `text`; empty for another question, after a failure, or the second time."""
        if self._process is None or _plain(text) != self._question:
            return ()
        from nacre.memory.embedders.e5_model import DIMENSIONS  # while the process works

        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return ()
        with self._process.stdout as pipe:
            written = pipe.read()
        numbers = struct.Struct(f"<{DIMENSIONS}f")
        return () if self._process.wait() or len(written) != numbers.size else numbers.unpack(written)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _started(program: str) -> subprocess.Popen[bytes] | None:
    """The process; `None` if the system cannot start one."""
    # With -c alone, Python would run a numpy.py in the current folder.
    safely = "-I" if sys.flags.isolated else "-P"
    try:
        return subprocess.Popen(
            [sys.executable, safely, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError):
        return None


def _plain(text: str) -> str:
    """A question with single blanks, short enough for a pipe."""
    return " ".join(text.split())[:_MOST_CHARS]
