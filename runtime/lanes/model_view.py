"""What a model is sent of an open session: its newest turns, without the bulk of old tool results."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nacre.sessions.contracts.messages import Message
from nacre.sessions.stores.store import Transcript
from nacre.sessions.view.sent_view import PrunedView, model_messages
from nacre.sessions.view.transcript import TranscriptItem, newest_turns


class ModelView:
    """The view of one journal. `history_turns` is how many turns are sent; `None`, zero and less are all.

    All of them cost what is new since the last look, a limited number what they are.
    """

    def __init__(self, journal: Transcript, *, history_turns: int | None) -> None:
        self.history_turns = history_turns
        self._journal = journal
        self._pruned = PrunedView()

    def unpruned(self) -> Sequence[TranscriptItem]:
        """What the branch says: its newest turns, or all of it."""
        return newest_turns(self._journal.transcript(), self.history_turns, is_compacted=self._is_compacted)

    def transcript(self) -> Sequence[TranscriptItem]:
        """What a model is sent of that."""
        if self.history_turns is None:
            return self._journal.sent().items()
        return self._pruned.of(self.unpruned(), self._journal.branch())

    def messages(self) -> tuple[Message, ...]:
        """The messages of that, in the order in which the model reads them."""
        if self.history_turns is None:
            return self._journal.sent().messages()
        return model_messages(self.transcript(), is_compacted=self._is_compacted)

    def messages_without(self, entry_ids: Collection[str]) -> tuple[Message, ...]:
        """The same without the messages of these entries."""
        items = [item for item in self.transcript() if item.entry_id not in entry_ids]
        return model_messages(items, is_compacted=self._is_compacted)

    @property
    def _is_compacted(self) -> bool:
        return self._journal.tree.compaction_count > 0
