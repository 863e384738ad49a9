"""Who speaks in a transcript, however it is written: `**User:** …`, `[10:31] Ann: …`, `### Assistant`.

Names are speakers only if an assistant speaks in the same form, because a note may begin with `Note:`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from nacre.memory.text.forms.spelling import fold
from nacre.memory.text.forms.words import claim_words

Role = Literal["person", "assistant", ""]
Lines = Mapping[int, frozenset[int]]
_Who = tuple[str, str, Role]
"""The form, the name and the role of a label."""

_CLOCK = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:[.,]\d+)?(?:\s?[AaPp]\.?[Mm]\.?)?Z?"
_TIME = rf"(?:\d{{1,4}}[-./]\d{{1,2}}[-./]\d{{1,4}}\.?(?:T|,?\s+(?:at\s+)?)?)?{_CLOCK}"
_LABEL = re.compile(
    r"(?P<mark>[\s>]*(?:#{1,6}\s+|(?:[-*+]|\d{1,9}[.)])\s+)?)"
    rf"(?P<time>[\[(<*_]*{_TIME}[\])>*_]*\s*(?:[-\u2013\u2014|:]\s+)?)?"
    r"(?P<open>[^\w\s#>\-]{0,6}(?:im_start\|>)?\s?)"
    r"(?P<name>[^\W\d_][^\n:\uff1a<>\[\]()*_`|?!,;]{0,30}?)"
    r"(?P<version>[ -]v?\d[\w. -]{0,15})?"
    r"(?:\s(?:said|wrote|says))?"
    rf"(?:,?\s*[(\[]?{_TIME}[)\]]?|\s*\([^()\n]{{1,30}}\))?"
    r"(?P<close>[*_`>|\]]{0,4}\s?[:\uff1a][*_`]{0,3}(?:(?=\s|$)|(?<=\uff1a))|[>|\]]{1,2}(?=\s|$)|[*_`]{0,3}\s*$)"
)
_LONGEST = 90
_ENDS = re.compile("[:\uff1a>|\\]]")


class Label(NamedTuple):
    """The beginning of a line that names who speaks: how it is written, the folded name, and where it ends.

    The `role` is empty for names, which are a person's if an assistant speaks in the same form.
    """

    form: str
    name: str
    role: Role
    end: int


@lru_cache(maxsize=4096)  # the same notes are candidates of many questions
def label_of(line: str) -> Label | None:
    """The label at the beginning of a line, if it looks like one."""
    beginning = line[:_LONGEST]
    if not _ENDS.search(beginning) and not beginning.lstrip(" >").startswith(("#", "*", "_")):
        return None
    found = _LABEL.match(line)
    if found is None:
        return None
    mark, opened, closed = (found[part].strip() for part in ("mark", "open", "close"))
    # Words alone on a line are a label in a heading or in bold type only; `|` begins a row of a table.
    stands_alone = not _ENDS.search(closed)
    if opened == "|" or (stands_alone and not (mark.endswith("#") or opened[:2] in ("**", "__"))):
        return None
    name = fold(found["name"]).strip()
    opened = "".join(filter(str.isascii, opened))
    form = f"{mark if mark[:1] in '>#' else mark[:1]} {'at' if found['time'] else ''} {opened}{closed}"
    return Label(form, name, _roles().get(name, ""), found.end())


def lines_of_assistants(texts: Mapping[int, str], paths: Callable[[], Mapping[int, str]]) -> Lines:
    """The lines, counted from 0, of each text that an assistant says in a transcript, by the text's number.

    A transcript is a file in which an assistant speaks in a form that also a person uses in some of the
    texts. A text of it without any label is part of a long answer; what stands before the first label is said
    by whoever does not speak next. `paths` gives the files of the texts; it is called if an assistant speaks.
    """
    said = {at: label_counts(text) for at, text in texts.items()}
    spoken: dict[_Who, int] = {}
    for counts in said.values():
        for who, count in counts.items():
            spoken[who] = spoken.get(who, 0) + count
    assistants = {form for form, _, role in spoken if role == "assistant"}
    people = {
        (form, name)
        for (form, name, role), count in spoken.items()
        if form in assistants and (role == "person" or (not role and count > 1))
    }
    forms = {form for form, _ in people}
    if not forms:
        return {}
    files = paths()

    said_by: dict[_Who, tuple[_Who, Role]] = {
        who: (who, "person" if who[:2] in people else who[2])
        for who in spoken
        if who[0] in forms and (who[2] or who[:2] in people)
    }
    by_assistants = {each for each in said_by.values() if each[1] == "assistant"}
    roles = {at: frozenset([said_by[who] for who in counts if who in said_by]) for at, counts in said.items()}
    transcripts = {files[at] for at, found in roles.items() if not found.isdisjoint(by_assistants)}
    return {at: _answered(texts[at], found) for at, found in roles.items() if files[at] in transcripts}


@lru_cache(maxsize=4096)  # the same notes are candidates of many questions
def _labels(text: str) -> Mapping[int, _Who]:
    labels = map(label_of, text.split("\n"))
    return {at: label[:3] for at, label in enumerate(labels) if label is not None}


@lru_cache(maxsize=4096)  # the same notes are candidates of many questions
def label_counts(text: str) -> Mapping[tuple[str, str, Role], int]:
    """How many lines of a text have which label: its form, the name and the role."""
    return Counter(_labels(text).values())


@lru_cache(maxsize=2048)  # the same notes are candidates of many questions
def _answered(text: str, said_by: frozenset[tuple[_Who, Role]]) -> frozenset[int]:
    known = dict(said_by)
    roles = {line: known[who] for line, who in _labels(text).items() if who in known}
    first = next(iter(roles.values()), "")
    speaker: Role = "person" if first == "assistant" else "assistant"
    found: list[int] = []
    start = 0
    for at, role in (*roles.items(), (text.count("\n") + 1, speaker)):
        if speaker == "assistant":
            found += range(start, at)
        speaker, start = role, at
    return frozenset(found)


def may_name_an_assistant(text: str) -> bool:
    """Whether a line may begin with the name of an assistant: a cheap test before `lines_of_assistants`."""
    return _answering().search("\n" + text) is not None


def is_chat(text: str, at: int) -> bool:
    """Whether line `at` of a text has a label that another line has too, as in a talk of several people."""
    labels = _labels(text)
    return at in labels and list(labels.values()).count(labels[at]) > 1


@cache
def _answering() -> re.Pattern[str]:
    # A literal at the beginning makes a search several times as fast, and so do the first letters.
    names = sorted(map(re.escape, claim_words("said by an assistant")), key=len, reverse=True)
    first = "".join({name[0] for name in names})
    moment = r"(?:\d[\d:.,/TZ -]*(?:[ap]m)?[^\w\n]*)?"
    return re.compile(rf"\n[^\w\n]*{moment}(?=[{first}])(?:{'|'.join(names)})(?!\w)", re.IGNORECASE)


@cache
def _roles() -> Mapping[str, Role]:
    table: dict[str, Role] = dict.fromkeys(map(fold, claim_words("said by a person")), "person")
    return table | dict.fromkeys(map(fold, claim_words("said by an assistant")), "assistant")
