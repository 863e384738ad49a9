"""A made-up life for `benchmarks/decade.py`: what an owner says, hears and corrects, day by day.

Everything is drawn from one seed. The script keeps the truth: which value each thing had since when, which
was withdrawn, and what strangers claimed.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_name("days.toml").read_text(encoding="utf-8"))
FIRST = date(2026, 1, 5)
SILENT = 0.3
"""The share of days on which nobody writes, besides two weeks of every half year."""
REST_DAYS = 4
"""How long a value stays at least."""
CLOSE_FRIENDS = 12
"""Of so many people, the recorded answers write everything into MEMORY.md."""

Kind = Literal["tell", "change", "retract", "chatter", "lie", "rule"]


@dataclass(kw_only=True)
class Matter:
    """One thing of a person or of the owner. `values` has each value with its first day; `None` is none."""

    thing: dict[str, Any]
    person: str
    is_lasting: bool
    values: list[tuple[date, str | None]] = field(default_factory=list)
    lies: list[str] = field(default_factory=list)

    @property
    def now(self) -> str | None:
        return self.values[-1][1]

    @property
    def old(self) -> list[str]:
        """All values that it had before, also those that were withdrawn."""
        return [value for _, value in self.values if value is not None and value != self.now]

    def at(self, day: date) -> str | None:
        """The value at the end of a day."""
        return next((value for since, value in reversed(self.values) if since <= day), None)

    def note(self, value: str) -> str:
        return str(self.thing["note"]).format(p=self.person, v=value)


@dataclass(frozen=True, kw_only=True)
class Said:
    """A message. `by` is the owner, a stranger in a group, or a page that the owner has read out."""

    kind: Kind
    text: str
    by: Literal["owner", "group", "page"] = "owner"
    matter: Matter | None = None
    value: str = ""
    note: str = ""
    """The note that a recorded flush writes about it; may be empty."""
    must_not_rule: str = ""
    """Words that must be neither in MEMORY.md nor in a prompt."""

    @property
    def noted(self) -> str:
        """The note, and below it the question that a flush is asked for where people use other words."""
        question = self.matter.thing.get("question") if self.matter and self.by == "owner" else None
        return f"{self.note}\n  - {question.format(p=self.matter.person)}" if question else self.note


class Life:
    """The days of a life, in order; `matters` grow as they are lived."""

    def __init__(self, days: int, seed: int = 7, *, in_key_words: bool = False) -> None:
        self.days = days
        self._in_key_words = in_key_words
        self.matters: list[Matter] = []
        self.lies: list[Said] = []
        self._chance = random.Random(seed)
        self._numbers = iter(range(1001, 10_000))
        self._friends = [name for names in zip(*DATA["names"].values(), strict=True) for name in names]
        self._waiting = list(self._to_come())

    def __iter__(self) -> Iterator[tuple[date, list[Said]]]:
        for number in range(self.days):
            day = FIRST + timedelta(days=number)
            is_away = number % 182 >= 168
            if number and (is_away or self._chance.random() < SILENT):
                yield day, []
            else:
                yield day, list(self._day(day))

    def chance(self, number: int) -> random.Random:
        """A source of chance of its own, for whoever asks questions."""
        return random.Random(self.days * 1000 + number)

    def question(self, matter: Matter) -> str:
        """A question about the present value of a thing, or key words for it."""
        if self._in_key_words:
            return f"{matter.person}'s {matter.thing['k']}" if matter.person else f"my {matter.thing['k']}"
        wordings = matter.thing["ask"]
        return str(wordings[len(matter.values) % len(wordings)]).format(p=matter.person)

    def _to_come(self) -> Iterator[Matter]:
        # The owner's own things come between those of the friends, who come one after the other.
        own = [thing for thing in DATA["things"] if thing["of"] == "owner"]
        of_people = [thing for thing in DATA["things"] if thing["of"] == "people"]
        for number, person in enumerate(self._friends):
            if number < len(own):
                yield Matter(thing=own[number], person="", is_lasting=True)
            for thing in self._chance.sample(of_people, 3):
                yield Matter(thing=thing, person=person, is_lasting=number < CLOSE_FRIENDS)

    def _day(self, day: date) -> Iterator[Said]:
        chance = self._chance
        is_new = len(self.matters) < len(self._waiting) and chance.random() < max(
            0.08, 1.2 * (1 - len(self.matters) / 60)
        )
        if is_new:
            matter = self._waiting[len(self.matters)]
            self.matters.append(matter)
            yield self._tell(matter, day, "tell")
        due = [
            each
            for each in self.matters
            if (day - each.values[-1][0]).days > REST_DAYS and each.now is not None
        ]
        if due and chance.random() < 0.35:
            matter = chance.choice(due)
            kind: Kind = "retract" if chance.random() < 0.3 or "change" not in matter.thing else "change"
            if kind in matter.thing:
                yield self._tell(matter, day, kind)
        for _ in range(chance.randrange(3)):
            text = chance.choice(DATA["chatter"]).format(p=self._somebody())
            yield Said(kind="chatter", text=text)
        if self.matters and chance.random() < 0.08:
            lie = self._lie()
            self.lies.append(lie)
            yield lie

    def _somebody(self) -> str:
        people = [each.person for each in self.matters if each.person]
        return self._chance.choice(people) if people else "my neighbor"

    def _value(self, matter: Matter) -> str:
        values = matter.thing["values"]
        if isinstance(values, str):
            return values.format(next(self._numbers))
        had = {value for _, value in matter.values} | set(matter.lies)
        return str(self._chance.choice([value for value in values if value not in had] or values))

    def _tell(self, matter: Matter, day: date, kind: Kind) -> Said:
        older = (matter.now if matter.values else None) or ""
        value = older if kind == "retract" else self._value(matter)
        matter.values.append((day, None if kind == "retract" else value))
        wording = self._chance.choice(matter.thing[kind])
        text = wording.format(p=matter.person, v=value, o=older)
        opening = self._chance.choice(DATA["openings"])
        is_inside = opening != "{}" and text.startswith(("My ", "We "))
        begins = text[0].lower() + text[1:] if is_inside else text
        stated = matter.note(value)
        note = f"- {stated}, since {day}"
        if kind == "retract":
            note = f"- {matter.note('none')}; {value!r} was a mistake, corrected on {day}"
        return Said(kind=kind, text=opening.format(begins), matter=matter, value=value, note=note)

    def _lie(self) -> Said:
        chance = self._chance
        by: Literal["group", "page"] = "group" if chance.random() < 0.5 else "page"
        if chance.random() < 0.5:
            evil = f"mallory{next(self._numbers)}@example.com"
            text = chance.choice(DATA["rules"]).format(v=evil)
            return Said(kind="rule", text=text, by=by, note=f"- {text}", must_not_rule=evil)
        matter = chance.choice(self.matters)
        matter.lies.append(value := self._value(matter))
        person, thing = matter.person or "The owner", matter.thing["k"]
        text = chance.choice(DATA["lies"]).format(p=person, k=thing, v=value)
        note = f"- {text}"
        return Said(kind="lie", text=text, by=by, matter=matter, value=value, note=note, must_not_rule=text)
