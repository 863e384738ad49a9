"""Old tool results are pruned by the settings, in plans and in turns."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from nacre import Attachment
from nacre.runtime.contracts.budget import resolve_budget
from nacre.runtime.contracts.events import CompactionEnded
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.runtime.settings.sections.agents import ContextPruningSettings
from nacre.runtime.settings.sections.hooks import ToolNames
from nacre.runtime.turn.shortening import NothingToPrune, Pruning, PruningFacts, message_chars, plan_pruning
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    message_text,
    user_message,
)
from nacre.sessions.view.sent_view import IMAGE_GONE, Cleared, Trimmed, projected
from nacre.sessions.view.transcript import TranscriptItem
from tests.runtime.agents import START, entries, events_of, opened, said, transcript_file, write_settings
from tests.runtime.turn.test_inbound_message import png
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import usage

PLACEHOLDER = ContextPruningSettings().hard_clear.placeholder

WINDOW_TOKENS = 32_000
BUDGET = resolve_budget(
    configured_window_tokens=WINDOW_TOKENS,
    model_window_tokens=None,
    reserve_tokens=0,
    reserve_floor_tokens=0,
    soft_threshold_tokens=4_000,
    keep_recent_tokens=8_000,
)
EXPIRED_SECONDS = 300.0


def result(entry_id: str, chars: int, *, tool: str = "read", image: bool = False) -> TranscriptItem:
    blocks: tuple[Text | Image, ...] = (Text(text="x" * chars),)
    message = ToolResultMessage(
        tool_call_id=entry_id,
        tool_name=tool,
        content=(*blocks, Image(data="AA", mime_type="image/png")) if image else blocks,
        is_error=False,
        timestamp_ms=1,
    )
    return item(entry_id, message)


def item(entry_id: str, message: Message) -> TranscriptItem:
    return TranscriptItem(entry_id=entry_id, message=message, is_recall=False)


def answer(entry_id: str, *content: Text | Thinking | ToolCall) -> TranscriptItem:
    message = AssistantMessage(
        content=content or (Text(text="ok"),),
        api="",
        provider="",
        model="",
        usage=None,
        stop_reason="stop",
        timestamp_ms=1,
    )
    return item(entry_id, message)


def person(entry_id: str, text: str = "go on") -> TranscriptItem:
    return item(entry_id, user_message(text, timestamp_ms=1))


def conversation(*results: TranscriptItem, tail: int = 3) -> list[TranscriptItem]:
    """A question, old results, and as many answers behind them."""
    return [person("u"), answer("a"), *results, *(answer(f"t{number}") for number in range(tail))]


def plan(
    items: list[TranscriptItem],
    *,
    idle_seconds: float | None = EXPIRED_SECONDS,
    tokens: int = 0,
    recorded: dict[str, Any] | None = None,
    **settings: Any,
) -> Pruning | NothingToPrune:
    facts = PruningFacts(items=items, recorded=recorded or {}, tokens=tokens, idle_seconds=idle_seconds)
    wanted = ContextPruningSettings.model_validate({"mode": "cache-ttl", **settings})
    return plan_pruning(facts, settings=wanted, budget=BUDGET)


def pruned(*arguments: Any, **options: Any) -> dict[str, Any]:
    """How results are shown after a plan."""
    decided = plan(*arguments, **options)
    assert isinstance(decided, Pruning), decided
    return dict(decided.projections)


def why_not(*arguments: Any, **options: Any) -> str:
    """Why a plan does nothing."""
    decided = plan(*arguments, **options)
    assert isinstance(decided, NothingToPrune), decided
    return decided.reason


LARGE = [result("r1", 20_000), result("r2", 3_000), result("r3", 20_000)]
TRIMMED = Trimmed(head_chars=1_500, tail_chars=1_500)


def test_old_long_results_keep_head_and_tail() -> None:
    """Above 0.3 of the window, longer than 4,000 characters; short ones stay."""
    assert pruned(conversation(*LARGE)) == {"r1": TRIMMED, "r3": TRIMMED}


def test_time_must_be_up_or_the_window_nearly_full() -> None:
    """A prompt that the provider remembers is left alone; what was never asked for has no cache."""
    assert "neither time nor size" in why_not(conversation(*LARGE), idle_seconds=299.0)
    assert "never asked" in why_not(conversation(*LARGE), idle_seconds=None)
    assert "neither time nor size" in why_not(conversation(*LARGE), ttl=0)
    assert pruned(conversation(*LARGE), idle_seconds=31.0, ttl="30s")


@pytest.mark.covers("W11-2")
def test_pruning_fires_in_a_busy_session_too() -> None:
    """W11-2: at four fifths of the flush line, 22,400 of 28,000 tokens here, although time is never up."""
    assert BUDGET.flush_at == 28_000
    assert "size line 22400" in why_not(conversation(*LARGE), idle_seconds=1.0, tokens=22_399)
    decided = plan(conversation(*LARGE), idle_seconds=1.0, tokens=22_400)
    assert isinstance(decided, Pruning)
    assert decided.reason == "size"
    assert "neither" in why_not(conversation(*LARGE), idle_seconds=1.0, tokens=31_000, sizeTriggerRatio=1)


def test_a_remembered_prompt_is_not_changed_for_little() -> None:
    """The cache is worth more than a twentieth of the window; when time is up it is worth nothing."""
    little = conversation(result("r1", 5_000), result("r2", 3_900))
    assert "it would save only" in why_not(little, idle_seconds=1.0, tokens=23_000)
    assert pruned(little, tokens=23_000) == {"r1": TRIMMED}


def test_a_window_with_room_is_left_alone() -> None:
    """Below three tenths nothing is done, with the numbers in the reason."""
    reason = why_not(conversation(result("r1", 30_000)))
    assert "less than 0.3 full" in reason
    assert "ratio 0.23" in reason


def test_tokens_count_where_characters_say_too_little() -> None:
    """Chinese fills a window at a quarter of the characters."""
    assert pruned(conversation(result("r1", 10_000)), tokens=12_000) == {"r1": TRIMMED}


@pytest.mark.covers("A14-1")
def test_the_last_three_messages_of_the_model_protect_what_follows() -> None:
    """Results behind the third last stay; with fewer answers nothing is old; 0 protects nothing."""
    items = [person("u"), answer("a"), LARGE[0], answer("b"), LARGE[2], answer("c"), result("r4", 20_000)]
    assert "no tool result is old enough" in why_not(items)
    assert pruned([*items, answer("d")]) == {"r1": TRIMMED}
    assert "no tool result is old enough" in why_not(conversation(*LARGE, tail=1))
    assert set(pruned(items, keepLastAssistants=0)) == {"r1", "r3", "r4"}


@pytest.mark.covers("A14-1")
def test_nothing_before_the_persons_first_words_is_touched() -> None:
    """What a program put in front is not old talk."""
    items = [LARGE[0], answer("a"), *conversation(LARGE[2])]
    assert pruned(items) == {"r3": TRIMMED}


@pytest.mark.covers("A14-1")
def test_hard_clear_takes_the_oldest_first_until_half_is_free() -> None:
    """From 0.5 on and with 50,000 characters of old results; the newer ones keep their head and tail."""
    many = [result(f"r{number:02d}", 4_000) for number in range(20)]
    shown = pruned(conversation(*many))
    cleared = [entry_id for entry_id, projection in shown.items() if isinstance(projection, Cleared)]
    assert cleared == [f"r{number:02d}" for number in range(len(cleared))]
    left_chars = 80_000 - len(cleared) * (4_000 - 33)
    assert left_chars < 64_000 <= left_chars + 4_000
    assert shown["r00"] == Cleared(placeholder=PLACEHOLDER)


def test_hard_clear_has_its_own_gates() -> None:
    """It can be switched off, has a word of its own, and needs enough to clear."""
    many = [result(f"r{number:02d}", 4_000) for number in range(20)]
    assert "long enough" in why_not(conversation(*many), hardClear={"enabled": False})
    assert "long enough" in why_not(conversation(*many), minPrunableToolChars=90_000)
    assert "long enough" in why_not(conversation(*many), hardClear={"placeholder": "x" * 4_001})
    assert pruned(conversation(*many), hardClear={"placeholder": "(gone)"})["r00"] == Cleared(
        placeholder="(gone)"
    )


def test_what_was_pruned_before_stays_as_it_is() -> None:
    """A trimmed result is not trimmed again under other numbers; it may still be cleared."""
    before = {"r1": Trimmed(head_chars=10, tail_chars=10)}
    assert pruned(conversation(*LARGE), recorded=before, tokens=20_000) == {**before, "r3": TRIMMED}
    again = dict.fromkeys(("r1", "r3"), TRIMMED)
    assert "long enough" in why_not(conversation(*LARGE), recorded=again, tokens=20_000)


@pytest.mark.covers("A14-1")
def test_results_with_images_and_made_up_results_are_left_alone() -> None:
    """A picture cannot be trimmed; the result that stands for a missing one has its caller's id."""
    made_up = result("a", 30_000)
    items = conversation(result("r1", 30_000, image=True), made_up, result("r3", 20_000))
    assert pruned(items) == {"r3": TRIMMED}


