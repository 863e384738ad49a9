"""The notes that can be tidied, and what rules find in them: repeated lines, and keys with several values."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from nacre.extensions.curation.edits import Edit, Place, has_lines_below, sections, without_citation
from nacre.extensions.curation.note_changes import daily_logs, note_texts
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.file_reader import without_template
from nacre.memory.files.sources.rejections import rejected_lines
from nacre.memory.files.sources.secrets import without_secrets
from nacre.memory.files.sources.source import EVERYBODY, PRIVATE
from nacre.memory.files.sources.sources import Sources, line_key
from nacre.memory.text.chunker import day_in_path
from nacre.memory.text.claims import NO_KEYS, Claim, has_other_value, subject_of
from nacre.memory.text.forms.spelling import fold
from nacre.memory.text.markdown_blocks import ITEM, prose_lines
from nacre.memory.workspace.workspace import OLDER_NAMES
from nacre.record import Record

log = logging.getLogger(__name__)

CURATED = "MEMORY.md"
_KEYED = re.compile(
    r"(?:\*\*|__)?([^\W\d_][^:=\uff1a|]{0,59}?)(?:\*\*|__)?\s*(?::(?:\*\*|__)?(?=\s)|\uff1a|=)\s*(\S.*)"
)
_TASK = re.compile(r"\[[ xX]\]\s+")
_MIN_REPEAT_WORDS = 2
"""A shorter line, such as `- ok`, does not count as a repeat."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """A key with several values, newest first; lines of notes without a date come last."""

    key: str
    places: tuple[Place, ...]


class TidyNotes(Record):
    """The curated note `path` and the daily logs, oldest first, with their `texts`.

    `places` are the lines that rules and models may use: the owner's words, without secrets. `left_out` has
    the texts of the other lines; `others_count` counts those that are not the owner's words. Lines may go to
    `pages` if they are given.
    """

    path: str
    texts: Mapping[str, str]
    places: tuple[Place, ...]
    left_out: frozenset[str]
    others_count: int
    pages: Mapping[str, str | None] | None = None

    @property
    def curated(self) -> str | None:
        """The text of the curated note; `None` if it does not exist."""
        return self.texts.get(self.path)

    @property
    def log_places(self) -> tuple[Place, ...]:
        """The usable lines of the logs."""
        return tuple(place for place in self.places if place.path != self.path)

    def curated_places(self, text: str) -> tuple[Place, ...]:
        """The usable lines of the curated note when its text is `text`."""
        lines = "\n".join(without_template(self.path, text.split("\n")))
        return tuple(place for place in places(self.path, lines) if place.text not in self.left_out)


async def read_tidy_notes(
    workspace: Workspace, *, after: date | None = None, before: date | None = None
) -> TidyNotes:
    """The curated note, and the daily logs from `after` to `before`, both included.

    Raises:
        ProposalFailed: a note cannot be read, or is not text.
    """
    path = CURATED
    texts = await note_texts(workspace, [CURATED, OLDER_NAMES[CURATED]])
    if CURATED not in texts and texts:
        path = OLDER_NAMES[CURATED]
    logs = await note_texts(workspace, await daily_logs(workspace, after=after, before=before))
    used = {name: texts[name] for name in (path,) if name in texts} | logs
    sources = Sources(workspace)
    usable: list[Place] = []
    left_out: set[str] = set()
    others_count = 0
    for name, text in used.items():
        lines = text.split("\n")
        known = await sources.of_lines(name, lines)
        for place in places(name, "\n".join(without_template(name, lines))):
            source = known[place.number - 1]
            is_of_others = source is not None and not (
                source.is_owners_word and source.audience in (PRIVATE, EVERYBODY)
            )
            others_count += is_of_others
            if is_of_others or without_secrets(place.text) != place.text:
                left_out.add(place.text)
            else:
                usable.append(place)
    return TidyNotes(
        path=path,
        texts=used,
        places=tuple(usable),
        left_out=frozenset(left_out),
        others_count=others_count,
    )


def places(path: str, text: str) -> Iterator[Place]:
    """The lines of a note except headings, code, quotations and blank lines."""
    lines = text.split("\n")
    for at in prose_lines(lines):
        yield Place(path=path, number=at + 1, text=lines[at].strip())


def repeats(lines: Sequence[Place]) -> list[tuple[Place, ...]]:
    """Groups of lines that are equal except for blanks, list marks and case.

    At least one line of a group is in a note without a date: an event that only two daily logs report may
    have happened twice.
    """
    found: dict[str, list[Place]] = {}
    for place in lines:
        if len(_WORD.findall(place.text)) >= _MIN_REPEAT_WORDS and (
            key := line_key(fold(without_citation(place.text)))
        ):
            found.setdefault(key, []).append(place)
    groups = (tuple(group) for group in found.values() if len(group) > 1)
    return [group for group in groups if any(day_in_path(place.path) is None for place in group)]


def without_repeats(path: str, text: str, known: Sequence[Place]) -> list[Edit]:
    """Edits that remove lines which the note repeats under one heading; the first of them stays.

    Only the lines `known` are compared.
    """
    lines, marks = text.split("\n"), sections(text)
    first: dict[tuple[str, tuple[str, ...]], Place] = {}
    edits: list[Edit] = []
    for place in known:
        key = line_key(without_citation(place.text))
        if place.path != path or not key or not ITEM.match(lines[place.number - 1]):
            continue
        kept = first.setdefault((key, _headings(marks, place.number)), place)
        if kept is not place and not has_lines_below(lines, place.number):
            edits.append(Edit(kind="duplicate", evidence=(kept,), removed=(place,)))
    return edits


async def without_rejected(workspace: Workspace, path: str, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits of the note `path` without those that add a line which the owner rejected before."""
    sources, left = Sources(workspace), list[Edit]()
    for edit in edits:
        name = edit.page or path
        under = sorted({edit.under or edit.title, edit.title or edit.under})
        texts = ["\n".join((f"# {name}\n## {each}", *edit.added)) for each in under]
        is_rejected = [await rejected_lines(sources, name, text, edit.added) for text in texts]
        left += [] if any(is_rejected) else [edit]
    if count := len(edits) - len(left):
        log.info("%d edits of %s are left out: the owner rejected their lines before", count, path)
    return tuple(left)


