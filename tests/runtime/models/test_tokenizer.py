"""Token counts: exact where the tables are, near where they are not, and always there."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.models.tokenizer import count_tokens_for, counted_once, estimate_tokens
from tests.runtime.turn.watched_work import watched_work
from tests.servers.warm_python import run_warm

ENGLISH = "The owner prefers short answers and wants to be reminded of the dentist on Tuesday at nine. "
CHINESE = "我喜欢简短的回答,请在星期二早上九点提醒我去看牙医。"
JAPANESE = "短い答えが好きです。火曜日の朝九時に歯医者のことを知らせてください。"
RUSSIAN = "Я предпочитаю короткие ответы, напомни мне во вторник в девять утра о зубном враче. "
CODE = 'def load(path: str) -> dict[str, int]:\n    with open(path) as f:\n        return json.load(f)["a"]\n'


def test_tables_are_exact_and_differ_by_model() -> None:
    """Newer and unknown models count with o200k, older OpenAI models with cl100k."""
    assert count_tokens_for("openai/gpt-4o")("hello world") == 2
    assert count_tokens_for("anthropic/claude-sonnet-4-5")(CHINESE) == count_tokens_for("openai/gpt-4o")(
        CHINESE
    )
    assert count_tokens_for("openai/gpt-4-turbo")(CHINESE) > count_tokens_for("openai/gpt-4.1")(CHINESE)
    assert count_tokens_for("openai/gpt-4o")("") == 0


def test_a_huge_text_is_estimated_in_small_pieces() -> None:
    """One search through megabytes would hold up every other thread; of a huge text a part is read."""
    words = "the hive swarms in May "
    small, huge = words * 40_000, words * 400_000

    def calls(text: str) -> int:
        with watched_work() as work:
            assert estimate_tokens(text) == pytest.approx(6 * len(text) / len(words) * 0.9, rel=0.2)
        return work.calls

    assert calls(huge) < 2 * calls(small)


def test_special_tokens_are_text() -> None:
    """Someone who writes `<|endoftext|>` writes letters, not a control token."""
    assert count_tokens_for("openai/gpt-4o")("<|endoftext|>") > 3


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, JAPANESE, RUSSIAN, CODE])
def test_the_estimate_is_near(text: str) -> None:
    """Without tables the count is within a quarter of the exact one."""
    exact = count_tokens_for("openai/gpt-4o")(text * 5)
    assert 0.75 * exact <= estimate_tokens(text * 5) <= 1.25 * exact


@pytest.mark.parametrize("text", ["a" * 300_000, " " * 300_000, "^" * 300_000, "界" * 100_000, "😀" * 50_000])
def test_long_runs_are_counted_in_time(text: str) -> None:
    """Runs without a space, which break or slow some tokenizers, get a number too."""
    assert 0 < count_tokens_for("openai/gpt-4o")(text) <= len(text) * 2


def test_very_long_texts_are_sampled() -> None:
    """Beyond a million characters a sample is counted; on even text it is within a percent."""
    text = ENGLISH * 20_000
    sampled = count_tokens_for("openai/gpt-4o")(text)
    exact = count_tokens_for("openai/gpt-4o")(ENGLISH * 2_000) * 10
    assert sampled == pytest.approx(exact, rel=0.01)


def test_broken_text_still_has_a_count() -> None:
    """Lone surrogates and NUL, as files and terminals bring them, do not raise."""
    assert count_tokens_for("openai/gpt-4o")("a\ud800b\x00c") > 0
    assert estimate_tokens("a\ud800b\x00c") > 0


def test_threads_share_a_counter() -> None:
    """A counter that several threads use first at the same time counts right in each."""
    count = count_tokens_for("openai/gpt-4o")
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(count(ENGLISH))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1


def test_a_folder_without_tables_means_an_estimate_and_no_download(tmp_path: Path) -> None:
    """With an empty table folder the text is estimated, and neither tiktoken nor litellm is loaded."""
    program = (
        "import sys\n"
        "from nacre.runtime.models.tokenizer import count_tokens_for, estimate_tokens\n"
        f"text = {ENGLISH!r}\n"
        "assert count_tokens_for('openai/gpt-4o')(text) == estimate_tokens(text)\n"
        "print(sorted({'tiktoken', 'litellm'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"TIKTOKEN_CACHE_DIR": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_counting_does_not_load_litellm() -> None:
    """The tables come with Nacre."""
    program = (
        "import sys\n"
        "from nacre.runtime.models.tokenizer import count_tokens_for\n"
        "print(count_tokens_for('x/y')('hello world'), 'tiktoken' in sys.modules, 'litellm' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PATH": ""}, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("2 True False", "")


def test_a_text_is_counted_once() -> None:
    """Counting a window again counts only what is new, in a window of 100,000 messages too."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    remembering = counted_once(count)
    texts = ["x" * 100_000, *map(str, range(100_000))]
    for _ in range(2):
        assert sum(map(remembering, texts)) == sum(map(len, texts))
    assert counted == texts