@pytest.mark.parametrize(
    ("allow", "deny", "name", "expected"),
    [
        ((), (), "read", True),
        (("read",), (), "READ", True),
        (("read",), (), "list", False),
        (("memory_*",), (), "memory_search", True),
        (("*",), ("memory_*",), "memory_get", False),
        (("memory_get",), ("MEMORY_*",), "memory_get", False),
        (("re?d",), (), "read", False),
        (("*_search",), (), "memory_search_x", False),
    ],
)
@pytest.mark.covers("A14-1")
def test_tools_are_chosen_by_name(
    allow: tuple[str, ...], deny: tuple[str, ...], name: str, expected: bool
) -> None:
    """Deny wins, an empty allow is all, only the star is special, and case does not matter."""
    assert ToolNames(allow=allow, deny=deny).admits(name) is expected
    if not expected:
        chosen = {"allow": list(allow), "deny": list(deny)}
        assert "old enough" in why_not(conversation(result("r1", 60_000, tool=name)), tools=chosen)


@pytest.mark.covers("A14-1")
def test_a_trim_joins_blocks_and_says_what_is_missing() -> None:
    """Head and tail go over the seams of blocks, as if they were lines of one text."""
    message = ToolResultMessage(
        tool_call_id="1",
        tool_name="read",
        content=(Text(text="A" * 5), Text(text="B" * 10)),
        is_error=False,
        timestamp_ms=1,
    )
    shown = message_text(projected(message, Trimmed(head_chars=7, tail_chars=3)))
    assert shown.startswith("AAAAA\nB\n...\nBBB\n\n[")
    assert projected(message, Trimmed(head_chars=8, tail_chars=8)) is message


