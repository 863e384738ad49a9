"""`channels`, `bindings`, `messages`: what holds in the chats of others, who answers, what waits; and what is
said there without being asked. Pure."""

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
from nacre.sessions.contracts.keys import folded_id

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
    """Where a message comes from: an `Inbound`, or the origin of a session."""

    @property
    def channel(self) -> str:
        """The name of the channel."""

    @property
    def account(self) -> str:
        """The account of the assistant there."""

    @property
    def chat_kind(self) -> str:
        """`direct`, `group` or `channel`."""

    @property
    def chat_id(self) -> str:
        """The chat's id."""

    @property
    def sender_id(self) -> str:
        """The person's id."""


class PeerMatch(SettingsSection):
    """`bindings[].match.peer`: one chat."""

    kind: str = ""
    """`direct` (also `dm`), `group` or `channel`; blank is each. Without `peer` all chats of the account are
    meant."""
    id: str
    """A person's id in a direct chat, else the chat's; `*` is every one."""


class BindingMatch(SettingsSection):
    """`bindings[].match`: which messages are meant."""

    channel: str
    """Name of the channel."""
    account_id: str = "default"
    """Name of the account; `*` is every account."""
    peer: PeerMatch | None = None
    """One chat; unset is all chats of the account."""

    def rank(self, place: ChatPlace, *, ids_fold_case: bool = False) -> int:
        """How exactly it says what is meant; 0 where it means another chat.

        One that names a chat comes before one that names an account, that before one of every account.
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
    """`bindings[]`: which agent answers what. A chat counts before an account, that before a channel."""

    agent_id: str
    """Which agent of `agents.list` answers; [serving](serve.md#which-agent-answers) says which of several
    bindings counts."""
    match: BindingMatch
    compaction_summaries: bool | None = None
    """Whether summaries of compactions are kept as notes in these chats; unset leaves it to
    `memory.facts.compactionSummaries`."""


class PeerSettings(SettingsSection):
    """`channels.<name>.dms.<sender>`: what holds for one person's direct chat."""

    history_limit: int | None = None
    """As `dmHistoryLimit`, for one person, by their id on the channel, letter by letter unless the channel
    takes `Anna` and `anna` for one; 0 is all, unset is what holds for the channel."""


class GroupSettings(SettingsSection):
    """`channels.<name>.groups.<id>`: what holds in one group; the id `*` is every other one."""

    require_mention: bool = True
    """In the group of this id, `*` for every other: whether only messages that speak to the assistant are
    answered."""


class CommandsSettings(SettingsSection):
    """`commands`."""

    owner_allow_from: tuple[str, ...] = ()
    """Who the owner is on the channels of others, each as `channel:id`, such as `telegram:12345`. An id
    without its channel names nobody."""


class AccountRules(SettingsSection):
    """`channels.<name>.accounts.<account>`: what holds for one account of a channel.

    The keys that the channel's own settings have, such as its server, stand beside these.
    """

    others_keys = True

    enabled: bool = True
    """Whether `nacre serve` answers there. A channel has keys of its own beside these, such as its server:
    [bridges](bridges.md#a-channel-in-the-settings)."""
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = "pairing"
    """Who may write in private: `pairing` lets people ask for a code that the owner approves with `nacre
    pairing`, `allowlist` takes those in `allowFrom` and who was let in, `open` everybody, `disabled` nobody
    but the owner."""
    allow_from: tuple[str, ...] = ()
    """Ids of people who may write in private; `*` is everybody."""
    group_policy: Literal["allowlist", "open", "disabled"] = "allowlist"
    """In which groups messages are answered: those in `groups`, with `open` all, with `disabled` none."""
    group_allow_from: tuple[str, ...] = ()
    """Ids of people whose messages in groups are answered, beside the owner; none is everybody."""
    groups: Mapping[str, GroupSettings] = Field(default_factory=dict)

    dm_history_limit: int | None = None
    """How many of the newest turns of a direct chat are sent to the model; unset and 0 are all. It counts for
    direct chats that have a session of their own. The transcript keeps everything, and a summary in front
    stays."""
    dms: Mapping[str, PeerSettings] = Field(default_factory=dict)


class ChannelSettings(AccountRules):
    """`channels.<name>`: what holds on one channel, for each of its accounts unless that says otherwise."""

    accounts: Mapping[str, AccountRules] = Field(default_factory=dict)
    """Several accounts of one channel, by name; none is one account, named `default`. What stands in an
    account lies over what stands in the channel, key by key: all keys of `channels.<name>` can stand
    there."""


class InboundSettings(SettingsSection):
    """`messages.inbound`: messages that come together while nothing runs."""

    debounce_ms: Annotated[int, Field(ge=0)] = 250
    """How long a session that is idle waits for a further message before it answers; not in `followup` and
    `interrupt`, and never for a command."""


class QueueSettings(SettingsSection):
    """`messages.queue`: what becomes of messages that arrive while a turn of their session runs."""

    mode: AnyQueueMode = "collect"
    """`collect`: one turn answers all of them. `followup`: each gets its own, in order. `interrupt`: the
    running turn is stopped. `steer` (also `queue`): they go into the running turn behind its tools, and wait
    as in `collect` where it calls none. `steer-backlog`: they do, and are answered behind it as well."""
    by_channel: Mapping[str, AnyQueueMode] = Field(default_factory=dict)
    """Another mode for a channel, by its name."""
    debounce_ms: Annotated[int, Field(ge=0)] = 1_000
    """How long no further message may have come before those that wait are answered."""
    cap: Annotated[int, Field(ge=1)] = 20
    """Most messages that wait in one session."""
    drop: DropPolicy = "summarize"
    """What becomes of more: `summarize` shows the oldest in a line each, `old` leaves them out, `new` refuses
    what comes."""


class MessagesSettings(SettingsSection):
    """`messages`: how messages of chats wait and are answered."""

    queue: QueueSettings = Field(default_factory=QueueSettings.unwritten)
    inbound: InboundSettings = Field(default_factory=InboundSettings.unwritten)


class ActiveHours(SettingsSection):
    """`agents.defaults.heartbeat.activeHours`: when there are heartbeats, by the clock of the owner's zone.

    An end before the start is one of the next day; two equal times are the whole day.
    """

    start: Annotated[str, Field(pattern=_TIME), Written("time of day")] = "00:00"
    """From when on there are heartbeats, by the clock of the owner's zone. An end before the start is one of
    the next day; two equal times are the whole day."""
    end: Annotated[str, Field(pattern=_TIME), Written("time of day")] = "24:00"
    """Until when, as `start`."""


class HeartbeatSettings(SettingsSection):
    """`agents.defaults.heartbeat`: the assistant looks around by itself, as HEARTBEAT.md says."""

    every: Annotated[str, BeforeValidator(as_duration), DURATION] = "30m"
    """How often the assistant looks around by itself, see [serving](serve.md#heartbeats): `"30m"`, `"1h"`; a
    bare number is minutes, 0 is never."""
    active_hours: ActiveHours = Field(default_factory=ActiveHours.unwritten)
    target: str = "last"
    """Where you are told: `last` is where you last wrote in private, the name of a channel where you last did
    there; `none` is no heartbeat."""
    ack_max_chars: Annotated[int, count_or(300)] = 300
    """So much beside `HEARTBEAT_OK` is not worth saying."""

    @property
    def every_seconds(self) -> float:
        """How often; 0 is never."""
        return 0.0 if self.target.strip().lower() == "none" else duration_seconds(self.every)


def queue_mode(settings: QueueSettings, channel: str) -> QueueMode:
    """The mode of a channel; its name is compared without case."""
    wanted = channel.strip().lower()
    named = (mode for name, mode in settings.by_channel.items() if name.strip().lower() == wanted)
    return next(named, settings.mode)


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


def channel_settings(channels: Mapping[str, ChannelSettings], name: str, account: str = "") -> AccountRules:
    """What holds on a channel, for one of its accounts; a channel's name is compared without case."""
    wanted = name.strip().lower()
    found = (section for known, section in channels.items() if known.strip().lower() == wanted)
    section = next(found, None) or ChannelSettings.model_construct()
    own = section.accounts.get(account)
    return section if own is None else laid_over(section, own)


def laid_over(section: ChannelSettings, own: AccountRules) -> AccountRules:
    """A channel's rules and own keys, with those of one account over them, key by key."""
    shared = {name: getattr(section, name) for name in AccountRules.model_fields}
    written = {name: getattr(own, name) for name in own.model_fields_set}
    extra = {**(section.model_extra or {}), **(own.model_extra or {})}
    return AccountRules.model_construct(None, **{**extra, **shared, **written})
