"""`channels.<name>`: how much of a direct chat's history is sent to the model. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from nacre.runtime.settings.section import SettingsSection
from nacre.sessions.contracts.keys import folded_id


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
    key: str,
    *,
    channel: str,
    sender_id: str,
    channels: Mapping[str, ChannelSettings],
    ids_fold_case: bool = False,
) -> int | None:
    """How many turns of a session are sent; `None` is all.

    Only direct chats with a session of their own have a limit, in their threads too; the main session
    and groups do not. Names of channels are compared without case; ids of senders are exact, unless the
    channel takes `Anna` and `anna` for one, which `ids_fold_case` says.
    """
    if not {"dm", "direct"} & set(key.split(":")[2:]):
        return None
    wanted = channel.strip().lower()
    here = next((section for name, section in channels.items() if name.strip().lower() == wanted), None)
    if here is None:
        return None
    same = folded_id if ids_fold_case else str
    limits = (peer.history_limit for known, peer in here.dms.items() if same(known) == same(sender_id))
    return next((limit for limit in limits if limit is not None), here.dm_history_limit)
