"""The cost of model calls: one file per day of the owner, shared by all processes and agents.

The daily cap first stops background calls, then replies. A contract: bytes on disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from nacre.locks import try_lock
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, random_id
from nacre.runtime.contracts.errors import SpendingCapReached
from nacre.sessions.contracts.errors import SessionCorrupt, SessionError
from nacre.sessions.contracts.messages import Usage, usage_from_json
from nacre.sessions.disk.durable import append_all, locked, read_plain, reading

BACKGROUND_SHARE = 0.8
"""Above this share of the cap, only calls that a person waits for are made."""
WAITED_FOR = ("turn", "compaction", "transcription")
"""Purposes that a person waits for: the reply, and the summary or transcript that it needs."""
SHORTEST_ANSWER_TOKENS = 1024
"""The cap does not shorten an answer below this; it refuses the call instead."""
RESERVED_WAIT_SECONDS = 120.0
"""How long a call that a person waits for lets running calls finish before it is refused."""
RESERVED_POLL_SECONDS = 0.05

log = logging.getLogger(__name__)


class Estimate(Record):
    """The most that a call can cost: its prompt, and an answer of up to `answer_tokens`."""

    prompt_tokens: int = 0
    prompt_usd: float = 0.0
    answer_tokens: int = 0
    answer_token_usd: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether the call is free, whatever the answer."""
        return not self.prompt_usd and not self.answer_token_usd

    def fitted(self, left_usd: float) -> int | None:
        """The tokens that the answer may have, or `None` if `left_usd` does not pay for the call.

        An answer gets at most half of the money left, so that a model with a large output limit does not
        reserve all of it.
        """
        left_usd -= self.prompt_usd
        if left_usd < 0:
            return None
        if not self.answer_token_usd:
            return self.answer_tokens
        payable_tokens = int(left_usd / self.answer_token_usd)
        shortest_tokens = min(self.answer_tokens, SHORTEST_ANSWER_TOKENS)
        if payable_tokens < shortest_tokens:
            return None
        return max(shortest_tokens, min(self.answer_tokens, payable_tokens // 2))

    def usage(self, answer_bytes: int) -> Usage:
        """The usage of a call that ended before the provider counted it: the prompt, and the text so far."""
        output_tokens = answer_bytes // BYTES_PER_TOKEN
        cost_usd = self.prompt_usd + output_tokens * self.answer_token_usd
        return Usage(input_tokens=self.prompt_tokens, output_tokens=output_tokens, cost_usd=cost_usd)


BYTES_PER_TOKEN = 3
"""Providers count about 4 bytes of English or 3 of Chinese as a token; this is the safer value."""


class Reservation:
    """Money reserved for a running call, released at the end of a `with` block.

    `answer_tokens` limits the answer; `None` is no limit.
    """

    def __init__(self, answer_tokens: int | None = None, release: Callable[[], None] | None = None) -> None:
        self.answer_tokens = answer_tokens
        self._release = release

    @property
    def is_capped(self) -> bool:
        return self._release is not None

    def release(self) -> None:
        """Releases the money, after the real cost is recorded or nothing was spent."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


class SpendingLedger:
    """Records the calls of one agent, and reserves the cost of running ones.

    `folder` has one file a day; `now` is the owner's clock; `cap_usd` returns the current daily cap. A
    reservation is a file that its process keeps locked: the kernel frees the lock of a process that dies, and
    the next reservation removes the file. `prices` are the owner's, by `provider/model`, with the names of
    litellm's price map.
    """

    def __init__(
        self,
        folder: Path,
        *,
        agent_id: str,
        now: Clock,
        cap_usd: Callable[[], float | None],
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self.prices = prices or {}
        self._folder = folder
        self._agent_id = agent_id
        self._now = now
        self._cap_usd = cap_usd
        self._seen: tuple[Path, int, float] | None = None

    @property
    def has_cap(self) -> bool:
        return self._cap_usd() is not None

    async def reserve(self, purpose: str, model: str, estimate: Estimate | None) -> Reservation:
        """Reserves the money for a call of `provider/model`; `estimate` is `None` if its price is unknown.

        Near the cap, a call that a person waits for lets the running ones finish first.

        Raises:
            SpendingCapReached: the call could exceed the day's cap, its price is unknown, or today's spending
                cannot be read.
        """
        cap_usd = self._cap_usd()
        if cap_usd is None or (estimate is not None and estimate.is_free):
            return Reservation()
        if estimate is None:
            raise SpendingCapReached(
                f"The price of {model!r} is unknown, so usage.dailyCapUsd cannot limit it: nothing was sent. "
                "Write its price in dollars per million tokens to nacre.json5, for example usage: {prices: "
                f'{{"{model}": {{input: 1, output: 4}}}}}} (0 for a free model), or unset usage.dailyCapUsd.'
            )
        is_waited_for = purpose in WAITED_FOR
        limit_usd = cap_usd * (1 if is_waited_for else BACKGROUND_SHARE)
        give_up_at = time.monotonic() + RESERVED_WAIT_SECONDS
        while True:
            try:
                taken = await asyncio.to_thread(self._reserve, estimate, limit_usd)
            except (SessionError, OSError) as error:
                raise SpendingCapReached(_unreadable(self._today(), error)) from error
            if isinstance(taken, Reservation):
                return taken
            spent_usd, reserved_usd = taken
            would_fit = reserved_usd > 0 and estimate.fitted(limit_usd - spent_usd) is not None
            if not (is_waited_for and would_fit) or time.monotonic() >= give_up_at:
                break
            await asyncio.sleep(RESERVED_POLL_SECONDS)
        log.warning("%s: %.4f of %.4f dollars are spent or reserved", purpose, sum(taken), cap_usd)
        raise SpendingCapReached(_cap_reached(sum(taken), cap_usd, is_waited_for=is_waited_for))

    def _reserve(self, estimate: Estimate, limit_usd: float) -> Reservation | tuple[float, float]:
        """The reservation, or the amounts spent and reserved if the call does not fit."""
        with locked(self._today()):
            spent_usd, reserved_usd = self._spent_today_usd(), self._reserved_usd()
            answer_tokens = estimate.fitted(limit_usd - spent_usd - reserved_usd)
            if answer_tokens is None:
                return spent_usd, reserved_usd
            usd = estimate.prompt_usd + answer_tokens * estimate.answer_token_usd
            path = self._reserved / f"{random_id()}.usd"
            unlock = try_lock(path)
            assert unlock is not None  # nobody else knows the name
            append_all(path, repr(usd).encode(), at_bytes=0, sync=lambda _descriptor: None)

        def release() -> None:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            unlock()

        return Reservation(answer_tokens, release)

    def _reserved_usd(self) -> float:
        """The sum reserved for running calls; removes the reservations of processes that died."""
        self._reserved.mkdir(mode=0o700, exist_ok=True)
        reserved_usd = 0.0
        for path in self._reserved.glob("*.usd"):
            unlock = try_lock(path)
            if unlock is not None:
                path.unlink(missing_ok=True)
                unlock()
                continue
            found = read_plain(path)
            reserved_usd += float(found[0] or 0) if found is not None else 0.0
        return reserved_usd

    @property
    def _reserved(self) -> Path:
        return self._folder / "reserved"

    async def spend(self, purpose: str, model: str, usage: Usage, *, at_ms: int) -> None:
        """Records a call that ended. A failure to write is logged, because the answer is worth more."""
        spent = Spent(at_ms=at_ms, agent_id=self._agent_id, model=model, purpose=purpose, usage=usage)
        try:
            await asyncio.to_thread(self._write, spent.to_line())
        except SessionError as error:
            log.warning("the usage of a call was not recorded: %s", error)

    def _write(self, line: bytes) -> None:
        """Appends a line durably, after a line break if the last line was cut off by a kill."""
        path = self._today()
        with locked(path):
            size_bytes = path.stat().st_size if path.exists() else 0
            if size_bytes:
                with reading(path, start_bytes=size_bytes - 1) as file:
                    line = line if file.read(1) == b"\n" else b"\n" + line
            append_all(path, line, at_bytes=size_bytes)

    def _spent_today_usd(self) -> float:
        """Reads the lines appended since the last call. Raises `SessionError` for an invalid file."""
        path = self._today()
        seen_bytes, spent_usd = self._seen[1:] if self._seen and self._seen[0] == path else (0, 0.0)
        with suppress(FileNotFoundError):
            if path.stat().st_size < seen_bytes:
                seen_bytes, spent_usd = 0, 0.0
            is_first_look, has_usage, has_lines = not seen_bytes, False, False
            with reading(path, start_bytes=seen_bytes) as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    seen_bytes += len(line)
                    spent = spent_from_line(line)
                    has_lines, has_usage = True, has_usage or spent is not None
                    spent_usd += spent.usage.cost_usd if spent is not None else 0.0
            if is_first_look and has_lines and not has_usage:
                raise SessionCorrupt(f"{path} has no line with the usage of a call.")
        self._seen = (path, seen_bytes, spent_usd)
        return spent_usd

    def _today(self) -> Path:
        return self._folder / f"{self._now().date().isoformat()}.jsonl"


def spending(folder: Path, *, day: str = "*") -> Iterator[Spent]:
    """All recorded calls, the oldest day first, or those of one day. Raises `SessionError`."""
    for path in sorted(folder.glob(f"{day}.jsonl")) if folder.is_dir() else []:
        found = read_plain(path)
        for line in found[0].splitlines() if found is not None else []:
            if (spent := spent_from_line(line)) is not None:
                yield spent


def unreadable_usage(folder: Path, now: Clock) -> str | None:
    """A sentence if today's usage file cannot be read; `None` if it can."""
    ledger = SpendingLedger(folder, agent_id="", now=now, cap_usd=lambda: None)
    try:
        ledger._spent_today_usd()
    except (SessionError, OSError) as error:
        return _unreadable(ledger._today(), error)
    return None


def _unreadable(path: Path, error: Exception) -> str:
    return (
        f"No model that costs money is asked, because today's spending cannot be read: {error} "
        f"Repair {path}, or move it away to count today from zero."
    )


def _cap_reached(spent_usd: float, cap_usd: float, *, is_waited_for: bool) -> str:
    told = (
        f"${spent_usd:.2f} of the ${cap_usd:.2f} a day that usage.dailyCapUsd allows are spent or reserved "
        "for running calls, and another call could pass the cap."
    )
    if is_waited_for:
        return f"{told} No model is asked before tomorrow; raise usage.dailyCapUsd to go on today."
    return f"{told} The rest is kept for replies: names, notes and embeddings are made without a model."


VERSION = 1


class Spent(Record):
    """One call. `at_ms` is the end of its answer in milliseconds since the epoch.

    `model` is `provider/model`. `purpose` is a `Purpose` of a model request, `embedding`, `rerank` or
    `transcription`.
    """

    at_ms: int
    agent_id: str
    model: str
    purpose: str
    usage: Usage

    def to_line(self) -> bytes:
        raw = {
            "v": VERSION,
            "at": self.at_ms,
            "agent": self.agent_id,
            "model": self.model,
            "purpose": self.purpose,
            "usage": self.usage.to_json(),
        }
        return json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def spent_from_line(data: bytes) -> Spent | None:
    """Parses a line; `None` if it is torn, of another version, or invalid."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, Mapping) or raw.get("v") != VERSION or not isinstance(raw.get("at"), int):
        return None
    usage = usage_from_json(raw.get("usage"))
    if usage is None:
        return None
    return Spent(
        at_ms=raw["at"],
        agent_id=_text(raw, "agent"),
        model=_text(raw, "model"),
        purpose=_text(raw, "purpose"),
        usage=usage,
    )


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""
