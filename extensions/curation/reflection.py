"""Reflection: sorts the items that the daily logs ask to retain into the pages of `bank/`, opinions included.

A proposal adds items, moves links after their lines and updates confidences; other text on a page stays as it
is. Proposing again after the changes were written gives no changes. `bank/.taken` is written last: after a
kill in between, the items that are already on pages are recognized by their words.

The items stand under `## Retain` of a daily log, each with its kind and the entities that it is about.

    W @Peter: Currently in Marrakech.              a fact about the world
    B @warelay: I fixed the crash on reconnect.    what the agent did
    O(c=0.95) @Peter: Prefers short replies.       an opinion, with its confidence
    S @Peter: Busy with the move all week.         an observation, a summary

An item is a list item or a plain line; indented lines continue it. Any number of entities may stand before
the colon. The section ends at the next heading of its level or a higher one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import PurePosixPath
from typing import Literal, TypeAlias, cast

from nacre.extensions.curation.note_changes import daily_logs, note_names, note_texts
from nacre.extensions.curation.pages import (
    ENTITIES,
    EXPERIENCE,
    LINK,
    OPINIONS,
    TAKEN,
    WORLD,
    checked_summary,
    item_text,
    item_texts,
    joined,
    line_end,
    lines_of,
    new_page,
    summary_lines,
    taken_links,
    taken_text,
    with_entities,
    with_items,
    with_moved_links,
    with_summary,
)
from nacre.memory.contracts.notes import BANK_FOLDER
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.proposals import NoteChange
from nacre.memory.files.sources.sources import Sources
from nacre.memory.text.chunker import day_in_path
from nacre.memory.text.claims import Claim, is_not
from nacre.memory.text.markdown_blocks import FENCE, HEADING, ITEM, RETAINED, is_retain
from nacre.memory.workspace.paths import DEVICE_NAME
from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.model import ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.models.failover import whole_answer
from nacre.sessions.contracts.messages import message_text, user_message

SUMMARY_SECONDS = 60.0
"""How long the model may take for one page."""
SUMMARY_TOKENS = 2_000
"""The limit of one answer, with the reasoning of models that reason."""
MOST_PAGE_CHARS = 24_000
"""A longer page gets no summary."""

log = logging.getLogger(__name__)

Kind: TypeAlias = Literal["W", "B", "O", "S"]
_PAGES: Mapping[Kind, str] = {"W": WORLD, "B": EXPERIENCE}
_SECTIONS: Mapping[Kind, str] = {"W": "World", "B": "Experience", "O": "Opinions", "S": "Observations"}

DEFAULT_CONFIDENCE = 0.7
"""The confidence of an opinion without `c=`."""

_CONFIDENCE = re.compile(r"\s*c\s*=\s*(\d+(?:\.\d*)?|\.\d+)\s*")
_ENTITY = re.compile(r"\w(?:[\w.'-]*\w)?")
_MAX_NAME_CHARS = 60
_NOT_AN_ITEM = "it does not begin with one of `W @Name:`, `B …:`, `O(c=0.9) …:`, `S …:`"


class Retained(Record):
    """One item, on the lines from `line` to `last_line`, counted from 1 and inclusive.

    `confidence` is 0 to 1 for an opinion and `None` for other kinds.
    """

    kind: Kind
    entities: tuple[str, ...]
    text: str
    confidence: float | None
    path: str
    line: int
    last_line: int

    @property
    def link(self) -> str:
        """Its place, such as `memory/2026-01-20.md#L12`."""
        return f"{self.path}#L{self.line}"

    @property
    def day(self) -> date:
        """The day of its log."""
        return day_in_path(self.path) or date.min

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that identify the item by its log and words, whatever its line number."""
        said = (self.kind, str(self.confidence), *map(str.casefold, self.entities), self.text, self.path)
        return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Unparsed(Record):
    """A line under `## Retain` that is not put on a page, and the reason."""

    path: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}#L{self.line} stays in its log: {self.reason}. The line is {self.text!r}."