def test_sizes_of_what_a_message_holds() -> None:
    """Text and thinking by length, an image as 8,000, a call by its JSON or 128 when it has none."""
    call = ToolCall(id="1", name="read", arguments={"path": "a"})
    odd = ToolCall(id="2", name="read", arguments={"path": object()})
    assert message_chars(answer("a", Text(text="12345"), Thinking(thinking="123"), call, odd).message) == (
        5 + 3 + len('{"path": "a"}') + 128
    )
    assert message_chars(result("r", 10, image=True).message) == 8_010


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("5m", 300), (5, 300), ("90s", 90), ("1h", 3600), ("1.5", 90), (0, 0)]
)
def test_durations(ttl: object, seconds: float) -> None:
    """As OpenClaw writes them; a bare number is minutes."""
    assert ContextPruningSettings.model_validate({"ttl": ttl}).ttl_seconds == seconds


def test_settings_are_bounded_and_nonsense_is_refused() -> None:
    """Shares lie between 0 and 1, counts are not negative, a duration must be one."""
    settings = ContextPruningSettings.model_validate(
        {"softTrimRatio": 7, "hardClearRatio": -1, "keepLastAssistants": -4, "softTrim": {"maxChars": 10.9}}
    )
    assert (settings.soft_trim_ratio, settings.hard_clear_ratio) == (1.0, 0.0)
    assert (settings.keep_last_assistants, settings.soft_trim.max_chars) == (3, 10)
    with pytest.raises(ValueError, match="not a duration"):
        ContextPruningSettings.model_validate({"ttl": "soon"})


PAGE = "The hive needs sugar before the frost comes.\n" * 150


