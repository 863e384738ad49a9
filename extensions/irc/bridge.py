"""`IrcBridge`: the assistant on an IRC network.

Most IRC servers keep nothing, so the bridge offers a message again until the ledger has it. A server or
bouncer with a history is asked for everything since the cursor, which is the time of the last message. A PING
follows each part; its answer says that the server has processed the lines before it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from ircstates import Server
from irctokens import Line

from nacre.bridges.channels.messages import FIRST_LOOK_BACK, Ignored, strip_mention
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import NotDelivered
from nacre.closing import stop_tasks
from nacre.extensions.irc.client import IrcClient, Pacer, may_free_nick, register
from nacre.extensions.irc.settings import IrcSettings
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, NewId, random_id
from nacre.runtime.contracts.inbound import Inbound

log = logging.getLogger(__name__)

CHANNEL = "irc"
LINE_BYTES = 320
"""A line has 512 bytes. The server may use 190 of them for the sender's mask, the target and separators."""
_FORMATS = re.compile("\x03(?:\\d{1,2}(?:,\\d{1,2})?)?|\x04[0-9A-Fa-f]{0,6}|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_CONTROLS = re.compile("[\0\r]")


class IrcMessage(Record):
    """A message, the nick of its sender, and its time if the server sends it."""

    inbound: Inbound
    nick: str
    at: datetime | None = None


def read_message(
    line: Line, server: Server, account: str, *, knows_accounts: bool, own_nick: str = ""
) -> IrcMessage:
    """The message in a PRIVMSG. `own_nick` is as in `is_own`, for lines of the history.

    The message's id is empty if the server sends neither an id nor a time.

    Raises:
        Ignored: it is not a message to answer.
    """
    if line.source is None or len(line.params) != 2:
        raise Ignored("it has no sender or no text")
    if not (line.hostmask.nickname and line.hostmask.username and line.hostmask.hostname):
        raise Ignored("it comes from a server")
    if line.hostmask.nickname.startswith("*"):
        raise Ignored("it comes from a bouncer")
    if is_own(line.hostmask.nickname, server, own_nick):
        raise Ignored("it is the assistant's own")
    tags = line.tags or {}
    if "bot" in tags:
        raise Ignored("a bot wrote it")
    target, text = line.params
    text = _plain(text)
    if not text.strip():
        raise Ignored("it has no readable content")
    is_private = is_own(target, server, own_nick)
    if not (is_private or server.is_channel(target)):
        raise Ignored(f"it was sent to {target!r}, which is neither the assistant nor a channel")
    # The server decides which characters are the same letter. Folding keeps the length.
    bare, is_mentioned = strip_mention(server.casefold(text), server.nickname_lower)
    sender_id = verified_sender(line, server, knows_accounts=knows_accounts)
    room = "" if is_private else server.casefold(target)
    inbound = Inbound(
        text=text[len(text) - len(bare) :],
        chat_kind="direct" if is_private else "group",
        channel=CHANNEL,
        account=account,
        chat_id=room or sender_id,
        sender_id=sender_id,
        sender_name=line.hostmask.nickname,
        message_id=message_id(line, server),
        chat_name=room,
        # IRC folds the case of ASCII letters only.
        ids_fold_case=sender_id.isascii(),
        is_mentioned=is_mentioned,
    )
    return IrcMessage(inbound=inbound, nick=line.hostmask.nickname, at=parse_time(tags.get("time", "")))


def is_own(nick: str, server: Server, own_nick: str) -> bool:
    """Whether a nick is the assistant's. In the history `_` may have been appended to `own_nick`."""
    bare = server.casefold(own_nick).rstrip("_")
    return bool(server.is_me(nick) or (bare and server.casefold(nick).rstrip("_") == bare))


def message_id(line: Line, server: Server) -> str:
    """The id of a message, the same when the history repeats it; empty if the server sends no time."""
    tags = line.tags or {}
    at = parse_time(tags.get("time", ""))
    if tags.get("msgid") or at is None:
        return str(tags.get("msgid", ""))
    names = (server.casefold(word) for word in (line.source or "", *line.params[:1]))
    content = "\0".join((format_time(at), *names, *line.params[1:]))
    return f"~{hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:32]}"


def parse_time(text: str) -> datetime | None:
    """The time in a `time` tag, or `None` if it is invalid."""
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def format_time(at: datetime) -> str:
    """A time in the format of the `time` tag: UTC with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def verified_sender(line: Line, server: Server, *, knows_accounts: bool) -> str:
    """The sender of a line: the account if the server sends accounts, else `nick!user@host`.

    Nobody can imitate an account: its name contains no `!`.
    """
    account = (line.tags or {}).get("account", "") if knows_accounts else ""
    if account and account != "*" and "!" not in account:
        return str(server.casefold(account))
    return mask(server, line.hostmask.nickname, line.hostmask.username or "", line.hostmask.hostname or "")


def mask(server: Server, nick: str, user: str, host: str) -> str:
    """`nick!user@host`, with letters folded as the server compares them."""
    return f"{server.casefold(nick)}!{user}@{host.lower()}"


def message_lines(text: str) -> tuple[str, ...]:
    """A text as lines of at most `LINE_BYTES` bytes, none of them empty."""
    pieces: list[str] = []
    for line in _CONTROLS.sub("", text).split("\n"):
        raw = line.rstrip().encode("utf-8", "replace")
        while len(raw) > LINE_BYTES:
            end = LINE_BYTES
            while raw[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
            pieces.append(raw[:end].decode())
            raw = raw[end:]
        if raw:
            pieces.append(raw.decode())
    return tuple(pieces)


def _plain(text: str) -> str:
    """The text without color codes. `/me waves` becomes `*waves*`; other CTCP requests become empty."""
    if text.startswith("\x01"):
        words = text.strip("\x01")
        text = f"*{words.removeprefix('ACTION ')}*" if words.startswith("ACTION ") else ""
    return _FORMATS.sub("", text)


MAX_AGE = timedelta(days=7)
"""The history is read no further back than this."""
CLOCK_SKEW = timedelta(seconds=10)
"""The clocks of a network's servers may differ by this much."""
MAX_MISSED = 500
"""How many missed messages of one chat are taken, the oldest first."""
MAX_CHATS = 100
PAGE = 100
_BATCHES = ("chathistory", "draft/chathistory-targets", "znc.in/playback")
_NO_HISTORY = "this IRC server keeps no history: messages are lost while the assistant is disconnected"
_BUFFERS_ONLY = (
    "this ZNC plays back only its buffers: messages that arrive just before a kill are lost. "
    "Load its module playback"
)
_TEMPORARY = ("MESSAGE_ERROR", "TEMPORARILY_UNAVAILABLE")


class History:
    """The history of one connection. `ask` sends a request and returns when its answer is complete."""

    def __init__(
        self, client: IrcClient, ask: Callable[[str, Sequence[str]], Awaitable[None]], nick: str
    ) -> None:
        self.is_whole = True
        """Whether everything was read. If not, the next connection reads the same range again."""
        self._client = client
        self._ask = ask
        self._nick = nick
        self._batches: set[str] = set()
        self._page: list[Line] = []

    def keeps(self, line: Line) -> bool:
        """Whether a line belongs to an answer. Such a line is kept for the request."""
        if line.command == "BATCH" and len(line.params) > 1 and line.params[1] in _BATCHES:
            self._batches.add(line.params[0].removeprefix("+"))
        elif (line.tags or {}).get("batch") in self._batches:
            self._page.append(line)
        else:
            return False
        return True

    def ends(self, line: Line) -> bool:
        """Whether a line completes an answer to CHATHISTORY or refuses it."""
        if line.command == "FAIL" and line.params[:1] == ["CHATHISTORY"]:
            if line.params[1:2] != ["INVALID_TARGET"]:
                log.warning("the IRC server refuses its history: %s", " ".join(line.params[1:]))
            self.is_whole = self.is_whole and line.params[1:2] not in [[code] for code in _TEMPORARY]
            return True
        name = line.params[0] if line.command == "BATCH" and line.params else ""
        if name[:1] == "-" and name[1:] in self._batches:
            self._batches.discard(name[1:])
            return "draft/chathistory" in self._client.server.agreed_caps
        return False

    async def missed(self, cursor: str, now: datetime) -> list[Line]:
        """The messages since the cursor, the oldest first.

        Without a cursor, messages that an earlier assistant has answered are left out.

        Raises:
            OSError: the connection broke, or no answer came.
            ValueError: the server sends malformed limits.
        """
        agreed, last = self._client.server.agreed_caps, parse_time(cursor)
        since = max(last or now - FIRST_LOOK_BACK, now - MAX_AGE) - CLOCK_SKEW
        found: list[Line] = []
        if "znc.in/playback" in agreed:
            self._page.clear()
            await self._ask("PRIVMSG", ["*playback", f"PLAY * {since.timestamp():.3f}"])
            found = list(self._page)
        elif "draft/chathistory" in agreed:
            for chat in await self._chats(since, now):
                found += await self._of_chat(chat, since)
        else:
            log.warning(
                _BUFFERS_ONLY if "znc.in/batch" in self._client.server.available_caps else _NO_HISTORY
            )
            self.is_whole = False
        timed = [(at, line) for line in found if (at := parse_time((line.tags or {}).get("time", "")))]
        lines = [line for _, line in sorted(timed, key=lambda each: each[0]) if len(line.params) == 2]
        return lines if last else self._unanswered(lines)

    async def _chats(self, since: datetime, now: datetime) -> list[str]:
        times = [f"timestamp={format_time(each)}" for each in (since, now + CLOCK_SKEW)]
        lines = await self._request("TARGETS", *times, str(MAX_CHATS))
        server = self._client.server
        names = [line.params[1] for line in lines if line.command == "CHATHISTORY" and len(line.params) > 2]
        return [*server.channels, *(name for name in names[:MAX_CHATS] if not server.is_channel(name))]

    async def _of_chat(self, chat: str, since: datetime) -> list[Line]:
        limit = self._client.server.isupport.raw.get("CHATHISTORY") or ""
        limit = str(min(int(limit), PAGE)) if limit.isdecimal() and int(limit) else str(PAGE)
        found: dict[str, Line] = {}
        while len(found) < MAX_MISSED:
            known = len(found)
            # A page may end between two messages of the same millisecond, so each page repeats the last one.
            at = f"timestamp={format_time(since - timedelta(milliseconds=1))}"
            for line in await self._request("AFTER", chat, at, limit):
                if line.source is not None and "draft/chathistory-context" not in (line.tags or {}):
                    found[message_id(line, self._client.server)] = line
                    since = max(since, parse_time((line.tags or {}).get("time", "")) or since)
            if len(found) == known:
                return list(found.values())
        log.warning(
            "more was missed in %s than is read: only the first %d messages are taken", chat, MAX_MISSED
        )
        return list(found.values())[:MAX_MISSED]

    async def _request(self, *params: str) -> list[Line]:
        self._page.clear()
        await self._ask("CHATHISTORY", params)
        return list(self._page)

    def _unanswered(self, lines: Sequence[Line]) -> list[Line]:
        server, answered, kept = self._client.server, set(), []
        for line in reversed(lines):
            nick = line.hostmask.nickname if line.source is not None else ""
            own = is_own(nick, server, self._nick)
            chat = server.casefold(line.params[0] if own or server.is_channel(line.params[0]) else nick)
            if own:
                answered.add(chat)
            elif chat not in answered:
                kept.append(line)
        return kept[::-1]


ANSWER_SECONDS = 60.0
ABSENT_SECONDS = 60.0
"""The delay before the next delivery to somebody who is not there."""
REFUSED_SECONDS = 1.0
"""The delay before a message is offered to the inbox again."""
MAX_WAITING = 1_000
# Numeric replies that say that a message did not arrive. Their second parameter is its target.
_REFUSALS = ("401", "403", "404", "405", "442", "477", "486", "531", "716")
# Networks refuse a channel with these, some for people without an account or without TLS.
_JOIN_REFUSALS = ("403", "405", "437", "471", "473", "474", "475", "476", "477", "489", "520")


class IrcBridge(Bridge):
    """One account on one network."""

    channel = CHANNEL
    capabilities = Capabilities(greatest_length=320, length_unit="bytes", has_typing=True)

    def __init__(
        self, settings: IrcSettings, *, now: Clock, account: str = "default", new_id: NewId = random_id
    ) -> None:
        self.account = account
        self._settings = settings
        self._now = now
        self._new_id = new_id
        self._client: IrcClient | None = None
        self._has_history = asyncio.Event()
        self._has_history.set()
        self._sending = asyncio.Lock()
        self._pacer = Pacer(settings.lines_per_second)
        self._nicks: dict[str, str] = {}
        self._answers: dict[str, asyncio.Future[None]] = {}
        self._target = ""
        self._refused: list[str] = []
        self._whois: dict[str, str] = {}

    async def start(self, inbox: Inbox) -> None:
        client = await IrcClient.open(self._settings)
        messages: asyncio.Queue[IrcMessage | None] = asyncio.Queue()
        history = History(client, partial(self._ask_history, client), self._settings.nick)
        joined = asyncio.Event()
        self._has_history.clear()
        forwarding = asyncio.create_task(self._forward(inbox, messages, history, joined))
        try:
            await self._listen(client, inbox, messages, history, joined)
        finally:
            joined.set()
            self._has_history.set()
            self._client = None
            await client.close()
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection broke before the answer came"))
            messages.put_nowait(None)
            # The server does not repeat what has arrived, so it is forwarded first.
            await asyncio.wait({forwarding}, timeout=ANSWER_SECONDS)
            await stop_tasks(forwarding)
        if not self.stopping.is_set():
            raise ConnectionError(f"{self._settings.host} closed the connection")

    async def stop(self) -> None:
        self.stopping.set()
        if self._client is not None:
            await self._client.close()

    async def deliver(self, part: Part) -> str:
        """Sends a part line by line. Returns an empty id, because IRC has none."""
        async with self._sending:
            # In the history, a reply that is sent before would hide the messages in front of it.
            await self._has_history.wait()
            client, chat_id = self._connected(), part.place.chat_id
            target = chat_id
            if not client.server.is_channel(chat_id):
                target = await self._nick_of(client, chat_id)
            lines = message_lines(part.text)
            self._target, self._refused = target, []
            for line in lines:
                await asyncio.sleep(self._pacer.wait_seconds(asyncio.get_running_loop().time()))
                await client.send("PRIVMSG", [target, line])
            await self._ping(client)
            if len(self._refused) == len(lines):
                raise NotDelivered(f"{target}: {self._refused[0]}", retry_after_seconds=ABSENT_SECONDS)
            if self._refused:
                raise OSError(f"{target} took only some of the lines: {self._refused[0]}")
        return ""

    async def typing(self, place: Place) -> None:
        """Shows the typing indicator if the network has one."""
        client = self._connected()
        target = self._nicks.get(place.chat_id, place.chat_id.partition("!")[0])
        if "message-tags" in client.server.agreed_caps:
            await client.send("TAGMSG", [target], tags={"+typing": "active"})

    def _connected(self) -> IrcClient:
        if self._client is None or not self._client.is_open:
            raise NotDelivered(f"there is no connection to {self._settings.host}")
        return self._client

    async def _listen(
        self,
        client: IrcClient,
        inbox: Inbox,
        messages: asyncio.Queue[IrcMessage | None],
        history: History,
        joined: asyncio.Event,
    ) -> None:
        lines = client.lines()
        await register(client, self._settings, lines)
        if not client.server.casefold_equals(client.server.nickname, self._settings.nick):
            await client.send("NICK", [self._settings.nick])
        for name in self._settings.join:
            await client.send("JOIN", [name])
        await client.send("PING", [token := self._new_id()])
        async for line in lines:
            if self.stopping.is_set():
                return
            if may_free_nick(line, client.server, self._settings.nick):
                await client.send("NICK", [self._settings.nick])
            if line.command == "PONG" and line.params[-1:] == [token]:
                self._client = client
                inbox.connected()
                joined.set()
            elif history.ends(line):
                self._resolve("CHATHISTORY")
            elif not history.keeps(line):
                self._handle(line, client, messages)

    def _handle(self, line: Line, client: IrcClient, messages: asyncio.Queue[IrcMessage | None]) -> None:
        if line.command == "PRIVMSG":
            if (message := self._read(line, client)) is None:
                return
            if messages.qsize() >= MAX_WAITING:
                log.warning("an IRC message was dropped because %d are already waiting", MAX_WAITING)
            else:
                messages.put_nowait(message)
        elif line.command in ("PONG", "318") and line.params:
            self._resolve(line.params[-1] if line.command == "PONG" else f"whois {line.params[1]}")
        elif line.command == "311" and len(line.params) > 3:
            self._whois = {"mask": mask(client.server, *line.params[1:4])}
        elif line.command == "330" and len(line.params) > 2:
            self._whois["account"] = client.server.casefold(line.params[2])
        elif line.command in (*_REFUSALS, *_JOIN_REFUSALS):
            if client.server.casefold_equals(self._target, "".join(line.params[1:2])):
                self._refused.append(line.params[-1])
            is_channel = len(line.params) > 2 and client.server.is_channel(line.params[1])
            if line.command in _JOIN_REFUSALS and is_channel:
                self.refused[line.params[1]] = line.params[-1]
            log.warning("the IRC server says: %s", " ".join(line.params[1:]))

        elif line.command == "KICK" and client.server.casefold_equals(
            "".join(line.params[1:2]), client.server.nickname
        ):
            who = line.hostmask.nickname if line.source is not None else "the server"
            self.refused[line.params[0]] = f"{who} removed the assistant"
            log.warning("%s removed the assistant from %s", who, line.params[0])

    def _read(self, line: Line, client: IrcClient, *, own_nick: str = "") -> IrcMessage | None:
        knows_accounts = "account-tag" in client.server.agreed_caps
        try:
            return read_message(
                line, client.server, self.account, knows_accounts=knows_accounts, own_nick=own_nick
            )
        except Ignored as why:
            log.info("an IRC message was ignored: %s", why)
            return None

    async def _forward(
        self,
        inbox: Inbox,
        messages: asyncio.Queue[IrcMessage | None],
        history: History,
        joined: asyncio.Event,
    ) -> None:
        """Forwards missed messages, then new ones. The cursor stays until all missed ones are read."""
        await joined.wait()
        await self._catch_up(inbox, history)
        while (message := await messages.get()) is not None:
            cursor = ""
            if history.is_whole and message.at is not None:
                # One server's fast clock must not hide what other people say.
                at = min(message.at, self._now())
                cursor = format_time(max(at, parse_time(inbox.cursor) or at))
            await self._offer(inbox, message, cursor=cursor)

    async def _catch_up(self, inbox: Inbox, history: History) -> None:
        if (client := self._client) is None:
            return
        try:
            missed = await history.missed(inbox.cursor, self._now())
        except (OSError, ValueError) as error:
            history.is_whole = False
            log.warning("missed IRC messages could not be read: %s", error)
            return
        finally:
            self._has_history.set()
        for line in missed:
            if line.command == "PRIVMSG":  # a NOTICE is never answered
                message = self._read(line, client, own_nick=self._settings.nick)
                if message is not None:
                    await self._offer(inbox, message)

    async def _offer(self, inbox: Inbox, message: IrcMessage, *, cursor: str = "") -> None:
        """Offers a message until the inbox takes it: most servers never send it again."""
        inbound = message.inbound
        self._nicks[inbound.chat_id] = message.nick if inbound.chat_kind == "direct" else inbound.chat_id
        inbound = replace(inbound, message_id=inbound.message_id or self._new_id())
        while True:
            try:
                await inbox.receive(inbound, cursor=cursor)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, only this process has the message
                log.warning("an IRC message could not be stored yet: %s", error)
                await asyncio.sleep(REFUSED_SECONDS)

    async def _ask_history(self, client: IrcClient, command: str, params: Sequence[str]) -> None:
        """Sends a request for history and waits for the end of the answer.

        A bouncer that plays chats back marks no end, so the end is the answer to a PING.
        """
        if command == "CHATHISTORY":
            await self._request(client, command, params, command)
        else:
            await client.send(command, params)
            await self._ping(client)

    async def _nick_of(self, client: IrcClient, chat_id: str) -> str:
        """A person's present nick. Raises `NotDelivered` if the nick is no longer theirs."""
        nick = self._nicks.get(chat_id, chat_id.partition("!")[0])
        self._whois = {}
        await self._request(client, "WHOIS", [nick], f"whois {nick}")
        if chat_id not in self._whois.values():
            raise NotDelivered(
                f"{nick} is no longer {chat_id}, or is not connected", retry_after_seconds=ABSENT_SECONDS
            )
        return nick

    def _resolve(self, key: str) -> None:
        if (waiting := self._answers.get(key)) is not None and not waiting.done():
            waiting.set_result(None)

    async def _ping(self, client: IrcClient) -> None:
        token = self._new_id()
        await self._request(client, "PING", [token], token)

    async def _request(self, client: IrcClient, command: str, params: Sequence[str], key: str) -> None:
        waiting = self._answers[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await client.send(command, params)
                await waiting
        finally:
            del self._answers[key]