@given(st.text(alphabet="aBzAZ09 \n\t.,_-?é😀ж", max_size=60))
def test_an_estimate_counts_what_the_patterns_find(text: str) -> None:
    """Words begin with a capital or are all capitals; tables split them as the patterns of the fit did."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)
    marks, digits = re.findall(r"[!-/:-@\[-`{-~]+", text), re.findall(r"[0-9]{1,3}", text)
    spoken = [0.6 * (len(word) - 2) for word in words if len(word) > 2 and word.isupper()]
    spoken += [0.25 * (len(word) - 6) for word in words if len(word) > 6 and not word.isupper()]
    cyrillic = re.findall("ж+", text)
    others = 1.75 * text.count("😀") + len(cyrillic) + 0.2 * sum(max(0, len(run) - 3) for run in cyrillic)
    total = 0.9 * len(words) + 0.95 * len(marks) + 0.1 * sum(len(run) - 1 for run in marks) + sum(spoken)
    total += 1.3 * len(digits) + 0.35 * len(re.findall("\n+", text)) + others

    assert estimate_tokens(text) == math.ceil(round(total, 6))


def test_an_estimate_is_the_sum_of_what_the_scripts_cost() -> None:
    """Words, capitals, digits, marks, newlines and characters of other scripts have each their own price."""
    texts = ("", "words", "extraordinarily", "HTTPS", "1234", "?!?!?!\n")
    assert [estimate_tokens(text) for text in texts] == [0, 1, 4, 3, 3, 2]
    assert [estimate_tokens(text * 100) for text in ("ф", "ა", "한", "界", "か", "😀")] == [
        math.ceil(tokens) for tokens in (1 + 0.2 * 97, 38, 68, 87, 67, 175)
    ]


TURNS = """import asyncio, sys, threading
from pathlib import Path
from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.sessions.contracts.messages import Usage

where = []
class Watch:
    def find_spec(name, path=None, target=None):
        if name == "tiktoken":
            where.append(threading.current_thread() is threading.main_thread())
sys.meta_path.insert(0, Watch)

async def main(folder):
    Path(folder, "nacre.json5").write_text("{agents: {defaults: {compaction: {keepRecentTokens: 5000}}}}")
    model = ScriptedModel(
        *(says("yes", usage=Usage(input_tokens=40_000 + number)) for number in range(20)),
        says("NO_REPLY", purpose="flush"),
        says("## Goal\\nBees", purpose="compaction"),
        *(says("yes", usage=Usage(input_tokens=103_600 + number)) for number in range(2)),
    )
    environment = {"HOME": folder}
    agent = await Agent.open(state_dir=folder, model=model, environment=environment, watch=False)
    async with agent:
        for number in range(20):
            await agent.ask(f"{number}: " + "The hive needs sugar before the frost comes. " * 44)
        await agent.ask("/compact")
        print("far from the line", where)
        for number in range(2):
            await agent.ask(f"{number}: " + "The hive needs sugar before the frost comes. " * 30)
        print("near the line", set(where))
    model.assert_complete()

asyncio.run(main(sys.argv[1]))
"""


def test_the_table_is_loaded_near_the_line_of_a_window_and_on_a_thread(tmp_path: Path) -> None:
    """Twenty short turns and a compaction need no table, and the event loop never waits for it."""
    program = tmp_path / "program.py"
    program.write_text(TURNS, encoding="utf-8")
    done = run_warm(
        *(str(program), str(tmp_path)), cwd=tmp_path, env={"PATH": os.environ["PATH"]}, timeout_seconds=60
    )
    assert (done.stdout, done.returncode) == ("far from the line []\nnear the line {False}\n", 0), done.stderr
