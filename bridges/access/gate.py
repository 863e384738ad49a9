"""Decides whether a message is answered: by its chat, its sender, the settings, and who was let in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from nacre.bridges.access.people import People, Role
from nacre.record import Record
from nacre.runtime.commands.wording import shortened
from nacre.runtime.contracts.clock import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.settings.sections.channels import AccountRules, channel_settings
from nacre.runtime.settings.settings import Settings

PAIRING_TEXT = (
    "I do not know you yet. My owner can let you in within an hour: nacre admin access approve {code}\n"
    "If you are my owner, add --owner."
)

ANYBODY = "*"
MOST_NAME_CHARS = 80


class Gate:
    """Decides whether messages are answered. Reads the settings and the people again for each decision."""

    def __init__(
        self,
        people: People,
        settings: Callable[[], Settings],
        *,
        activation: Callable[[Inbound], str],
        new_id: NewId,
    ) -> None:
        self._people = people
        self._activation = activation
        self._settings = settings
        self._new_id = new_id

    async def verdict(self, inbound: Inbound) -> Verdict:
        """Decides what happens to a message that arrives."""
        role, own_agent = await self._people.arrival(inbound)
        return replace(self._judge(inbound, role), own_agent=own_agent)

    async def is_still_allowed(self, inbound: Inbound) -> bool:
        """Whether a message that was answered before would be answered again with the same rights."""
        # It counted as a mention when it arrived, even if the rule for mentions has changed since.
        verdict = self._judge(replace(inbound, is_mentioned=True), await self._people.role(inbound))
        return verdict.outcome == "answer" and verdict.is_owner == inbound.is_owner

    def _judge(self, inbound: Inbound, role: Role) -> Verdict:
        return judge(inbound, self._settings(), role, activation=self._activation(inbound))

    async def pairing_text(self, inbound: Inbound) -> str:
        """The answer to an unknown sender; empty if they have a code already or too many people have one."""
        code = await self._people.request_access(inbound, self._new_id)
        return PAIRING_TEXT.format(code=code) if code else ""


class Verdict(Record):
    """What happens to a message: it is answered, its sender is offered a pairing code, or it is ignored."""

    outcome: Literal["answer", "pair", "ignore"]
    is_owner: bool = False
    why: str = ""
    is_unlisted: bool = False
    """Whether the message mentions the assistant in a group that the settings do not name."""
    own_agent: str = ""
    """The id of the agent that alone answers the sender in private; empty if the settings choose."""


def judge(inbound: Inbound, settings: Settings, role: Role, *, activation: str = "") -> Verdict:
    """Decides what happens to a message of a sender with `role`.

    Ids are compared byte by byte, or without case if the bridge says that its channel ignores case. Every
    chat kind but `direct` counts as a group. `activation` is the group's choice, `mention` or `always`, and
    overrides `requireMention`.
    """
    is_owner = bool(inbound.sender_id) and (role == "owner" or _is_named_owner(inbound, settings))
    channel = channel_settings(settings.channels, inbound.channel, inbound.account)
    if inbound.chat_kind == "direct":
        return _in_private(inbound, channel, role, is_owner=is_owner)
    return _in_a_group(inbound, channel, activation, is_owner=is_owner)


def _in_private(inbound: Inbound, channel: AccountRules, role: Role, *, is_owner: bool) -> Verdict:
    if is_owner:
        return Verdict(outcome="answer", is_owner=True)
    if channel.dm_policy == "disabled" or not inbound.sender_id:
        return Verdict(outcome="ignore", why="private chats are off, or the sender has no id")
    is_known = bool(role) or _has(channel.allow_from, inbound.sender_id, inbound)
    if is_known or channel.dm_policy == "open":
        return Verdict(outcome="answer")
    if channel.dm_policy == "pairing":
        return Verdict(outcome="pair", why="the sender is unknown")
    return Verdict(outcome="ignore", why="the sender is not in allowFrom")


def _in_a_group(inbound: Inbound, channel: AccountRules, activation: str, *, is_owner: bool) -> Verdict:
    here = channel.groups.get(inbound.chat_id) or channel.groups.get(ANYBODY)
    if channel.group_policy == "disabled" or (channel.group_policy == "allowlist" and here is None):
        name = f" ({shortened(inbound.chat_name, MOST_NAME_CHARS)})" if inbound.chat_name else ""
        return Verdict(
            outcome="ignore",
            why=f"the group {inbound.chat_id}{name} is not in channels.{inbound.channel}.groups",
            is_unlisted=here is None and inbound.is_mentioned,
        )
    senders = channel.group_allow_from
    if senders and not is_owner and not _has(senders, inbound.sender_id, inbound):
        return Verdict(outcome="ignore", why="the sender is not in groupAllowFrom")
    needs_mention = activation != "always" and (
        activation == "mention" or here is None or here.require_mention
    )
    if needs_mention and not inbound.is_mentioned:
        return Verdict(outcome="ignore", why="the assistant was not mentioned")
    return Verdict(outcome="answer", is_owner=is_owner)


def _is_named_owner(inbound: Inbound, settings: Settings) -> bool:
    """Whether the settings name the sender as an owner. The same id on another channel is another person."""
    channel = inbound.channel.strip().lower()
    named = (each.partition(":") for each in settings.commands.owner_allow_from)
    ids = [sender for where, _, sender in named if where.strip().lower() == channel and sender]
    return _has([each for each in ids if each != ANYBODY], inbound.sender_id, inbound)


def _has(ids: Iterable[str], sender_id: str, inbound: Inbound) -> bool:
    if inbound.ids_fold_case is True:
        sender_id, ids = sender_id.casefold(), [each.casefold() for each in ids]
    return bool(sender_id) and any(each in (sender_id, ANYBODY) for each in ids)
