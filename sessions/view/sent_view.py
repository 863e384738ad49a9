"""The messages of a branch for a model: shortened, pruned and in order; and their tokens.

The views are updated incrementally: an entry costs the same in any session. Only another branch, a compaction
or a new prune record rebuilds them.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from math import inf
from operator import is_
from typing import Any, TypeAlias, TypeVar, cast

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
from nacre.sessions.entries.entries import Compaction, Entry, EntryTree
from nacre.sessions.view.transcript import BranchFollower, PairedItems, TranscriptItem, TranscriptView

ARGUMENTS_SPARE_CHARS = 1_000
"""Room for the names of a call's arguments; above it, only the arguments' text is shown."""


@dataclass(frozen=True, kw_only=True)
class Shortened:
    """Shows the given numbers of characters at the beginning and the end of each text, with `note` between.

    `images` is the number of images shown, from the first.
    """

    head_chars: int
    tail_chars: int
    images: int
    note: str

    def text(self, text: str) -> str:
        """The shortened text; the same object if nothing is cut."""
        if self.head_chars + self.tail_chars >= len(text):
            return text
        tail = text[len(text) - self.tail_chars :]
        return "\n\n".join(part for part in (text[: self.head_chars], self.note, tail) if part)

    def to_json(self) -> dict[str, Any]:
        return {
            "headChars": self.head_chars,
            "tailChars": self.tail_chars,
            "images": self.images,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, raw: Mapping[Any, Any]) -> Shortened | None:
        numbers = (raw.get(key) for key in ("headChars", "tailChars", "images"))
        head, tail, images = (number if isinstance(number, int) else -1 for number in numbers)
        note = raw.get("note")
        if not isinstance(note, str) or min(head, tail, images) < 0:
            return None
        return cls(head_chars=head, tail_chars=tail, images=images, note=note)


def shortened(message: Message, how: Shortened) -> Message:
    """Shortens a message: one text, then images or calls. Long reasoning is left out."""
    text = how.text(message_text(message))
    texts = (Text(text=text),) if text else ()
    if isinstance(message, AssistantMessage):
        limit_chars = how.head_chars + how.tail_chars
        thought = tuple(
            block
            for block in message.content
            if isinstance(block, Thinking) and len(block.thinking) <= limit_chars
        )
        calls = tuple(_call(call, how) for call in message.tool_calls)
        return replace(message, content=(*thought, *texts, *calls))
    images = [block for block in message.content if isinstance(block, Image)]
    content = (*texts, *images[: how.images])
    if len(images) > how.images:
        content = (*content, Text(text=f"[{len(images) - how.images} more images are not shown]"))
    return replace(message, content=content)


def whole_text(message: Message) -> str:
    """The full text of a message that is shortened: its words, followed by a model's calls."""
    if not isinstance(message, AssistantMessage):
        return message_text(message)
    calls = (f"{call.name}({_arguments_text(call)})" for call in message.tool_calls)
    return "\n\n".join(part for part in (message_text(message), *calls) if part)


def _call(call: ToolCall, how: Shortened) -> ToolCall:
    limit_chars = how.head_chars + how.tail_chars
    if call.invalid_arguments is not None:
        return replace(call, invalid_arguments=how.text(call.invalid_arguments))
    if len(_arguments_text(call)) <= limit_chars:
        return call
    arguments = dict(call.arguments)
    for name, value in call.arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if (short := how.text(text)) is not text:
            arguments[name] = short
    shown = replace(call, arguments=arguments)
    if len(_arguments_text(shown)) > 2 * (limit_chars + len(how.note)) + ARGUMENTS_SPARE_CHARS:
        shown = replace(call, arguments={"arguments": how.text(_arguments_text(call))})
    return shown


def _arguments_text(call: ToolCall) -> str:
    if call.invalid_arguments is not None:
        return call.invalid_arguments
    return json.dumps(dict(call.arguments), ensure_ascii=False, default=str)


