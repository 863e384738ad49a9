"""A transcript as a model is sent it: without the bulk of old results and images, the longest cut. Pure.

The transcript itself is never touched. Which results are shortened, and how, is recorded once, in an
entry of its own, and computed from that record ever after, also after a restart: a request that began
like the last one byte for byte is what a provider's prompt cache needs.

The newest `nacre.prune` entry of a branch holds for all results that its map names by entry id, and for all
messages of any kind that it names with a `note` (`shortened.py`):

    {"results": {"ab12": {"headChars": 1500, "tailChars": 1500}, "cd34": {"placeholder": "[Old …]"},
                 "ef56": {"headChars": 9000, "tailChars": 3000, "images": 0, "note": "[… left out here …]"}},
     "savedTokens": 5200, "reason": "ttl"}

`savedTokens` is what this entry saved over the one before it, by estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from operator import is_
from typing import Any, TypeAlias

from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.view.shortened import Shortened, shortened
from nacre.sessions.view.transcript import TranscriptItem
from nacre.values.frozen import dataclass

PRUNE_TYPE = "nacre.prune"
IMAGE_TURNS = 3
"""In how many turns after its own an image is sent; the model has seen it by then."""
IMAGE_GONE = "[image data removed - already processed by model]"


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """Only the head and the tail of a result are shown."""

    head_chars: int
    tail_chars: int


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """A placeholder is shown instead of a result."""

    placeholder: str


Projection: TypeAlias = Trimmed | Cleared | Shortened


class PrunedView:
    """What models are sent of one branch after the other."""

    def __init__(self) -> None:
        self._items: Sequence[TranscriptItem] | None = None
        self._record: Entry | None = None
        self._shown: Sequence[TranscriptItem] = ()

    def of(self, items: Sequence[TranscriptItem], branch: Sequence[Entry]) -> Sequence[TranscriptItem]:
        """The transcript `items` of `branch`, pruned; the same object as before when nothing changed."""
        record = prune_record(branch)
        if items is not self._items or record is not self._record:
            self._items, self._record = items, record
            self._shown = _pruned(items, projections_of(record))
        return self._shown


def prune_record(branch: Sequence[Entry]) -> Entry | None:
    """The newest record of a branch that can still name something that is shown.

    That is at most the message which opened the turn that a compaction cut.
    """
    kept_id: str | None = None
    is_kept = True
    for entry in reversed(branch):
        if entry.custom_data(PRUNE_TYPE) is not None:
            return entry
        if kept_id is None and isinstance(entry.body, Compaction):
            kept_id = entry.body.first_kept_entry_id
        is_kept = is_kept and entry.id != kept_id
        if not is_kept and isinstance(entry.body, UserMessage):
            return None
    return None


def projections_of(record: Entry | None) -> Mapping[str, Projection]:
    """How the results of a record are shown, by entry id; what cannot be read is left as it was."""
    data = record.custom_data(PRUNE_TYPE) if record is not None else None
    results = (data or {}).get("results")
    read = results.items() if isinstance(results, Mapping) else ()
    found = {str(entry_id): _projection(raw) for entry_id, raw in read}
    return {entry_id: projection for entry_id, projection in found.items() if projection is not None}


def record_data(
    projections: Mapping[str, Projection], *, saved_tokens: int, reason: str
) -> Mapping[str, Any]:
    """The data of a record."""
    results = {entry_id: _projection_json(shown) for entry_id, shown in projections.items()}
    return {"results": results, "savedTokens": saved_tokens, "reason": reason}


def saved_tokens_since(branch: Sequence[Entry], entry_id: str) -> int:
    """What records behind an entry saved: a usage reported with that entry still counts it."""
    saved = 0
    for entry in reversed(branch):
        if entry.id == entry_id:
            break
        tokens = (entry.custom_data(PRUNE_TYPE) or {}).get("savedTokens")
        saved += tokens if isinstance(tokens, int) and tokens > 0 else 0
    return saved


def projected(message: Message, projection: Projection) -> Message:
    """A message as it is shown under a projection; only a result is trimmed or cleared."""
    if isinstance(projection, Shortened):
        return shortened(message, projection)
    if not isinstance(message, ToolResultMessage):
        return message
    if isinstance(projection, Cleared):
        return replace(message, content=(Text(text=projection.placeholder),))
    text, head, tail = message_text(message), projection.head_chars, projection.tail_chars
    if head + tail >= len(text):
        return message
    note = f"[Tool result trimmed: kept first {head} chars and last {tail} chars of {len(text)} chars.]"
    shown = f"{text[:head]}\n...\n{text[len(text) - tail :]}\n\n{note}"
    return replace(message, content=(Text(text=shown),))


def is_own_result(item: TranscriptItem, caller_ids: Set[str]) -> bool:
    """Whether an item is a recorded result, and not one that was made up for a call without any."""
    return isinstance(item.message, ToolResultMessage) and item.entry_id not in caller_ids


def caller_ids(items: Sequence[TranscriptItem]) -> frozenset[str]:
    """The entry ids of models' messages, which made-up results carry too."""
    return frozenset(item.entry_id for item in items if isinstance(item.message, AssistantMessage))


