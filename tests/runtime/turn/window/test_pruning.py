"""Which old tool results are shortened: the gates, the numbers, and what is never touched."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.runtime.contracts.budget import resolve_budget
from nacre.runtime.settings.sections.agents import ContextPruningSettings
from nacre.runtime.settings.sections.hooks import ToolNames
from nacre.runtime.turn.window.pruning.plan import (
    NothingToPrune,
    Pruning,
    PruningFacts,
    message_chars,
    plan_pruning,
)
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    message_text,
    user_message,
)
from nacre.sessions.view.sent_view import Cleared, Trimmed, projected
from nacre.sessions.view.transcript import TranscriptItem

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


def test_the_last_three_messages_of_the_model_protect_what_follows() -> None:
    """Results behind the third last stay; with fewer answers nothing is old; 0 protects nothing."""
    items = [person("u"), answer("a"), LARGE[0], answer("b"), LARGE[2], answer("c"), result("r4", 20_000)]
    assert "no tool result is old enough" in why_not(items)
    assert pruned([*items, answer("d")]) == {"r1": TRIMMED}
    assert "no tool result is old enough" in why_not(conversation(*LARGE, tail=1))
    assert set(pruned(items, keepLastAssistants=0)) == {"r1", "r3", "r4"}


def test_nothing_before_the_persons_first_words_is_touched() -> None:
    """What a program put in front is not old talk."""
    items = [LARGE[0], answer("a"), *conversation(LARGE[2])]
    assert pruned(items) == {"r3": TRIMMED}


def test_hard_clear_takes_the_oldest_first_until_half_is_free() -> None:
    """From 0.5 on and with 50,000 characters of old results; the newer ones keep their head and tail."""
    many = [result(f"r{number:02d}", 4_000) for number in range(20)]
    shown = pruned(conversation(*many))
    cleared = [entry_id for entry_id, projection in shown.items() if isinstance(projection, Cleared)]
    assert cleared == [f"r{number:02d}" for number in range(len(cleared))]
    left_chars = 80_000 - len(cleared) * (4_000 - 33)
    assert left_chars < 64_000 <= left_chars + 4_000
    assert shown["r00"] == Cleared(placeholder="[Old tool result content cleared]")


def test_hard_clear_has_its_own_gates() -> None:
    """It can be switched off, has a word of its own, and needs enough to clear."""
    many = [result(f"r{number:02d}", 4_000) for number in range(20)]
    assert "long enough" in why_not(conversation(*many), hardClear={"enabled": False})
    assert "long enough" in why_not(conversation(*many), minPrunableToolChars=90_000)
    assert pruned(conversation(*many), hardClear={"placeholder": "(gone)"})["r00"] == Cleared(
        placeholder="(gone)"
    )


def test_what_was_pruned_before_stays_as_it_is() -> None:
    """A trimmed result is not trimmed again under other numbers; it may still be cleared."""
    before = {"r1": Trimmed(head_chars=10, tail_chars=10)}
    assert pruned(conversation(*LARGE), recorded=before, tokens=20_000) == {**before, "r3": TRIMMED}
    again = dict.fromkeys(("r1", "r3"), TRIMMED)
    assert "long enough" in why_not(conversation(*LARGE), recorded=again, tokens=20_000)


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
def test_tools_are_chosen_by_name(
    allow: tuple[str, ...], deny: tuple[str, ...], name: str, expected: bool
) -> None:
    """Deny wins, an empty allow is all, only the star is special, and case does not matter."""
    assert ToolNames(allow=allow, deny=deny).admits(name) is expected
    if not expected:
        chosen = {"allow": list(allow), "deny": list(deny)}
        assert "old enough" in why_not(conversation(result("r1", 60_000, tool=name)), tools=chosen)


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
    assert shown == (
        "AAAAA\nB\n...\nBBB\n\n[Tool result trimmed: kept first 7 chars and last 3 chars of 16 chars.]"
    )
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
    with pytest.raises(ValueError, match="no duration"):
        ContextPruningSettings.model_validate({"ttl": "soon"})
