"""`IrcBridge`: the assistant on an IRC network.

Most IRC servers keep nothing, so a message that was taken is handed in until the door takes it. A server or
bouncer that has a history is asked for what was missed since the cursor, which is the moment of the last
message. Each part is followed by a PING, whose answer says that the server has gone through the lines before
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from irctokens import Line

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Door, Part, Place
from nacre.bridges.contracts.errors import NotDelivered
from nacre.extensions.irc.connection import IrcConnection
from nacre.extensions.irc.handshake import may_be_free, register
from nacre.extensions.irc.history import History
from nacre.extensions.irc.messages import Heard, heard, mask, message_lines, moment, stamp
from nacre.extensions.irc.pacing import Pacer
from nacre.extensions.irc.settings import IrcSettings
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.ids import NewId, random_id

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0
AWAY_SECONDS = 60.0
"""How long to wait before somebody is looked for again who is not there."""
REFUSED_SECONDS = 1.0
"""How long to wait before the door is tried again."""
MOST_WAITING = 1_000
_REFUSALS = ("401", "403", "404", "405", "442", "477", "486", "531", "716")
"""Numeric replies that say that a message to somebody did not arrive; the target is their second word."""


class IrcBridge(Bridge):
    """One account on one network."""

    channel = "irc"
    capabilities = Capabilities(greatest_length=320, length_unit="bytes", has_typing=True)

    def __init__(
        self, settings: IrcSettings, *, now: Clock, account: str = "default", new_id: NewId = random_id
    ) -> None:
        self.account = account
        self._settings = settings
        self._now = now
        self._new_id = new_id
        self._connection: IrcConnection | None = None
        self._stopping = asyncio.Event()
        self._sending = asyncio.Lock()
        self._pacer = Pacer(settings.lines_per_second)
        self._nicks: dict[str, str] = {}
        self._answers: dict[str, asyncio.Future[None]] = {}
        self._target = ""
        self._refused: list[str] = []
        self._whois: dict[str, str] = {}

    async def start(self, door: Door) -> None:
        """As `Bridge`."""
        if self._stopping.is_set():
            return
        connection = await IrcConnection.open(self._settings)
        said: asyncio.Queue[Heard | None] = asyncio.Queue()
        history = History(connection, partial(self._ask_history, connection), self._settings.nick)
        joined = asyncio.Event()
        handing_in = asyncio.create_task(self._hand_in(door, said, history, joined))
        try:
            await self._listen(connection, door, said, history, joined)
        finally:
            joined.set()
            self._connection = None
            await connection.close()
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection broke before the answer came"))
            said.put_nowait(None)
            await asyncio.wait({handing_in}, timeout=ANSWER_SECONDS)  # what was heard is not heard again
            handing_in.cancel()
            await asyncio.gather(handing_in, return_exceptions=True)
        if not self._stopping.is_set():
            raise ConnectionError(f"{self._settings.host} hung up")

    async def stop(self) -> None:
        """As `Bridge`."""
        self._stopping.set()
        if self._connection is not None:
            await self._connection.close()

    async def deliver(self, part: Part) -> str:
        """As `Bridge`. IRC gives no ids."""
        async with self._sending:
            connection, chat_id = self._connected(), part.place.chat_id
            target = chat_id
            if not connection.server.is_channel(chat_id):
                target = await self._nick_of(connection, chat_id)
            lines = message_lines(part.text)
            self._target, self._refused = target, []
            for line in lines:
                await asyncio.sleep(self._pacer.wait_seconds(asyncio.get_running_loop().time()))
                await connection.send("PRIVMSG", [target, line])
            await self._answered(connection, "PING", [token := self._new_id()], token)
            if len(self._refused) == len(lines):
                raise NotDelivered(f"{target}: {self._refused[0]}", retry_after_seconds=AWAY_SECONDS)
            if self._refused:
                raise OSError(f"{target} took some lines only: {self._refused[0]}")
        return ""

    async def typing(self, place: Place) -> None:
        """As `Bridge`; nothing where the network has no such sign."""
        connection = self._connected()
        target = self._nicks.get(place.chat_id, place.chat_id.partition("!")[0])
        if "message-tags" in connection.server.agreed_caps:
            await connection.send("TAGMSG", [target], tags={"+typing": "active"})

    def _connected(self) -> IrcConnection:
        if self._connection is None or not self._connection.is_open:
            raise NotDelivered(f"there is no connection to {self._settings.host}")
        return self._connection

    async def _listen(
        self,
        connection: IrcConnection,
        door: Door,
        said: asyncio.Queue[Heard | None],
        history: History,
        joined: asyncio.Event,
    ) -> None:
        lines = connection.lines()
        await register(connection, self._settings, lines)
        if not connection.server.casefold_equals(connection.server.nickname, self._settings.nick):
            await connection.send("NICK", [self._settings.nick])
        for name in self._settings.join:
            await connection.send("JOIN", [name])
        await connection.send("PING", [token := self._new_id()])
        async for line in lines:
            if self._stopping.is_set():
                return
            if may_be_free(line, connection.server, self._settings.nick):
                await connection.send("NICK", [self._settings.nick])
            if line.command == "PONG" and line.params[-1:] == [token]:
                self._connection = connection
                door.connected()
                joined.set()
            elif history.ends(line):
                self._resolve("CHATHISTORY")
            elif not history.keeps(line):
                self._take(line, connection, said)

    def _take(self, line: Line, connection: IrcConnection, said: asyncio.Queue[Heard | None]) -> None:
        """Does with a line what there is to do."""
        if line.command == "PRIVMSG":
            if (message := self._heard(line, connection)) is None:
                return
            if said.qsize() >= MOST_WAITING:
                log.warning("a message on IRC was left out: %d wait already", MOST_WAITING)
            else:
                said.put_nowait(message)
        elif line.command in ("PONG", "318") and line.params:
            self._resolve(line.params[-1] if line.command == "PONG" else f"whois {line.params[1]}")
        elif line.command == "311" and len(line.params) > 3:
            self._whois = {"mask": mask(connection.server, *line.params[1:4])}
        elif line.command == "330" and len(line.params) > 2:
            self._whois["account"] = connection.server.casefold(line.params[2])
        elif line.command in _REFUSALS or line.command in ("471", "473", "474", "475"):
            if connection.server.casefold_equals(self._target, "".join(line.params[1:2])):
                self._refused.append(line.params[-1])
            log.warning("the IRC server says: %s", " ".join(line.params[1:]))

    def _heard(self, line: Line, connection: IrcConnection, *, own_nick: str = "") -> Heard | None:
        knows_accounts = "account-tag" in connection.server.agreed_caps
        message = heard(line, connection.server, knows_accounts=knows_accounts, own_nick=own_nick)
        if isinstance(message, str):
            log.info("a message on IRC is not answered: %s", message)
            return None
        return message

    async def _hand_in(
        self, door: Door, said: asyncio.Queue[Heard | None], history: History, joined: asyncio.Event
    ) -> None:
        """Hands in what was missed, then what is said. The cursor stands until all of the former is read."""
        await joined.wait()
        await self._catch_up(door, history)
        while (message := await said.get()) is not None:
            cursor = ""
            if history.is_whole and message.at is not None:
                # A server's clock that is fast must not hide what others say.
                at = min(message.at, self._now())
                cursor = stamp(max(at, moment(door.cursor) or at))
            await self._hand_over(door, message, cursor=cursor)

    async def _catch_up(self, door: Door, history: History) -> None:
        if (connection := self._connection) is None:
            return
        try:
            missed = await history.missed(door.cursor, self._now())
        except (OSError, ValueError) as error:
            history.is_whole = False
            log.warning("what was missed on IRC could not be read: %s", error)
            return
        for line in missed:
            if line.command == "PRIVMSG":  # a NOTICE is never answered
                message = self._heard(line, connection, own_nick=self._settings.nick)
                if message is not None:
                    await self._hand_over(door, message)

    async def _hand_over(self, door: Door, message: Heard, *, cursor: str = "") -> None:
        """Hands a message in until the door takes it: most servers will not say it again."""
        self._nicks[message.chat_id] = message.nick if message.kind == "direct" else message.chat_id
        inbound = message.inbound(
            self.channel,
            self.account,
            chat_name="" if message.kind == "direct" else message.chat_id,
            message_id=self._new_id(),
            # Letters of other alphabets are no letters to IRC: there an id is exact.
            ids_fold_case=message.sender_id.isascii(),
        )
        while True:
            try:
                await door.receive(inbound, cursor=cursor)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the words are here only
                log.warning("a message on IRC could not be written down yet: %s", error)
                await asyncio.sleep(REFUSED_SECONDS)

    async def _ask_history(self, connection: IrcConnection, command: str, params: Sequence[str]) -> None:
        """Waits for the end of the batch; a bouncer that plays chats back has no end but the next PONG."""
        if command == "CHATHISTORY":
            await self._answered(connection, command, params, command)
        else:
            await connection.send(command, params)
            await self._answered(connection, "PING", [token := self._new_id()], token)

    async def _nick_of(self, connection: IrcConnection, chat_id: str) -> str:
        """The nick that somebody has now. Raises `NotDelivered` when it is not theirs any more."""
        nick = self._nicks.get(chat_id, chat_id.partition("!")[0])
        self._whois = {}
        await self._answered(connection, "WHOIS", [nick], f"whois {nick}")
        if chat_id not in self._whois.values():
            raise NotDelivered(
                f"{nick} is not {chat_id} now, or is not there", retry_after_seconds=AWAY_SECONDS
            )
        return nick

    def _resolve(self, key: str) -> None:
        if (waiting := self._answers.get(key)) is not None and not waiting.done():
            waiting.set_result(None)

    async def _answered(
        self, connection: IrcConnection, command: str, params: Sequence[str], key: str
    ) -> None:
        """Sends a line and waits until the answer with this key is there."""
        waiting = self._answers[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.send(command, params)
                await waiting
        finally:
            del self._answers[key]
