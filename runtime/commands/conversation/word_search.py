"""Finds conversations by words in their messages. It reads the transcripts and needs no index."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import AssistantMessage, UserMessage, message_text
from nacre.sessions.entries.entries import StoredTranscript
from nacre.sessions.stores.store import SessionStore
from nacre.sessions.upkeep.stored_session import StoredSession

MOST_FOUND = 50
_AROUND_CHARS = 80


class FoundSession(Record):
    """A session with a message that has the words; `passage` is that part of the message `entry_id`."""

    session: StoredSession
    entry_id: str
    passage: str


async def sessions_with(
    store: SessionStore, words: Sequence[str], *, most: int = MOST_FOUND, most_bytes: int | None = None
) -> list[FoundSession]:
    """Up to `most` sessions with a message that has all these words, most recently active first.

    With `most_bytes`, no more than so much of the transcripts is read.

    Raises:
        SessionError: the sessions cannot be listed.
    """
    found: list[FoundSession] = []
    folded = [word.casefold() for word in words]
    for session in await store.sessions(with_earlier=True) if folded else ():
        if most_bytes is not None:
            most_bytes -= session.size_bytes or 0
            if most_bytes < 0:
                break
        try:
            transcript = await store.stored(session)
        except SessionError:
            continue  # an unreadable session must not hide the others
        entry_id, passage = await asyncio.to_thread(_passage_with, transcript, folded)
        if passage:
            found.append(FoundSession(session=session, entry_id=entry_id, passage=passage))
        if len(found) >= most:
            break
    return found


def _passage_with(transcript: StoredTranscript, folded: Sequence[str]) -> tuple[str, str]:
    """The ID of the latest message with all these words and the passage with the first of them."""
    for entry in reversed(transcript.entries):
        if isinstance(entry.body, UserMessage | AssistantMessage):
            text = " ".join(message_text(entry.body).split())
            there = text.casefold()
            if all(word in there for word in folded):
                position = min(there.index(word) for word in folded)
                start = max(0, position - _AROUND_CHARS)
                end = position + 3 * _AROUND_CHARS
                return entry.id, ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    return "", ""
