"""Ten thousand payloads that no server should send, made of good ones; the same ones each time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

MALFORMED = 10_000
SAMPLE = 500
"""As many as `make test` has time for."""
_ODD = (
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x01",
    b" ",
    b":",
    b"",
    b"\n",
    b"<",
    b"&#0;",
    b"\xf0\x9f\x90",
    b"'\"\\",
)


def malformed(good: Sequence[bytes], count: int) -> Iterator[bytes]:
    """Good payloads cut, doubled, with bytes taken out, changed and put in, and plain noise."""
    dice = random.Random(13)
    for _ in range(count):
        raw = bytearray(dice.choice(good))
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(raw) + 1)
            match dice.randrange(6):
                case 0:
                    del raw[at:]
                case 1:
                    del raw[at : at + dice.randint(1, 9)]
                case 2:
                    raw[at:at] = dice.choice(_ODD)
                case 3:
                    raw[at : at + 1] = dice.randbytes(dice.randint(1, 4))
                case 4:
                    raw[at:at] = bytes(raw[at : at + dice.randint(1, 40)])
                case _:
                    raw[at:at] = dice.choice(good)
        yield bytes(raw)
