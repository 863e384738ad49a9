"""Texts in requests of bounded size. Pure.

The index stores what one request brought before it makes the next, so a request is what a kill can cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

REQUEST_TOKENS = 8_000


def batches(texts: Sequence[str], *, most_texts: int) -> Iterator[slice]:
    """Where to cut `texts`: at most so many and `REQUEST_TOKENS` together; one that is longer goes alone."""
    start = held_tokens = 0
    for at, text in enumerate(texts):
        tokens = estimated_tokens(text)
        if at > start and (at - start >= most_texts or held_tokens + tokens > REQUEST_TOKENS):
            yield slice(start, at)
            start, held_tokens = at, 0
        held_tokens += tokens
    if start < len(texts):
        yield slice(start, len(texts))


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: four plain characters each, every other character one."""
    plain = len(text) if text.isascii() else sum(char.isascii() for char in text)
    return -(-plain // 4) + len(text) - plain
