"""Results too long for a conversation: what is kept, where the whole is, and how the model goes on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.contracts.budget import resolve_budget
from nacre.runtime.models.scripted import CountingIds, ScriptedModel, calls, says
from nacre.runtime.models.tokenizer import estimate_tokens
from nacre.runtime.tools.toolbox import (
    LAST_RESORT_CHARS,
    MAX_RESULT_CHARS,
    MIN_RESULT_CHARS,
    ResultLimits,
    ToolResults,
    cut,
    fitting_chars,
    result_limits,
)
from nacre.sessions.contracts.messages import Image, Text, ToolResultMessage, message_text
from nacre.sessions.journal.journal import ResultFiles
from tests.runtime.agents import entries, opened, said, transcript_file

WIDE = ResultLimits(result_chars=16_000, result_tokens=60_000, step_tokens=90_000, page_chars=14_000)


def result(text: str, call_id: str = "1") -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="run", content=(Text(text=text),), is_error=False, timestamp_ms=1
    )


def results(folder: Path, limits: ResultLimits = WIDE) -> ToolResults:
    """What cuts the results of the session `s.jsonl` in a folder."""
    return ToolResults(
        ResultFiles(folder / "s.jsonl"), limits, count_tokens=estimate_tokens, new_id=CountingIds("r")
    )


async def test_a_result_that_fits_is_left_alone(tmp_path: Path) -> None:
    """The same object goes into the transcript, and no file is made."""
    message = result("x " * 7_000)
    assert await results(tmp_path).fitted(message) is message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.covers("A18-2")
async def test_a_long_result_keeps_its_head_and_the_whole_is_on_disk(tmp_path: Path) -> None:
    """The note says how much is missing and how to go on, in the words that `read` takes."""
    text = "\n".join(f"row {number}" for number in range(5_000))
    message = await results(tmp_path).fitted(result(text))
    shown = message_text(message)

    assert shown.startswith("row 0\nrow 1\n")
    assert len(shown) < MAX_RESULT_CHARS + 300
    [go_on] = re.findall(r'path="result:(\w+)", from=(\d+)\.', shown)
    assert await ResultFiles(tmp_path / "s.jsonl").read(go_on[0]) == text
    last_row = re.findall(r"row (\d+)", shown)[-1]
    assert int(go_on[1]) == int(last_row) + 2
    assert message.details == {"wholeChars": len(text), "whole": f"result:{go_on[0]}"}
    file = tmp_path / "s.results" / f"{go_on[0]}.txt"
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("end", ["Error: no space left", "3 passed, 1 failed", "Total: 17", '{"ok": true}'])
def test_an_end_that_tells_how_it_went_is_kept(end: str) -> None:
    """Errors, totals and the end of a JSON value stand behind the note."""
    shown = cut("line of a long log\n" * 4_000 + end, 10_000, path="result:a")
    assert shown.endswith(end)
    assert len(shown.split("...]", 1)[1]) <= 3_001


def test_an_end_like_the_beginning_leaves_the_room_to_the_head() -> None:
    """Prose has no such end, so the note is last."""
    shown = cut("bees and honey\n" * 4_000, 10_000, path="result:a")
    assert shown.endswith("...]")


@given(st.text(alphabet="ab蜂\n", max_size=3_000), st.integers(500, 2_500))
def test_a_cut_never_says_more_or_less_than_there_was(text: str, limit_chars: int) -> None:
    """Head and tail are the text's own, and the number in the note is what is missing between them."""
    if len(text) <= limit_chars:
        return
    shown = cut(text, limit_chars, path="result:a")
    head, note, tail = shown.partition("[... ")
    note, _, tail = tail.partition(" ...]")
    left_out = int(note.split(" ", 1)[0])
    head, tail = head.rstrip("\n"), tail.removeprefix("\n\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    between = text[len(head) : len(text) - len(tail)]
    assert left_out <= len(between)
    assert between[: len(between) - left_out].strip("\n") == ""


async def test_a_result_in_chinese_is_measured_in_tokens(tmp_path: Path) -> None:
    """16,000 characters would be most of a small window; three tenths of it stay."""
    budget = resolve_budget(
        configured_window_tokens=24_000,
        model_window_tokens=None,
        reserve_tokens=16_000,
        reserve_floor_tokens=20_000,
        soft_threshold_tokens=4_000,
        keep_recent_tokens=20_000,
    )
    limits = result_limits(budget)
    message = await results(tmp_path, limits).fitted(result("蜂蜜" * 8_000))
    assert estimate_tokens(message_text(message)) < min(limits.result_tokens, limits.step_tokens) + 200
    assert len(message_text(message)) >= MIN_RESULT_CHARS


@pytest.mark.covers("ASK-21")
async def test_many_results_of_one_step_share_what_there_is(tmp_path: Path) -> None:
    """Ten results take no more than a step's share, each keeps its least part, and the next step is free."""
    limits = ResultLimits(result_chars=16_000, result_tokens=7_200, step_tokens=6_000, page_chars=5_400)
    cutting = results(tmp_path, limits)
    cutting.begin_step(10)
    shown = [message_text(await cutting.fitted(result("word " * 3_000, str(n)))) for n in range(10)]
    assert sum(map(estimate_tokens, shown)) < 6_000 + 10 * 100
    assert all(len(text) >= MIN_RESULT_CHARS for text in shown)

    cutting.begin_step(100)
    shown = [message_text(await cutting.fitted(result("word " * 3_000, str(n)))) for n in range(100)]
    assert len(shown[-1]) < LAST_RESORT_CHARS + 300
    assert "read with path=" in shown[-1]
    cutting.begin_step(1)
    assert len(message_text(await cutting.fitted(result("word " * 3_000)))) > 10_000


def test_nothing_is_cut_below_the_least_part() -> None:
    """2,000 characters stay while there is room at all."""
    assert fitting_chars("word " * 1_000, 16_000, 1, estimate_tokens)[0] == MIN_RESULT_CHARS
    assert fitting_chars("word " * 1_000, 16_000, 0, estimate_tokens)[0] == LAST_RESORT_CHARS
    assert fitting_chars("short", 16_000, 0, estimate_tokens)[0] == 5


async def test_an_image_stays_when_the_text_beside_it_is_cut(tmp_path: Path) -> None:
    """A picture cannot be cut; a text can, whatever comes with it."""
    picture = Image(data="AAAA", mime_type="image/png")
    message = ToolResultMessage(
        tool_call_id="1",
        tool_name="look",
        content=(Text(text="x" * 50_000), picture),
        is_error=False,
        timestamp_ms=1,
    )
    fitted = await results(tmp_path).fitted(message)
    assert fitted.content[1:] == (picture,)
    assert len(message_text(fitted)) < 20_000
    caption = replace(message, content=(Text(text="A pond."), picture))
    assert await results(tmp_path).fitted(caption) is caption


async def test_a_disk_that_refuses_the_whole_costs_no_result(tmp_path: Path) -> None:
    """The head is kept, and the note says that the rest is gone."""
    (tmp_path / "s.results").write_text("in the way")
    message = await results(tmp_path).fitted(result("row\n" * 9_000))
    assert "could not be stored" in message_text(message)
    assert "result:" not in message_text(message)


@pytest.mark.parametrize("name", ["../s", "a/b", "", "x" * 81, "a.txt", "\0"])
async def test_a_name_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    """Only names that were given here lead to a file."""
    (tmp_path / "s.txt").write_text("secret")
    assert await ResultFiles(tmp_path / "s.jsonl").read(name) is None
    with pytest.raises(ValueError, match="not a valid result name"):
        await ResultFiles(tmp_path / "s.jsonl").keep(name, "x")


async def test_the_model_pages_through_a_long_result_and_no_other_session_does(tmp_path: Path) -> None:
    """In a turn: the list of a folder is cut, `read` goes on with it, and another session is refused."""
    folder = tmp_path / "workspace/notes"
    folder.mkdir(parents=True)
    for number in range(450):
        (folder / f"{number:03d}-{'long-' * 20}name.md").touch()
    model = ScriptedModel(calls(("list", {"path": "notes"})), says("A lot."))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("what is there?"))
        [listed] = [m for m in model.requests[-1].messages if isinstance(m, ToolResultMessage)]
        [(path, line)] = re.findall(r'path="(result:\w+)", from=(\d+)', message_text(listed))
        model.add(calls(("read", {"path": path, "from": int(line)})), says("More."))
        await agent.respond(said("go on"))
        more = model.requests[-1].messages[-1]
        model.add(calls(("read", {"path": path})), says("No."))
        await agent.respond(said("and here?", session_key="agent:main:other"))
        refused = model.requests[-1].messages[-1]

    assert f"{int(line) - 1:03d}-long" in message_text(more)
    assert "not kept in this session" in message_text(refused)
    stored = [entry["message"] for entry in entries(transcript_file(tmp_path)) if entry["type"] == "message"]
    [first, *_] = [message for message in stored if message["role"] == "toolResult"]
    assert len(json.dumps(first)) < MAX_RESULT_CHARS + 2_000