def retained_items(path: str, text: str) -> Iterator[Retained | Unparsed]:
    """Each item under `## Retain` of the log `path`, in order. Accepts any text."""
    for number, last_line, line in _items(text.split("\n")):
        said = ITEM.sub("", line, count=1).strip()
        found = RETAINED.fullmatch(said)
        problem = _problem(found) if found else _NOT_AN_ITEM
        if found is None or problem:
            yield Unparsed(path=path, line=number, text=said[:120], reason=problem)
            continue
        entities = dict.fromkeys(name[1:] for name in found["entities"].split())
        yield Retained(
            kind=cast(Kind, found["kind"]),
            entities=tuple(entities),
            text=" ".join(found["text"].split()),
            confidence=_confidence(found["inside"]) if found["kind"] == "O" else None,
            path=path,
            line=number,
            last_line=last_line,
        )


def _problem(found: re.Match[str]) -> str:
    """Why a line of the right form cannot be used; empty if it can."""
    names = [name[1:] for name in found["entities"].split()]
    for name in names:
        if not _ENTITY.fullmatch(name) or len(name) > _MAX_NAME_CHARS or DEVICE_NAME.fullmatch(name):
            return f"@{name} cannot be the name of a page"
    if not found["text"].strip():
        return "there is no text after the colon"
    if found["inside"] is None:
        return ""
    if found["kind"] != "O":
        return f"only an opinion (O) has a confidence, and this is {found['kind']}"
    stated = _CONFIDENCE.fullmatch(found["inside"])
    if stated is None or float(stated[1]) > 1:
        return f"({found['inside']}) is not a confidence; write a number from 0 to 1, such as (c=0.9)"
    return ""


def _confidence(inside: str | None) -> float:
    stated = _CONFIDENCE.fullmatch(inside or "")
    return float(stated[1]) if stated else DEFAULT_CONFIDENCE


