"""Changes of a page of facts: hand edits, a fact set or forgotten, a note added or removed.

The page holds all that is known, so a kill between two writes leaves nothing to repair.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from datetime import datetime
from itertools import accumulate

from nacre.memory.contracts.errors import FactRefused
from nacre.memory.files.facts.lines import FactLine, Tail, history_line, known_line, same_key
from nacre.memory.files.facts.page import Page, PlacedNote
from nacre.memory.files.facts.records import NUMBERS, Fact, JsonValue, Note
from nacre.record import Record

BY_HAND = "by hand"
"""The source of facts and notes that somebody wrote into the page."""

NOTES_SINCE_SECONDS = 1_704_067_200
"""2024-01-01. Notes are numbered by the seconds since then, which suffices for 34 years."""


class Known(Record):
    """What a page says at one moment: the known facts, all facts ever known in the order of time, the notes,
    and sentences about unreadable lines."""

    facts: tuple[Fact, ...]
    history: tuple[Fact, ...]
    notes: tuple[Note, ...]
    problems: tuple[str, ...]


def known(page: Page, identity: str, path: str, *, as_of: datetime | None = None) -> Known:
    """What a page says after `take_hand_edits`; with `as_of`, what was known at that time."""
    history = [fact for placed in page.history() if (fact := _fact(placed.fact, identity)) is not None]
    history.sort(key=lambda fact: fact.at)
    notes = [note for placed in page.notes() if (note := _note(placed, identity)) is not None]
    if as_of is not None:
        history = [fact for fact in history if fact.at <= as_of]
        notes = [note for note in notes if note.at <= as_of]
    last = {same_key(fact.key): fact for fact in history}
    return Known(
        facts=tuple(fact for fact in last.values() if not fact.is_forgotten),
        history=tuple(history),
        notes=tuple(notes),
        problems=tuple(
            f"{path}#L{line.at_line + 1} is not a fact and stays as it is: {line.text[:80]!r}. "
            "A fact is a line such as `- city: Porto`."
            for line in page.unread()
        ),
    )


def take_hand_edits(page: Page, now: datetime) -> None:
    """Records hand edits of facts in the history, and gives ids to notes written by hand."""
    had_facts = page.has("Facts")
    last = _last(page)
    new: list[FactLine] = []
    shown: list[str] = []
    said: dict[str, list[FactLine]] = {}
    for placed in page.facts():
        said.setdefault(same_key(placed.fact.key), []).append(placed.fact)
    unread = sorted(same_key(line.text.lstrip("-*+~ ")) for line in page.unread() if line.section == "Facts")
    for key, lines in said.items():
        before = last.get(key)
        changed = _without_repeats([line for line in lines if not _is_known(before, line.value)])
        new.extend(replace(line, tail=_when_by_hand(line, before, now)) for line in changed)
        if changed or len(lines) > 1 or any(line.tail is None for line in lines):
            shown.append(key)
    for key, before in last.items():
        if key in said or before.is_forgotten:
            continue
        if not had_facts:
            shown.append(key)
        elif not _is_prefix_of_any(key, unread):
            new.append(_forgotten(before, now, BY_HAND))
    _record(page, new)
    _show(page, shown)
    _number_notes(page, now)


def set_fact(
    page: Page, identity: str, key: str, value: JsonValue, *, source: str, at: datetime | None, now: datetime
) -> Fact:
    """Records a fact and returns it as it is on the page. A value that is already known changes nothing.

    With an `at` before the known value, the fact becomes part of the history.
    """
    before = _last(page).get(same_key(key))
    if before is not None and before.tail is not None:
        is_old = at is not None and at < before.tail.at
        if _is_known(before, value) and not is_old and (there := _fact(before, identity)) is not None:
            return there
        at = at if at is not None else max(now, before.tail.at)
    at = (at or now).replace(microsecond=0)
    key = before.key if before is not None else key
    tail = Tail(at=at, source=source, is_day=False)
    _record(page, [FactLine(key=key, value=value, is_forgotten=False, tail=tail)])
    _show(page, [same_key(key)])
    return Fact(identity=identity, key=key, value=value, source=source, at=at)


def forget_fact(page: Page, key: str, *, source: str, now: datetime) -> bool:
    """Removes a fact from the known ones; whether it was known. The history keeps it."""
    before = _last(page).get(same_key(key))
    if before is None or before.is_forgotten:
        return False
    _record(page, [_forgotten(before, now, source)])
    _show(page, [same_key(key)])
    return True


def add_note(page: Page, identity: str, text: str, *, source: str, at: datetime) -> Note:
    """Adds a note at the end of the page, or returns the note with the same words."""
    notes = page.notes()
    for placed in notes:
        if placed.text == text and (there := _note(placed, identity)) is not None:
            return there
    taken = {placed.number for placed in notes if placed.number is not None}
    number, at = next(_free_numbers(taken, at)), at.replace(microsecond=0)
    page.add_note(text, number, at, source)
    return Note(identity=identity, number=number, text=text, source=source, at=at)


def forget_note(page: Page, number: int) -> bool:
    """Removes a note from the page; whether it was there."""
    for placed in page.notes():
        if placed.number == number:
            page.remove_note(placed)
            return True
    return False


def checked_note(text: str, *, most_chars: int) -> str:
    """A note's text in the form in which the page keeps it.

    Raises:
        FactRefused: the text is empty or too long.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd").strip()
    if not text or len(text) > most_chars:
        raise FactRefused(f"A note has 1 to {most_chars} characters, and this text has {len(text)}.")
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _last(page: Page) -> dict[str, FactLine]:
    """The last line of the history for each key."""
    said = sorted((placed.fact for placed in page.history()), key=lambda fact: _tail(fact).at)
    return {same_key(fact.key): fact for fact in said}


