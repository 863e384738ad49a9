"""Shows a model less of a transcript: prunes old tool results, and shortens single large messages.

The transcript keeps every word. A record in it says what later requests show instead.

The formulas of pruning are OpenClaw's: sizes in characters, four to a token; soft trim from 0.3 of the
window, hard clear from 0.5. There are two differences. A pruned result stays pruned, so that the next
request begins like the last one. A window that is nearly full is pruned even while the provider still
caches the prompt, because a busy session never idles long enough for the cache to expire.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence

from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.events import Emit
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.settings.sections.agents import ContextPruningSettings
from nacre.runtime.tools.toolbox import CHARS_PER_TOKEN, RESULT_PREFIX, left_out_note
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import Entry
from nacre.sessions.view.sent_view import (
    IMAGE_TOKENS,
    PRUNE_TYPE,
    Cleared,
    Projection,
    Shortened,
    Trimmed,
    caller_ids,
    estimate_message_tokens,
    is_own_result,
    last_counted_place,
    projected,
    projections_of,
    prune_record,
    record_data,
    shortened,
    whole_text,
)
from nacre.sessions.view.transcript import TranscriptItem

log = logging.getLogger(__name__)

IMAGE_CHARS = 8_000
UNREADABLE_CALL_CHARS = 128
LEAST_SAVING_RATIO = 0.05
"""A cached prompt is changed only if that saves at least this share of the window."""


class Pruning(Record):
    """The projections of all pruned results; `reason` is for the record, `numbers` for the log."""

    projections: Mapping[str, Projection]
    saved_chars: int
    reason: str
    numbers: str


class NothingToPrune(Record):
    """Why nothing is pruned, with the numbers."""

    reason: str


class PruningFacts(Record):
    """`items` is the transcript before pruning; `recorded` are the projections already in force.

    `tokens` is the fill of the window. `idle_seconds` is the time since the last request, or `None`.
    """

    items: Sequence[TranscriptItem]
    recorded: Mapping[str, Projection]
    tokens: int
    idle_seconds: float | None


def plan_pruning(
    facts: PruningFacts, *, settings: ContextPruningSettings, budget: ContextBudget
) -> Pruning | NothingToPrune:
    size_line = int(budget.flush_at * settings.size_trigger_ratio)
    idle_seconds, trigger = facts.idle_seconds, ""
    if settings.ttl_seconds > 0 and idle_seconds is not None and idle_seconds >= settings.ttl_seconds:
        trigger = "ttl"
    elif settings.size_trigger_ratio < 1 and facts.tokens >= size_line:
        trigger = "size"
    idle = "never asked" if idle_seconds is None else f"idle {idle_seconds:.0f} s"
    numbers = (
        f"{facts.tokens} tokens of {budget.window_tokens}, {idle}, ttl {settings.ttl_seconds:.15g} s, "
        f"size line {size_line}"
    )
    if not trigger:
        return NothingToPrune(reason=f"neither time nor size requires it: {numbers}")
    window_chars = budget.window_tokens * CHARS_PER_TOKEN
    chars = sum(message_chars(_shown(item, facts.recorded)) for item in facts.items)
    # Scripts with more tokens to a character fill the window before their characters do.
    ratio = max(chars / window_chars, facts.tokens / budget.window_tokens)
    numbers += f", {chars} characters, ratio {ratio:.2f}"
    if ratio < settings.soft_trim_ratio:
        least = f"{settings.soft_trim_ratio:.15g}"
        return NothingToPrune(reason=f"the window is less than {least} full: {numbers}")
    candidates = _candidates(facts.items, settings)
    if not candidates:
        return NothingToPrune(reason=f"no tool result is old enough: {numbers}")
    projections = dict(facts.recorded)
    saved_chars = _soft_trim(candidates, projections, settings)
    excess_chars = chars * (1 - settings.hard_clear_ratio / ratio)
    saved_chars += _hard_clear(candidates, projections, settings, wanted_chars=excess_chars - saved_chars)
    if projections == facts.recorded:
        return NothingToPrune(reason=f"no old tool result is long enough: {numbers}")
    if trigger == "size" and saved_chars < LEAST_SAVING_RATIO * window_chars:
        return NothingToPrune(reason=f"it would save only {saved_chars} characters: {numbers}")
    return Pruning(projections=projections, saved_chars=saved_chars, reason=trigger, numbers=numbers)


def message_chars(message: Message) -> int:
    chars = 0
    for block in message.content:
        match block:
            case Text():
                chars += len(block.text)
            case Thinking():
                chars += len(block.thinking)
            case Image():
                chars += IMAGE_CHARS
            case ToolCall():
                chars += _call_chars(block)
    return chars


def _call_chars(call: ToolCall) -> int:
    if call.invalid_arguments is not None:
        return len(call.invalid_arguments)
    try:
        return len(json.dumps(dict(call.arguments), ensure_ascii=False))
    except (TypeError, ValueError):
        return UNREADABLE_CALL_CHARS


def _shown(item: TranscriptItem, projections: Mapping[str, Projection]) -> Message:
    projection = projections.get(item.entry_id)
    return item.message if projection is None else projected(item.message, projection)


def _candidates(items: Sequence[TranscriptItem], settings: ContextPruningSettings) -> list[TranscriptItem]:
    """The old tool results between the person's first message and the model's last messages."""
    said = [place for place, item in enumerate(items) if isinstance(item.message, UserMessage)]
    answers = [place for place, item in enumerate(items) if isinstance(item.message, AssistantMessage)]
    kept = settings.keep_last_assistants
    if not said or len(answers) < kept:
        return []
    end = answers[-kept] if kept else len(items)
    callers = caller_ids(items)
    return [
        item
        for item in items[said[0] : end]
        if isinstance(item.message, ToolResultMessage)
        and is_own_result(item, callers)
        and settings.tools.admits(item.message.tool_name)
        and not any(isinstance(block, Image) for block in item.message.content)
    ]


def _soft_trim(
    candidates: Sequence[TranscriptItem], projections: dict[str, Projection], settings: ContextPruningSettings
) -> int:
    trim = settings.soft_trim
    saved_chars = 0
    for item in candidates:
        text_chars = len(message_text(item.message))
        if item.entry_id in projections or text_chars <= trim.max_chars:
            continue
        if trim.head_chars + trim.tail_chars >= text_chars:
            continue
        projections[item.entry_id] = Trimmed(head_chars=trim.head_chars, tail_chars=trim.tail_chars)
        saved_chars += text_chars - message_chars(_shown(item, projections))
    return saved_chars


def _hard_clear(
    candidates: Sequence[TranscriptItem],
    projections: dict[str, Projection],
    settings: ContextPruningSettings,
    *,
    wanted_chars: float,
) -> int:
    """Replaces the oldest results until more than `wanted_chars` are saved; returns the saved characters."""
    clear = settings.hard_clear
    left = [item for item in candidates if not isinstance(projections.get(item.entry_id), Cleared)]
    sizes = {item.entry_id: message_chars(_shown(item, projections)) for item in left}
    if not clear.enabled or sum(sizes.values()) < settings.min_prunable_tool_chars:
        return 0
    saved_chars = 0
    for item in left:
        if saved_chars > wanted_chars:
            break
        gain_chars = sizes[item.entry_id] - len(clear.placeholder)
        if gain_chars > 0:
            projections[item.entry_id] = Cleared(placeholder=clear.placeholder)
            saved_chars += gain_chars
    return saved_chars


async def prune(
    session: OpenSession,
    settings: ContextPruningSettings,
    budget: ContextBudget,
    tokens: int,
    count_tokens: Callable[[str], int],
) -> None:
    """Records which results are pruned from now on, or logs why none are. `tokens` is the window's fill."""
    items, branch = session.view.unpruned(), session.branch

    def decide() -> tuple[Pruning | NothingToPrune, int]:
        recorded = recorded_projections(items, branch)
        facts = PruningFacts(
            items=items, recorded=recorded, tokens=tokens, idle_seconds=_idle_seconds(session, items, branch)
        )
        pruning = plan_pruning(facts, settings=settings, budget=budget)
        if isinstance(pruning, NothingToPrune):
            return pruning, 0
        return pruning, _saved_tokens(items, recorded, pruning.projections, count_tokens)

    pruning, saved_tokens = await asyncio.to_thread(decide)
    if isinstance(pruning, NothingToPrune):
        log.info("nothing was pruned of %s: %s", session.key, pruning.reason)
        return
    data = record_data(pruning.projections, saved_tokens=saved_tokens, reason=pruning.reason)
    await session.journal.append_custom(PRUNE_TYPE, data)
    log.info(
        "pruned %s (%s): %d results are shortened, %d characters and about %d tokens saved: %s",
        session.key,
        pruning.reason,
        len(pruning.projections),
        pruning.saved_chars,
        saved_tokens,
        pruning.numbers,
    )


