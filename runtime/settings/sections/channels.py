"""`channels`, `bindings`, `messages`, `commands` and heartbeats: who may write, which agent answers, and how
messages wait."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from pydantic import BeforeValidator, Field

from nacre.runtime.settings.sections.section import (
    DURATION,
    SettingsSection,
    Written,
    as_duration,
    count_or,
    duration_seconds,
)

QueueMode: TypeAlias = Literal["collect", "followup", "steer", "steer-backlog", "interrupt"]
QUEUE_MODES: tuple[QueueMode, ...] = ("collect", "followup", "steer", "steer-backlog", "interrupt")
DropPolicy: TypeAlias = Literal["summarize", "old", "new"]
ANY = "*"
_DIRECT = ("direct", "dm")
_TIME = r"^([01]?\d|2[0-3]):[0-5]\d$|^24:00$"


def _queue_mode(value: Any) -> Any:
    """A mode in any case; OpenClaw's `queue` is `steer`."""
    mode = value.strip().lower() if isinstance(value, str) else value
    return "steer" if mode == "queue" else mode


AnyQueueMode: TypeAlias = Annotated[QueueMode, BeforeValidator(_queue_mode)]


class ChatPlace(Protocol):
    """The origin of a message: an `Inbound`, or the origin of a session."""

    @property
    def channel(self) -> str:
        """The name of the channel."""

    @property
    def account(self) -> str:
        """The assistant's account on the channel."""

    @property
    def chat_kind(self) -> str:
        """`direct`, `group` or `channel`."""

    @property
    def chat_id(self) -> str:
        """The chat's id."""

    @property
    def sender_id(self) -> str:
        """The id of the sender."""


class PeerMatch(SettingsSection):
    """`bindings[].match.peer`: one chat."""

    kind: str = ""
    """`direct` (also `dm`), `group` or `channel`. Default: all three."""
    id: str
    """The id of the sender in a direct chat, otherwise of the chat; `*` matches all."""


class BindingMatch(SettingsSection):
    """`bindings[].match`: the messages that a binding applies to."""

    channel: str
    """The name of the channel."""
    account_id: str = "default"
    """The name of the account; `*` matches every account."""
    peer: PeerMatch | None = None
    """One chat. Default: all chats of the account."""

    def rank(self, place: ChatPlace, *, ids_fold_case: bool = False) -> int:
        """How specific the match is; 0 if it does not match.

        A match by chat ranks above one by account, and that above one for every account.
        """
        if self.channel.strip().lower() != place.channel.strip().lower():
            return 0
        if self.account_id not in (ANY, place.account):
            return 0
        rank = 1 if self.account_id == ANY else 2
        if self.peer is None:
            return rank
        kind, is_direct = self.peer.kind.strip().lower(), place.chat_kind == "direct"
        if kind and (kind in _DIRECT) != is_direct:
            return 0
        if not is_direct and kind not in ("", place.chat_kind):
            return 0
        ids: tuple[str, ...] = (place.sender_id, place.chat_id) if is_direct else (place.chat_id,)
        wanted = self.peer.id
        if ids_fold_case:
            ids, wanted = tuple(each.casefold() for each in ids), wanted.casefold()
        if wanted == ANY:
            return rank + 2
        return rank + 4 if wanted in ids else 0


class Binding(SettingsSection):
    """`bindings[]`: which agent answers. A chat takes precedence over an account, an account over a
    channel."""

    agent_id: str
    """The agent of `agents.list` that answers; for several matching bindings see
    [serving](serve.md#choose-which-agent-answers)."""
    match: BindingMatch
    compaction_summaries: bool | None = None
    """Whether compaction summaries of these chats are stored as notes. Default:
    `memory.facts.compactionSummaries`."""


class PeerSettings(SettingsSection):
    """`channels.<name>.dms.<sender>`: the settings of one person's direct chat."""

    history_limit: int | None = None
    """`dmHistoryLimit` for one person, by their id on the channel, which is case-sensitive unless the channel
    ignores case. 0 means all. Default: that of the channel."""


class GroupSettings(SettingsSection):
    """`channels.<name>.groups.<id>`: the settings of one group; the id `*` stands for all others."""

    require_mention: bool = True
    """Whether only messages that mention the assistant are answered in this group. The name `*` stands for
    all other groups."""


class CommandsSettings(SettingsSection):
    """`commands`: who the owner is."""

    owner_allow_from: tuple[str, ...] = ()
    """The owner's ids on channels, each as `channel:id`, such as `telegram:12345`. An id without a channel is
    ignored."""


class AccountRules(SettingsSection):
    """`channels.<name>.accounts.<account>`: the settings of one account.

    Keys of the channel itself, such as its server, are written beside these.
    """

    others_keys = True

    enabled: bool = True
    """Whether `nacre serve` answers there. Each channel has further keys, such as its server; see
    [bridges](bridges.md#configure-a-channel)."""
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = "pairing"
    """Who may write in direct chats. `pairing`: people get a code that the owner approves with `nacre admin
    access`. `allowlist`: those in `allowFrom` and those already approved. `open`: everybody. `disabled`: the
    owner only."""
    allow_from: tuple[str, ...] = ()
    """The ids of people who may write in direct chats; `*` means everybody."""
    group_policy: Literal["allowlist", "open", "disabled"] = "allowlist"
    """The groups in which messages are answered: `allowlist` (those in `groups`), `open` (all),
    `disabled`."""
    group_allow_from: tuple[str, ...] = ()
    """The ids of people who are answered in groups, besides the owner. Default: everybody."""
    groups: Mapping[str, GroupSettings] = Field(default_factory=dict)

    dm_history_limit: int | None = None
    """The number of newest turns of a direct chat that are sent to the model; 0 and unset mean all. It
    applies to direct chats with their own session. The transcript keeps all turns, and a summary is always
    sent."""
    dms: Mapping[str, PeerSettings] = Field(default_factory=dict)


