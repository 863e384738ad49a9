"""The offline responder as a model: small talk, the contract of the model door, and any text at all."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.contracts.model import ChatModel, Purpose, TextDelta
from nacre.runtime.models.offline.model import OfflineModel
from nacre.runtime.models.scripted import CountingIds
from nacre.sessions.contracts.messages import AssistantMessage, Image, ToolCall, UserMessage, message_text
from tests.runtime.models.contract.model_contract import Answer, ModelContract
from tests.runtime.models.offline.requests import (
    GROUP,
    NOW_MS,
    TOOLS,
    answer,
    assistant,
    count_tokens,
    offline,
    request,
    result,
    said,
    user,
)


class TestOfflineModel(ModelContract):
    """The contract that every model keeps; this one cannot fail on purpose."""

    @asynccontextmanager
    async def opened(self, answers: Sequence[Answer]) -> AsyncIterator[ChatModel]:
        """It answers the contract's requests of its own accord."""
        model = offline()
        yield model
        await model.aclose()


@pytest.mark.parametrize(
    "words", ["What can you do?", "help", "who are you", "How do I connect a model?", ""]
)
async def test_it_says_what_it_is_and_how_to_connect_a_model(words: str) -> None:
    """Asked about itself, or nothing, it names its limits, its abilities and the one command to run."""
    text = await said(words)
    assert "no language model" in text
    assert "remember that" in text
    assert "`nacre init`" in text
    assert "NACRE_MODEL" not in text


async def test_what_it_cannot_do_is_said_in_full_once() -> None:
    """A request beyond it gets the whole explanation first and a short one afterwards."""
    first = await said("Write a poem.")
    second = await said("Write a poem.", assistant(first), "Write a song.")
    assert "no language model" in first
    assert "nacre init" in second
    assert len(second) < len(first)


@pytest.mark.parametrize(
    "words", ["hello", "Hi there!", "Good morning", "你好\uff01", "hola", "bonjour", "hallo"]
)
async def test_a_greeting_is_greeted(words: str) -> None:
    """A greeting gets a short greeting and no tool call."""
    text = await said(words)
    assert text.startswith("Hello!")
    assert len(text) < 250


async def test_thanks_farewell_and_forgetting_have_answers() -> None:
    """Small talk stays short, and a request to forget is answered with what the owner can do."""
    assert await said("Thanks!") == "You are welcome."
    assert (await said("bye")).startswith("Goodbye")
    assert "`/forget`" in await said("Forget what I said about Anna")
    assert "`nacre admin schedule add " in await said("Remind me tomorrow at 8 to call Ben.")


async def test_a_group_gets_no_long_speech() -> None:
    """What is not understood in a group gets two short sentences."""
    assert len(await said("Nice weather.", changing=GROUP, tools=())) < 200


async def test_an_image_without_words_is_admitted() -> None:
    """It says that it cannot look at images."""
    image = UserMessage(content=(Image(data="", mime_type="image/png"),), timestamp_ms=1)
    assert "cannot look at images" in await said(image)


async def test_usage_counts_what_was_sent_and_answered() -> None:
    """Input counts system, tools and messages; output counts text or calls."""
    small = await answer(request("hello", tools=()))
    large = await answer(request("x " * 400, "hello", tools=TOOLS))
    assert small.usage is not None
    assert large.usage is not None
    assert small.usage.output_tokens == count_tokens(message_text(small))
    assert large.usage.input_tokens > small.usage.input_tokens + 200
    noted = await answer(request("note: tea"))
    assert noted.usage is not None
    assert noted.usage.output_tokens >= count_tokens("append - tea")


async def test_an_output_limit_cuts_and_says_so() -> None:
    """A reply longer than allowed ends with the stop reason `length`, within the limit."""
    message = await answer(request("help", max_output_tokens=20))
    assert message.stop_reason == "length"
    assert 0 < count_tokens(message_text(message)) <= 20


