"""What a Matrix room is, and which of its past events count.

A room is private if the account's `m.direct` lists it, exactly one other person is in it, nobody is invited,
and nobody else can join or read it without an invitation. Every other room is a group. nio's `is_group` means
something else: that a room has no name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from nio import MatrixRoom

from nacre.bridges.channels.messages import FIRST_LOOK_BACK
from nacre.record import Record

Json = Mapping[str, Any]
_CLOSED = ("invite", "knock", "private")


class RoomView(Record):
    """A room. `private_with` is the other person in a private chat, empty in a group.

    `name_of` gives a member's display name by user id.
    """

    room_id: str
    name: str
    private_with: str = ""
    name_of: Callable[[str], str | None] = lambda _user: None

    @property
    def chat_id(self) -> str:
        """The chat. A private chat is the room with this person, so it ends when others join."""
        return f"{self.room_id} {self.private_with}" if self.private_with else self.room_id


def room_view(room: MatrixRoom, direct: Mapping[str, Sequence[str]]) -> RoomView:
    """Describes a room. `direct` is the account's `m.direct`: the rooms of private chats by person."""
    others = [user for user in room.users if user != room.own_user_id]
    is_private = (
        len(others) == 1
        and not room.invited_users
        and room.room_id in direct.get(others[0], ())
        and room.join_rule in _CLOSED
        and room.history_visibility != "world_readable"
    )
    name = room.named_room_name() or ""
    return RoomView(
        room_id=room.room_id,
        name=name,
        private_with=others[0] if is_private else "",
        name_of=room.user_name,
    )


def read_direct(content: object) -> dict[str, list[str]]:
    """The content of `m.direct` without malformed entries."""
    if not isinstance(content, Mapping):
        return {}
    return {
        user: [room for room in rooms if isinstance(room, str)]
        for user, rooms in content.items()
        if isinstance(user, str) and isinstance(rooms, list)
    }


def with_direct(direct: Mapping[str, Sequence[str]], user: str, room_id: str) -> dict[str, list[str]]:
    """A copy with one more private chat."""
    rooms = [known for known in direct.get(user, ()) if known != room_id]
    return {**{name: list(known) for name, known in direct.items()}, user: [*rooms, room_id]}


def invitation(events: Sequence[Json], me: str) -> tuple[str, bool] | None:
    """Who invited the assistant and whether to a private chat; `None` if nobody did."""
    for event in events:
        content = event.get("content")
        if event.get("type") != "m.room.member" or event.get("state_key") != me:
            continue
        if isinstance(content, Mapping) and content.get("membership") == "invite":
            return str(event.get("sender", "")), content.get("is_direct") is True
    return None


def arrival(events: Sequence[Json], me: str) -> int | None:
    """The index of the assistant's last invitation or arrival. Earlier events are not meant for it."""
    found = (number for number in reversed(range(len(events))) if _arrives(events[number], me))
    return next(found, None)


def relevant_events(events: Sequence[Json], me: str, *, first_ms: int | None) -> Iterator[Json]:
    """The events of a timeline that count, the oldest first.

    `first_ms` is the time of the very first start, `None` once there is a sync token. At the first start,
    events before the assistant's last own message and events older than `FIRST_LOOK_BACK` are left out.
    """
    begin = arrival(events, me) or 0
    if first_ms is not None:
        own = [
            n for n, event in enumerate(events) if event.get("sender") == me and _sent_ms(event) < first_ms
        ]
        begin = max([begin, *own])
    for event in events[begin:]:
        if first_ms is None or _sent_ms(event) >= first_ms - FIRST_LOOK_BACK // timedelta(milliseconds=1):
            yield event


def _arrives(event: Json, me: str) -> bool:
    if event.get("type") != "m.room.member" or event.get("state_key") != me:
        return False
    unsigned = event.get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, Mapping) else None
    was = before.get("membership") if isinstance(before, Mapping) else None
    content = event.get("content")
    is_now = content.get("membership") if isinstance(content, Mapping) else None
    return (is_now == "invite" and was != "invite") or (is_now == "join" and was not in ("join", "invite"))


def _sent_ms(event: Json) -> int:
    at = event.get("origin_server_ts")
    return at if type(at) is int else 0
