"""In a flush turn the offline responder takes notes of the conversation once, and answers `NO_REPLY`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nacre.runtime.models.offline.reading import read_request
from nacre.runtime.models.offline.responder import flush_notes
from nacre.sessions.contracts.messages import Message, ToolCall, message_text
from tests.runtime.models.offline.requests import (
    APPEND,
    SEARCH,
    TODAY,
    answer,
    assistant,
    called,
    count_tokens,
    request,
    result,
    said,
    user,
)
from tests.runtime.turn.watched_work import watched_work

PROMPT = f"Pre-compaction memory flush. Use only `append` on `{TODAY}`. Answer with `NO_REPLY` when done."


async def notes(*messages: Message | str, **changes: Any) -> str:
    """The text of the one append call, or nothing when the answer is silence."""
    message = await answer(request(*messages, PROMPT, purpose="flush", tools=(APPEND,), **changes))
    if not message.tool_calls:
        assert message_text(message) == "NO_REPLY"
        return ""
    (call,) = message.tool_calls
    assert call.arguments["path"] == TODAY
    return str(call.arguments["text"])


def bullets(block: str) -> Sequence[str]:
    """The list items of a block."""
    return [line[2:] for line in block.splitlines() if line.startswith("- ")]


async def test_notes_are_grouped_original_sentences() -> None:
    """Decisions, preferences, facts and open asks stand under their headings, word for word."""
    block = await notes(
        "We decided to ship release 2.4 from the main branch. The sky is grey.",
        assistant("Fine."),
        "I prefer tea. My boss is Dan Fuller.",
        assistant("Fine."),
        "The audit takes place on 2026-12-01.",
        assistant("Fine."),
        "I still need to renew my passport.",
        assistant("Fine."),
    )
    assert block == (
        "### Decisions\n- We decided to ship release 2.4 from the main branch.\n\n"
        "### Preferences\n- I prefer tea.\n\n"
        "### Facts\n- My boss is Dan Fuller.\n- The audit takes place on 2026-12-01.\n\n"
        "### Open asks\n- I still need to renew my passport.\n"
    )


async def test_other_languages_are_sorted_too() -> None:
    """Chinese, Japanese, German, French and Spanish statements land in their groups."""
    block = await notes(
        "我们决定用 Postgres。我喜欢绿茶。",
        "Wir haben uns für Redis entschieden. Ich mag Kaffee.",
        "私の犬の名前はポチです\uff01会議は3月5日です。",
        "Je préfère le thé. Nous avons décidé de partir.",
        "Prefiero el mar. Mi hermana se llama Ana.",
    )
    decisions, rest = block.split("### Preferences")
    assert bullets(decisions) == [
        "我们决定用 Postgres。",
        "Wir haben uns für Redis entschieden.",
        "Nous avons décidé de partir.",
    ]
    preferences, facts = rest.split("### Facts")
    assert bullets(preferences) == [
        "我喜欢绿茶。",
        "Ich mag Kaffee.",
        "Je préfère le thé.",
        "Prefiero el mar.",
    ]
    assert bullets(facts) == [
        "私の犬の名前はポチです\uff01",
        "会議は3月5日です。",
        "Mi hermana se llama Ana.",
    ]


async def test_after_the_append_comes_silence() -> None:
    """The tool result, good or bad, ends the flush with the silent token."""
    call = ToolCall(id="a", name="append", arguments={"path": TODAY, "text": "- x"})
    for failed in (False, True):
        text = await said(
            "I prefer tea.",
            PROMPT,
            assistant("", call),
            result(call, "done", is_error=failed),
            purpose="flush",
        )
        assert text == "NO_REPLY"


async def test_nothing_worth_keeping_is_silence_at_once() -> None:
    """Small talk, an empty conversation or a missing tool give `NO_REPLY` without a call."""
    assert not await notes("Nice weather today.", assistant("Indeed it is."))
    assert not await notes()
    assert await said("I prefer tea.", PROMPT, purpose="flush", tools=(SEARCH,)) == "NO_REPLY"


async def test_answered_questions_and_commands_are_no_notes() -> None:
    """A question with an answer is closed, one without is an open ask; commands never count."""
    block = await notes(
        "Can you check the pump?",
        assistant("It runs."),
        "/compact we decided on the decisions",
        "Who pays the rent in May?",
        assistant("I searched the notes and this conversation and found nothing about that."),
        "Which valve leaks?",
    )
    assert bullets(block) == ["Who pays the rent in May?", "Which valve leaks?"]


@pytest.mark.covers("ATT-9")
async def test_a_question_that_the_person_answered_is_a_fact() -> None:
    """What is told in answer to an open question is kept, and the question is not, however often asked."""
    block = await notes(
        "What is the wifi password of the cabin?",
        assistant("I searched the notes and this conversation and found nothing about that."),
        "The wifi password of the cabin is BlueHeron42.",
        "Where is the spare key of the cabin?",
        "I still need to find the spare key of the cabin.",
        "Who has the ladder?",
        "Who has the ladder?",
        assistant("Marco has it."),
        stable="# Log\n\n### Open asks\n- What is the wifi password of the cabin?",
    )
    assert block == (
        "### Facts\n- The wifi password of the cabin is BlueHeron42.\n\n"
        "### Open asks\n- Where is the spare key of the cabin?\n"
        "- I still need to find the spare key of the cabin.\n"
    )


async def test_quoted_and_recalled_text_is_not_new() -> None:
    """Quotations, code, recalled logs, summaries and tool results are not taken for news."""
    call = ToolCall(id="s", name="memory_search", arguments={"query": "x"})
    assert not await notes(
        f"BEGIN NOTES FROM {TODAY}\nWe decided A.\nEND NOTES FROM {TODAY}",
        "Compacted.\n\n<summary>\n- We decided B.\n</summary>",
        "> We decided C.\n\n```\nwe decided D\n```",
        assistant("", call),
        result(call, "We decided E."),
        assistant("I found this in the notes:\n\n> We decided F."),
    )


async def test_what_is_written_down_already_is_not_repeated() -> None:
    """Sentences that an append of this conversation, the prompt or a recalled log has are left out."""
    call = ToolCall(id="a", name="append", arguments={"path": TODAY, "text": "- my dentist is Dr. Rossi"})
    failed = ToolCall(id="b", name="append", arguments={"path": TODAY, "text": "- I prefer trains."})
    block = await notes(
        f"BEGIN NOTES FROM {TODAY}\n- I like mountains.\nEND NOTES FROM {TODAY}",
        "Remember that my dentist is Dr. Rossi.",
        assistant("", call),
        result(call, "Appended."),
        "I prefer trains. I prefer tea! I like mountains.",
        assistant("", failed),
        result(failed, "Disk full.", is_error=True),
        stable="# MEMORY\n- I prefer **tea**",
    )
    assert bullets(block) == ["I prefer trains."]


async def test_an_assistants_decisions_count_and_its_chatter_does_not() -> None:
    """Of a model's answers only decisions are kept; each statement is kept once."""
    block = await notes(
        "We decided to use Redis.", assistant("My name is Model. We agreed to use Redis 7. I like it here.")
    )
    assert bullets(block) == ["We decided to use Redis.", "We agreed to use Redis 7."]


