"""Which of two embedders an index belongs to, remembered in it, so that all processes agree.

When an embedder fails and its fallback takes over, the index notes why, and when the first one is asked
again: after the usual pauses, which grow with each failure, or as soon as the owner has the index brought in
line by hand. Every process uses the embedder whose vectors stand in the index.
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
"""The meta row with a `Left`; blank or missing when the embedder that was named makes the vectors."""

FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 3600.0


class Left(Record):
    """That an embedder was left for its fallback.

    `embedder` is the key of the one that was left, `problem` why, as a sentence. It failed `failures` times
    in a row and is asked again at `retry_at_seconds` (since the epoch).
    """

    embedder: str
    problem: str
    failures: int
    retry_at_seconds: float

    def rest_seconds(self, now_seconds: float) -> float:
        """How long it is still left alone; 0 when a clock that was set back would make that endless."""
        rest = self.retry_at_seconds - now_seconds
        return rest if 0 < rest <= pause_seconds(self.failures) else 0.0

    def row(self) -> dict[str, str]:
        """The meta row for it."""
        return {FALLBACK_ROW: json.dumps(asdict(self), ensure_ascii=False)}


def pause_seconds(failures: int) -> float:
    """How long an embedder is left alone after so many failures in a row, one at least."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10))


def left_embedder(meta: Mapping[str, str], embedder: Embedder | None) -> Left | None:
    """What the index notes about the first of two; nothing about another, or in a row that cannot be read."""
    if not isinstance(embedder, WithFallback):
        return None
    try:
        left = Left(**json.loads(meta.get(FALLBACK_ROW) or "null"))
    except (ValueError, TypeError):
        return None
    return left if left.embedder == facts_key(embedder.first.facts) else None


def follow_index(embedder: Embedder | None, meta: Mapping[str, str]) -> None:
    """Uses the one of two embedders whose vectors the index has.

    What this process found out itself comes before, until the index has noted it.
    """
    if not isinstance(embedder, WithFallback) or embedder.news is not None:
        return
    left = left_embedder(meta, embedder)
    is_seconds = embedder_key(stored_identity(meta)) == facts_key(embedder.second.facts)
    embedder.follow(left.problem if left is not None and is_seconds else "")


def news_row(embedder: Embedder | None, meta: Mapping[str, str], now_seconds: float) -> dict[str, str]:
    """What the index has to note when it becomes the fallback's; nothing when it does not.

    After a return nothing is rubbed out: an embedder that fails again at once has failed twice.
    """
    if not isinstance(embedder, WithFallback) or not embedder.news:
        return {}
    return _failed_again(embedder, meta, embedder.news, now_seconds).row()


async def ask_first_again(
    store: Store, embedder: Embedder, now_seconds: float, *, at_once: bool = False
) -> float:
    """Uses the first of two embedders again if it answers; asks it only after its rest, or `at_once`.

    The seconds until it is to be asked the next time; 0 when it is in use, or there is no other.
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
        pass  # that is an answer, too
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