class SentView:
    """The pruned items and the messages of the current branch, which may change to another branch."""

    def __init__(self) -> None:
        self._follower = BranchFollower()
        self._record: Entry | None = None
        self._projections: Mapping[str, Projection] = {}
        self._paired = PairedItems()
        self._replaced = 0
        self._callers: set[str] = set()
        self._image_places: list[int] = []
        self._items: list[TranscriptItem] = []
        self._shown: tuple[TranscriptItem, ...] | None = None
        self._order = ModelOrder(is_compacted=False)

    def follow(self, paired: PairedItems, branch: Sequence[Entry], *, is_compacted: bool) -> None:
        """Updates to a branch whose transcript is `paired`."""
        record = self._newest_record(branch)
        if paired is not self._paired or record is not self._record:
            self._begin(paired, record, is_compacted=is_compacted)
        items = paired.current
        for place in paired.replaced[self._replaced :]:
            if place < len(self._items):
                self._put(place, items[place])
        for place in range(len(self._items), len(items)):
            self._put(place, items[place])
        self._replaced = len(paired.replaced)
        self._remove_old_images()

    def items(self) -> tuple[TranscriptItem, ...]:
        """The pruned transcript; the same object until something changes."""
        if self._shown is None:
            self._shown = tuple(self._items)
        return self._shown

    def messages(self) -> tuple[Message, ...]:
        """The messages in the order in which a model reads them; the same object until something changes."""
        return self._order.messages()

    def _begin(self, paired: PairedItems, record: Entry | None, *, is_compacted: bool) -> None:
        self._record, self._projections = record, projections_of(record)
        self._paired, self._replaced = paired, 0
        self._callers, self._image_places = set(), []
        self._items, self._shown = [], None
        self._order = ModelOrder(is_compacted=is_compacted)

    def _newest_record(self, branch: Sequence[Entry]) -> Entry | None:
        fresh = self._follower.fresh(branch)
        if fresh is None or any(isinstance(entry.body, Compaction) for entry in fresh):
            return prune_record(branch)
        newest = (entry for entry in reversed(fresh) if entry.custom_data(PRUNE_TYPE) is not None)
        return next(newest, self._record)

    def _put(self, place: int, item: TranscriptItem) -> None:
        if isinstance(item.message, AssistantMessage):
            self._callers.add(item.entry_id)
        elif any([isinstance(block, Image) for block in item.message.content]):  # noqa: C419 - much faster
            self._image_places.append(place)
        if self._projections:
            item = shown_item(item, self._projections, self._callers, has_images=True)
        self._show(place, item)

    def _remove_old_images(self) -> None:
        if not self._image_places:
            return
        images_from = images_shown_from(self._paired.current)
        for place in self._image_places:
            if place < images_from:
                item = self._paired.current[place]
                self._show(place, shown_item(item, self._projections, self._callers, has_images=False))
        self._image_places = [place for place in self._image_places if place >= images_from]

    def _show(self, place: int, item: TranscriptItem) -> None:
        self._shown = None
        if place == len(self._items):
            self._items.append(item)
            self._order.add(item)
        else:
            self._items[place] = item
            self._order.replace(place, item)


T = TypeVar("T")


class BranchViews:
    """The views of one transcript, for any store. Not thread-safe."""

    def __init__(self) -> None:
        self._view = TranscriptView()
        self._sent = SentView()
        self._cache: dict[Callable[[], object], object] = {}

    def transcript(self, tree: EntryTree) -> tuple[TranscriptItem, ...]:
        """The current branch as a model sees it; the same object until it changes."""
        return self._view.follow(tree.branch())

    def sent(self, tree: EntryTree) -> SentView:
        """The messages for models, updated by this call."""
        branch = tree.branch()
        self._sent.follow(self._view.followed(branch), branch, is_compacted=tree.compaction_count > 0)
        return self._sent

    def cached(self, make: Callable[[], T]) -> T:
        """Returns the result of the first call of `make`, cached for the lifetime of this object."""
        if make not in self._cache:
            self._cache[make] = make()
        return cast(T, self._cache[make])


def model_messages(items: Iterable[TranscriptItem], *, is_compacted: bool) -> tuple[Message, ...]:
    """The messages in the order in which a model reads them. A compacted transcript begins with a summary."""
    order = ModelOrder(is_compacted=is_compacted)
    for item in items:
        order.add(item)
    return order.messages()


class ModelOrder:
    """The order of `model_messages`, updated as a transcript grows or an item is replaced."""

    def __init__(self, *, is_compacted: bool) -> None:
        self._recall_at = 1 if is_compacted else 0
        self._recall_places: list[int] = []
        self._moved_places: set[int] = set()
        self._ends_with_words = False
        self._messages: list[Message] = []
        self._count = 0
        self._shown: tuple[Message, ...] | None = None

    def add(self, item: TranscriptItem) -> None:
        if item.has_place and self._ends_with_words:
            self._messages.insert(-1, item.message)
            self._moved_places.add(self._count)
        elif item.has_place or not item.is_recall:
            self._messages.append(item.message)
        else:
            if self._recall_places:
                del self._messages[self._recall_at]
            self._messages.insert(self._recall_at, item.message)
            self._recall_places.append(self._count)
        is_summary = self._count < self._recall_at
        self._ends_with_words = not (is_summary or item.is_recall) and isinstance(item.message, UserMessage)
        self._count += 1
        self._shown = None

    def replace(self, place: int, item: TranscriptItem) -> None:
        """Replaces an item of the transcript; neither the old nor the new one is a recalled note."""
        at = place - bisect_left(self._recall_places, place)
        if self._recall_places and at >= self._recall_at:
            at += 1
        if place + 1 in self._moved_places:
            at += 1
        self._messages[at] = item.message
        self._shown = None

    def messages(self) -> tuple[Message, ...]:
        """The messages; the same object until something changes."""
        if self._shown is None:
            self._shown = tuple(self._messages)
        return self._shown


