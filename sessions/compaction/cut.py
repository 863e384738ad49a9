"""Chooses where to cut a session's history for a compaction, and what the summary must cover.

Every message since the previous compaction's first kept entry is either summarized or kept. Recalled notes
are neither, because they are stored in files already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from itertools import islice
from typing import NamedTuple

from nacre.record import Record
from nacre.sessions.compaction.facts import SummaryFacts, facts_of, without_facts
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    last_results,
    message_text,
)
from nacre.sessions.entries.entries import Compaction, CustomRecord, Entry, RawBody
from nacre.sessions.view.sent_view import (
    PrunedView,
    Shortened,
    estimate_message_tokens,
    estimate_tokens,
    projected,
    projections_of,
    prune_record,
)
from nacre.sessions.view.transcript import (
    build_transcript,
    entry_item,
    last_compaction,
    last_compaction_place,
)


class CompactionPlan(Record):
    """A compaction that is possible.

    `to_summarize` goes into the history's summary, together with `previous_summary`. If the cut is inside a
    turn, `turn_prefix` is that turn's part before the cut. `facts` are appended to every summary.
    """

    first_kept_entry_id: str
    to_summarize: tuple[Message, ...]
    turn_prefix: tuple[Message, ...]
    tokens_before: int
    previous_summary: str | None
    facts: SummaryFacts = field(default_factory=SummaryFacts)

    def details(self) -> dict[str, list[str]]:
        """The file lists to store with the compaction entry; the next plan reads them."""
        return {"readFiles": list(self.facts.read_files), "modifiedFiles": list(self.facts.modified_files)}


class NothingToCompact(Record):
    """No compaction is possible; `reason` is a sentence."""

    reason: str


class _Unit(NamedTuple):
    """A message of the window that may be compacted; `index` is its entry's index on the branch."""

    place: int
    message: Message
    count_tokens: Callable[[str], int]
    is_recall: bool
    is_said: bool

    @property
    def tokens(self) -> int:
        """Counted on access, because only the end of a long history is needed."""
        return estimate_message_tokens(self.message, self.count_tokens)

    @property
    def starts_turn(self) -> bool:
        return isinstance(self.message, UserMessage) and not self.is_recall


def plan_compaction(
    branch: Sequence[Entry],
    *,
    keep_recent_tokens: int,
    count_tokens: Callable[[str], int],
    tokens_before: int,
) -> CompactionPlan | NothingToCompact:
    """Plans a compaction that keeps about `keep_recent_tokens` of the branch's end verbatim.

    The cut never separates a call from its result. The newest user message always stays: it is kept, or, if
    its own turn must be cut, `build_transcript` shows it before the kept part. A cut directly before an
    unanswered user message also keeps the preceding exchange if that is small enough.
    """
    start, previous = 0, last_compaction(branch)  # the first entry that no summary covers yet
    if previous is not None and (at := last_compaction_place(branch)) is not None:
        kept_id = previous.first_kept_entry_id
        start = next((place for place in range(at - 1, -1, -1) if branch[place].id == kept_id), at + 1)
    units = _units(branch, start, count_tokens)
    cuts = _valid_cuts(units)
    base = _base_cut(units, cuts, keep_recent_tokens)
    if base is None:
        return NothingToCompact(reason=_why_nothing_is_old(units, keep_recent_tokens))
    cut = _refined_cut(units, cuts, base, keep_recent_tokens)
    if not _old(units[:cut]):
        return NothingToCompact(reason=_why_nothing_is_old(units, keep_recent_tokens))
    turn_start = _turn_start(units, cut)
    if not units[turn_start].starts_turn:
        turn_start = cut
    to_summarize, turn_prefix = _old(units[:turn_start]), _old(units[turn_start:cut])
    facts = facts_of(
        previous, (*to_summarize, *turn_prefix), open_asks=_open_asks(islice(branch, start, units[cut].place))
    )
    return CompactionPlan(
        first_kept_entry_id=branch[_first_kept_place(branch, start, units[cut].place)].id,
        to_summarize=to_summarize,
        turn_prefix=turn_prefix,
        tokens_before=tokens_before,
        previous_summary=without_facts(previous.summary) if previous else None,
        facts=facts,
    )


def transcript_tokens(branch: Sequence[Entry], count_tokens: Callable[[str], int]) -> int:
    """Estimates the tokens of all messages as the model would see them, without using reported usage."""
    return estimate_tokens(PrunedView().of(build_transcript(branch), branch), count_tokens)


def with_compaction(branch: Sequence[Entry], plan: CompactionPlan, summary: str) -> tuple[Entry, ...]:
    """Returns the branch as it would be with the compaction at its end.

    Raises:
        ValueError: the plan belongs to another branch.
    """
    if all(entry.id != plan.first_kept_entry_id for entry in branch):
        raise ValueError(
            f"No entry of this branch is {plan.first_kept_entry_id!r}, the plan's first kept one. Plan again."
        )
    compaction = Compaction(
        summary=summary,
        first_kept_entry_id=plan.first_kept_entry_id,
        tokens_before=plan.tokens_before,
    )
    newest = branch[-1]
    return (*branch, Entry(id="", parent_id=newest.id, timestamp=newest.timestamp, body=compaction))


