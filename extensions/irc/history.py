"""Messages that were sent while the assistant was away, from servers that keep them.

Servers and the bouncer soju are asked chat by chat (IRCv3 `draft/chathistory`); ZNC's module `playback` plays
all chats at once. One time is the cursor for all chats. Reading overlaps, so messages come again, and the
ledger drops these by their ids.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from irctokens import Line

from nacre.bridges.channels.messages import FIRST_LOOK_BACK
from nacre.extensions.irc.client import IrcClient
from nacre.extensions.irc.messages import format_time, is_own, message_id, parse_time

log = logging.getLogger(__name__)

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
        """The channels that the assistant is in, and the people who wrote to it in private."""
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
