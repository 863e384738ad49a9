"""A question on its way to a vector, in a process of its own. Light to import, so that it begins at once.

A command that searches once spends half of its time on loading the model, and the other half on loading and
opening the rest of Nacre. Python runs one thread of a process at a time, so the model works in a process of
its own, on another core.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = "from nacre.memory.embedders.e5_model import answer_on_pipe; answer_on_pipe()"
_MOST_CHARS = 2_000
"""Far more than the model reads, and less than what every system's pipe takes without anybody reading."""

_without_question: list[subprocess.Popen[bytes]] = []


def begin_model() -> None:
    """Begins to load the model before it is known what will be asked: the next `QuestionAhead` takes it.

    When none comes, the process ends by itself with this one.
    """
    if not is_loaded_here() and (process := _started(_PROGRAM)) is not None:
        _without_question.append(process)


def is_loaded_here() -> bool:
    """Whether this process has the libraries of the model already, as a program that embeds notes has."""
    return "onnxruntime" in sys.modules


class QuestionAhead:
    """Begins to embed `question` at once. `program` is the Python code that the process runs, unless one was
    begun before: it reads a text and writes a vector.
    """

    def __init__(self, question: str, *, program: str = _PROGRAM) -> None:
        self._question = _plain(question)
        self._process = _without_question.pop() if _without_question else _started(program)
        if self._process is not None:
            _ask(self._process, self._question)

    def vector(self, text: str) -> Sequence[float]:
        """Waits for the vector of `text`; nothing when another question was announced, when the process
        failed, or was asked before.
        """
        if self._process is None or _plain(text) != self._question:
            return ()
        return _answer(self._process)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _started(program: str) -> subprocess.Popen[bytes] | None:
    """The process; nothing when the system has none to give."""
    # With -c alone, a numpy.py in the folder that somebody searches from would be run.
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


def _ask(process: subprocess.Popen[bytes], question: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError), process.stdin as pipe:  # it may be over already; then it has no answer
        pipe.write(question.encode("utf-8", "replace"))


def _answer(process: subprocess.Popen[bytes]) -> Sequence[float]:
    """What the process wrote; nothing when it failed or was asked before."""
    # not before the process works
    from nacre.memory.embedders.e5_model import DIMENSIONS

    assert process.stdout is not None
    if process.stdout.closed:
        return ()
    with process.stdout as pipe:
        written = pipe.read()
    numbers = struct.Struct(f"<{DIMENSIONS}f")
    return () if process.wait() or len(written) != numbers.size else numbers.unpack(written)


def _plain(text: str) -> str:
    """A question without what makes no difference to the model, short enough for a pipe to hold it."""
    return " ".join(text.split())[:_MOST_CHARS]