def _why_nothing_is_old(units: Sequence[_Unit], keep_recent_tokens: int) -> str:
    size = sum(unit.tokens for unit in units)
    if size >= keep_recent_tokens and sum(unit.is_said for unit in units) <= 1:
        return "Nothing to compact: the latest turn is all there is to summarize."
    return (
        f"Nothing to compact: the history since the last compaction has about {size} tokens, "
        f"and the newest {keep_recent_tokens} tokens, in whole messages, stay as they are."
    )


def _units(branch: Sequence[Entry], start: int, count_tokens: Callable[[str], int]) -> list[_Unit]:
    units: list[_Unit] = []
    projections = projections_of(prune_record(branch))
    for place, entry in enumerate(branch[start:], start):
        item = entry_item(entry)
        if item is not None:
            # Summaries read a shortened message as the model saw it, but a pruned result in full.
            how = projections.get(item.entry_id)
            message = projected(item.message, how) if isinstance(how, Shortened) else item.message
            units.append(
                _Unit(
                    place=place,
                    message=message,
                    count_tokens=count_tokens,
                    is_recall=item.is_recall,
                    is_said=isinstance(entry.body, UserMessage),
                )
            )
    return units


def _valid_cuts(units: Sequence[_Unit]) -> list[int]:
    """Indexes at which the kept part may begin: not at a result or a recalled note, nor in an open call."""
    last_result = last_results([unit.message for unit in units])
    cuts: list[int] = []
    open_until = -1
    for index, unit in enumerate(units):
        is_result = isinstance(unit.message, ToolResultMessage)
        if open_until < index and not is_result and not unit.is_recall:
            cuts.append(index)
        open_until = max(open_until, last_result.get(index, -1))
    return cuts


def _base_cut(units: Sequence[_Unit], cuts: Sequence[int], keep_recent_tokens: int) -> int | None:
    """The first valid cut within the newest `keep_recent_tokens`, otherwise the last one before them."""
    kept_tokens = 0
    for index in range(len(units) - 1, -1, -1):
        kept_tokens += units[index].tokens
        if kept_tokens >= keep_recent_tokens:
            return next(iter(cuts[bisect_left(cuts, index) :] or cuts[-1:]), None)
    return None


def _refined_cut(units: Sequence[_Unit], valid_cuts: Sequence[int], cut: int, keep_recent_tokens: int) -> int:
    cuts = set(valid_cuts)
    opening = _turn_start(units, cut)
    if opening in cuts and len(_old(units[opening:cut])) == 1:
        # Only a request would be summarized, which stays visible anyway or is cheap to keep.
        stays = not any(unit.is_said for unit in units[cut:])
        is_cheap = units[opening].tokens * 4 <= keep_recent_tokens and _old(units[:opening])
        cut = opening if stays or is_cheap else cut
    newest = max((index for index, unit in enumerate(units) if unit.is_said), default=-1)
    is_answered = any(isinstance(unit.message, AssistantMessage) for unit in units[cut:])
    if cut != newest or is_answered:
        return cut
    # The newest user message most likely refers to the answer before it.
    asked = _turn_start(units, cut - 1) if cut else cut
    answered = (
        index for index in range(cut - 1, asked, -1) if isinstance(units[index].message, AssistantMessage)
    )
    for candidate in (asked, next(answered, cut)):
        size = sum(unit.tokens for unit in units[candidate:cut])
        if candidate in cuts and size <= keep_recent_tokens and _old(units[:candidate]):
            return candidate
    return cut


def _turn_start(units: Sequence[_Unit], cut: int) -> int:
    """The unit that opened the turn containing `cut`, or the window's first unit."""
    return next((index for index in range(cut, -1, -1) if units[index].starts_turn), 0)


def _old(units: Sequence[_Unit]) -> tuple[Message, ...]:
    return tuple([unit.message for unit in units if not unit.is_recall])


def _open_asks(entries: Iterable[Entry]) -> list[str]:
    asks: list[UserMessage] = []
    waiting: list[UserMessage] = []
    for entry in entries:
        if isinstance(entry.body, UserMessage):
            waiting.append(entry.body)
        elif isinstance(entry.body, AssistantMessage) and entry.body.is_broken_off:
            asks += waiting
            waiting.clear()
        elif isinstance(entry.body, AssistantMessage) and not entry.body.tool_calls:
            waiting.clear()
    return [text for ask in asks if (text := message_text(ask)).strip()]


def _first_kept_place(branch: Sequence[Entry], start: int, place: int) -> int:
    """The place of the first kept entry, including settings and records directly before the message."""
    while place > start:
        entry = branch[place - 1]
        if not isinstance(entry.body, CustomRecord | RawBody) or entry_item(entry) is not None:
            break
        place -= 1
    return place