def shown_item(
    item: TranscriptItem, projections: Mapping[str, Projection], callers: Set[str], *, has_images: bool
) -> TranscriptItem:
    """An item as it is shown; the item itself when that is as it was."""
    message: Message = item.message
    projection = projections.get(item.entry_id)
    is_made_up = isinstance(message, ToolResultMessage) and not is_own_result(item, callers)
    if projection is not None and not is_made_up:
        message = projected(message, projection)
    if not has_images:
        message = _without_images(message)
    return item if message is item.message else replace(item, message=message)


def images_shown_from(items: Sequence[TranscriptItem]) -> int:
    """The place from which images are shown: behind the end of the last turn but `IMAGE_TURNS`."""
    ended = 0
    for place in range(len(items) - 1, -1, -1):
        message = items[place].message
        if isinstance(message, AssistantMessage) and not message.tool_calls:
            ended += 1
            if ended > IMAGE_TURNS:
                return place
    return 0


def _pruned(
    items: Sequence[TranscriptItem], projections: Mapping[str, Projection]
) -> Sequence[TranscriptItem]:
    callers = caller_ids(items) if projections else frozenset[str]()
    images_from = images_shown_from(items)
    shown = tuple(
        shown_item(item, projections, callers, has_images=place >= images_from)
        for place, item in enumerate(items)
    )
    return items if all(map(is_, shown, items)) else shown


def _without_images(message: Message) -> Message:
    if isinstance(message, AssistantMessage) or not any(isinstance(part, Image) for part in message.content):
        return message
    content = tuple(Text(text=IMAGE_GONE) if isinstance(part, Image) else part for part in message.content)
    if isinstance(message, UserMessage):
        return replace(message, content=content)
    return replace(message, content=content)


def _projection_json(shown: Projection) -> Mapping[str, Any]:
    if isinstance(shown, Shortened):
        return shown.to_json()
    if isinstance(shown, Cleared):
        return {"placeholder": shown.placeholder}
    return {"headChars": shown.head_chars, "tailChars": shown.tail_chars}


def _projection(raw: object) -> Projection | None:
    if not isinstance(raw, Mapping):
        return None
    if "note" in raw:
        return Shortened.from_json(raw)
    placeholder, head, tail = raw.get("placeholder"), raw.get("headChars"), raw.get("tailChars")
    if isinstance(placeholder, str):
        return Cleared(placeholder=placeholder)
    if isinstance(head, int) and isinstance(tail, int) and head >= 0 and tail >= 0:
        return Trimmed(head_chars=head, tail_chars=tail)
    return None
