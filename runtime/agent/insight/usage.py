"""What calls of models took: from what transcripts hold, and from the usage files for all others. Edge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from functools import cache, reduce

from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, stored_moment
from nacre.runtime.contracts.ids import random_id
from nacre.runtime.models.offline.model import PROVIDER as OFFLINE_PROVIDER
from nacre.runtime.models.spending import spending, unreadable_usage
from nacre.runtime.open_sessions.open_session import FLUSH_MESSAGE_ENTRY
from nacre.runtime.providers.opening import price_entry
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.spending import spending_folder
from nacre.runtime.storage.storage import storage_of
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import AssistantMessage, Message, Usage, message_from_json
from nacre.sessions.entries.entries import Entry

_PURPOSES: Mapping[str, str] = {"turn": "reply", "slug": "name", "page": "background"}
"""What people call a purpose; the others are called as they are."""


class Call(Record):
    """One call of a model. `session_key` is empty where no transcript has it, `model` is `provider/model`.

    Without `has_price` nobody knows what it cost, and its `usage` says nothing of money.
    """

    at: datetime
    model: str
    purpose: str
    session_key: str
    usage: Usage
    has_price: bool


class UsageRow(Record):
    """Calls that have a day, a model, a purpose or a session in common; of some the price is not known."""

    name: str
    calls: int = 0
    unpriced_calls: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def cost_usd(self) -> float | None:
        """Dollars of the calls whose price is known; `None` where it is of none of them."""
        return None if self.calls and self.calls == self.unpriced_calls else self.usage.cost_usd

    def __add__(self, call: Call) -> UsageRow:
        """The row with one more call."""
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


def has_price(model_name: str) -> bool:
    """Whether it is known what a token of `provider/model` costs, be it nothing as of the offline responder.

    Prices are those of litellm's map.
    """
    is_offline = model_name.startswith(f"{OFFLINE_PROVIDER}/")
    return is_offline or "input_cost_per_token" in price_entry(model_name)


async def calls_of(config: Config, now: Clock) -> list[Call]:
    """All calls of an agent, the oldest first. A transcript that cannot be read is left out.

    What a transcript holds is told with its session, also from before there were usage files. These have the
    rest: summaries, names, embeddings, replies of sessions that are gone; and they know what each was for.

    Raises:
        SessionError: the sessions or the usage files cannot be listed.
    """
    zone = now().tzinfo
    found: dict[tuple[int, str], Call] = {}
    is_priced = cache(has_price)

    def keep(at_ms: int, model: str, purpose: str, key: str, usage: Usage) -> None:
        at = stored_moment(at_ms, zone)
        if at is not None:
            is_known = usage.cost_usd > 0 or is_priced(model)
            call = Call(at=at, model=model, purpose=purpose, session_key=key, usage=usage, has_price=is_known)
            found.setdefault((at_ms, model), call)  # a forked session has copies of what was said before

    store = storage_of(config).sessions(now=now, new_id=random_id)
    try:
        for session in await store.sessions(with_earlier=True):
            try:
                transcript = await store.stored(session)
            except SessionError:
                continue
            for purpose, answer, usage in _answers(transcript.entries):
                model = f"{answer.provider}/{answer.model}"
                keep(answer.timestamp_ms, model, purpose, session.key, usage)
    finally:
        await store.close()
    for spent in await asyncio.to_thread(lambda: list(spending(spending_folder(config)))):
        if spent.agent_id == config.agent_id:
            said = found.pop((spent.at_ms, spent.model), None)
            purpose = _PURPOSES.get(spent.purpose, spent.purpose)
            keep(spent.at_ms, spent.model, purpose, said.session_key if said else "", spent.usage)
    return sorted(found.values(), key=lambda call: call.at)


async def spent_today_usd(config: Config, now: Clock) -> float:
    """Dollars that all agents of the state folder spent today: what the cap counts. Raises `SessionError`."""
    today = now().date().isoformat()
    spent = await asyncio.to_thread(lambda: list(spending(spending_folder(config), day=today)))
    return sum(each.usage.cost_usd for each in spent)


def usage_problem(config: Config, now: Clock) -> str | None:
    """A sentence about today's usage file when it cannot be read, which stops all models under a cap."""
    return unreadable_usage(spending_folder(config), now)


def grouped(calls: Iterable[Call], by: str) -> list[UsageRow]:
    """The calls by day, model, purpose or session: days in their order, others the dearest first. Pure."""
    rows: dict[str, UsageRow] = {}
    for call in calls:
        name = GROUPS[by](call)
        rows[name] = rows.get(name, UsageRow(name=name)) + call
    if by == "day":
        return sorted(rows.values(), key=lambda row: row.name)
    return sorted(rows.values(), key=lambda row: (-row.usage.cost_usd, -row.usage.context_tokens, row.name))


def total_of(calls: Iterable[Call]) -> UsageRow:
    """All of them together. Pure."""
    return reduce(UsageRow.__add__, calls, UsageRow(name="total"))


def unpriced_models(calls: Iterable[Call]) -> tuple[str, ...]:
    """The models whose price nobody knows, in the order of their names. Pure."""
    return tuple(sorted({call.model for call in calls if not call.has_price}))


def _answers(entries: Iterable[Entry]) -> Iterator[tuple[str, AssistantMessage, Usage]]:
    for entry in entries:
        message: object = entry.body if isinstance(entry.body, Message) else _flushed(entry)
        if isinstance(message, AssistantMessage) and message.usage is not None:
            yield "reply" if message is entry.body else "flush", message, message.usage


def _flushed(entry: Entry) -> Message | None:
    data = entry.custom_data(FLUSH_MESSAGE_ENTRY)
    try:
        return message_from_json(data) if data else None
    except ValueError:
        return None
