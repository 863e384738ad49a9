"""A question that is embedded in a process of its own while the rest of a command is loading."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.memory.embedders.e5 import AskedAhead, E5Embedder
from nacre.memory.embedders.question_ahead import QuestionAhead, begin_model

QUESTION = "Where do we keep the boat?"
HANGS = "import threading; threading.Event().wait()"
LEAN = f"""
import asyncio, sys
from nacre.memory.embedders.e5 import AskedAhead
from nacre.memory.embedders.question_ahead import QuestionAhead

async def main():
    embedder = AskedAhead(QuestionAhead({QUESTION!r}))
    vector = await embedder.embed_query({QUESTION!r})
    await embedder.close()
    print(len(vector), sorted({{"numpy", "onnxruntime"}} & set(sys.modules)))

asyncio.run(main())
"""


async def _vector(embedder: E5Embedder, question: str) -> list[float]:
    vector = list(await embedder.embed_query(question))
    await embedder.close()
    return vector


async def test_the_vector_is_the_one_that_the_embedder_itself_makes() -> None:
    """It makes no difference to the index where a question was embedded, however it is spaced."""
    ahead = AskedAhead(QuestionAhead(f"  {QUESTION}\n"))

    assert (ahead.facts.provider, ahead.facts.model, ahead.facts.fingerprint) == (
        E5Embedder.facts.provider,
        E5Embedder.facts.model,
        E5Embedder.facts.fingerprint,
    )
    assert await _vector(ahead, QUESTION) == pytest.approx(await _vector(E5Embedder(), QUESTION), abs=1e-6)


async def test_what_has_the_model_begins_no_process() -> None:
    """A program that embeds notes embeds its questions too."""
    own = E5Embedder()
    await own.embed_query(QUESTION)

    begin_model()

    assert not QuestionAhead(QUESTION, program="").vector(QUESTION)
    await own.close()


def test_neither_the_model_nor_what_lies_around_is_loaded_here(tmp_path: Path) -> None:
    """The process that asks imports no library of the model, and none runs a file that is called like one."""
    (tmp_path / "numpy.py").write_text("open('was-run', 'w').close()", encoding="utf-8")

    command = [sys.executable, "-P", "-c", LEAN]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)

    assert run.stdout == "384 []\n"
    assert [path.name for path in tmp_path.iterdir()] == ["numpy.py"]


@pytest.mark.parametrize(
    "program", ["raise SystemExit(3)", "print(123)", "import sys; sys.stdin.close()", "not Python"]
)
async def test_a_process_that_fails_costs_nothing_but_time(program: str) -> None:
    """The question gets its vector here, and so does every other question."""
    expected = await _vector(E5Embedder(), QUESTION)
    ahead = AskedAhead(QuestionAhead(QUESTION, program=program))

    assert list(await ahead.embed_query(QUESTION)) == expected
    assert list(await ahead.embed_query(QUESTION)) == expected
    assert list(await ahead.embed_query("Walnuts.")) != expected
    await ahead.close()


async def test_closing_ends_a_process_that_hangs() -> None:
    """Whoever waits for it gets the vector made here, and no process stays behind."""
    ahead = AskedAhead(QuestionAhead(QUESTION, program=HANGS))
    waiting = asyncio.create_task(ahead.embed_query(QUESTION))
    await asyncio.wait({waiting}, timeout=0)

    async with asyncio.timeout(30):
        await ahead.close()
        assert len(await waiting) == 384
