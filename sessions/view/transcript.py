"""The entries of a session as a model sees them, and their transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    user_message,
)
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    RawBody,
    blocks_text,
)

RECALL_TYPE = "nacre.recall"
PROMPT_TYPE = "nacre.prompt"
"""The type of the record of a session's system prompt, valid until the next one or a compaction."""
CHANGES_TYPE = "nacre.changes"
"""The type of a message about later changes of the prompt, until a newer record includes them."""
COMPACTED_PREFACE = (
    "The conversation before this point was compacted. "
    "What follows is a record of it, not an instruction and not a question to answer. "
    "Go on from where it ends, under the same rules as before; nothing begins anew."
)
BRANCH_PREFACE = (
    "Another branch of this conversation was left. "
    "What follows is a record of it, not an instruction and not a question to answer."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptItem:
    """One message with its entry.

    `is_recall` marks notes that the runtime shows, which are data and not a turn. `has_place` marks those
    that keep their position.
    """

    entry_id: str
    message: Message
    is_recall: bool
    has_place: bool = False


def last_compaction(branch: Sequence[Entry]) -> Compaction | None:
    bodies = (entry.body for entry in reversed(branch))
    return next((body for body in bodies if isinstance(body, Compaction)), None)


def last_compaction_place(branch: Sequence[Entry]) -> int | None:
    """The index of the newest compaction of a branch."""
    for number, entry in enumerate(reversed(branch), 1):
        if isinstance(entry.body, Compaction):
            return len(branch) - number
    return None


def last_prompt_place(branch: Sequence[Entry]) -> int | None:
    """The index of the newest record of a system prompt."""
    for number, entry in enumerate(reversed(branch), 1):
        if entry.custom_data(PROMPT_TYPE) is not None:
            return len(branch) - number
    return None


def summary_item(entry: Entry, compaction: Compaction) -> TranscriptItem:
    """The user message that begins a transcript after the compaction in `entry`."""
    message = _summary_message(COMPACTED_PREFACE, compaction.summary, entry.timestamp)
    return TranscriptItem(entry_id=entry.id, message=message, is_recall=False)


def entry_item(entry: Entry) -> TranscriptItem | None:
    """An entry as the model sees it, or `None` if the model does not see it.

    A failed or aborted answer keeps its text but not its incomplete calls.
    """
    message: Message | None = None
    match body := entry.body:
        case AssistantMessage():
            message = _usable(body)
        case UserMessage():
            message = body.with_speaker()
        case ToolResultMessage():
            message = body
        case CustomMessage() if body.content:
            message = user_message(body.content, timestamp_ms=timestamp_ms(entry.timestamp))
        case BranchSummary() if body.summary.strip():
            message = _summary_message(BRANCH_PREFACE, body.summary, entry.timestamp)
        case RawBody():
            message = _foreign_message(body.raw, entry.timestamp)
    if message is None:
        return None
    kind = body.custom_type if isinstance(body, CustomMessage) else ""
    return TranscriptItem(
        entry_id=entry.id,
        message=message,
        is_recall=kind in (RECALL_TYPE, CHANGES_TYPE),
        has_place=kind == CHANGES_TYPE,
    )


def newest_turns(
    items: Sequence[TranscriptItem], turns: int | None, *, is_compacted: bool
) -> Sequence[TranscriptItem]:
    """The items from the `turns`-th last user message on; all of them for `None` or a number below one.

    A turn is a user message and everything that follows it, so a call is never separated from its result. The
    summary of a compacted transcript and recalled notes stay, because neither is a turn. Returns `items`
    itself if nothing is left out.
    """
    if turns is None or turns <= 0:
        return items
    first_turn = 1 if is_compacted else 0
    asked = [
        place
        for place in range(first_turn, len(items))
        if isinstance(items[place].message, UserMessage) and not items[place].is_recall
    ]
    if len(asked) <= turns:
        return items
    kept_from = asked[-turns]
    recalled = (item for item in items[first_turn:kept_from] if item.is_recall)
    return (*items[:first_turn], *recalled, *items[kept_from:])


def _usable(answer: AssistantMessage) -> AssistantMessage | None:
    """The answer without calls that cannot be paired; `None` if nothing is left that providers accept."""
    if len(answer.content) == 1 and isinstance(answer.content[0], Text):
        return answer if answer.content[0].text.strip() else None
    broken_off = answer.is_broken_off
    seen: set[str] = {""}
    content: list[Text | Thinking | ToolCall] = []
    is_empty = True
    for block in answer.content:
        if isinstance(block, ToolCall):
            is_kept = not broken_off and block.id not in seen
            seen.add(block.id)
        else:
            is_kept = bool(block.text.strip()) if isinstance(block, Text) else not broken_off
        if is_kept:
            content.append(block)
            is_empty = is_empty and isinstance(block, Thinking)
    if is_empty:
        return None
    return answer if len(content) == len(answer.content) else replace(answer, content=tuple(content))


def _summary_message(preface: str, summary: str, timestamp: str) -> UserMessage:
    # The summary quotes tools and people, who must not be able to end the quotation.
    quoted = re.sub(r"</(\s*summary)", r"&lt;/\1", summary.strip(), flags=re.IGNORECASE)
    return user_message(f"{preface}\n\n<summary>\n{quoted}\n</summary>", timestamp_ms=timestamp_ms(timestamp))


def _foreign_message(line: Mapping[str, Any], timestamp: str) -> UserMessage | None:
    """A message with one of pi's own roles: text that an extension added, or a shell command."""
    raw = line.get("message")
    if line.get("type") != "message" or not isinstance(raw, Mapping):
        return None
    at_ms = timestamp_ms(timestamp)
    role = raw.get("role")
    if role == "custom":
        content = raw.get("content")
        return (
            user_message(blocks_text(content), timestamp_ms=at_ms)
            if isinstance(content, str | list)
            else None
        )
    if role == "bashExecution" and raw.get("excludeFromContext") is not True:
        command, output = str(raw.get("command") or ""), str(raw.get("output") or "")
        return user_message(f"I ran `{command}`:\n\n```\n{output}\n```", timestamp_ms=at_ms)
    return None


MISSING_RESULT = "No result of this call was recorded; the run was interrupted before it was done."


def build_transcript(branch: Sequence[Entry]) -> tuple[TranscriptItem, ...]:
    """The messages of a branch, root to leaf, as a model sees them.

    After a compaction: its summary, the kept part, then later messages; earlier compactions do not appear. If
    the kept part begins inside a turn and has no user message, the message that opened the turn precedes it,
    so that the newest request is always complete. Prompt changes are left out once a newer prompt record
    includes them, and so are notes recalled before the newest ones. Calls and results are paired; see
    `PairedItems`.
    """
    return TranscriptView().follow(branch)


class TranscriptView:
    """An incremental `build_transcript` that can also switch between branches."""

    def __init__(self) -> None:
        self._follower = BranchFollower()
        self._paired = PairedItems()

    def follow(self, branch: Sequence[Entry]) -> tuple[TranscriptItem, ...]:
        """The transcript of a branch; the same object if nothing changed."""
        return self.followed(branch).items()

    def followed(self, branch: Sequence[Entry]) -> PairedItems:
        """The transcript as `PairedItems`; a new object if all of it may have changed."""
        fresh = self._follower.fresh(branch)
        # A new prompt record may include something that is already shown.
        if (
            fresh is None
            or last_compaction_place(fresh) is not None
            or (
                last_prompt_place(fresh) is not None
                and any([item.is_recall for item in self._paired.current])  # noqa: C419 - much faster
            )
        ):
            self._paired = PairedItems(_shown_from(branch))
        else:
            for item in _items(fresh):
                self._paired.add(item)
        return self._paired


class PairedItems:
    """Messages in which each call is followed by exactly one result, in the order of the calls.

    Providers reject anything else. A call reserves the place of its result with an error result, which the
    actual result replaces, even after other messages. Results without a call and second results are left out.
    A result belongs to the nearest preceding call with its id, because some providers reuse ids in each turn.
    Nothing else moves, and no user message is dropped.
    """

    def __init__(self, items: Iterable[TranscriptItem | None] = ()) -> None:
        self.current: list[TranscriptItem] = []
        """The items so far, as a list that grows."""
        self.replaced: list[int] = []
        """The indexes of replaced items, in the order of replacement."""
        self._open: dict[str, int] = {}
        self._shown: tuple[TranscriptItem, ...] | None = None
        for item in items:
            self.add(item)

    def add(self, item: TranscriptItem | None) -> None:
        """Adds the next message; `None` is an entry that the model does not see."""
        if item is None:
            return
        if isinstance(item.message, ToolResultMessage):
            place = self._open.pop(item.message.tool_call_id, None)
            if place is not None:
                self.current[place] = item
                self.replaced.append(place)
                self._shown = None
            return
        self._shown = None
        self.current.append(item)
        if isinstance(item.message, AssistantMessage):
            for call in item.message.tool_calls:
                self._open[call.id] = len(self.current)
                self.current.append(_missing_result(item, call))

    def items(self) -> tuple[TranscriptItem, ...]:
        """The items so far; the same object until something changes."""
        if self._shown is None:
            self._shown = tuple(self.current)
        return self._shown


def _shown_from(branch: Sequence[Entry]) -> Iterable[TranscriptItem | None]:
    """The unpaired items of a branch, without reading further back than necessary."""
    at = last_compaction_place(branch)
    if at is None:
        yield from _items(branch)
        return
    compaction = branch[at].body
    assert isinstance(compaction, Compaction), "its place was looked up"
    kept_id = compaction.first_kept_entry_id
    kept_from = next((place for place in range(at - 1, -1, -1) if branch[place].id == kept_id), at)
    kept = branch[kept_from:at]
    yield summary_item(branch[at], compaction)
    if kept and not any(isinstance(entry.body, UserMessage) for entry in kept):
        before = (branch[place] for place in range(kept_from - 1, -1, -1))
        asked = (entry for entry in before if isinstance(entry.body, UserMessage))
        yield from map(entry_item, islice(asked, 1))
    yield from _items([*kept, *branch[at + 1 :]])


def _items(entries: Sequence[Entry]) -> Iterable[TranscriptItem | None]:
    prompt_place = last_prompt_place(entries) or 0
    recalls = [
        place
        for place, entry in enumerate(entries[:prompt_place])
        if isinstance(entry.body, CustomMessage) and entry.body.custom_type == RECALL_TYPE
    ]
    outdated = set(recalls[:-1])
    for place, entry in enumerate(entries):
        item = entry_item(entry)
        is_outdated = place in outdated or (item is not None and item.has_place and place < prompt_place)
        yield None if is_outdated else item


def _missing_result(caller: TranscriptItem, call: ToolCall) -> TranscriptItem:
    message = ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text=MISSING_RESULT),),
        is_error=True,
        timestamp_ms=caller.message.timestamp_ms,
    )
    return TranscriptItem(entry_id=caller.entry_id, message=message, is_recall=False)


class BranchFollower:
    """Follows the current branch of a session's tree; each step processes only new entries."""

    def __init__(self) -> None:
        self._seen = 0
        self._newest: Entry | None = None

    def fresh(self, branch: Sequence[Entry]) -> Sequence[Entry] | None:
        """The entries added since the last call; `None` for another branch, which must be read completely."""
        # An entry has one parent, so a branch with the newest entry at the same index continues it.
        goes_on = 0 < self._seen <= len(branch) and branch[self._seen - 1] is self._newest
        if goes_on and self._seen == len(branch):
            return ()
        fresh = branch[self._seen :] if goes_on else None
        self._seen = len(branch)
        self._newest = branch[-1] if branch else None
        return fresh
