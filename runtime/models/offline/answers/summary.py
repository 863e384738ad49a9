"""The extractive summary of a compaction: sentences that were said, sorted under the required headings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, zip_longest

from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.offline.answers.outline import Item, Section, chosen_within, read_outline, written
from nacre.runtime.models.offline.reading.intent import is_question, read_intent
from nacre.runtime.models.offline.reading.notes import (
    Known,
    Note,
    is_answered,
    is_command,
    is_own_text,
    notes_of,
)
from nacre.runtime.models.offline.reading.reading import Said, own_words
from nacre.runtime.models.offline.reading.summary_request import SummaryRequest, read_summary_request
from nacre.runtime.models.offline.words.answer import Answer
from nacre.runtime.models.offline.words.kinds import NoteKind, kind_of
from nacre.runtime.models.offline.words.sentences import clipped, sentences, shared, squeezed, words
from nacre.sessions.compaction.identifiers import identifiers

SUMMARY_TOKENS = 1_500
"""The longest summary, whatever more the request allows: summaries of summaries must not grow."""

GOAL = Section(title="Goal", newest_first=True, repeats=True)
CONSTRAINTS = Section(title="Constraints & Preferences")
DONE = Section(title="Done", marker="- [x] ", under="Progress")
IN_PROGRESS = Section(title="In Progress", marker="- [ ] ", under="Progress")
BLOCKED = Section(title="Blocked", under="Progress")
DECISIONS = Section(title="Key Decisions")
NEXT_STEPS = Section(title="Next Steps", marker="1. ")
CONTEXT = Section(title="Critical Context")
SECTIONS = (GOAL, CONSTRAINTS, DONE, IN_PROGRESS, BLOCKED, DECISIONS, NEXT_STEPS, CONTEXT)

ORIGINAL_REQUEST = Section(title="Original Request", marker="", repeats=True)
EARLY_PROGRESS = Section(title="Early Progress")
SUFFIX_CONTEXT = Section(title="Context for Suffix")
PREFIX_SECTIONS = (ORIGINAL_REQUEST, EARLY_PROGRESS, SUFFIX_CONTEXT)

_SECTION_OF_KIND: dict[NoteKind, Section] = {
    "decision": DECISIONS,
    "preference": CONSTRAINTS,
    "constraint": CONSTRAINTS,
    "blocked": BLOCKED,
    "ask": NEXT_STEPS,
    "person": CONTEXT,
    "date": CONTEXT,
    "fact": CONTEXT,
}
_SECTION_OF_PREFIX = {
    ORIGINAL_REQUEST.title: GOAL.title,
    EARLY_PROGRESS.title: DONE.title,
    SUFFIX_CONTEXT.title: CONTEXT.title,
}

MOST_GOALS = 8
MOST_FILLERS = 16
MOST_IDENTIFIERS = 24
MAX_LAST_ASK_CHARS = 600
MAX_ASK_CHARS = 200
MAX_REQUEST_CHARS = 1_500
MAX_STEP_CHARS = 240
MAX_ITEMS_PER_SECTION = 40

_NOT_ANSWERED = "Not answered yet: "
_IDENTIFIERS = "Exact identifiers: "
_QUOTED_NAME = re.compile(r"`([^`]+)`")
_CALL = re.compile(r"(?:^|; )(append|write|edit)\((?:.{0,40}?)path=[\"']([^\"'\n]{1,200})[\"']", re.DOTALL)
_QUOTED_LINE = re.compile(r"^> (?!—)(.+)$", re.MULTILINE)


def compaction_answer(request: ModelRequest, *, count_tokens: Callable[[str], int]) -> Answer:
    """The summary, no longer than the request allows where its headings alone fit."""
    asked = read_summary_request(request)
    allowed = SUMMARY_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    sections = PREFIX_SECTIONS if asked.of_turn_prefix else SECTIONS
    candidates = _prefix_candidates(asked) if asked.of_turn_prefix else _candidates(asked)
    budget_tokens = min(SUMMARY_TOKENS, allowed)
    while True:
        chosen = chosen_within(sections, candidates, budget_tokens=budget_tokens, count_tokens=count_tokens)
        text = written(sections, chosen)
        if count_tokens(text) <= allowed or not any(chosen.values()):
            return Answer(text=text)
        budget_tokens = budget_tokens * 3 // 4


def _candidates(asked: SummaryRequest) -> dict[str, list[Item]]:
    notes = notes_of(asked.said, Known(()))
    new: dict[str, list[Item]] = {
        GOAL.title: _goals(asked.said),
        DONE.title: _done(asked.said),
        IN_PROGRESS.title: _in_progress(asked.said),
    }
    for kind, section in _SECTION_OF_KIND.items():
        new.setdefault(section.title, []).extend(
            Item(text=note.text, order=note.order) for note in notes if note.kind == kind
        )
    old = {title: list(reversed(items)) for title, items in _earlier(asked.previous_summary).items()}
    candidates: dict[str, list[Item]] = {}
    for section in SECTIONS:
        fresh = sorted(new.get(section.title, ()), key=lambda item: -item.order)
        merged = (
            fresh + old.get(section.title, [])
            if section is GOAL
            else _alternating(fresh, old.get(section.title, []))
        )
        candidates[section.title] = _focused(merged, asked.focus)[:MAX_ITEMS_PER_SECTION]
    fill = _other_statements(asked.said, notes)
    strong = [
        item for item in candidates[CONTEXT.title] if kind_of(item.text) or identifiers([item.text], most=1)
    ]
    weak = [item for item in candidates[CONTEXT.title] if item not in strong]
    candidates[CONTEXT.title] = [*_named(asked), *strong, *_alternating(fill, weak)[:MOST_FILLERS]]
    return candidates


def _prefix_candidates(asked: SummaryRequest) -> dict[str, list[Item]]:
    requests = [
        Item(text=clipped(said.text, MAX_REQUEST_CHARS), order=order)
        for order, said in enumerate(asked.said)
        if said.speaker == "user"
    ]
    results = [
        Item(text=f"Tool result: {clipped(said.text, MAX_STEP_CHARS)}", order=order)
        for order, said in enumerate(asked.said)
        if said.speaker == "result"
    ]
    notes = [
        Item(text=note.text, order=note.order)
        for note in notes_of(asked.said, Known(item.text for item in requests))
    ]
    steps = [*_done(asked.said), *_remarks(asked.said)]
    return {
        ORIGINAL_REQUEST.title: requests[:2],
        EARLY_PROGRESS.title: steps[:MAX_ITEMS_PER_SECTION],
        SUFFIX_CONTEXT.title: [*_named(asked), *notes, *reversed(results)][:MAX_ITEMS_PER_SECTION],
    }


def _goals(said: Sequence[Said]) -> list[Item]:
    """The last things that were asked, the very last one in full length."""
    goals: list[Item] = []
    for order in range(len(said) - 1, -1, -1):
        text = own_words(said[order].text).strip() or squeezed(said[order].text)
        if said[order].speaker != "user" or not text or is_command(text) or len(goals) == MOST_GOALS:
            continue
        intent = read_intent(text)
        if intent.small_talk in ("greeting", "thanks", "farewell"):
            continue
        if not goals:
            goals.append(Item(text=clipped(said[order].text, MAX_LAST_ASK_CHARS), order=order))
        elif intent.question or intent.asked_to_keep or (not intent.to_keep and len(text) <= MAX_ASK_CHARS):
            goals.append(Item(text=clipped(text, MAX_ASK_CHARS), order=order))
    return goals


def _done(said: Sequence[Said]) -> list[Item]:
    """What was written into files, and questions with the beginning of their answers."""
    done: list[Item] = []
    question = ""
    for order, contribution in enumerate(said):
        if contribution.speaker == "user":
            asked = [part for part in sentences(own_words(contribution.text)) if is_question(part)]
            question = "" if is_command(contribution.text) else " ".join(asked)
        elif contribution.speaker == "calls":
            done.extend(
                Item(text=f"`{call[1]}` on `{call[2]}`", order=order)
                for call in _CALL.finditer(contribution.text)
            )
        elif contribution.speaker == "assistant" and question and is_answered(said[order : order + 1]):
            told = _gist(contribution.text)
            if told:
                text = (
                    f"Asked “{clipped(question, MAX_ASK_CHARS)}”, answered: {clipped(told, MAX_STEP_CHARS)}"
                )
                done.append(Item(text=text, order=order))
            question = ""
    return done


def _in_progress(said: Sequence[Said]) -> list[Item]:
    """The last question or request of a person when nobody has answered it."""
    last = max((order for order, part in enumerate(said) if part.speaker == "user"), default=None)
    if last is None or is_command(said[last].text) or is_answered(said[last + 1 :]):
        return []
    asked = [
        part for part in sentences(own_words(said[last].text)) if is_question(part) or kind_of(part) == "ask"
    ]
    return [Item(text=_NOT_ANSWERED + clipped(" ".join(asked), MAX_ASK_CHARS), order=last)] if asked else []


def _remarks(said: Sequence[Said]) -> list[Item]:
    return [
        Item(text=clipped(_gist(part.text), MAX_STEP_CHARS), order=order)
        for order, part in enumerate(said)
        if part.speaker == "assistant" and _gist(part.text)
    ]


def _gist(answer: str) -> str:
    """The first sentence of an answer, or the first quotation when this responder wrote it."""
    if is_own_text(answer):
        quoted = _QUOTED_LINE.search(answer)
        return quoted[1] if quoted else ""
    return next(iter(sentences(own_words(answer))), "")


def _other_statements(said: Sequence[Said], notes: Sequence[Note]) -> list[Item]:
    """What a person said that is no note of any kind: it fills what room is left, newest first."""
    known = Known(note.text for note in notes)
    statements = [
        Item(text=clipped(part, MAX_ASK_CHARS), order=order)
        for order, contribution in enumerate(said)
        if contribution.speaker == "user" and not is_command(contribution.text)
        for part in sentences(own_words(contribution.text))
        if len(part.split()) + len(part) // 12 >= 4 and not is_question(part) and not known.has(part)
    ]
    return statements[::-1][:MAX_ITEMS_PER_SECTION]


def _named(asked: SummaryRequest) -> list[Item]:
    """One line with the exact identifiers, those of the earlier summary first."""
    earlier = [
        name
        for lines in read_outline(asked.previous_summary).values()
        for line in lines
        if line.startswith(_IDENTIFIERS)
        for name in _QUOTED_NAME.findall(line)
    ]
    spoken = [part.text for part in asked.said if part.speaker in ("user", "assistant", "calls")]
    names = list(dict.fromkeys([*earlier, *identifiers(spoken, most=MOST_IDENTIFIERS)]))[-MOST_IDENTIFIERS:]
    if not names:
        return []
    return [Item(text=_IDENTIFIERS + ", ".join(f"`{name}`" for name in names), order=len(asked.said))]


def _earlier(summary: str) -> dict[str, list[Item]]:
    """The items of an earlier summary, oldest first, under today's headings."""
    titles = {section.title.casefold(): section.title for section in SECTIONS}
    titles |= {title.casefold(): section for title, section in _SECTION_OF_PREFIX.items()}
    found: dict[str, list[Item]] = {}
    for heading, lines in read_outline(summary).items():
        title = titles.get(heading.casefold(), CONTEXT.title)
        if title == GOAL.title:
            # Only the newest request is kept at length, and it is older now.
            lines = [clipped(line, MAX_ASK_CHARS) for line in reversed(lines)]
        # An answer that was still open when the history was cut stands in the part that was kept.
        kept = [line for line in lines if not line.startswith((_IDENTIFIERS, _NOT_ANSWERED))]
        found.setdefault(title, []).extend(
            Item(text=line, order=place - len(kept)) for place, line in enumerate(kept)
        )
    return found


def _focused(items: Sequence[Item], focus: str) -> list[Item]:
    """The items with words of the focus first, otherwise in the same order."""
    wanted = words(focus)
    return sorted(items, key=lambda item: -len(shared(wanted, words(item.text)))) if wanted else list(items)


def _alternating(new: Iterable[Item], old: Iterable[Item]) -> list[Item]:
    return [item for item in chain.from_iterable(zip_longest(new, old)) if item is not None]
