"""The messages of a transcript in the order in which a model reads them. Pure.

Recalled logs stand at the front, behind a summary if there is one, and only the newest of them: they are
background, not something that was just said. What changed since then stands in front of the words with which
it was told, so that these come last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from nacre.sessions.contracts.messages import Message, UserMessage
from nacre.sessions.view.transcript import TranscriptItem


def model_messages(items: Iterable[TranscriptItem], *, is_compacted: bool) -> tuple[Message, ...]:
    """The messages in the order the model reads them; a compacted transcript begins with a summary."""
    order = ModelOrder(is_compacted=is_compacted)
    for item in items:
        order.add(item)
    return order.messages()


class ModelOrder:
    """The same, kept up to date while a transcript grows at its end or has an item replaced."""

    def __init__(self, *, is_compacted: bool) -> None:
        self._recall_at = 1 if is_compacted else 0
        self._recall_places: list[int] = []
        self._moved_places: set[int] = set()
        self._ends_with_words = False
        self._messages: list[Message] = []
        self._count = 0
        self._shown: tuple[Message, ...] | None = None

    def add(self, item: TranscriptItem) -> None:
        """Takes the transcript's next item."""
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
        """Puts another item in a place of the transcript; both are something that was said."""
        at = place - bisect_left(self._recall_places, place)
        if self._recall_places and at >= self._recall_at:
            at += 1
        if place + 1 in self._moved_places:
            at += 1
        self._messages[at] = item.message
        self._shown = None

    def messages(self) -> tuple[Message, ...]:
        """The messages; the same object as long as nothing changed."""
        if self._shown is None:
            self._shown = tuple(self._messages)
        return self._shown