class ChannelSettings(AccountRules):
    """`channels.<name>`: the settings of one channel, and the defaults of its accounts."""

    accounts: Mapping[str, AccountRules] = Field(default_factory=dict)
    """The accounts of one channel, by name. Default: one account named `default`. An account may have all
    keys of `channels.<name>`, and overrides them key by key."""


class InboundSettings(SettingsSection):
    """`messages.inbound`: messages that arrive together while no turn runs."""

    debounce_ms: Annotated[int, Field(ge=0)] = 250
    """How long an idle session waits for further messages before it answers. Commands, and the modes
    `followup` and `interrupt`, do not wait."""


class QueueSettings(SettingsSection):
    """`messages.queue`: what happens to messages that arrive while a turn of their session runs."""

    mode: AnyQueueMode = "collect"
    """`collect`: one turn answers all of them. `followup`: one turn each, in order. `interrupt`: the running
    turn is stopped. `steer` (also `queue`): they join the running turn after its next tool call, or wait as
    in `collect` if there is none. `steer-backlog`: they join, and are also answered afterwards."""
    by_channel: Mapping[str, AnyQueueMode] = Field(default_factory=dict)
    """The mode of a channel, by its name."""
    debounce_ms: Annotated[int, Field(ge=0)] = 1_000
    """How long to wait after the last message before the waiting ones are answered."""
    cap: Annotated[int, Field(ge=1)] = 20
    """The maximum number of messages waiting in one session."""
    drop: DropPolicy = "summarize"
    """What happens to more messages: `summarize` shortens the oldest to a line each, `old` drops the oldest,
    `new` refuses new ones."""


class MessagesSettings(SettingsSection):
    """`messages`: how chat messages wait and are answered."""

    queue: QueueSettings = Field(default_factory=QueueSettings.unwritten)
    inbound: InboundSettings = Field(default_factory=InboundSettings.unwritten)


class ActiveHours(SettingsSection):
    """`agents.defaults.heartbeat.activeHours`: the hours of heartbeats, in the owner's time zone.

    An end before the start is on the next day; two equal times mean the whole day.
    """

    start: Annotated[str, Field(pattern=_TIME), Written("time of day")] = "00:00"
    """The time of the first heartbeat of a day, in the owner's time zone."""
    end: Annotated[str, Field(pattern=_TIME), Written("time of day")] = "24:00"
    """The time of the last heartbeat. An end before the start is on the next day; equal times mean all
    day."""


class HeartbeatSettings(SettingsSection):
    """`agents.defaults.heartbeat`: turns without a message, which follow HEARTBEAT.md."""

    every: Annotated[str, BeforeValidator(as_duration), DURATION] = "30m"
    """The interval of [heartbeats](serve.md#heartbeats): `"30m"`, `"1h"`. A plain number is minutes; 0 means
    never."""
    active_hours: ActiveHours = Field(default_factory=ActiveHours.unwritten)
    target: str = "last"
    """Where a heartbeat answers: `last` (the direct chat in which you last wrote), the name of a channel
    (your last direct chat there), or `none` (no heartbeats)."""
    ack_max_chars: Annotated[int, count_or(300)] = 300
    """The maximum length of text beside `HEARTBEAT_OK` that is still not delivered."""

    @property
    def every_seconds(self) -> float:
        """The interval in seconds; 0 means never."""
        return 0.0 if self.target.strip().lower() == "none" else duration_seconds(self.every)


def queue_mode(settings: QueueSettings, channel: str) -> QueueMode:
    """The queue mode of a channel, whose name is case-insensitive."""
    wanted = channel.strip().lower()
    named = (mode for name, mode in settings.by_channel.items() if name.strip().lower() == wanted)
    return next(named, settings.mode)


def channel_settings(channels: Mapping[str, ChannelSettings], name: str, account: str = "") -> AccountRules:
    """The settings of one account of a channel, whose name is case-insensitive."""
    wanted = name.strip().lower()
    found = (section for known, section in channels.items() if known.strip().lower() == wanted)
    section = next(found, None) or ChannelSettings.model_construct()
    own = section.accounts.get(account)
    return section if own is None else laid_over(section, own)


def laid_over(section: ChannelSettings, own: AccountRules) -> AccountRules:
    """The settings of a channel, overridden key by key by those of an account."""
    shared = {name: getattr(section, name) for name in AccountRules.model_fields}
    written = {name: getattr(own, name) for name in own.model_fields_set}
    extra = {**(section.model_extra or {}), **(own.model_extra or {})}
    return AccountRules.model_construct(None, **{**extra, **shared, **written})