PRUNE_TYPE = "nacre.prune"
IMAGE_TURNS = 3
"""The number of later turns in which an image is still sent."""
IMAGE_GONE = "[image data removed - already processed by model]"


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """Shows only the beginning and the end of a result."""

    head_chars: int
    tail_chars: int


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """Shows a placeholder instead of a result."""

    placeholder: str


Projection: TypeAlias = Trimmed | Cleared | Shortened


class PrunedView:
    """The pruned items of a branch, cached until the branch or its prune record changes."""

    def __init__(self) -> None:
        self._items: Sequence[TranscriptItem] | None = None
        self._record: Entry | None = None
        self._shown: Sequence[TranscriptItem] = ()

    def of(self, items: Sequence[TranscriptItem], branch: Sequence[Entry]) -> Sequence[TranscriptItem]:
        """The transcript `items` of `branch`, pruned; the same object if nothing changed."""
        record = prune_record(branch)
        if items is not self._items or record is not self._record:
            self._items, self._record = items, record
            projections, images_from = projections_of(record), images_shown_from(items)
            callers = caller_ids(items) if projections else frozenset[str]()
            shown = tuple(
                shown_item(item, projections, callers, has_images=place >= images_from)
                for place, item in enumerate(items)
            )
            self._shown = items if all(map(is_, shown, items)) else shown
        return self._shown


def prune_record(branch: Sequence[Entry]) -> Entry | None:
    """The newest prune record of a branch that can still refer to something visible.

    The oldest visible message is the kept one, or the one that opened the turn that a compaction cut.
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
    """The projections of a prune record by entry id, without unreadable ones."""
    data = record.custom_data(PRUNE_TYPE) if record is not None else None
    results = (data or {}).get("results")
    read = results.items() if isinstance(results, Mapping) else ()
    found = {str(entry_id): _projection(raw) for entry_id, raw in read}
    return {entry_id: projection for entry_id, projection in found.items() if projection is not None}


def record_data(
    projections: Mapping[str, Projection], *, saved_tokens: int, reason: str
) -> Mapping[str, Any]:
    results = {entry_id: _projection_json(shown) for entry_id, shown in projections.items()}
    return {"results": results, "savedTokens": saved_tokens, "reason": reason}


def saved_tokens_since(branch: Sequence[Entry], entry_id: str) -> int:
    """The tokens saved by records after an entry, which the usage of that entry still counts."""
    saved = 0
    for entry in reversed(branch):
        if entry.id == entry_id:
            break
        tokens = (entry.custom_data(PRUNE_TYPE) or {}).get("savedTokens")
        saved += tokens if isinstance(tokens, int) and tokens > 0 else 0
    return saved


def projected(message: Message, projection: Projection) -> Message:
    """A message under a projection; only results are trimmed or cleared."""
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
    """Whether an item is a recorded result, and not one inserted for a call without a result."""
    return isinstance(item.message, ToolResultMessage) and item.entry_id not in caller_ids


def caller_ids(items: Sequence[TranscriptItem]) -> frozenset[str]:
    """The entry ids of models' messages, which inserted results have too."""
    return frozenset(item.entry_id for item in items if isinstance(item.message, AssistantMessage))


def shown_item(
    item: TranscriptItem, projections: Mapping[str, Projection], callers: Set[str], *, has_images: bool
) -> TranscriptItem:
    """An item as a model sees it; the same object if it is unchanged."""
    message: Message = item.message
    projection = projections.get(item.entry_id)
    is_made_up = isinstance(message, ToolResultMessage) and not is_own_result(item, callers)
    if projection is not None and not is_made_up:
        message = projected(message, projection)
    has_old = not has_images and any(isinstance(part, Image) for part in message.content)
    if has_old and not isinstance(message, AssistantMessage):
        parts = (Text(text=IMAGE_GONE) if isinstance(part, Image) else part for part in message.content)
        message = replace(message, content=tuple(parts))
    return item if message is item.message else replace(item, message=message)