def contradictions(lines: Sequence[Place], texts: Mapping[str, str]) -> list[Contradiction]:
    """Keys with several values, such as `- Phone: 1` and `- Phone: 2`, sorted by the newest value.

    Lines are about one subject if their headings name the same subject, or none. `texts` has the whole text
    of each note.
    """
    marks = {path: sections(text) for path, text in texts.items()}
    found: dict[tuple[str, str], list[Place]] = {}
    for place in lines:
        item = ITEM.match(place.text)
        bare = _TASK.sub("", place.text[item.end() :] if item else place.text, count=1)
        keyed = _KEYED.fullmatch(bare.strip())
        key = " ".join(_WORD.findall(fold(keyed[1]))) if keyed else ""
        if key and key not in NO_KEYS and Claim(place.text).is_statement:
            headings = _headings(marks[place.path], place.number)
            found.setdefault((subject_of(headings), key), []).append(place)
    results: list[Contradiction] = []
    for (_, key), group in found.items():
        newest, *others = sorted(group, key=_newest_first)
        differ = [place for place in others if has_other_value(Claim(newest.text), Claim(place.text))]
        if differ:
            results.append(Contradiction(key=key, places=(newest, *differ)))
    return sorted(results, key=lambda each: _newest_first(each.places[0]))


def _newest_first(place: Place) -> tuple[int, str, int]:
    day = day_in_path(place.path)
    return (-day.toordinal() if day else 0, place.path, -place.number)


def _headings(marks: Sequence[tuple[int, tuple[str, ...]]], number: int) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    for line, headings in marks:
        if line >= number:
            break
        path = headings
    return path
