"""Keeps a session inside its model's window: prune, measure, decide, flush, compact. One owner, one budget.

Every path on which history leaves the model's view goes through `Window.compact` or
`Window.flush_before_leaving`, so none of them can skip the flush.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from nacre.record import Record, paused_collector
from nacre.runtime.contracts.budget import ContextBudget, Decision
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.events import CompactionEnded, CompactionReason, Emit, Warned
from nacre.runtime.hooks.hooks import WindowHooks
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.tools.toolbox import CHARS_PER_TOKEN, RESULT_PREFIX, left_out_note
from nacre.runtime.turn.window.flush import SessionFlush
from nacre.runtime.turn.window.pruning.plan import message_chars
from nacre.runtime.turn.window.pruning.session import prune, recorded_projections
from nacre.runtime.turn.window.summaries.ladder import Summary, extractor, summary_models, summary_of
from nacre.runtime.turn.window.summaries.summariser import partial_summaries
from nacre.runtime.turn.window.window_parts import WindowParts, WindowTurn
from nacre.sessions.compaction.cut import (
    CompactionPlan,
    NothingToCompact,
    plan_compaction,
    transcript_tokens,
    with_compaction,
)
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import (
    Image,
    Message,
    ToolResultMessage,
    UserMessage,
)
from nacre.sessions.entries.entries import Entry
from nacre.sessions.view.sent_view import (
    IMAGE_TOKENS,
    PRUNE_TYPE,
    ContextMeasure,
    Projection,
    Shortened,
    estimate_message_tokens,
    estimate_tokens,
    is_little_to_count,
    last_counted_place,
    measure_context,
    projected,
    record_data,
    shortened,
    whole_text,
)
from nacre.sessions.view.transcript import TranscriptItem

log = logging.getLogger(__name__)


SHOWN_SHARE = 0.25
"""Of the room: what is shown of a message that does not fit into it. The conversation before it stays."""
HEAD_SHARE = 0.75
LEAST_SHOWN_TOKENS = 64
LEAST_SHOWN_CHARS = 40
MOST_TOKENS_PER_CHAR = 3
LEAST_ROOM_SHARE = 8
"""A window whose prompt leaves next to nothing still gives an eighth to the conversation."""


class Room(Record):
    """`message_tokens` is the most of one message, `kept_tokens` of all that a compaction must keep."""

    message_tokens: int
    kept_tokens: int


def room_in(budget: ContextBudget, *, overhead_tokens: int, refused_tokens: int | None) -> Room:
    """What the window has beside its prompt and a summary.

    A provider that refused a context of `refused_tokens` has less than that, or counts otherwise: what must
    be kept gets half of what it had.
    """
    least_tokens = budget.window_tokens // LEAST_ROOM_SHARE
    taken_tokens = overhead_tokens + budget.summary_tokens
    message_tokens = max(budget.compact_at - taken_tokens, least_tokens)
    # Half of the reserve is enough for an answer; what must stay may have the other half.
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
    """Places in the transcript as it is shown, and how many tokens the message there may take.

    `newest_said_id` is the entry of what a person said last.
    """
    limits: dict[int, int] = {}
    sizes: dict[int, int] = {}
    limit_tokens = int(room.message_tokens * SHOWN_SHARE)
    kept = _kept_places(shown, newest_said_id)
    for place, item in enumerate(shown):
        if place not in kept and _is_surely_small(item.message, room.message_tokens):
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
    """How a message is to be shown in about that many tokens; `path` and `problem` as for `cut`."""
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
    """What stays in view whatever is compacted: the newest step, what it answers, and the recalled notes."""
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
    """The size to which the largest are cut so that all fit together; the small ones stay as they are."""
    left_tokens = room_tokens
    for number, size in enumerate(sorted(sizes)):
        share_tokens = left_tokens // (len(sizes) - number)
        if size > share_tokens:
            return share_tokens
        left_tokens -= size
    return max(sizes, default=0)


def _is_surely_small(message: Message, limit_tokens: int) -> bool:
    """Whether there is no need to count."""
    return MOST_TOKENS_PER_CHAR * message_chars(message) < limit_tokens


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SessionShortening:
    """What is too large of one open session."""

    def __init__(self, session: OpenSession, parts: WindowParts, emit: Emit) -> None:
        self._session = session
        self._parts = parts
        self._emit = emit

    async def run(self, room: Room) -> bool:
        """Records what is shown shortened from now on; `True` when that is more than before.

        The transcript keeps every word. The text stands beside it, too, where `read` pages through it.
        """
        session, count_tokens = self._session, self._parts.count_tokens
        items, shown, branch = session.view.unpruned(), session.view.transcript(), session.branch
        limits = await asyncio.to_thread(
            plan_shortening,
            shown,
            room=room,
            newest_said_id=_newest_said_id(branch),
            count_tokens=count_tokens,
        )
        if not limits:
            return False
        recorded = recorded_projections(items, branch)
        ways: dict[str, Projection] = dict(recorded)
        for place, limit_tokens in limits.items():
            item = items[place]
            path, problem = await self._kept(item)
            ways[item.entry_id] = await asyncio.to_thread(
                fitted, item.message, limit_tokens, path=path, problem=problem, count_tokens=count_tokens
            )
        if ways == recorded:
            return False
        saved_tokens = await asyncio.to_thread(self._saved_tokens, items, shown, ways, limits)
        data = record_data(ways, saved_tokens=saved_tokens, reason="size of a message")
        await session.journal.append_custom(PRUNE_TYPE, data)
        log.info("shortened %d messages of %s: %s", len(limits), session.key, room)
        self._tell([items[place].message for place in limits if items[place].entry_id not in recorded])
        return True

    async def _kept(self, item: TranscriptItem) -> tuple[str, str]:
        """Where `read` finds the text of a message, or why it does not."""
        entry_id = item.entry_id
        if not _NAME.fullmatch(entry_id):  # another program's
            entry_id = hashlib.sha256(entry_id.encode("utf-8", "replace")).hexdigest()[:32]
        name, results = f"message-{entry_id}", self._session.journal.results
        try:
            if await results.read(name) is None:
                await results.keep(name, whole_text(item.message))
        except SessionError as error:
            log.warning("the text of a long message could not be kept beside the transcript: %s", error)
            return "", "The rest could not be kept for reading"
        return f"{RESULT_PREFIX}{name}", ""

    def _saved_tokens(
        self,
        items: Sequence[TranscriptItem],
        shown: Sequence[TranscriptItem],
        ways: Mapping[str, Projection],
        limits: Mapping[int, int],
    ) -> int:
        """What a usage still counts that was reported behind these messages."""
        counted_to = last_counted_place(items)
        saved_tokens = 0
        for place in limits:
            if counted_to is not None and place <= counted_to:
                now = projected(items[place].message, ways[items[place].entry_id])
                saved_tokens += estimate_message_tokens(shown[place].message, self._parts.count_tokens)
                saved_tokens -= estimate_message_tokens(now, self._parts.count_tokens)
        return max(0, saved_tokens)

    def _tell(self, messages: Sequence[Message]) -> None:
        sizes = [len(whole_text(message)) for message in messages if isinstance(message, UserMessage)]
        notices = [
            f"A message of {size} characters is too long to be read at once: the model sees its beginning "
            "and its end, and can read the rest page by page. Every word of it is kept."
            for size in sizes
        ]
        self._parts.told.once(self._session.session_id, notices, self._emit)


def _newest_said_id(branch: Sequence[Entry]) -> str:
    said = (entry.id for entry in reversed(branch) if isinstance(entry.body, UserMessage))
    return next(said, "")


MAX_PASSES = 4
"""Looks at the window before one model call: one for each size of the kept tail, and a last one."""

NEARLY_FULL_PERCENT = 85
"""Of the compaction line; from here on the owner is warned, once in each cycle."""


class Window:
    """The context window of one open session, in one turn."""

    def __init__(self, turn: WindowTurn) -> None:
        session, parts = turn.session, turn.parts
        self.budget = turn.budget
        self._session = session
        self._parts = parts
        self._models = turn.models
        self._frame = turn.frame
        self._emit = turn.emit
        self._gave_up = False
        self._shortening = SessionShortening(session, parts, turn.emit)
        self._heard = WindowHooks(parts.hooks, session.chat(parts.workspace.place, parts.sources))
        self._flush = SessionFlush(turn, self._heard)

    async def measure(self) -> ContextMeasure:
        """How full the window is: the provider's last usage, and an estimate for what followed.

        Counting much is work for the processor, so it is done on a thread.
        """
        items, count_tokens = self._session.view.transcript(), self._parts.count_tokens
        count = partial(measure_context, items, self._session.branch, count_tokens, overhead_tokens=0)
        measure = count() if is_little_to_count(items) else await asyncio.to_thread(count)
        if 0 < measure.usage_tokens <= self.budget.window_tokens:
            return measure
        overhead = await self._frame.overhead_tokens()
        if not measure.usage_tokens:
            trailing = measure.trailing_tokens + overhead
            return replace(measure, tokens=measure.tokens + overhead, trailing_tokens=trailing)
        # More than the window held cannot be what it held: some providers report sums over calls.
        # The count stands only where the estimate, too, is over the line.
        estimate = overhead + await asyncio.to_thread(estimate_tokens, items, count_tokens)
        if estimate > self.budget.compact_at:
            return measure
        log.warning("%d tokens were reported for about %d", measure.usage_tokens, estimate)
        return ContextMeasure(tokens=estimate, usage_tokens=0, trailing_tokens=estimate)

    async def keep(self) -> None:
        """Shortens, prunes, flushes and compacts when that is due; called before every model call.

        A compaction that did not make enough room is followed by another, which keeps less.
        """
        tokens = (await self.measure()).tokens
        if await self.shorten(tokens):
            tokens = (await self.measure()).tokens
        if self._parts.pruning.mode != "off":
            await prune(self._session, self._parts.pruning, self.budget, tokens, self._parts.count_tokens)
            tokens = (await self.measure()).tokens
        await self._flush.cover_hidden()
        for number in range(MAX_PASSES):
            if number:
                tokens = (await self.measure()).tokens
            decision = self._decide(tokens)
            log.info("window of %s: %s (%s)", self._session.key, decision.action, decision.reason)
            is_forced = not decision.flushes and self._flush.is_forced
            # What a compaction of an earlier pass kept was flushed before it.
            if number == 0 and (decision.flushes or is_forced):
                await self._flush.run(tokens, is_forced=is_forced)
            if not decision.compacts or self._gave_up:
                self._warn_when_nearly_full(tokens)
                return
            ended = await self.compact("threshold")
            # One failed attempt a turn: the next step would fail the same way.
            self._gave_up = bool(ended.problem)

    async def shorten(self, tokens: int, *, was_refused: bool = False) -> bool:
        """Has what alone is too large shown shortened; `True` when that changed what a model is sent.

        It costs no model call, and comes before all that does. `tokens` is how full the window is;
        `was_refused` is a context that a provider called too long: its estimates are not to be trusted.
        """
        budget = self.budget
        if not was_refused and tokens * LEAST_ROOM_SHARE <= budget.window_tokens:
            return False
        overhead_tokens = await self._frame.overhead_tokens()
        refused_tokens: int | None = None
        if was_refused:
            items, count_tokens = self._session.view.transcript(), self._parts.count_tokens
            estimate = await asyncio.to_thread(estimate_tokens, items, count_tokens)
            refused_tokens = max(tokens, overhead_tokens + estimate)
        room = room_in(budget, overhead_tokens=overhead_tokens, refused_tokens=refused_tokens)
        return await self._shortening.run(room)

    def _decide(self, tokens: int) -> Decision:
        flushes, budget = self._session.flushes, self.budget
        said_tokens: int | None = None
        if self._session.compaction_count:
            # Bytes to tokens as in English; a rough number does for "little" and "much".
            said_tokens = flushes.unflushed_bytes // 4
        return budget.decide(
            tokens, flushed_this_cycle=flushes.is_spent, said_since_compaction_tokens=said_tokens
        )

    async def flush_before_leaving(self) -> None:
        """The flush before `/new` and `/compact`: due when anything was said since the last one."""
        if self.budget.flush_enabled and self._session.flushes.has_unflushed_messages:
            await self.shorten((await self.measure()).tokens)
            await self._flush.run((await self.measure()).tokens)
            await self._flush.cover_rest()

    async def compact(self, reason: CompactionReason, *, focus: str = "") -> CompactionEnded:
        """Replaces old history by a summary; on any failure the history stays whole."""
        session, parts = self._session, self._parts
        tokens_before = (await self.measure()).tokens
        if await self.shorten(tokens_before):
            tokens_before = (await self.measure()).tokens
        await self._heard.compaction_begins(reason, tokens_before)
        if self.budget.flush_enabled and not session.flushes.is_spent:
            await self._flush.run(tokens_before, has_overflowed=reason == "overflow")
        overhead_tokens = await self._frame.overhead_tokens()
        plan = await asyncio.to_thread(paused_collector()(self._plan), reason, tokens_before, overhead_tokens)
        if isinstance(plan, NothingToCompact):
            return await self._ended(reason, tokens_before, problem=plan.reason)
        instructions = (parts.settings.custom_instructions.strip(), focus)
        try:
            summary = await summary_of(
                plan,
                models=[
                    replace(model, ask=self._heard.ask(model.ask, model_name=model.name))
                    for model in summary_models(
                        self._models,
                        parts.summary_model,
                        parts.offline,
                        self.budget,
                        parts.settings,
                        self._emit,
                    )
                ],
                extractor=extractor(parts.offline, self.budget, parts.settings),
                must_shrink=reason == "overflow",
                instructions="\n".join(text for text in instructions if text),
                count_tokens=parts.count_tokens,
                now_ms=session.now_ms,
                partial=partial_summaries(session.journal),
            )
        except ModelError as error:
            problem = f"{error} The history was left as it is."
            return await self._ended(reason, tokens_before, problem=problem, has_failed=True)
        items = session.journal.sent().items()
        before, after = await asyncio.to_thread(self._sizes, items, plan, summary)
        if after >= before:
            problem = (
                "The summary would not make the history shorter "
                f"({before + overhead_tokens} to {after + overhead_tokens} tokens), "
                "so it was left as it is."
            )
            return await self._ended(reason, tokens_before, problem=problem, has_failed=True)
        await self._flush.cover_before(plan.first_kept_entry_id)
        await session.compact(summary.text, plan, tokens_after=after + overhead_tokens)
        if summary.problem:
            self._emit(Warned(message=_who_summarised(summary)))
        return await self._ended(reason, tokens_before, summary=summary.text)

    def _sizes(
        self, items: Sequence[TranscriptItem], plan: CompactionPlan, summary: Summary
    ) -> tuple[int, int]:
        """Tokens of the transcript as it is, and as it would be with the summary; both estimated."""
        branch, count_tokens = self._session.branch, self._parts.count_tokens
        before = estimate_tokens(items, count_tokens)
        after = transcript_tokens(with_compaction(branch, plan, summary.text), count_tokens)
        return before, after

    def _warn_when_nearly_full(self, tokens: int) -> None:
        """Once in each cycle, early enough to finish a thought or to compact with a focus of one's own."""
        budget = self.budget
        if not budget.compaction_enabled or tokens < budget.compact_at * NEARLY_FULL_PERCENT // 100:
            return
        warning = (
            f"The context is more than {NEARLY_FULL_PERCENT} % full: above {budget.compact_at} tokens older "
            f"history becomes summary {self._session.compaction_count + 1} of this session. "
            "/compact does it now, /new begins afresh."
        )
        self._parts.told.once(self._session.session_id, (warning,), self._emit)

    def _plan(
        self, reason: CompactionReason, tokens_before: int, overhead_tokens: int
    ) -> CompactionPlan | NothingToCompact:
        """Where to cut. A window that must shrink keeps less when the usual tail is all there is.

        In a small window the usual tail would fill it again at once, together with the summary and what
        every request carries; so it is cut down to what leaves a quarter of the room free.
        """

        def keeping(tail_tokens: int) -> CompactionPlan | NothingToCompact:
            return plan_compaction(
                self._session.branch,
                keep_recent_tokens=tail_tokens,
                count_tokens=self._parts.count_tokens,
                tokens_before=tokens_before,
            )

        budget = self.budget
        usual_tokens = budget.keep_recent_tokens
        if reason != "manual":
            room_tokens = budget.compact_at * 3 // 4 - overhead_tokens - budget.summary_tokens
            usual_tokens = max(min(usual_tokens, room_tokens), usual_tokens // 4)
        plan = keeping(usual_tokens)
        for tail_tokens in () if reason == "manual" else (usual_tokens // 4, 0):
            if isinstance(plan, NothingToCompact):
                plan = keeping(tail_tokens)
        return plan

    async def _ended(
        self,
        reason: CompactionReason,
        tokens_before: int,
        *,
        summary: str = "",
        problem: str = "",
        has_failed: bool = False,
    ) -> CompactionEnded:
        ended = CompactionEnded(
            reason=reason,
            tokens_before=tokens_before,
            tokens_after=(await self.measure()).tokens,
            transcript=self._session.journal.name,
            problem=problem,
            has_failed=has_failed,
        )
        log.log(
            logging.WARNING if problem else logging.INFO,
            "compaction of %s (%s): %d to %d tokens %s",
            self._session.key,
            reason,
            ended.tokens_before,
            ended.tokens_after,
            problem,
        )
        self._emit(ended)
        await self._heard.compaction_ended(ended, summary)
        return ended


def _who_summarised(summary: Summary) -> str:
    """What the owner should know when the first model asked gave no summary."""
    what = "An extract" if summary.is_extract else f"{summary.model_name}'s summary"
    return f"{what} stands for the older history, because: {summary.problem}"