def _tail(fact: FactLine) -> Tail:
    """The time and source of a line of the history, which always has them."""
    assert fact.tail is not None
    return fact.tail


def _is_known(before: FactLine | None, value: JsonValue) -> bool:
    return before is not None and not before.is_forgotten and _same(before.value, value)


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are equal. In JSON, `true` is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _without_repeats(lines: Sequence[FactLine]) -> list[FactLine]:
    """The lines without those that repeat the value before them."""
    return [line for at, line in enumerate(lines) if not at or not _same(line.value, lines[at - 1].value)]


def _is_prefix_of_any(key: str, texts: Sequence[str]) -> bool:
    """Whether one of these sorted texts begins with the key."""
    at = bisect_left(texts, key)
    return at < len(texts) and texts[at].startswith(key)


def _when_by_hand(line: FactLine, before: FactLine | None, now: datetime) -> Tail:
    """The time and source that somebody wrote after a fact, unless they are those of the old value."""
    at, source = now, BY_HAND
    if line.tail is not None:
        was = before.tail if before is not None else None
        if was is None or (line.tail.at.date(), line.tail.source) != (was.at.date(), was.source):
            at, source = min(line.tail.at, now), line.tail.source or BY_HAND
    if before is not None and before.tail is not None:
        at = max(at, before.tail.at)
    return Tail(at=at.replace(microsecond=0), source=source, is_day=False)


def _forgotten(before: FactLine, now: datetime, source: str) -> FactLine:
    tail = Tail(at=max(now, _tail(before).at), source=source, is_day=False)
    return FactLine(key=before.key, value=None, is_forgotten=True, tail=tail)


def _record(page: Page, new: Iterable[FactLine]) -> None:
    """Inserts lines into the history in the order of time."""
    placed = page.history()
    latest = list(accumulate((_tail(each.fact).at for each in placed), max))
    before: dict[int, list[str]] = {}
    at_end: list[str] = []
    for fact in sorted(new, key=lambda fact: _tail(fact).at):
        at, source = _tail(fact).at, _tail(fact).source
        later = bisect_right(latest, at)
        lines = before.setdefault(placed[later].at_line, []) if later < len(placed) else at_end
        lines.append(history_line(fact.key, fact.value, at, source, is_forgotten=fact.is_forgotten))
    if before:
        page.edit({}, before)
    if at_end:
        page.add("History", *at_end)


def _show(page: Page, keys: Sequence[str]) -> None:
    """Shows the last value of each key in one line among the facts, at the place of its first line."""
    if not keys:
        return
    last = _last(page)
    places: dict[str, list[int]] = {}
    for placed in page.facts():
        places.setdefault(same_key(placed.fact.key), []).append(placed.at_line)
    changed: dict[int, str | None] = {}
    new: list[str] = []
    for key in keys:
        fact, there = last.get(key), places.get(key, ())
        line: str | None = None
        if fact is not None and not fact.is_forgotten and fact.tail is not None:
            line = known_line(fact.key, fact.value, fact.tail.at, fact.tail.source)
        changed.update(zip(there, (line, *(None for _ in there[1:])), strict=False))
        if line is not None and not there:
            new.append(line)
    page.edit(changed, {})
    if new:
        page.add("Facts", *new)


def _number_notes(page: Page, now: datetime) -> None:
    """Gives a number to each note that has none, or the same one as a note above it."""
    notes = page.notes()
    free = _free_numbers({note.number for note in notes if note.number is not None}, now)
    seen: set[int] = set()
    for note in notes:
        number = note.number
        if number is None or number in seen or note.tail is None:
            if number is None or number in seen:
                number = next(free)
            page.mark_note(note, number, now.replace(microsecond=0), BY_HAND)
        seen.add(number)


def _free_numbers(taken: Set[int], at: datetime) -> Iterator[int]:
    """The seconds until `at`, or the numbers above the largest one, so that later notes have larger
    numbers."""
    first = max(0, int(at.timestamp()) - NOTES_SINCE_SECONDS, *(number + 1 for number in taken))
    yield from range(first, NUMBERS)
    yield from (number for number in range(min(first, NUMBERS)) if number not in taken)


def _fact(line: FactLine, identity: str) -> Fact | None:
    if line.tail is None:
        return None
    return Fact(
        identity=identity,
        key=line.key,
        value=line.value,
        source=line.tail.source,
        at=line.tail.at,
        is_forgotten=line.is_forgotten,
    )


def _note(placed: PlacedNote, identity: str) -> Note | None:
    if placed.number is None or placed.tail is None:
        return None
    return Note(
        identity=identity,
        number=placed.number,
        text=placed.text,
        source=placed.tail.source,
        at=placed.tail.at,
    )
