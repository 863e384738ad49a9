"""Finds the place that a word after `/rewind` or `/fork` names, and lists the places."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

from nacre.runtime.commands.contract.command import CommandRun
from nacre.runtime.commands.contract.wording import counted, shortened
from nacre.runtime.commands.conversation.branch_points import SessionLabel, SessionTurn, labels_of, turns_of

MOST_LISTED = 10
SHOWN_CHARS = 60


def place_named(run: CommandRun, word: str) -> str | SessionTurn:
    """The place with this number in the list; any other word stands for itself."""
    turns = _listed(run)
    if word.isdecimal() and 1 <= int(word) <= len(turns):
        return turns[int(word) - 1]
    return word


def places_text(run: CommandRun, *, problem: str = "") -> str:
    """The answer to `/rewind` and `/fork` without a place or with an unknown one."""
    labels = labels_of(run.turn.session.journal.tree)
    text = _places(_listed(run), labels, zone=run.turn.parts.now().tzinfo)
    return f"{problem}\n{text}" if problem else text


def _listed(run: CommandRun) -> Sequence[SessionTurn]:
    return turns_of(run.turn.session.branch, limit=MOST_LISTED)


def _places(turns: Sequence[SessionTurn], labels: Sequence[SessionLabel], *, zone: tzinfo | None) -> str:
    if not turns:
        return "Nothing has been said here yet, so there is nothing to go back to."
    lines = ["Go back to before one of these; nothing is deleted:"]
    for number, turn in enumerate(turns, 1):
        text, leaves = shortened(turn.text, SHOWN_CHARS), counted(turn.leaves, "message")
        lines.append(f"{number:>3} · {_clock(turn.said_at, zone)} · “{text}” · leaves {leaves}")
    if labels:
        names = (f"{label.name} ({_clock(label.at, zone)})" for label in labels)
        lines.append("Names: " + ", ".join(names))
    lines += [
        "/rewind 1 goes back here; /fork 1 does so in a new session and keeps this one as it is; "
        "/fork here goes on in a copy. A name or an entry's id serves as well as a number.",
        "/rewind 1 <note> tells the assistant what to remember of what is left.",
    ]
    return "\n".join(lines)


def _clock(moment: datetime, zone: tzinfo | None) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")