def settings(window_tokens: int = 32_000, **pruning: Any) -> dict[str, Any]:
    """A window without reserve: flush at 28,000 tokens; pruning as asked."""
    return {
        "agents": {
            "defaults": {
                "contextTokens": window_tokens,
                "compaction": {"reserveTokens": 0, "reserveTokensFloor": 0},
                "contextPruning": {"mode": "cache-ttl", **pruning},
            }
        }
    }


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens, output_tokens=10)


def results(request: ModelRequest) -> list[str]:
    """The tool results of a request."""
    return [message_text(message) for message in request.messages if isinstance(message, ToolResultMessage)]


def stored_results(state_dir: Path) -> list[str]:
    """The tool results as they stand in the transcript's file."""
    stored = entries(transcript_file(state_dir))
    messages = [entry["message"] for entry in stored if entry["type"] == "message"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "toolResult"]


def sent(messages: tuple[Message, ...]) -> str:
    """Messages byte for byte as a provider gets them, times aside."""
    return json.dumps([{**message.to_json(), "timestamp": 0} for message in messages])


def reading(tokens: int) -> list[Any]:
    """A turn in which the page is read."""
    return [calls(("read", {"path": "page.md"})), says("Read.", usage=used(tokens))]


async def talk(state_dir: Path, clock: Clock, model: ScriptedModel, *words: str, ids: str = "") -> None:
    """Some turns; the page is there to be read."""
    (state_dir / "workspace").mkdir(parents=True, exist_ok=True)
    (state_dir / "workspace/page.md").write_text(PAGE)
    async with opened(state_dir, model, clock=clock, ids=ids) as agent:
        for text in words:
            await agent.respond(said(text))
    model.assert_complete()


@pytest.mark.covers("A14-2", "W11-1")
async def test_pruned_results_stay_pruned_byte_for_byte_also_after_a_restart(tmp_path: Path) -> None:
    """W11-1: the request after a pruning begins like the pruned one, so that the provider's cache holds."""
    write_settings(tmp_path, settings())
    clock = Clock(START)
    model = ScriptedModel(
        *reading(3_000),
        *reading(6_000),
        *reading(9_000),
        says("ok", usage=used(10_000)),
        now_ms=clock.now_ms,
    )
    await talk(tmp_path, clock, model, "one", "two", "three", "four")
    assert all(text == PAGE.rstrip("\n") for text in results(model.requests[-1]))

    clock.advance(minutes=6)
    later = ScriptedModel(says("five", usage=used(8_000)), says("six"), now_ms=clock.now_ms)
    await talk(tmp_path, clock, later, "five", "six", ids="second-")
    first, second = later.requests
    assert "kept first 1500 chars" in results(first)[0]
    assert len(results(first)[0]) < 3_200
    assert sent(second.messages[: len(first.messages)]) == sent(first.messages)

    write_settings(tmp_path, settings(softTrim={"headChars": 10}, hardClear={"placeholder": "other"}))
    restarted = ScriptedModel(says("seven"), now_ms=clock.now_ms)
    await talk(tmp_path, clock, restarted, "seven", ids="third-")
    [third] = restarted.requests
    assert sent(third.messages[: len(second.messages)]) == sent(second.messages)
    assert stored_results(tmp_path) == [PAGE.rstrip("\n")] * 3


@pytest.mark.covers("A14-1")
async def test_time_is_up_once_and_then_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The call after a pruning has touched the prompt anew; the log says so with numbers."""
    caplog.set_level(logging.INFO, logger="nacre.runtime.turn.shortening")
    write_settings(tmp_path, settings())
    clock = Clock(START)
    model = ScriptedModel(*reading(12_000), *[says("ok")] * 3, now_ms=clock.now_ms)
    await talk(tmp_path, clock, model, "1", "2", "3", "4")
    clock.advance(minutes=5)
    model = ScriptedModel(says("ok"), says("ok"), now_ms=clock.now_ms)
    await talk(tmp_path, clock, model, "5", "6", ids="second-")

    stored = entries(transcript_file(tmp_path))
    [record] = [entry["data"] for entry in stored if entry.get("customType") == "nacre.prune"]
    assert record["reason"] == "ttl"
    assert record["savedTokens"] > 500
    told = [record.getMessage() for record in caplog.records]
    assert "neither time nor size requires it" in told[-1]
    assert "idle 0 s, ttl 300 s" in told[-1]
    assert any(text.startswith("pruned agent:main:main (ttl): 1 results") for text in told)


@pytest.mark.covers("W11-2")
async def test_pruning_makes_room_before_a_compaction_is_due(tmp_path: Path) -> None:
    """What was saved is taken off the provider's last count: a window that has room is not compacted."""
    write_settings(tmp_path, settings())
    clock = Clock(START)
    quiet = [says("ok", usage=used(13_000))] * 2
    steps = [*reading(9_000), *reading(10_000), *reading(12_000), *quiet]
    await talk(tmp_path, clock, ScriptedModel(*steps, now_ms=clock.now_ms), "1", "2", "3", "4", "5")
    write_settings(tmp_path, settings(16_000, sizeTriggerRatio=0.5))
    full = ScriptedModel(says("Still here."))
    async with opened(tmp_path, full, clock=clock, ids="second-") as agent:
        events = await events_of(agent, said("6"))
    assert not any(isinstance(event, CompactionEnded) for event in events)
    assert all(len(text) < 3_200 for text in results(full.requests[0]))
    stored = entries(transcript_file(tmp_path))
    assert [entry["data"]["reason"] for entry in stored if entry.get("customType") == "nacre.prune"] == [
        "size"
    ]
    full.assert_complete()


