"""What of a client's history is new to a session, and where the two part. Pure.

Clients of this protocol send all that was said with each request. The session knows its own part of it, with
what its tools did; so only what is new is said, and where a client's history differs, the session goes back
to where they part and goes on from there, as another branch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from nacre.extensions.http.openai.wire import Said
from nacre.prompts import quoted, render
from nacre.record import Record

SESSION_HEADER = "x-nacre-session"
OPEN_WEBUI_HEADER = "x-openwebui-chat-id"
"""Open WebUI sends it where its `ENABLE_FORWARD_USER_INFO_HEADERS` is set."""
NO_NAMES = ("", "new", "null", "undefined")
"""What front ends send as the name of a conversation that has none yet."""
CHANNEL = "openai"


class Plan(Record):
    """What to do before the last message is said: keep so many things that were said, and tell `untold`."""

    kept: int
    untold: tuple[Said, ...]


def plan(history: Sequence[Said], known: Sequence[str]) -> Plan:
    """How a client's `history`, without its last message, goes on from what people said in a session.

    `known` is what people said there, the oldest first. What the assistant said is not compared: clients
    change it, and fold away what it thought.
    """
    kept, parted_at = 0, None
    for place, said in enumerate(history):
        if said.role != "user":
            continue
        if kept < len(known) and _plain(said.text) in _plain(known[kept]):
            kept += 1
        elif not said.text.startswith("/"):  # a command leaves no words of a person behind
            parted_at = place
            break
    return Plan(kept=kept, untold=() if parted_at is None else tuple(history[parted_at:]))


def worded(rules: str, untold: Sequence[Said], text: str) -> str:
    """The message with what the session has not heard yet, which is quoted in front of it."""
    said = "\n\n".join(f"{one.role}: {one.text}" for one in untold)
    before = [
        render("session/client_rules", rules=quoted(rules)) if rules.strip() else "",
        render("session/client_said", conversation=quoted(said)) if said else "",
    ]
    return "\n\n".join((*filter(None, before), text))


def owners_key(name: str, token_name: str) -> str:
    """The key of the owner's session that a client calls `name`; its words stand in no key."""
    digest = hashlib.sha256(f"{token_name}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{CHANNEL}:direct:{digest[:24]}"


def _plain(text: str) -> str:
    return " ".join(text.split())