def _items(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The first and last line number of each item below a heading "Retain", and its text as one line."""
    level, fence, item = 0, "", (0, 0, "")
    for number, line in enumerate(lines, start=1):
        opens = FENCE.match(line)
        if fence or opens:
            fence = (
                "" if fence and opens and opens[1].startswith(fence) else fence or (opens[1] if opens else "")
            )
            continue
        heading = HEADING.match(line)
        if heading:
            if item[0]:
                yield item
            item = (0, 0, "")
            if is_retain(line):
                level = len(heading[1])
            elif level and len(heading[1]) <= level:
                level = 0
        elif level and line.strip():
            goes_on = item[0] and line[:1] in " \t" and not ITEM.match(line)
            if goes_on:
                item = (item[0], number, f"{item[2]} {line.strip()}")
            else:
                if item[0]:
                    yield item
                item = (number, number, line)
    if item[0]:
        yield item


class BankProposal(Record):
    """The changes that a reflection proposes: those of pages, and that of `bank/.taken`.

    `unparsed` are lines under `## Retain` that stay in their logs.
    """

    changes: tuple[NoteChange, ...]
    taken: NoteChange
    unparsed: tuple[Unparsed, ...]

    @property
    def diff(self) -> str:
        """All changes of pages as one unified diff."""
        return "".join(change.diff for change in self.changes)


async def propose_bank(workspace: Workspace) -> BankProposal:
    """What the daily logs of the workspace would change in its bank. Writes nothing.

    Raises:
        ProposalFailed: a log or a page cannot be read.
    """
    logs = await daily_logs(workspace)
    pages = [TAKEN, *await note_names(workspace, BANK_FOLDER), *await note_names(workspace, ENTITIES)]
    texts = await note_texts(workspace, [*logs, *pages])
    read = {name: texts[name] for name in logs if name in texts}
    return bank_proposal(
        read,
        {name: texts[name] for name in pages if name in texts},
        of_others=await _links_of_others(Sources(workspace), read),
    )


def bank_proposal(
    logs: Mapping[str, str], pages: Mapping[str, str], *, of_others: Collection[str] = ()
) -> BankProposal:
    """What these `logs` would change in these `pages` of the bank; both map names to texts.

    `of_others` are the links of items that are not only the owner's words. They stay in their logs.
    """
    read = (item for path in sorted(logs) for item in retained_items(path, logs[path]))
    items = [
        Unparsed(
            path=item.path,
            line=item.line,
            text=item.text[:120],
            reason="it is not the owner's word, as `nacre memory why` shows",
        )
        if isinstance(item, Retained) and item.link in of_others
        else item
        for item in read
    ]
    found = _first_of_each([item for item in items if isinstance(item, Retained)])
    before = taken_links(pages.get(TAKEN, ""))
    moved = {
        before[item.digest]: item.link for item in found if before.get(item.digest, item.link) != item.link
    }
    after = {path: with_moved_links(text, moved) for path, text in pages.items() if path != TAKEN}
    _add_items(after, [item for item in found if item.digest not in before], found)
    links = taken_text(before | {item.digest: item.link for item in found})
    return BankProposal(
        changes=tuple(
            NoteChange(path=path, before=pages.get(path), after=text)
            for path, text in sorted(after.items())
            if text != pages.get(path)
        ),
        taken=NoteChange(path=TAKEN, before=pages.get(TAKEN), after=links),
        unparsed=tuple(item for item in items if isinstance(item, Unparsed)),
    )


async def with_summaries(
    workspace: Workspace, proposal: BankProposal, summarize: Callable[[str, str], Awaitable[str]]
) -> BankProposal:
    """The proposal with a summary on each changed page of an entity.

    `summarize` gets the path and the text of a page. A page stays without a new summary if the answer fails
    `checked_summary`, and if its present summary was written by hand.
    """
    sources = Sources(workspace)
    changes: list[NoteChange] = []
    for change in proposal.changes:
        if change.path.startswith(f"{ENTITIES}/") and await _may_summarize(sources, change):
            summary = checked_summary(await summarize(change.path, change.after), change.after)
            change = replace(change, after=with_summary(change.after, summary)) if summary else change
        changes.append(change)
    return replace(proposal, changes=tuple(changes))


async def _may_summarize(sources: Sources, change: NoteChange) -> bool:
    before = change.before or ""
    summary = summary_lines(before)
    lines = [line for line in before.split("\n")[summary.start : summary.stop] if line.strip()]
    known = await sources.of_lines(change.path, lines)
    return all(source is not None and source.written_by == "reflection" for source in known)


async def _links_of_others(sources: Sources, logs: Mapping[str, str]) -> frozenset[str]:
    """The links of items with a line from somebody else or from a tool. Lines without a source are the
    owner's."""
    links: set[str] = set()
    for path, text in logs.items():
        items = [item for item in retained_items(path, text) if isinstance(item, Retained)]
        found = await sources.of_lines(path, text.split("\n")) if items else ()
        links.update(
            item.link
            for item in items
            if any(source and not source.is_owners_word for source in found[item.line - 1 : item.last_line])
        )
    return frozenset(links)


def _first_of_each(items: Sequence[Retained]) -> tuple[Retained, ...]:
    """The items in the order of days; of items that a log repeats, the first."""
    first: dict[str, Retained] = {}
    for item in sorted(items, key=lambda item: (item.day, item.path, item.line)):
        first.setdefault(item.digest, item)
    return tuple(first.values())


def _add_items(pages: dict[str, str], new: Sequence[Retained], found: Sequence[Retained]) -> None:
    for item in new:
        # Opinions have a page of their own, and observations about entities are only on their pages.
        if page := WORLD if item.kind == "S" and not item.entities else _PAGES.get(item.kind):
            text = with_entities(item.entities, item.text)
            _add_item(pages, page, text, item.link)
        if item.kind != "O":
            for name in item.entities:
                text = item.text if len(item.entities) == 1 else with_entities(item.entities, item.text)
                _add_item(pages, _entity_page(pages, name), text, item.link, section=_SECTIONS[item.kind])
    page, opinions = with_evidence(pages.get(OPINIONS, ""), [item for item in new if item.kind == "O"])
    if page:
        pages[OPINIONS] = page
    old = {item.link for item in found} - {item.link for item in new}
    for opinion in opinions:
        is_new = bool(opinion.new or opinion.links) and not opinion.links & old
        _update_entities(pages, opinion, is_new=is_new)


def _add_item(pages: dict[str, str], path: str, item: str, link: str, *, section: str = "") -> None:
    text = pages.get(path) or new_page(path)
    if item_text(f"- {item}") not in item_texts(text):
        pages[path] = with_items(text, [f"- {item} ({link})"], section=section)


def _entity_page(pages: Mapping[str, str], name: str) -> str:
    """The page of an entity, in the spelling that was used first; case does not matter."""
    path = f"{ENTITIES}/{name}.md"
    return next((known for known in pages if known.casefold() == path.casefold()), path)


def _update_entities(pages: dict[str, str], opinion: Opinion, *, is_new: bool) -> None:
    """Repeats an opinion on the pages of its entities; one that was removed from a page stays away."""
    for name in opinion.entities:
        path = _entity_page(pages, name)
        item = f"{opinion.text} (c={opinion.confidence:.2f}, {OPINIONS})"
        text = pages.get(path, "")
        if item_text(f"- {opinion.text}") in item_texts(text):
            pages[path] = joined([*_with_opinion(lines_of(text), opinion.text, item)])
        elif is_new:
            pages[path] = with_items(text or new_page(path), [f"- {item}"], section=_SECTIONS["O"])


def _with_opinion(lines: Sequence[str], opinion: str, item: str) -> Iterator[str]:
    for line in lines:
        mark, bare = ITEM.match(line), line.rstrip()
        is_it = bare.endswith(f", {OPINIONS})") and item_text(line) == item_text(f"- {opinion}")
        yield f"{mark[0]}{item}{line[len(bare) :]}" if mark and is_it else line


class PageSummaries:
    """Summaries of pages by `model`. `problems` has a sentence for each page that could not be summarized."""

    def __init__(self, model: ChatModel, now: Clock) -> None:
        self._model = model
        self._now = now
        self.problems: list[str] = []

    async def __call__(self, path: str, page: str) -> str:
        """The model's summary of a page, unchecked; empty if it fails or takes too long."""
        if len(page) > MOST_PAGE_CHARS:
            self.problems.append(f"{path} is too long to be summarized.")
            return ""
        asked = render("recall/page_summary", name=PurePosixPath(path).stem, text=quoted(page))
        request = ModelRequest(
            system=SystemPrompt(stable=render("recall/page_summary_system")),
            messages=(user_message(asked, timestamp_ms=epoch_ms(self._now())),),
            max_output_tokens=SUMMARY_TOKENS,
            purpose="page",
        )
        try:
            async with asyncio.timeout(SUMMARY_SECONDS):
                return message_text(await whole_answer(self._model, request))
        except (ModelError, TimeoutError) as error:
            log.info("%s is not summarized: %s", path, error or "no answer in time")
            self.problems.append(f"{path} is not summarized: {error or 'the model did not answer in time'}")
        return ""


STEP = 0.4
"""What one certain line moves, in log-odds: from .50 to .60, from .90 to .93."""
MIN_CONFIDENCE, MAX_CONFIDENCE = 0.01, 0.99
"""Evidence moves a confidence no further than this. A 0 or 1 that the owner wrote is not moved at all."""

_OPINION = re.compile(r"([-*+] +)((?:@\S+ +)*@[^\s:]+: *)?(.+?)( *\(c=)(\d(?:\.\d+)?)(\)\s*)")
_MIN_LIKENESS = 0.75
"""The share of the longer statement's words that two statements must have in common to be one opinion:
"prefers short replies" and "prefers long replies" are two."""


@dataclass(kw_only=True)
class Opinion:
    """An opinion on line `at` of the page, from 0; `None` for a new one.

    `links` lead to its evidence. `new` has the lines to be added, with true for a line that denies it.
    """

    entities: tuple[str, ...]
    text: str
    confidence: float
    at: int | None
    links: frozenset[str] = frozenset()
    new: list[tuple[Retained, bool]] = field(default_factory=list[tuple[Retained, bool]])

    def agreement(self, item: Retained) -> float:
        """How similar an item is, 0.75 to 1; negative for a denial, 0 for a different opinion."""
        mine, others = ({name.casefold() for name in names} for names in (self.entities, item.entities))
        if mine != others and not mine & others:
            return 0.0
        if self.text.casefold() == item.text.casefold():
            return 1.0
        return _likeness(Claim(self.text), Claim(item.text))

    def settle(self) -> None:
        """Updates the confidence with the new lines."""
        if self.at is not None:
            self.confidence = updated_confidence(self.confidence, _strengths(self.new))
            return
        first = min(item.day for item, _ in self.new)
        initial = initial_confidence(_strengths([line for line in self.new if line[0].day == first]))
        later = _strengths([line for line in self.new if line[0].day != first])
        self.confidence = updated_confidence(initial, later)


def opinions_of(text: str) -> list[Opinion]:
    """The opinions of a page, in order."""
    lines, found = lines_of(text), list[Opinion]()
    for at, line in enumerate(lines):
        item = _OPINION.fullmatch(line)
        if item and float(item[5]) <= 1:
            below = "\n".join(lines[at + 1 : _end(lines, at)])
            names = tuple(name[1:] for name in (item[2] or "").strip().rstrip(":").split())
            found.append(
                Opinion(
                    entities=names,
                    text=item[3],
                    confidence=float(item[5]),
                    at=at,
                    links=frozenset(LINK.findall(below)),
                )
            )
    return found


def with_evidence(text: str, items: Sequence[Retained]) -> tuple[str, list[Opinion]]:
    """The page with these new items, and all opinions on it."""
    opinions = opinions_of(text)
    for item in sorted(items, key=lambda each: (each.day, each.path, each.line)):
        agreements = ((opinion.agreement(item), opinion) for opinion in opinions)
        agreement, nearest = max(agreements, key=lambda each: abs(each[0]), default=(0.0, None))
        if nearest is None or not agreement:
            nearest = Opinion(entities=item.entities, text=item.text, confidence=DEFAULT_CONFIDENCE, at=None)
            opinions.append(nearest)
        if item.link not in nearest.links:
            nearest.new.append((item, agreement < 0))
    for opinion in opinions:
        if opinion.new:
            opinion.settle()
    if any(each.new for each in opinions):
        text = _page(text or new_page(OPINIONS), opinions)
    return text, opinions


def _page(text: str, opinions: Sequence[Opinion]) -> str:
    lines = lines_of(text)
    for opinion in reversed([each for each in opinions if each.at is not None and each.new]):
        assert opinion.at is not None
        found = _OPINION.fullmatch(lines[opinion.at])
        assert found is not None
        if (shown := f"{opinion.confidence:.2f}") != f"{float(found[5]):.2f}":
            lines[opinion.at] = "".join((found[1], found[2] or "", found[3], found[4], shown, found[6]))
        behind = _end(lines, opinion.at)
        lines[behind:behind] = [
            _evidence(item, is_denied) + line_end(text) for item, is_denied in opinion.new
        ]
    new: list[str] = []
    for opinion in [each for each in opinions if each.at is None]:
        item = f"- {with_entities(opinion.entities, opinion.text)} (c={opinion.confidence:.2f})"
        new.append("\n".join([item, *(_evidence(line, is_denied) for line, is_denied in opinion.new)]))
    return with_items(joined(lines), new) if new else joined(lines)


def _evidence(item: Retained, is_denied: bool) -> str:
    sure = DEFAULT_CONFIDENCE if item.confidence is None else item.confidence
    side = "against" if strength(sure, is_denied=is_denied) < 0 else "for"
    return f"  - {side}: {item.link} (c={sure:.2f})"


def _strengths(lines: Sequence[tuple[Retained, bool]]) -> list[float]:
    return [
        strength(item.confidence, is_denied=is_denied)
        for item, is_denied in lines
        if item.confidence is not None
    ]


def _likeness(one: Claim, other: Claim) -> float:
    shared = [word for word in one.stems if word in other.stems]
    longest = max(len(_content_stems(one)), len(_content_stems(other)))
    if not shared or len(shared) < _MIN_LIKENESS * longest:
        return 0.0
    share = min(1.0, len(shared) / longest)
    return -share if any(one.stems[word] is not other.stems[word] for word in shared) else share


def _content_stems(claim: Claim) -> list[str]:
    return [word for word in claim.stems if not is_not(word)]


def _end(lines: Sequence[str], at: int) -> int:
    end = at + 1
    while end < len(lines) and lines[end].strip() and lines[end][0] in " \t":
        end += 1
    return end


def strength(confidence: float, *, is_denied: bool) -> float:
    """How strongly a line supports an opinion, -1 to 1; `is_denied` if it states the contrary."""
    return (1 - 2 * confidence) if is_denied else (2 * confidence - 1)


def initial_confidence(strengths: Sequence[float]) -> float:
    """The confidence of a new opinion, 0.01 to 0.99: the average of the lines of its first day."""
    return _bounded((math.fsum(strengths) / len(strengths) + 1) / 2)


def updated_confidence(confidence: float, strengths: Iterable[float]) -> float:
    """The confidence of an opinion after more evidence."""
    total = math.fsum(strengths)
    if not 0 < confidence < 1 or total == 0:
        return confidence
    odds = math.log(confidence / (1 - confidence)) + STEP * total
    updated = _bounded(1 / (1 + math.exp(-odds)) if odds > -700 else 0.0)
    # evidence for a number that the owner wrote beyond the bounds does not pull it back inside
    return max(updated, confidence) if total > 0 else min(updated, confidence)


def _bounded(confidence: float) -> float:
    return min(MAX_CONFIDENCE, max(MIN_CONFIDENCE, confidence))
