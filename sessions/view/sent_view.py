"""What models are sent of a branch, kept up to date while the branch grows. Pure.

The same as `PrunedView` and `model_messages` give, for what is new of it alone: an entry costs the same in
any session. Only another branch, a compaction or a record of what is pruned has it made anew, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nacre.sessions.contracts.messages import AssistantMessage, Image, Message
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.view.following import Follower
from nacre.sessions.view.model_order import ModelOrder
from nacre.sessions.view.pruned_view import (
    PRUNE_TYPE,
    Projection,
    images_shown_from,
    projections_of,
    prune_record,
    shown_item,
)
from nacre.sessions.view.transcript import TranscriptItem
from nacre.sessions.view.transcript_view import PairedItems


class SentView:
    """The pruned items and the messages of one branch after the other of a session's tree."""

    def __init__(self) -> None:
        self._follower = Follower()
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
        """Takes what is new of a branch, whose transcript is `paired`."""
        record = self._newest_record(branch)
        if paired is not self._paired or record is not self._record:
            self._begin(paired, record, is_compacted=is_compacted)
        items = paired.grown
        for place in paired.replaced[self._replaced :]:
            if place < len(self._items):
                self._put(place, items[place])
        for place in range(len(self._items), len(items)):
            self._put(place, items[place])
        self._replaced = len(paired.replaced)
        self._take_images_away()

    def items(self) -> tuple[TranscriptItem, ...]:
        """The transcript as it is shown; the same object as long as nothing changed."""
        if self._shown is None:
            self._shown = tuple(self._items)
        return self._shown

    def messages(self) -> tuple[Message, ...]:
        """Its messages in the order in which a model reads them; the same object until something changes."""
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
        elif any(isinstance(block, Image) for block in item.message.content):
            self._image_places.append(place)
        self._show(place, shown_item(item, self._projections, self._callers, has_images=True))

    def _take_images_away(self) -> None:
        if not self._image_places:
            return
        images_from = images_shown_from(self._paired.grown)
        for place in self._image_places:
            if place < images_from:
                item = self._paired.grown[place]
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
