"""`IrcBridge`: the assistant on an IRC network.

Most IRC servers keep nothing, so the bridge offers a message again until the ledger has it. A server or
bouncer with a history is asked for everything since the cursor, which is the time of the last message. A PING
follows each part; its answer says that the server has processed the lines before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from irctokens import Line

from nacre.bridges.channels.messages import Ignored
from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import NotDelivered
from nacre.extensions.irc.client import IrcClient, Pacer, may_free_nick, register
from nacre.extensions.irc.history import History
from nacre.extensions.irc.messages import (
    CHANNEL,
    IrcMessage,
    format_time,
    mask,
    message_lines,
    parse_time,
    read_message,
)
from nacre.extensions.irc.settings import IrcSettings
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId, random_id

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0
ABSENT_SECONDS = 60.0
"""The delay before the next delivery to somebody who is not there."""
REFUSED_SECONDS = 1.0
"""The delay before a message is offered to the inbox again."""
MAX_WAITING = 1_000
# Numeric replies that say that a message did not arrive. Their second parameter is its target.
_REFUSALS = ("401", "403", "404", "405", "442", "477", "486", "531", "716")
_JOIN_REFUSALS = ("471", "473", "474", "475")


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
        self._stopping = asyncio.Event()
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
        if self._stopping.is_set():
            return
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
            forwarding.cancel()
            await asyncio.gather(forwarding, return_exceptions=True)
        if not self._stopping.is_set():
            raise ConnectionError(f"{self._settings.host} closed the connection")

    async def stop(self) -> None:
        self._stopping.set()
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
            if self._stopping.is_set():
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
            log.warning("the IRC server says: %s", " ".join(line.params[1:]))

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
        """Forwards what was missed, then what arrives. The cursor stays until all of the former is read."""
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
        """Sends a line and waits for `_resolve` with the same key."""
        waiting = self._answers[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await client.send(command, params)
                await waiting
        finally:
            del self._answers[key]