async def test_text_arrives_in_pieces_of_about_a_word() -> None:
    """Streaming is real: many small deltas, none of them long."""
    deltas = [item async for item in offline().stream(request("help")) if isinstance(item, TextDelta)]
    assert len(deltas) > 40
    assert max(len(delta.text) for delta in deltas) <= 48


@pytest.mark.parametrize("purpose", ["turn", "flush", "compaction", "slug"])
async def test_huge_input_is_answered(purpose: Purpose) -> None:
    """A pasted book does not hang or break it."""
    for text in (
        "word " * 60_000,
        "我喜欢茶。" * 40_000,
        "We decided X.\n" * 20_000,
        "```\n" * 50_000,
        "\n" * 200_000,
    ):
        assert await answer(request(text, "go on", purpose=purpose))
        assert await answer(request(text, purpose=purpose))


WILD = st.one_of(
    st.text(max_size=200),
    st.lists(
        st.sampled_from(
            [
                *(
                    "remember that ",
                    "note: ",
                    "[User]: ",
                    "<conversation>",
                    "</conversation>",
                    "\n",
                    "## Goal\n",
                    "> ",
                ),
                *(
                    "<summary>",
                    "```",
                    "?",
                    "\uff1f",
                    "。",
                    "we decided ",
                    "my x is y. ",
                    "{",
                    '"path"',
                    "NO_REPLY",
                    "/new",
                ),
                *(
                    "BEGIN NOTES FROM x\n",
                    "memory/2026-13-45.md",
                    "请记住",
                    "覚えて",
                    "\ud800",
                    "\x00",
                    " ",
                    "- ",
                ),
            ]
        ),
        max_size=20,
    ).map("".join),
)


@given(
    texts=st.lists(WILD, min_size=0, max_size=4),
    results=st.lists(WILD, max_size=2),
    purpose=st.sampled_from(["turn", "flush", "compaction", "slug"]),
    limit=st.sampled_from([None, 0, 1, 40, 5000]),
)
async def test_any_text_keeps_the_contract(
    texts: list[str], results: list[str], purpose: Purpose, limit: int | None
) -> None:
    """Whatever stands in messages and results: no exception, one final message, ids unique, limits kept."""
    calls = [
        ToolCall(id=str(at), name=("append", "memory_search", "memory_get")[at % 3], arguments={"text": text})
        for at, text in enumerate(results)
    ]
    asked = request(
        *(item for text in texts for item in (user(text), assistant(text))),
        *(user(text) for text in texts[:1]),
        *((assistant("", *calls),) if calls else ()),
        *(result(call, text) for call, text in zip(calls, results, strict=True)),
        purpose=purpose,
        max_output_tokens=limit,
    )
    items = [item async for item in offline().stream(asked)]
    message = items[-1]
    assert isinstance(message, AssistantMessage)
    assert all(isinstance(item, TextDelta) and item.text for item in items[:-1])
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == message_text(message)
    ids = [call.id for call in message.tool_calls]
    assert len(set(ids)) == len(ids)
    assert (message.stop_reason == "toolUse") == bool(ids)
    assert limit is None or ids or count_tokens(message_text(message)) <= limit


@pytest.mark.parametrize(("sentences", "on_loop"), [(1, True), (600_000, False)])
async def test_a_huge_message_is_read_on_a_thread(sentences: int, on_loop: bool) -> None:
    """Others have the loop meanwhile; a short message does not wait for a thread."""
    text = "The hive swarms. " * sentences
    counted_on_loop: list[bool] = []

    def count(counted: str) -> int:
        if counted == text:
            counted_on_loop.append(threading.current_thread() is threading.main_thread())
        return 1

    model = OfflineModel(now_ms=lambda: NOW_MS, new_id=CountingIds(), count_tokens=count)
    assert [item async for item in model.stream(request(text))]
    assert counted_on_loop == [on_loop]
