"""What model calls cost: from transcripts, and from the usage files for all other calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from functools import cache, partial, reduce

from nacre.closing import using
from nacre.record import Record
from nacre.runtime.agent.insight.trace import stored_message
from nacre.runtime.contracts.clock import Clock, stored_moment
from nacre.runtime.models.spending import spending, unreadable_usage
from nacre.runtime.open_sessions.open_session import FLUSH_MESSAGE_ENTRY
from nacre.runtime.providers.opening import has_price
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.spending import spending_folder
from nacre.runtime.storage.storage import open_sessions
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import AssistantMessage, Message, Usage
from nacre.sessions.entries.entries import Entry

_PURPOSES: Mapping[str, str] = {"turn": "reply", "slug": "name", "page": "background"}
"""Display names of purposes; the others are shown as they are."""


class Call(Record):
    """One model call. `session_key` is empty if no transcript has it, `model` is `provider/model`.

    Without `has_price`, its cost is unknown, and its `usage` has none.
    """

    at: datetime
    model: str
    purpose: str
    session_key: str
    usage: Usage
    has_price: bool


class UsageRow(Record):
    """Calls that share a day, a model, a purpose or a session. The price of some may be unknown."""

    name: str
    calls: int = 0
    unpriced_calls: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def cost_usd(self) -> float | None:
        """Dollars of the calls with a known price; `None` if there are none."""
        return None if self.calls and self.calls == self.unpriced_calls else self.usage.cost_usd

    def __add__(self, call: Call) -> UsageRow:
        return UsageRow(
            name=self.name,
            calls=self.calls + 1,
            unpriced_calls=self.unpriced_calls + (not call.has_price),
            usage=self.usage + call.usage,
        )


GROUPS: Mapping[str, Callable[[Call], str]] = {
    "day": lambda call: call.at.date().isoformat(),
    "model": lambda call: call.model,
    "purpose": lambda call: call.purpose,
    "session": lambda call: call.session_key or "(no session)",
}


async def calls_of(config: Config, now: Clock) -> list[Call]:
    """All calls of an agent, oldest first. A transcript that cannot be read is left out.

    Calls in a transcript are listed with their session, including those from before usage files existed.
    The usage files have the rest (summaries, names, embeddings, replies of deleted sessions) and the
    purposes.

    Raises:
        SessionError: the sessions or the usage files cannot be listed.
    """
    zone = now().tzinfo
    found: dict[tuple[int, str], Call] = {}
    is_priced = cache(partial(has_price, config))

    def keep(at_ms: int, model: str, purpose: str, key: str, usage: Usage) -> None:
        at = stored_moment(at_ms, zone)
        if at is not None:
            is_known = usage.cost_usd > 0 or is_priced(model)
            call = Call(at=at, model=model, purpose=purpose, session_key=key, usage=usage, has_price=is_known)
            found.setdefault((at_ms, model), call)  # a forked session has copies of what was said before

    async with using(open_sessions(config, now)) as store:
        for session in await store.sessions(with_earlier=True):
            try:
                transcript = await store.stored(session)
            except SessionError:
                continue
            for purpose, answer, usage in _answers(transcript.entries):
                model = f"{answer.provider}/{answer.model}"
                keep(answer.timestamp_ms, model, purpose, session.key, usage)
    for spent in await asyncio.to_thread(lambda: list(spending(spending_folder(config)))):
        if spent.agent_id == config.agent_id:
            said = found.pop((spent.at_ms, spent.model), None)
            purpose = _PURPOSES.get(spent.purpose, spent.purpose)
            keep(spent.at_ms, spent.model, purpose, said.session_key if said else "", spent.usage)
    return sorted(found.values(), key=lambda call: call.at)


def usage_problem(config: Config, now: Clock) -> str | None:
    """A sentence if today's usage file cannot be read, which stops all models under a cap."""
    return unreadable_usage(spending_folder(config), now)


def grouped(calls: Iterable[Call], by: str) -> list[UsageRow]:
    """The calls by day, model, purpose or session: days in order, others by falling cost."""
    rows: dict[str, UsageRow] = {}
    for call in calls:
        name = GROUPS[by](call)
        rows[name] = rows.get(name, UsageRow(name=name)) + call
    if by == "day":
        return sorted(rows.values(), key=lambda row: row.name)
    return sorted(rows.values(), key=lambda row: (-row.usage.cost_usd, -row.usage.context_tokens, row.name))


def total_of(calls: Iterable[Call]) -> UsageRow:
    return reduce(UsageRow.__add__, calls, UsageRow(name="total"))


def unpriced_models(calls: Iterable[Call]) -> tuple[str, ...]:
    return tuple(sorted({call.model for call in calls if not call.has_price}))


def _answers(entries: Iterable[Entry]) -> Iterator[tuple[str, AssistantMessage, Usage]]:
    for entry in entries:
        note = entry.custom_data(FLUSH_MESSAGE_ENTRY) or {}
        message: object = entry.body if isinstance(entry.body, Message) else stored_message(note)
        if isinstance(message, AssistantMessage) and message.usage is not None:
            yield "reply" if message is entry.body else "flush", message, message.usage