def images_shown_from(items: Sequence[TranscriptItem]) -> int:
    """The index from which images are shown: after the last turn that is older than `IMAGE_TURNS`."""
    ended = 0
    for place in range(len(items) - 1, -1, -1):
        message = items[place].message
        if isinstance(message, AssistantMessage) and not message.tool_calls:
            ended += 1
            if ended > IMAGE_TURNS:
                return place
    return 0


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


IMAGE_TOKENS = 1200
"""Tokens of an average image; providers count between 300 and 1600."""
MOST_QUICK_MESSAGES = 4
MOST_QUICK_CHARS = 2_000
"""The most characters, within `MOST_QUICK_MESSAGES` messages, that are counted without a thread."""
MESSAGE_OVERHEAD_TOKENS = 4
"""Role and separators, as counted in OpenAI's cookbook for chat models."""


@dataclass(frozen=True, kw_only=True)
class ContextMeasure:
    """The context's tokens: in total, counted by the provider, and estimated for later messages."""

    tokens: int
    usage_tokens: int
    trailing_tokens: int


def estimate_message_tokens(message: Message, count_tokens: Callable[[str], int]) -> int:
    """Estimates one message: text, thinking, tool names, arguments as JSON, images and overhead."""
    tokens = MESSAGE_OVERHEAD_TOKENS
    for block in message.content:
        match block:
            case Text():
                tokens += count_tokens(block.text)
            case Thinking():
                tokens += count_tokens(block.thinking)
            case ToolCall():
                arguments = block.invalid_arguments or json.dumps(
                    dict(block.arguments), ensure_ascii=False, default=str
                )
                tokens += count_tokens(block.name) + count_tokens(arguments)
            case Image():
                tokens += IMAGE_TOKENS
    return tokens


def estimate_tokens(
    items: Sequence[TranscriptItem], count_tokens: Callable[[str], int], *, enough_tokens: float = inf
) -> int:
    """Estimates these messages without reported usage, newest first, until there are more than enough."""
    tokens = 0
    for tokens in accumulate(estimate_message_tokens(item.message, count_tokens) for item in reversed(items)):
        if tokens > enough_tokens:
            break
    return tokens


def measure_context(
    items: Sequence[TranscriptItem], branch: Sequence[Entry], count_tokens: Callable[[str], int]
) -> ContextMeasure:
    """Measures how much of the context window the next call takes.

    It is the provider's count for the newest complete answer after the latest compaction, minus the tokens
    pruned since, plus an estimate for later messages. Without such a count, all messages are estimated, but
    not the system prompt and the tools.
    """
    place = last_counted_place(items)
    since_compaction = takewhile(lambda entry: not isinstance(entry.body, Compaction), reversed(branch))
    if place is not None and any(entry.id == items[place].entry_id for entry in since_compaction):
        saved_tokens = saved_tokens_since(branch, items[place].entry_id)
        usage_tokens = max(0, _reported_tokens(items[place].message) - saved_tokens)
        trailing_tokens = estimate_tokens(items[place + 1 :], count_tokens)
        return ContextMeasure(
            tokens=usage_tokens + trailing_tokens,
            usage_tokens=usage_tokens,
            trailing_tokens=trailing_tokens,
        )
    estimated = estimate_tokens(items, count_tokens)
    return ContextMeasure(tokens=estimated, usage_tokens=0, trailing_tokens=estimated)


def is_little_to_count(items: Sequence[TranscriptItem]) -> bool:
    """Whether `measure_context` takes less time than a thread handover: a few short texts."""
    newest = items[-MOST_QUICK_MESSAGES:]
    place = last_counted_place(newest)
    if place is None and len(items) > len(newest):
        return False
    fresh = newest if place is None else newest[place + 1 :]
    blocks = [block for item in fresh for block in item.message.content]
    chars = sum(len(block.text) for block in blocks if isinstance(block, Text))
    return chars <= MOST_QUICK_CHARS and all(isinstance(block, Text) for block in blocks)


def last_counted_place(items: Sequence[TranscriptItem]) -> int | None:
    """The index of the newest answer for which a provider reported usage."""
    newest_first = range(len(items) - 1, -1, -1)
    return next((place for place in newest_first if _reported_tokens(items[place].message)), None)


def _reported_tokens(message: Message) -> int:
    """The provider's count for a complete answer; zero for anything else."""
    if not isinstance(message, AssistantMessage) or message.is_broken_off:
        return 0
    return message.usage.context_tokens if message.usage is not None else 0
