"""How much one address may ask in a time. Pure, given the seconds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

MOST_KNOWN = 10_000
"""So many addresses are remembered; of more, the one that asked longest ago is forgotten."""

MOST_WRONG_TOKENS, WRONG_TOKENS_A_SECOND = 10, 0.1


@dataclass
class _Bucket:
    left: float
    at_seconds: float


class Rate:
    """A bucket of `most` for each name, which fills by `per_second`."""

    def __init__(self, *, most: int, per_second: float) -> None:
        self._most, self._per_second = most, per_second
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_seconds(self, name: str, now_seconds: float) -> float:
        """How long `name` has to wait before it may ask again, 0 when it may now. Takes nothing."""
        left = self._filled(name, now_seconds).left
        return 0.0 if left >= 1 else (1 - left) / self._per_second

    def take(self, name: str, now_seconds: float) -> None:
        """Counts one question."""
        self._filled(name, now_seconds).left -= 1

    def _filled(self, name: str, now_seconds: float) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= MOST_KNOWN:
                self._buckets.popitem(last=False)
            bucket = self._buckets[name] = _Bucket(self._most, now_seconds)
        self._buckets.move_to_end(name)
        gone = max(0.0, now_seconds - bucket.at_seconds)
        bucket.left = min(self._most, bucket.left + gone * self._per_second)
        bucket.at_seconds = now_seconds
        return bucket