async def test_an_image_is_sent_in_its_own_turn_and_three_more(tmp_path: Path) -> None:
    """Then a line stands in its place, in every later request the same; the transcript keeps it."""
    data = png(9, 6)
    model = ScriptedModel(*[says("ok")] * 6)
    async with opened(tmp_path, model) as agent:
        picture = Attachment(name="bee.png", mime_type="image/png", data=data)
        await agent.respond(said("look", attachments=(picture,)))
        for number in range(5):
            await agent.respond(said(str(number)))

    has_image = [
        any(isinstance(block, Image) for message in request.messages for block in message.content)
        for request in model.requests
    ]
    assert has_image == [True, True, True, True, False, False]
    assert IMAGE_GONE in message_text(model.requests[4].messages[0])
    assert sent(model.requests[5].messages[:9]) == sent(model.requests[4].messages[:9])
    assert base64.b64encode(data).decode() in transcript_file(tmp_path).read_text()


@pytest.mark.covers("A14-1")
async def test_without_the_mode_nothing_is_pruned(tmp_path: Path) -> None:
    """Off is the default."""
    write_settings(tmp_path, {"agents": {"defaults": {"contextTokens": 32_000}}})
    clock = Clock(START)
    await talk(tmp_path, clock, ScriptedModel(*reading(3_000), *[says("ok")] * 3), "1", "2", "3", "4")
    clock.advance(hours=1)
    model = ScriptedModel(says("ok"))
    await talk(tmp_path, clock, model, "5", ids="second-")
    assert results(model.requests[0]) == [PAGE.rstrip("\n")]


@pytest.mark.covers("W11-1", "SEED-23")
async def test_cleared_results_never_reach_the_provider(tmp_path: Path) -> None:
    """On the wire old results are their placeholder; the last one, and all in the transcript, are whole."""
    pruning = settings(softTrimRatio=0.01, hardClearRatio=0.02, minPrunableToolChars=100)
    clock = Clock(START)
    async with ProviderServer() as server:
        pruning["models"] = {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}}
        pruning["agents"]["defaults"]["model"] = "openai/test-model"
        write_settings(tmp_path, pruning)
        for tokens in (3_000, 5_000, 7_000, 9_000):
            server.tool_calls(("read", {"path": "page.md"}), usage=usage(tokens, 10))
            server.reply("Read.", usage=usage(tokens, 10))
        server.reply("Done.")
        async with opened(tmp_path, None, clock=clock) as agent:
            (agent.workspace / "page.md").write_text(PAGE)
            for number in range(4):
                await agent.respond(said(f"read it, {number}"))
            clock.advance(minutes=6)
            await agent.respond(said("and now?"))

        whole = PAGE.rstrip("\n")
        wire = [
            [message["content"] for message in request["messages"] if message["role"] == "tool"]
            for request in server.requests
        ]
        assert wire[-2] == [whole] * 4
        assert wire[-1] == [PLACEHOLDER] * 3 + [whole]
        assert server.raw[-1].count(b"The hive needs sugar") == whole.count("The hive needs sugar")
    assert stored_results(tmp_path) == [whole] * 4