async def test_exact_identifiers_make_a_sentence_worth_keeping() -> None:
    """A statement with a path, a hash or an issue number is kept as a fact."""
    assert bullets(await notes("The token sits in config/prod.toml since #412.")) == [
        "The token sits in config/prod.toml since #412."
    ]


async def test_the_block_keeps_to_the_output_limit() -> None:
    """With little room the newest notes of each group are kept, and with none nothing is written."""
    talk = [user(f"We decided to paint hall {number} green.") for number in range(40)]
    block = await notes(*talk, max_output_tokens=100)
    assert count_tokens(block) <= 100
    assert "hall 39" in block
    assert "hall 2 " not in block
    assert not await notes(*talk, max_output_tokens=5)


async def test_the_path_of_the_prompt_wins() -> None:
    """The file that the flush prompt names is the one that is written, whatever day the prompt head says."""
    (call,) = await called("I prefer tea.", PROMPT, purpose="flush", changing="Today is 2027-01-01.")
    assert call.arguments["path"] == TODAY


@pytest.mark.parametrize(
    ("sentence", "most_calls"),
    [
        ("Is pump {} all right?", 200),
        ("The key of box {} lies in /srv/box{}/key.txt now.", 200),
    ],
)
def test_a_message_costs_little(sentence: str, most_calls: int) -> None:
    """Neither what an answered question is, nor what stands under a heading that is full, is looked for."""
    talk = [
        part for number in range(500) for part in (user(sentence.format(number, number)), assistant("Fine."))
    ]
    asked = request(*talk, PROMPT, purpose="flush", tools=(APPEND,))
    said = read_request(asked).said
    flush_notes(asked, said, count_tokens=count_tokens)
    with watched_work() as work:
        flush_notes(asked, read_request(asked).said, count_tokens=count_tokens)
    assert work.calls < most_calls * len(talk) // 2
