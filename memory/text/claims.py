"""What a line of a note claims: the value of a thing, a change, a negation.

Recognizes forms that notes have in any language (`key: value`, table rows, "the key is under the mat", "Anna
moved to Lyon") with a few words per language from `forms/words.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import islice, product

from nacre.memory.contracts.records import Address
from nacre.memory.text.days.day_words import WEEKDAYS
from nacre.memory.text.forms.spelling import fold, gram_run, seamed, stem
from nacre.memory.text.forms.words import (
    NAMED_STOP_WORDS,
    claim_words,
    claim_words_beside,
    stop_words_for,
    verbs_of_things,
)

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_MARKS_OF_CLAUSES = " ,;:.!?()\u2013\u2014\u2026\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f"
_CLAUSE = re.compile(f"[{_MARKS_OF_CLAUSES[1:]}]+")
_MARKS = re.compile(
    r"\s*(?:(?:>\s*)+(?:(?:User|Assistant): )?)?(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?:\[[ xX]\]\s+)?"
)
"""The marks of a quotation, with the speaker in the note of a session, of a list and of a task."""
_SINCE = re.compile(r",\s+(?:since|seit|depuis|desde|dal|sinds|с)\s+\d{4}-\d\d-\d\d\.?\s*$")
"""Since when a value holds, as notes of a flush say it; it is no part of the value, and no change."""
_SESSION_HEAD = re.compile(r"- \*\*(?:Session ID|Ended)\*\*: ")
_EMPHASIS = re.compile(r"[*_`]+")
_LABELED = re.compile(r"([^:\uff1a=|]{1,60}?)\s*(?::(?=\s)|\uff1a|=|\u2192)\s*(.+)")
_UNSPACED_IS = re.compile("(.{2,12}?)[是は]([^を]+)$")
"""Before "を" stands the object of a verb: 拓也は犬を飼っている does not say what 拓也 is."""
_TALK = re.compile(r"[?!\uff1f\uff01]|\w{4}[.\u2026]\s+\S|\u3002\s*\w")
"""Marks of a question, an exclamation, or several sentences."""
_SENTENCE_END = re.compile(r"(?<=[.!?\u2026][\s])|(?<=[\u3002\uff1f\uff01])")
_SPEAKER = re.compile(r"([^\W\d_]\w*(?: [A-Z]\w*)?) ?[:\uff1a] ")
_SEVERAL = re.compile("[,;\uff0c\uff1b]")
_MOST_WORDS_OF_A_THING = 5
_MOST_WORDS_OF_A_VALUE = 6
_MOST_WORDS = 12
_MOST_CHARS = 160
_SHORT = 8
_REACH = 3
"""How many words a "not" affects; backwards only in languages that put it behind the verb."""

Thing = tuple[str, ...]
"""The folded words of a thing that has a value."""

NO_KEYS = frozenset(
    ("user", "assistant", "note", "notes", "todo", "idea", "done", "link", "url", "source", "see", "also")
)
"""Words before a colon that are not keys with one value."""
_EVENTS = frozenset(
    """
    decision decided plan question answer lesson event task weather today breakfast lunch dinner mood
    """.split()
)
"""Things that have another value every day, none of which replaces an earlier one."""
_VALUES = frozenset(["", *"value values now wert valeur valor valore waarde значение 值 値 값".split()])
"""Headings of a column of values; the rows name the things."""
_SECTIONS = frozenset(("facts", "preferences", "decisions", "people", "lessons", "retain", "notes", "log"))
"""Headings that name the kind of the lines below, not their subject."""
_OWN_HEADING = re.compile("notes (?:of the conversation|from )|noted (?:at |by a program)|asked to remember")
"""The beginnings of the headings that Nacre writes into logs."""
_OWNER = frozenset(("user", "owner"))
QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_INDEFINITE = frozenset(("a", "an", "ein", "eine", "einen", "un", "une", "una", "uno"))
_AT = frozenset("in at on under near behind im am auf bei unter hinter neben en a dans sur chez sous".split())
"""Words before a place."""
_STATE, _SORT = "state", "sort"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_OF_NAMES = frozenset(("city", "employer"))
"""Things whose values are names: somebody may live in a small house and in Kiel."""
_HAS_ONE = re.compile(
    "favou?r|liebling|prefer|colou?r|farbe|couleur|status|diet|password|size|name|job|birth"
)
"""In the name of a thing that has one value, also if this is an adjective."""
_BEHIND = re.compile(r"(?<!\s)(?:\s*\((?:\d{4}-\d\d-\d\d|(?:memory|bank)/)[^()]*\))+(?:\s*\^\w+)?\s*$")
"""The day and source behind a fact, and the places behind a curated line."""


class Claim:
    """One line, with or without the marks of a list, a quotation or a table; computed on demand.

    With `in_talk`, it is one of several sentences, of which only "… is …" gives a value, up to the next mark.
    """

    def __init__(self, line: str, *, in_talk: bool = False) -> None:
        self.in_talk = in_talk
        marks = _MARKS.match(line)
        bare = _EMPHASIS.sub("", line[marks.end() if marks else 0 :]).strip()
        self._bare = _SINCE.sub("", bare[_opening_chars(bare) :])
        self._folded = fold(self._bare)

    @cached_property
    def _tokens(self) -> Sequence[str]:
        return _TOKEN.findall(self._folded)

    @property
    def is_short(self) -> bool:
        """Whether the line is as short as a note; a Chinese character counts as three letters."""
        dense = () if self._bare.isascii() else gram_run().findall(self._bare)
        return len(self._bare) + 2 * len("".join(dense)) <= _MOST_CHARS

    @cached_property
    def is_statement(self) -> bool:
        """Whether the line is one short statement and not conversation."""
        return self.is_short and not _TALK.search(self._bare)

    @property
    def is_phrase(self) -> bool:
        """Whether the line is a few words that state nothing, such as "Anna's boat"."""
        return len(self._tokens) <= _MOST_WORDS_OF_A_THING and self.is_statement and not self.values

    @cached_property
    def values(self) -> Mapping[Thing, frozenset[str]]:
        values = _values_in_talk(self._bare) if self.in_talk else _values(self._bare)
        told = {thing: value for thing, (value, _) in self.by_verbs.items()}
        return told | {thing: value for thing, value in values if thing and value}

    @cached_property
    def by_verbs(self) -> Mapping[Thing, tuple[frozenset[str], bool]]:
        """The values that verbs give, and whether they tell of a change: "Anna moved to Lyon" is her city."""
        numbers, touching = _verbs_by_beginning()
        begun = (*self._tokens, *(phrase for phrase in touching if phrase in self._folded))
        said = sorted({number for word in begun for number in numbers.get(word, ())})
        return {thing: told for thing, told in _told_by_verbs(self._bare, said) if told[0]}

    @cached_property
    def attributes(self) -> Sequence[frozenset[str]]:
        """The words of each thing of somebody that has a value here, such as "anna" and "birthday"."""
        return [frozenset(thing) for thing in self.values if len(thing) > 1]

    @cached_property
    def significant(self) -> frozenset[str]:
        """The words that can name a thing or its value, without "'s"."""
        words = frozenset(_without_owner(_significant_words(self._bare)))
        return words - stop_words_for(self._tokens)

    @cached_property
    def kind(self) -> str:
        """The kind of the value behind "is", told by its first words."""
        return _kind(self._bare)

    @cached_property
    def asks_about_past(self) -> bool:
        """Whether a question is in the past tense, or asks for a time or for what was before."""
        if any(sign in self._folded for sign in _table("asks about the past, among characters")):
            return True
        words = self._tokens
        if not _table("asks about the past, as its first or last word").isdisjoint((*words[:1], *words[-1:])):
            return True
        is_german = stop_words_for(words) is NAMED_STOP_WORDS["german"]
        return any(word in _table("asks about the past") for word in words if word != "was" or not is_german)

    @cached_property
    def sentences(self) -> Sequence[Claim]:
        """The sentences of a line that is conversation, without its questions."""
        cut = _SENTENCE_END.split(f"{self._bare} ")
        parts = [part.strip() for part in cut if part.strip() and len(part) <= _MOST_CHARS]
        return [Claim(part, in_talk=True) for part in parts if part[-1] not in QUESTION_MARKS]

    @cached_property
    def is_change(self) -> bool:
        """Whether the line itself says that something has changed."""
        tokens = self._tokens
        if any(sign in self._folded for sign in _table("is different, among characters")):
            return True
        changes, spoken = _table("is different"), f" {' '.join(tokens)} "
        return not changes.isdisjoint(tokens) or any(words in spoken for words in _table_of_phrases())

    def changes(self, thing: Thing) -> bool:
        """Whether the line says that the thing has another value than before."""
        return self.is_change or self.by_verbs.get(thing, ((), False))[1]

    @cached_property
    def words(self) -> Sequence[tuple[str, bool]]:
        """Each word, or pair of characters in scripts without spaces, and whether it is negated."""
        return [word for clause in _CLAUSE.split(seamed(self._folded)) for word in _in_reach(clause)]

    @cached_property
    def stems(self) -> Mapping[str, bool]:
        """The stems of significant words in order, and whether they are negated."""
        stop_words = stop_words_for([word for word, _ in self.words])
        return {stem(word): denied for word, denied in self.words if word not in stop_words}

    def having(self, terms: Sequence[str], *, denied: bool) -> frozenset[int]:
        """The numbers of the `terms`, which are word beginnings, that are asserted or `denied`."""
        words = "".join(f" {word}" for word, is_denied in self.words if is_denied is denied)
        return frozenset(at for at, term in enumerate(terms) if f" {term}" in words)


@lru_cache(maxsize=2048)  # the same lines are hits of many questions
def claim_of(line: str) -> Claim:
    """The claim of a line; what it computes on demand is kept."""
    return Claim(line)


def speaker_words(question: str) -> frozenset[str]:
    """The words with which speakers name themselves, in the languages of those in a question about now, or in
    a few words that ask, such as "my job"."""
    said, claim = fold(question), claim_of(question)
    if not (said.endswith(QUESTION_MARKS) or claim.is_phrase) or claim.asks_about_past:
        return frozenset()
    tokens = frozenset(_TOKEN.findall(said))
    whole = claim_words_beside("first person", tokens.__contains__)
    return frozenset(
        map(fold, whole | claim_words_beside("first person, among characters", said.__contains__))
    )


def labeled_rows(lines: Sequence[str]) -> Mapping[int, str]:
    """The rows of tables with two columns by number, each as a line: `| City | Porto |` as "City: Porto".

    The heading of the second column belongs to the thing ("Anna City: Porto"), unless it only says that there
    are values. A table that names a thing twice lists events, and a row about a day or a number is one.
    """
    found: dict[int, str] = {}
    table: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*lines, ""]):
        if line.lstrip().startswith("|"):
            table.append((number, [cell.strip() for cell in line.strip().strip("|").split("|")]))
            continue
        dashes = (at for at, (_, cells) in enumerate(table) if not "".join(cells).strip(" :-"))
        head = next(dashes, 0)
        heading = fold(table[head - 1][1][-1]) if head else ""
        rows = [(row, cells) for row, cells in table[head + bool(head) :] if len(cells) == 2]
        things = [fold(cells[0]) for _, cells in rows]
        if len(set(things)) == len(things):
            name = "" if heading in _VALUES else f" {heading}"
            found |= {
                row: f"{thing}{name}: {cells[1]}"
                for thing, (row, cells) in zip(things, rows, strict=True)
                if re.search(r"[^\W\d_]", thing) and thing not in WEEKDAYS and not _DATE.search(thing)
            }
        table = []
    return found


def bare_words(line: str) -> str:
    """The folded words of a line in order, without the day and source or the places behind it."""
    return " ".join(_TOKEN.findall(fold(_BEHIND.sub("", line[: 12 * _MOST_CHARS]))))


@lru_cache(maxsize=1024)  # the same lines are hits of many questions
def addresses(line: str, subject: str = "") -> tuple[Address, ...]:
    """The things that a line gives a value, such as a phone of Anna; none for events and conversation.

    `subject` is what the lines of its section or page are about.
    """
    bare, found = _BEHIND.sub("", line[: 12 * _MOST_CHARS]), list[Address]()
    claim, has_label = Claim(bare), ": " in bare or "\uff1a" in bare
    is_note = claim.is_statement and not _SESSION_HEAD.match(bare)
    for thing, value in claim.values.items() if is_note else ():
        if len(thing) < 2 and not has_label:
            continue  # "Anna is tired" names no attribute
        stop_words = stop_words_for(thing)
        about = {stem(word) for word in thing if word not in stop_words and word not in _OWNER}
        stated = {stem(word) for word in value if not is_not(word)}
        # 2026-03-04 has all numbers of 2026-03-03
        stated.update(_DATE.findall(claim._bare) if stated else ())
        # "boat: none" says that there is no value
        by_verb = claim.by_verbs.get(thing)
        is_none = (has_label or by_verb is not None) and not stated and bool(value)
        if (stated or is_none) and about and not about <= {stem(word) for word in (*NO_KEYS, *_EVENTS)}:
            about.update(map(stem, _TOKEN.findall(fold(subject))))
            is_denied = any(map(is_not, value))
            kind = "" if has_label or by_verb else claim.kind
            # "Anna's car is old" does not say that it is not red, unlike "Anna's favorite color is blue".
            has_one = claim.changes(thing) or any(map(_HAS_ONE.search, thing))
            only_adds = (by_verb is not None or kind == _STATE) and not has_one
            found.append(
                Address(
                    about=frozenset(about),
                    value=frozenset(stated),
                    is_denied=is_denied,
                    kind=kind,
                    only_adds=only_adds,
                )
            )
    return tuple(found)


def _kind(bare: str) -> str:
    tokens = _TOKEN.findall(bare)
    at = next((at for at, word in enumerate(tokens) if fold(word) in _table("is")), len(tokens))
    skipped = (_table("beside a thing") | _table("is different")) - _INDEFINITE
    words = [word for word in tokens[at + 1 :] if fold(word) not in skipped and not is_not(fold(word))]
    if not words:
        return ""
    first, second = fold(words[0]), words[1] if len(words) > 1 else ""
    if words[-1].endswith(("'s", "’s")):
        return "owner"
    if words[0].lower() in _INDEFINITE:  # "à" is not "a"
        return _SORT
    if first in ("on", "am") and second[:1].isupper():
        return "day"
    if first in _AT:
        return "name" if second[:1].isdigit() else "place"
    if first in stop_words_for([fold(word) for word in words]):
        return first
    if first[0].isdigit():
        unit = words[0].lstrip("0123456789") or second
        is_date = fold(tokens[at + 1]) in _table("beside a thing") - _table("is different")  # "le 3 mai"
        return unit if unit.islower() and not is_date else "name"
    is_name = words[0] != words[0].lower() or any(map(str.isdigit, first))
    return "name" if is_name else _STATE


def subject_of(headings: Sequence[str]) -> str:
    """The subject that the innermost heading names; empty for a title, a date, a time or a kind of lines."""
    if len(headings) < 2:
        return ""
    name = fold(headings[-1]).strip()
    return "" if name in _SECTIONS or _OWN_HEADING.match(name) or not name[:1].isalpha() else name


def is_own_heading(text: str) -> bool:
    """Whether a heading is one that Nacre writes into logs, which says nothing of the lines below."""
    return bool(_OWN_HEADING.match(fold(text.lstrip("# "))))


def has_other_value(newer: Claim, older: Claim) -> bool:
    """Whether two statements give one thing different values, rather than the same value in more words.

    Who is allergic to cats may still be allergic to nuts.
    """
    both = older.values.keys() & newer.values.keys()
    only_adds = bool(both) and not newer.is_change and newer.kind in (_STATE, _SORT)
    return any(
        not (older.values[thing] <= newer.values[thing] or newer.values[thing] <= older.values[thing])
        for thing in both
        if (newer.changes(thing) if thing in newer.by_verbs else not only_adds or len(thing) > 1)
        or _HAS_ONE.search(thing[-1])
    )


def says_otherwise(newer: Claim, older: Claim) -> bool:
    """Whether the later of two statements says that the earlier one has changed or is not true.

    They must share at least two words, and two thirds of the shorter one. For a short line about a change,
    the same first word and half of the shorter one suffice. Of two changes, the later one does not contradict
    the earlier.
    """
    if newer.in_talk or older.in_talk:
        return False
    shared = older.stems.keys() & newer.stems.keys()
    shorter, longer = sorted((len(older.stems), len(newer.stems)))
    if len(shared) < 2 or longer > _MOST_WORDS:
        return False
    is_change = newer.is_change and not older.is_change
    if not is_change and all(older.stems[word] is newer.stems[word] for word in shared):
        return False
    if 3 * len(shared) >= 2 * shorter:
        return True
    is_short = longer <= _SHORT and 2 * len(shared) >= shorter
    return is_change and is_short and begin_alike(newer, older)


def says_otherwise_by_verb(newer: Claim, older: Claim) -> bool:
    """Whether a verb gives a thing another value: who has no boat has none that was renamed."""
    none = (set(map(stem, thing)) for thing, (value, _) in newer.by_verbs.items() if any(map(is_not, value)))
    is_gone = any(older.stems.keys() >= thing for thing in none)
    return is_gone or (bool(newer.by_verbs) and has_other_value(newer, older))


def tell_of_others(one: Claim, other: Claim) -> bool:
    """Whether two lines give values of different things of somebody, such as a city and a phone number."""
    both = list(product(one.attributes, other.attributes))
    return bool(both) and not any(thing <= another or another <= thing for thing, another in both)


def begin_alike(one: Claim, other: Claim) -> bool:
    """Whether the first significant words of two lines are the same."""
    return next(iter(one.stems), "") == next(iter(other.stems), None)


@cache
def _table(kind: str) -> frozenset[str]:
    return frozenset(map(fold, claim_words(kind)))


@lru_cache(maxsize=4096)  # the same lines are candidates of many questions
def _opening_chars(bare: str) -> int:
    """The length of what only announces a statement, such as "By the way, "."""
    tokens = list(islice(_TOKEN.finditer(bare), _MOST_WORDS_OF_A_THING))
    for count in range(len(tokens) - 1, 0, -1):
        if " ".join(fold(token[0]) for token in tokens[:count]) in _table("before a statement"):
            return tokens[count].start()
    return 0


@cache
def _and() -> re.Pattern[str]:
    return re.compile(rf"\s(?:{'|'.join(_table('and'))})\s", re.IGNORECASE)


@cache
def _verb_patterns() -> Sequence[tuple[str, bool, Sequence[str], re.Pattern[str]]]:
    """Things, whether they have changed, the verbs that say so, and a pattern of these."""
    chars = f"[^{re.escape(_MARKS_OF_CLAUSES[1:])}]"
    found: list[tuple[str, bool, list[str], re.Pattern[str]]] = []
    for name, is_change, phrases in verbs_of_things():
        by_ending: dict[str, list[str]] = {}
        for phrase in sorted(phrases, key=len, reverse=True):
            begin, _, end = phrase.partition(" \u2026 ")
            by_ending.setdefault(end, []).append(begin)
        for end, begins in by_ending.items():
            ended = rf"{chars}+?)\s+{end}(?!\w)" if end else f"{chars}+)"
            pattern = re.compile(f"(?:{'|'.join(map(_begun, begins))})({ended}", re.IGNORECASE)
            found.append((name, is_change, begins, pattern))
    return found


def _begun(phrase: str) -> str:
    # One word more may stand between two: "lives now in".
    spaced = r"\s+(?:[^\W_]+\s+)?".join(map(re.escape, phrase.split()))
    return phrase if gram_run().match(phrase) else rf"(?<!\w){spaced}\s+"


@cache
def _verbs_by_beginning() -> tuple[Mapping[str, Sequence[int]], Sequence[str]]:
    """The numbers of the patterns by the first words of their verbs, and the verbs where words touch."""
    numbers, touching = dict[str, list[int]](), list[str]()
    for number, (_, _, begins, _) in enumerate(_verb_patterns()):
        for begin in begins:
            if gram_run().match(begin):
                touching.append(begin)
                word = begin
            else:
                word = _TOKEN.findall(fold(begin))[0]
            numbers.setdefault(word, []).append(number)
    return numbers, touching


@cache
def _table_of_phrases() -> tuple[str, ...]:
    return tuple(f" {words} " for words in _table("is different") if " " in words)


def _in_reach(clause: str) -> Iterator[tuple[str, bool]]:
    words, behind_verb = list(_cut(clause)), _table("not, behind the verb")
    behind = {at for at, word in enumerate(words) if word in behind_verb}
    signs = behind | {at for at, word in enumerate(words) if is_not(word)}
    for at, word in enumerate(words):
        yield word, any(at - far in signs or at + far in behind for far in range(1, _REACH + 1) if signs)


def _cut(clause: str) -> Iterator[str]:
    for token in _TOKEN.findall(clause):
        if not token.isascii() and (run := gram_run().match(token)):  # without the "'s" of 王芳's
            yield from (run[0][at : at + 2] for at in range(max(1, len(run[0]) - 1)))
        else:
            yield token


def is_not(word: str) -> bool:
    if word in _table("not") or word.endswith(("n't", "n’t")):
        return True
    return not word.isascii() and any(sign in word for sign in _table("not, among characters"))


def _values(bare: str) -> Iterator[tuple[Thing, frozenset[str]]]:
    if bare.startswith("|"):
        thing, _, value = bare.strip("| ").partition("|")
        yield _thing(thing), _value(value)
        return
    if labeled := _LABELED.match(bare):
        first = _SEVERAL.split(labeled[2], 1)[0].strip()
        if is_not(fold(first)):  # "boat: none; the Petrel was a mistake"
            yield _thing(labeled[1]), _value(first)
        # A text with commas but without a number is a list of events.
        elif not _SEVERAL.search(labeled[2]) or any(map(str.isdigit, labeled[2])):
            yield _thing(labeled[1]), _value(labeled[2])
    start = 0
    for end in (*(mark.start() for mark in _CLAUSE.finditer(bare)), len(bare)):
        clause = bare[start:end].lstrip(_MARKS_OF_CLAUSES)
        if not clause.isascii() and gram_run().match(clause) and " " not in clause.strip():
            if unspaced := _UNSPACED_IS.match(clause):
                yield _thing(unspaced[1]), _value(unspaced[2])
        else:
            yield from _said_to_be(bare, start, end)
        start = end


def _told_by_verbs(bare: str, numbers: Sequence[int]) -> Iterator[tuple[Thing, tuple[frozenset[str], bool]]]:
    for name, is_change, _, pattern in map(_verb_patterns().__getitem__, numbers):
        for found in pattern.finditer(bare):
            start = max(bare.rfind(mark, 0, found.start()) for mark in _MARKS_OF_CLAUSES[1:]) + 1
            tokens = _TOKEN.findall(bare[start : found.start()])
            given_up = next((at for at, word in enumerate(tokens) if fold(word) in _table("gives up")), None)
            subject = _thing(" ".join(tokens[:given_up]))
            value, *_ = _and().split(found[1].strip(), 1)
            is_anybody = stop_words_for(subject).issuperset(subject)  # "she"
            is_known = not is_anybody or _table("first person").issuperset(subject)
            if is_known and not name:
                yield (*subject, *_thing(value)), (frozenset(("none",)), is_change)
            elif is_known and (name not in _OF_NAMES or _is_named(value)):
                yield (*subject, name), (_value(value), is_change or given_up is not None)


def _is_named(value: str) -> bool:
    """Whether a place or company has a name or an article: "a small house" in Kiel is no other place."""
    first = value.partition(" ")[0]
    articles = _table("beside a thing") - _table("is different") - _INDEFINITE
    return first != first.lower() or not first.isascii() or fold(first) in articles


def _values_in_talk(bare: str) -> Iterator[tuple[Thing, frozenset[str]]]:
    start = 0
    for mark in _CLAUSE.finditer(f"{bare}."):
        yield from _said_to_be(bare, start, mark.start(), until=mark.start())
        start = mark.end()


def _said_to_be(
    bare: str, start: int, end: int, *, until: int | None = None
) -> Iterator[tuple[Thing, frozenset[str]]]:
    # Two people may each say "my dentist is …".
    speaker = _SPEAKER.match(bare)
    by = _thing(speaker[1]) if speaker and start >= speaker.end(1) else ()
    for word in _TOKEN.finditer(bare, start, end):
        if fold(word[0]) in _table("is"):
            thing = _thing(bare[start : word.start()])
            if not stop_words_for(thing).issuperset(thing):  # "it" is another thing in each line
                yield (*by, *thing), _value(bare[word.end() : until])
            return


def _thing(text: str) -> Thing:
    for sign in _table("is different, among characters"):
        text = text.replace(sign, "")
    words = _without_owner(_significant_words(text))
    return tuple(words) if len(words) <= _MOST_WORDS_OF_A_THING else ()


def _without_owner(words: Iterable[str]) -> list[str]:
    return [word.removesuffix("'s").removesuffix("’s") for word in words]


def _value(text: str) -> frozenset[str]:
    words = _significant_words(text)
    return frozenset(words) if len(words) <= _MOST_WORDS_OF_A_VALUE else frozenset()


def _significant_words(text: str) -> list[str]:
    return [word for word in _TOKEN.findall(fold(text)) if word not in _table("beside a thing")]