def recorded_projections(
    items: Sequence[TranscriptItem], branch: Sequence[Entry]
) -> Mapping[str, Projection]:
    """The projections in force for messages that are still in the transcript."""
    shown = {item.entry_id for item in items}
    found = projections_of(prune_record(branch))
    return {entry_id: projection for entry_id, projection in found.items() if entry_id in shown}


def _idle_seconds(
    session: OpenSession, items: Sequence[TranscriptItem], branch: Sequence[Entry]
) -> float | None:
    """The time since the last request; a record of pruning implies a request after it."""
    answers = (item.message for item in reversed(items) if isinstance(item.message, AssistantMessage))
    answer = next(answers, None)
    if answer is None:
        return None
    record = prune_record(branch)
    touched_ms = max(answer.timestamp_ms, timestamp_ms(record.timestamp) if record else 0)
    return max(0.0, (session.now_ms() - touched_ms) / 1000)


def _saved_tokens(
    items: Sequence[TranscriptItem],
    before: Mapping[str, Projection],
    after: Mapping[str, Projection],
    count_tokens: Callable[[str], int],
) -> int:
    saved = 0
    for item in items:
        old, new = before.get(item.entry_id), after.get(item.entry_id)
        if new is None or new == old or not isinstance(item.message, ToolResultMessage):
            continue
        shown = item.message if old is None else projected(item.message, old)
        saved += estimate_message_tokens(shown, count_tokens)
        saved -= estimate_message_tokens(projected(item.message, new), count_tokens)
    return saved


