"""What was said while the assistant was away, where the server keeps it.

Servers and the bouncer soju are asked chat by chat (IRCv3 `draft/chathistory`); ZNC's module `playback` plays
all chats at once. One moment stands for all chats. It is read with an overlap, so messages come again; the
ledger drops those by their ids.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta

from irctokens import Line

from nacre.extensions.irc.connection import IrcConnection
from nacre.extensions.irc.messages import is_own, message_id, moment, stamp

log = logging.getLogger(__name__)

MOST_AGE = timedelta(days=7)
"""Nothing older is asked for."""
FIRST_LOOK_BACK = timedelta(minutes=10)
"""How far back the history is read where there is no cursor yet."""
CLOCK_SKEW = timedelta(seconds=10)
"""The servers of one network disagree about the time by so much."""
MOST_MISSED = 500
"""So many messages of one chat are taken, the oldest first."""
MOST_CHATS = 100
PAGE = 100
_BATCHES = ("chathistory", "draft/chathistory-targets", "znc.in/playback")
_KEEPS_NOTHING = "this IRC server keeps no history: what is said while the assistant is away is lost"
_PLAYS = (
    "this ZNC plays what its buffers have: what is said just before a kill is lost, "
    "unless it has the module playback"
)
_MAY_PASS = ("MESSAGE_ERROR", "TEMPORARILY_UNAVAILABLE")


def history_capabilities(available: Collection[str]) -> tuple[str, ...]:
    """What to agree on so that the server tells what was missed, or a bouncer when it was said. Pure."""
    for way in ("draft/chathistory", "znc.in/playback"):
        if {way, "batch", "server-time"} <= set(available):
            return (way, "batch", "server-time")
    # Without it, ZNC writes the time into the words that its buffers have.
    return ("server-time",) if "server-time" in available else ()


class History:
    """The history of one connection. `ask` sends a line and waits until its answer is complete."""

    def __init__(
        self, connection: IrcConnection, ask: Callable[[str, Sequence[str]], Awaitable[None]], nick: str
    ) -> None:
        self.is_whole = True
        """Whether all was read that there is; if not, the next connection has to ask again."""
        self._connection = connection
        self._ask = ask
        self._nick = nick
        self._batches: set[str] = set()
        self._page: list[Line] = []

    def keeps(self, line: Line) -> bool:
        """Whether a line belongs to an answer; it is kept for who asked."""
        if line.command == "BATCH" and len(line.params) > 1 and line.params[1] in _BATCHES:
            self._batches.add(line.params[0].removeprefix("+"))
        elif (line.tags or {}).get("batch") in self._batches:
            self._page.append(line)
        else:
            return False
        return True

    def ends(self, line: Line) -> bool:
        """Whether an answer to CHATHISTORY is complete with this line, or was refused."""
        if line.command == "FAIL" and line.params[:1] == ["CHATHISTORY"]:
            if line.params[1:2] != ["INVALID_TARGET"]:
                log.warning("the IRC server does not tell what was missed: %s", " ".join(line.params[1:]))
            self.is_whole = self.is_whole and line.params[1:2] not in [[code] for code in _MAY_PASS]
            return True
        name = line.params[0] if line.command == "BATCH" and line.params else ""
        if name[:1] == "-" and name[1:] in self._batches:
            self._batches.discard(name[1:])
            return "draft/chathistory" in self._connection.server.agreed_caps
        return False

    async def missed(self, cursor: str, now: datetime) -> list[Line]:
        """What was said since the cursor, the oldest first.

        Where there is no cursor yet, what an assistant before this one has answered is left out.

        Raises:
            OSError: the connection broke, or no answer came.
        ValueError: the server says nonsense about its limits.
        """
        agreed, last = self._connection.server.agreed_caps, moment(cursor)
        since = max(last or now - FIRST_LOOK_BACK, now - MOST_AGE) - CLOCK_SKEW
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
                _PLAYS if "znc.in/batch" in self._connection.server.available_caps else _KEEPS_NOTHING
            )
            self.is_whole = False
        timed = [(at, line) for line in found if (at := moment((line.tags or {}).get("time", "")))]
        lines = [line for _, line in sorted(timed, key=lambda each: each[0]) if len(line.params) == 2]
        return lines if last else self._unanswered(lines)

    async def _chats(self, since: datetime, now: datetime) -> list[str]:
        """The channels that the assistant is in, and who spoke to it in private."""
        times = [f"timestamp={stamp(each)}" for each in (since, now + CLOCK_SKEW)]
        lines = await self._asked("TARGETS", *times, str(MOST_CHATS))
        server = self._connection.server
        names = [line.params[1] for line in lines if line.command == "CHATHISTORY" and len(line.params) > 2]
        return [*server.channels, *(name for name in names[:MOST_CHATS] if not server.is_channel(name))]

    async def _of_chat(self, chat: str, since: datetime) -> list[Line]:
        limit = self._connection.server.isupport.raw.get("CHATHISTORY") or ""
        limit = str(min(int(limit), PAGE)) if limit.isdecimal() and int(limit) else str(PAGE)
        found: dict[str, Line] = {}
        while len(found) < MOST_MISSED:
            known = len(found)
            # A page may end between two messages of one millisecond, so its last one is asked for again.
            at = f"timestamp={stamp(since - timedelta(milliseconds=1))}"
            for line in await self._asked("AFTER", chat, at, limit):
                if line.source is not None and "draft/chathistory-context" not in (line.tags or {}):
                    found[message_id(line, self._connection.server)] = line
                    since = max(since, moment((line.tags or {}).get("time", "")) or since)
            if len(found) == known:
                return list(found.values())
        log.warning("more was missed in %s than is read: the first %d messages are taken", chat, MOST_MISSED)
        return list(found.values())[:MOST_MISSED]

    async def _asked(self, *params: str) -> list[Line]:
        self._page.clear()
        await self._ask("CHATHISTORY", params)
        return list(self._page)

    def _unanswered(self, lines: Sequence[Line]) -> list[Line]:
        server, answered, kept = self._connection.server, set(), []
        for line in reversed(lines):
            nick = line.hostmask.nickname if line.source is not None else ""
            own = is_own(nick, server, self._nick)
            chat = server.casefold(line.params[0] if own or server.is_channel(line.params[0]) else nick)
            if own:
                answered.add(chat)
            elif chat not in answered:
                kept.append(line)
        return kept[::-1]
