"""The transcripts that an agent has read, so that the next turn of a session reads only what is new."""

from __future__ import annotations

from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import SessionStore, Transcript

MOST_KEPT_BYTES = 64_000_000
"""So many bytes of transcripts are kept, those used last, and always the one in use. In memory a transcript
takes nearly twice its JSON lines."""
LEAST_BYTES = 8_000
"""What a transcript takes that says nothing yet; each counts for so much more than its lines."""


class Journals:
    """Opens transcripts of a store for the holder of their session's lane."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._kept: dict[str, Transcript] = {}
        self._counted: dict[str, int] = {}
        self._kept_bytes = 0

    async def open(self, record: SessionRecord) -> Transcript:
        """The transcript of a line's session, with what other processes appended to it since.

        Raises:
            SessionError: it cannot be read or begun, or the line names something that cannot be it.
        """
        name = self._store.transcript_name(record)
        journal = await self._caught_up(self._kept.get(name)) or await self._store.transcript(record)
        self._keep(name, journal)
        while len(self._kept) > 1 and self._kept_bytes > MOST_KEPT_BYTES:
            self._forget(next(iter(self._kept)))
        return journal

    def _keep(self, name: str, journal: Transcript) -> None:
        """Counts it as it is now, as the one that was used last."""
        self._forget(name)
        self._kept[name] = journal
        self._counted[name] = journal.size_bytes + LEAST_BYTES
        self._kept_bytes += self._counted[name]

    def _forget(self, name: str) -> None:
        self._kept.pop(name, None)
        self._kept_bytes -= self._counted.pop(name, 0)

    async def _caught_up(self, journal: Transcript | None) -> Transcript | None:
        if journal is None:
            return None
        try:
            await journal.refresh()
        except SessionError:
            # Gone or broken since: opening it anew says what is the matter.
            return None
        return journal
