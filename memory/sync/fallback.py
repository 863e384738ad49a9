"""Which of two embedders an index belongs to, stored in the index so that all processes agree.

When an embedder fails and its fallback takes over, the index records the reason and when the first one is
tried again: after a pause that grows with each failure, or when the owner starts a sync by hand. Every
process uses the embedder whose vectors the index has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from nacre.memory.contracts.embedder import Embedder, EmbeddingFailed, TextRefused, WithFallback
from nacre.memory.contracts.store import Store
from nacre.memory.vectors.identity import embedder_key, facts_key, stored_identity
from nacre.record import Record

FALLBACK_ROW = "embedder_fallback"
"""The meta row with a `Left`; blank or missing while the named embedder makes the vectors."""

FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 3600.0


class Left(Record):
    """An embedder was replaced by its fallback.

    `embedder` is the key of the replaced embedder and `problem` the reason, as a sentence. It failed
    `failures` times in a row and is tried again at `retry_at_seconds` since the epoch.
    """

    embedder: str
    problem: str
    failures: int
    retry_at_seconds: float

    def rest_seconds(self, now_seconds: float) -> float:
        """The remaining pause; 0 if it is longer than possible, because a clock was set back."""
        rest = self.retry_at_seconds - now_seconds
        return rest if 0 < rest <= pause_seconds(self.failures) else 0.0

    def row(self) -> dict[str, str]:
        return {FALLBACK_ROW: json.dumps(asdict(self), ensure_ascii=False)}


def pause_seconds(failures: int) -> float:
    """The pause after this many failures in a row, at least one."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10))


def left_embedder(meta: Mapping[str, str], embedder: Embedder | None) -> Left | None:
    """The record about the first of two embedders; `None` about another one, or if it cannot be read."""
    if not isinstance(embedder, WithFallback):
        return None
    try:
        left = Left(**json.loads(meta.get(FALLBACK_ROW) or "null"))
    except (ValueError, TypeError):
        return None
    return left if left.embedder == facts_key(embedder.first.facts) else None


def follow_index(embedder: Embedder | None, meta: Mapping[str, str]) -> None:
    """Uses the one of two embedders whose vectors the index has.

    A failure that this process has seen itself comes first, until the index has recorded it.
    """
    if not isinstance(embedder, WithFallback) or embedder.news is not None:
        return
    left = left_embedder(meta, embedder)
    is_seconds = embedder_key(stored_identity(meta)) == facts_key(embedder.second.facts)
    embedder.follow(left.problem if left is not None and is_seconds else "")


def news_row(embedder: Embedder | None, meta: Mapping[str, str], now_seconds: float) -> dict[str, str]:
    """The row to store when the fallback takes over the index; empty otherwise.

    A return of the first embedder does not delete the row: if it fails again at once, it has failed twice.
    """
    if not isinstance(embedder, WithFallback) or not embedder.news:
        return {}
    return _failed_again(embedder, meta, embedder.news, now_seconds).row()


async def ask_first_again(
    store: Store, embedder: Embedder, now_seconds: float, *, at_once: bool = False
) -> float:
    """Uses the first of two embedders again if it answers; tries it only after its pause, or `at_once`.

    Returns the seconds until the next try; 0 if it is in use, or there is only one.
    """
    if not isinstance(embedder, WithFallback) or not embedder.problem or embedder.news is not None:
        return 0.0
    meta = await store.read(lambda index: index.meta())
    left = left_embedder(meta, embedder)
    rest_seconds = left.rest_seconds(now_seconds) if left is not None else 0.0
    if rest_seconds and not at_once:
        return rest_seconds
    try:
        await embedder.first.embed_documents(["ping"])
    except TextRefused:
        pass  # a refusal is an answer, too
    except EmbeddingFailed as error:
        again = _failed_again(embedder, meta, str(error), now_seconds)
        await store.write(lambda index: index.set_meta(again.row()))
        embedder.follow(again.problem)
        return again.retry_at_seconds - now_seconds
    embedder.come_back()
    return 0.0


def _failed_again(embedder: WithFallback, meta: Mapping[str, str], problem: str, now_seconds: float) -> Left:
    before = left_embedder(meta, embedder)
    failures = before.failures + 1 if before is not None else 1
    return Left(
        embedder=facts_key(embedder.first.facts),
        problem=problem,
        failures=failures,
        retry_at_seconds=now_seconds + pause_seconds(failures),
    )
