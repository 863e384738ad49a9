"""`channels.<name>`: how much of a direct chat's history is sent to the model. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import Field

from nacre.runtime.settings.section import SettingsSection

S = TypeVar("S", bound=SettingsSection)


class PeerSettings(SettingsSection):
    """`channels.<name>.dms.<sender>`: what holds for one person's direct chat."""

    history_limit: int | None = None
    """How many of the newest turns are sent; 0 is all, unset is what holds for the channel."""


class ChannelSettings(SettingsSection):
    """`channels.<name>`: what holds on one channel."""

    dm_history_limit: int | None = None
    """How many of the newest turns of a direct chat are sent; unset and 0 are all."""
    dms: Mapping[str, PeerSettings] = Field(default_factory=dict)


def history_turns(
    key: str, *, channel: str, sender_id: str, channels: Mapping[str, ChannelSettings]
) -> int | None:
    """How many turns of a session are sent; `None` is all.

    Only direct chats with a session of their own have a limit, in their threads too; the main session
    and groups do not. Names of channels and senders are compared without case.
    """
    if not {"dm", "direct"} & set(key.split(":")[2:]):
        return None
    here = _named(channels, channel)
    peer = _named(here.dms, sender_id) if here is not None else None
    if peer is not None and peer.history_limit is not None:
        return peer.history_limit
    return here.dm_history_limit if here is not None else None


def _named(sections: Mapping[str, S], name: str) -> S | None:
    wanted = name.strip().lower()
    return next((section for known, section in sections.items() if known.strip().lower() == wanted), None)