SHOWN_SHARE = 0.25
"""The share of the room that a message may take if it does not fit; the rest is for the conversation."""
HEAD_SHARE = 0.75
LEAST_SHOWN_TOKENS = 64
LEAST_SHOWN_CHARS = 40
MOST_TOKENS_PER_CHAR = 3
LEAST_ROOM_SHARE = 8
"""If the prompt fills nearly the whole window, the conversation still gets an eighth of it."""


class Room(Record):
    """`message_tokens` is the most for one message, `kept_tokens` for all that a compaction must keep."""

    message_tokens: int
    kept_tokens: int


def room_in(budget: ContextBudget, *, overhead_tokens: int, refused_tokens: int | None) -> Room:
    """The room in a window beside its prompt and a summary.

    A provider that refused a context of `refused_tokens` has less room than that, or counts differently, so
    the kept messages get half of their previous room.
    """
    least_tokens = budget.window_tokens // LEAST_ROOM_SHARE
    taken_tokens = overhead_tokens + budget.summary_tokens
    message_tokens = max(budget.compact_at - taken_tokens, least_tokens)
    # Half of the reserve is enough for an answer; the kept messages may use the other half.
    kept_tokens = max((budget.compact_at + budget.window_tokens) // 2 - taken_tokens, least_tokens)
    if refused_tokens is not None:
        kept_tokens = min(kept_tokens, max(refused_tokens - overhead_tokens, 0)) // 2
    return Room(message_tokens=message_tokens, kept_tokens=kept_tokens)


def plan_shortening(
    shown: Sequence[TranscriptItem],
    *,
    room: Room,
    newest_said_id: str,
    count_tokens: Callable[[str], int],
) -> Mapping[int, int]:
    """Positions in the shown transcript, and how many tokens the message there may take.

    `newest_said_id` is the entry of the person's last message.
    """
    limits: dict[int, int] = {}
    sizes: dict[int, int] = {}
    limit_tokens = int(room.message_tokens * SHOWN_SHARE)
    kept = _kept_places(shown, newest_said_id)
    if _are_surely_small([shown[place].message for place in kept], room.kept_tokens):
        kept = ()  # they fit together, so most turns count nothing here
    for place, item in enumerate(shown):
        if place not in kept and _are_surely_small([item.message], room.message_tokens):
            continue
        sizes[place] = estimate_message_tokens(item.message, count_tokens)
        if sizes[place] > room.message_tokens:
            limits[place] = sizes[place] = limit_tokens
    level_tokens = _level([sizes[place] for place in kept], room.kept_tokens)
    for place in kept:
        if sizes[place] > max(level_tokens, LEAST_SHOWN_TOKENS):
            limits[place] = level_tokens
    return {place: max(limit, LEAST_SHOWN_TOKENS) for place, limit in limits.items()}


def fitted(
    message: Message, limit_tokens: int, *, path: str, problem: str, count_tokens: Callable[[str], int]
) -> Shortened:
    """How to show a message in about `limit_tokens` tokens; `path` and `problem` as for `cut`."""
    text = whole_text(message)
    images = sum(isinstance(block, Image) for block in message.content)
    if images * IMAGE_TOKENS > limit_tokens // 2:
        images = limit_tokens // 2 // IMAGE_TOKENS
    chars = min(len(text), limit_tokens * CHARS_PER_TOKEN)
    while True:
        head_chars = int(chars * HEAD_SHARE)
        tail_chars = chars - head_chars
        how = Shortened(
            head_chars=head_chars,
            tail_chars=tail_chars,
            images=images,
            note=left_out_note(text, head_chars, tail_chars, path=path, problem=problem),
        )
        tokens = estimate_message_tokens(shortened(message, how), count_tokens)
        if tokens <= limit_tokens or chars <= LEAST_SHOWN_CHARS:
            return how
        chars = max(LEAST_SHOWN_CHARS, min(chars * 9 // 10, chars * limit_tokens // tokens))


def _kept_places(shown: Sequence[TranscriptItem], newest_said_id: str) -> Sequence[int]:
    """Places that no compaction removes: the newest step, the message that it answers, and recalled notes."""
    start = next(
        (
            place
            for place in range(len(shown) - 1, -1, -1)
            if not shown[place].is_recall and not isinstance(shown[place].message, ToolResultMessage)
        ),
        0,
    )
    places = {place for place in range(start, len(shown)) if not shown[place].is_recall}
    before = range(start - 1, -1, -1)
    places |= {place for place in before if shown[place].entry_id == newest_said_id}
    recalled = [place for place in range(len(shown) - 1, -1, -1) if shown[place].is_recall]
    places |= {place for place in recalled if shown[place].has_place}
    places |= set([place for place in recalled if not shown[place].has_place][:1])
    return sorted(places)


def _level(sizes: Sequence[int], room_tokens: int) -> int:
    """The size to which the largest are cut so that all fit together."""
    left_tokens = room_tokens
    for number, size in enumerate(sorted(sizes)):
        share_tokens = left_tokens // (len(sizes) - number)
        if size > share_tokens:
            return share_tokens
        left_tokens -= size
    return max(sizes, default=0)


def _are_surely_small(messages: Sequence[Message], limit_tokens: int) -> bool:
    return MOST_TOKENS_PER_CHAR * sum(map(message_chars, messages)) < limit_tokens


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def shorten_large(session: OpenSession, parts: TurnParts, room: Room, emit: Emit) -> bool:
    """Records which messages are shown shortened from now on; `True` if anything changed.

    The whole text is also kept beside the transcript, where `read` pages through it.
    """
    count_tokens = parts.count_tokens
    items, shown, branch = session.view.unpruned(), session.view.transcript(), session.branch
    newest_said_id = next((e.id for e in reversed(branch) if isinstance(e.body, UserMessage)), "")
    limits = await asyncio.to_thread(
        plan_shortening, shown, room=room, newest_said_id=newest_said_id, count_tokens=count_tokens
    )
    if not limits:
        return False
    recorded = recorded_projections(items, branch)
    projections: dict[str, Projection] = dict(recorded)
    for place, limit_tokens in limits.items():
        item = items[place]
        path, problem = await _keep_text(session, item)
        projections[item.entry_id] = await asyncio.to_thread(
            fitted, item.message, limit_tokens, path=path, problem=problem, count_tokens=count_tokens
        )
    if projections == recorded:
        return False

    def saved() -> int:
        # Only messages before the last reported usage, which still counts them in full.
        counted_to = last_counted_place(items)
        counted = [place for place in limits if counted_to is not None and place <= counted_to]
        before = (shown[place].message for place in counted)
        after = (_shown(items[place], projections) for place in counted)
        sizes = [
            sum(estimate_message_tokens(each, count_tokens) for each in side) for side in (before, after)
        ]
        return max(0, sizes[0] - sizes[1])

    saved_tokens = await asyncio.to_thread(saved)
    data = record_data(projections, saved_tokens=saved_tokens, reason="size of a message")
    await session.journal.append_custom(PRUNE_TYPE, data)
    log.info("shortened %d messages of %s: %s", len(limits), session.key, room)
    fresh = [items[place].message for place in limits if items[place].entry_id not in recorded]
    notices = [
        f"A message of {len(whole_text(message))} characters is too long to be read at once: the model sees "
        "its beginning and its end, and can read the rest page by page. The whole message is kept."
        for message in fresh
        if isinstance(message, UserMessage)
    ]
    parts.notice_log.once(session.session_id, notices, emit)
    return True


async def _keep_text(session: OpenSession, item: TranscriptItem) -> tuple[str, str]:
    entry_id = item.entry_id
    if not _NAME.fullmatch(entry_id):  # another program's
        entry_id = hashlib.sha256(entry_id.encode("utf-8", "replace")).hexdigest()[:32]
    name, results = f"message-{entry_id}", session.journal.results
    try:
        if await results.read(name) is None:
            await results.keep(name, whole_text(item.message))
    except SessionError as error:
        log.warning("the text of a long message could not be kept beside the transcript: %s", error)
        return "", "The rest could not be stored"
    return f"{RESULT_PREFIX}{name}", ""
