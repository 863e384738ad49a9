"""What is written of a whole conversation: a summary, the notes of a flush, a name.

All by extraction: sentences that were said, sorted under headings.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, zip_longest

from nacre.memory.text.words import stop_words_for
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.offline.intent import is_question, kind_of, read_intent
from nacre.runtime.models.offline.notes import (
    Item,
    Known,
    Section,
    is_answered,
    is_own_text,
    notes_of,
    outline,
    read_outline,
)
from nacre.runtime.models.offline.phrases import PHRASES
from nacre.runtime.models.offline.reading import (
    Said,
    SummaryRequest,
    conversation,
    finished_calls,
    read_summary_request,
)
from nacre.runtime.models.offline.sentences import clipped, shared, words
from nacre.sessions.compaction.identifiers import identifiers
from nacre.sessions.contracts.messages import Message, message_text

SUMMARY_TOKENS = 1_500
"""The longest summary, whatever more the request allows: summaries of summaries must not grow."""

GOAL, CONSTRAINTS = Section(title="Goal"), Section(title="Constraints & Preferences")
DONE = Section(title="Done", marker="- [x] ", under="Progress")
IN_PROGRESS = Section(title="In Progress", marker="- [ ] ", under="Progress")
BLOCKED, DECISIONS = Section(title="Blocked", under="Progress"), Section(title="Key Decisions")
NEXT_STEPS, CONTEXT = Section(title="Next Steps", marker="{}. "), Section(title="Critical Context")
SECTIONS = (GOAL, CONSTRAINTS, DONE, IN_PROGRESS, BLOCKED, DECISIONS, NEXT_STEPS, CONTEXT)

ORIGINAL_REQUEST = Section(title="Original Request", marker="")
EARLY_PROGRESS, SUFFIX_CONTEXT = Section(title="Early Progress"), Section(title="Context for Suffix")
_AS_USUAL = {ORIGINAL_REQUEST.title: GOAL, EARLY_PROGRESS.title: DONE, SUFFIX_CONTEXT.title: CONTEXT}

_PLACES = {
    "decision": (DECISIONS, "Decisions"),
    "preference": (CONSTRAINTS, "Preferences"),
    "constraint": (CONSTRAINTS, "Preferences"),
    "name": (CONTEXT, "People and names"),
    "person": (CONTEXT, "People and names"),
    "date": (CONTEXT, "Dates"),
    "fact": (CONTEXT, "Facts"),
    "ask": (NEXT_STEPS, "Open asks"),
    "blocked": (BLOCKED, "Open asks"),
}
"""Where notes of a kind stand: in a summary, and in the notes of a flush."""

FLUSH_HEADING = "Notes before compaction"
MOST_NOTES_PER_GROUP = 12
MOST_GOALS = 8
MOST_FILLERS = 16
MOST_IDENTIFIERS = 24
MOST_ITEMS_PER_SECTION = 40
MAX_LAST_ASK_CHARS = 600
MAX_ASK_CHARS = 200
MAX_REQUEST_CHARS = 1_500
MAX_STEP_CHARS = 240
MOST_SLUG_WORDS = 2
MAX_SLUG_WORD_CHARS = 14

_NOT_ANSWERED = "Not answered yet: "
_IDENTIFIERS = "Exact identifiers: "
_CALL = re.compile(r"(?:^|; )(append|write|edit)\((?:.{0,40}?)path=\"([^\"\n]{1,200})\"", re.DOTALL)
_QUOTED_LINE = re.compile(r"^> (?!—)(.+)$", re.MULTILINE)
_SLUG_USER = re.compile(r"^User: (.*?)(?=^(?:User|Assistant): |\Z)", re.DOTALL | re.MULTILINE)


def summary_of(request: ModelRequest, *, count_tokens: Callable[[str], int]) -> str:
    """The summary that a request asks for, no longer than it allows where the headings alone fit."""
    asked = read_summary_request(request)
    candidates = _of_turn_prefix(asked) if asked.of_turn_prefix else _of_history(asked)
    allowed_tokens = SUMMARY_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    return outline(candidates, most_tokens=min(SUMMARY_TOKENS, allowed_tokens), count_tokens=count_tokens)


def flush_notes(
    messages: Sequence[Message], system: str, *, most_tokens: int | None, count_tokens: Callable[[str], int]
) -> str:
    """The notes of a conversation under headings; empty when nothing new is worth keeping, or none fits.

    What stands in the prompt, in recalled notes, or was appended in this conversation is not new.
    """
    said = conversation(messages)
    background = [contribution.text for contribution in said if contribution.speaker == "other"]
    appended = (
        done.call for done in finished_calls(messages) if done.call.name == "append" and not done.failed
    )
    written = ["\n".join(map(str, call.arguments.values())) for call in appended]
    titles = dict.fromkeys(title for _, title in _PLACES.values())
    groups = {title: Section(title=title, under=FLUSH_HEADING) for title in titles}
    candidates: dict[Section, list[Item]] = {section: [] for section in groups.values()}
    for note in _newest_first(notes_of(said, Known([system, *background, *written]))):
        candidates[groups[_PLACES[note.kind][1]]].append(note)
    text = outline(
        {section: notes[:MOST_NOTES_PER_GROUP] for section, notes in candidates.items()},
        most_tokens=SUMMARY_TOKENS if most_tokens is None else most_tokens,
        count_tokens=count_tokens,
        nothing="",
    )
    return f"{text}\n" if text else ""


def slug_of(request: ModelRequest) -> str:
    """One or two words that the person used most, in the order they came, joined by `-`.

    A script that has no plain letters gives no name, and neither does small talk of stop words alone.
    """
    prompt = message_text(request.messages[-1]) if request.messages else ""
    said = "\n".join(_SLUG_USER.findall(prompt.rpartition("</conversation>")[0]))
    spoken = [word.casefold() for word in re.findall(r"[^\W\d_]+", said)]
    nothing, asking = stop_words_for(spoken), PHRASES["asking"]
    telling = (word for word in spoken if word not in nothing and not asking.fullmatch(word))
    counted = Counter(name for word in telling if (name := _plain_letters(word)))
    # Of words that were said equally often the longer one says more.
    most = sorted(counted, key=lambda word: (-counted[word], -len(word)))[:MOST_SLUG_WORDS]
    return "-".join(word for word in counted if word in most)


def _of_history(asked: SummaryRequest) -> dict[Section, list[Item]]:
    notes = notes_of(asked.said, Known(()))
    new: dict[Section, list[Item]] = {section: [] for section in SECTIONS}
    for note in _newest_first(notes):
        new[_PLACES[note.kind][0]].append(note)
    new |= {DONE: _newest_first(_done(asked.said)), IN_PROGRESS: _in_progress(asked.said)}
    old = _earlier(asked.previous_summary)
    candidates = {
        section: _focused(_alternating(new[section], old[section]), asked.focus)[:MOST_ITEMS_PER_SECTION]
        for section in SECTIONS
    }
    candidates[GOAL] = _focused([*_goals(asked.said), *old[GOAL]], asked.focus)
    told = candidates[CONTEXT]
    strong = [item for item in told if item.kind or kind_of(item.text) or identifiers([item.text], most=1)]
    weak = [item for item in told if item not in strong]
    fillers = _alternating(_other_statements(asked.said, notes), weak)[:MOST_FILLERS]
    candidates[CONTEXT] = [*_identifier_line(asked), *strong, *fillers]
    return candidates


def _of_turn_prefix(asked: SummaryRequest) -> dict[Section, list[Item]]:
    lines: dict[str, list[Item]] = {"user": [], "assistant": [], "result": []}
    for order, part in enumerate(asked.said):
        text = _gist(part) if part.speaker == "assistant" else part.text
        max_chars = MAX_REQUEST_CHARS if part.speaker == "user" else MAX_STEP_CHARS
        text = f"Tool result: {text}" if part.speaker == "result" else text
        lines.setdefault(part.speaker, []).append(Item(text=clipped(text, max_chars), order=order))
    notes = notes_of(asked.said, Known(item.text for item in lines["user"]))
    steps = [*_done(asked.said), *(item for item in lines["assistant"] if item.text)]
    context = [*_identifier_line(asked), *notes, *reversed(lines["result"])]
    return {
        ORIGINAL_REQUEST: lines["user"][:2],
        EARLY_PROGRESS: steps[:MOST_ITEMS_PER_SECTION],
        SUFFIX_CONTEXT: context[:MOST_ITEMS_PER_SECTION],
    }


def _goals(said: Sequence[Said]) -> list[Item]:
    """The last things that were asked, newest first, the very last one in full length."""
    goals: list[Item] = []
    for contribution in reversed(said):
        if contribution.speaker != "user" or contribution.is_command or len(goals) == MOST_GOALS:
            continue
        wish = read_intent(contribution.text)
        only_told = wish.to_keep and not wish.asked_to_keep and not wish.question
        if wish.small_talk not in ("greeting", "thanks", "farewell") and not (goals and only_told):
            max_chars = MAX_ASK_CHARS if goals else MAX_LAST_ASK_CHARS
            goals.append(Item(text=clipped(contribution.text, max_chars), order=len(goals) - MOST_GOALS))
    return goals


def _done(said: Sequence[Said]) -> list[Item]:
    """What was written into files, and questions with the beginning of their answers."""
    done: list[Item] = []
    question = ""
    for order, contribution in enumerate(said):
        if contribution.speaker == "user":
            question = " ".join(part for part in contribution.sentences if is_question(part))
        elif contribution.speaker == "calls":
            calls = _CALL.findall(contribution.text)
            done.extend(Item(text=f"`{name}` on `{path}`", order=order) for name, path in calls)
        elif contribution.speaker == "assistant" and question:
            told = clipped(_gist(contribution), MAX_STEP_CHARS) if is_answered([contribution]) else ""
            if told:
                text = f"Asked “{clipped(question, MAX_ASK_CHARS)}”, answered: {told}"
                done.append(Item(text=text, order=order))
            question = ""
    return done


def _in_progress(said: Sequence[Said]) -> list[Item]:
    """The last question or request of a person when nobody has answered it."""
    last = max((order for order, part in enumerate(said) if part.speaker == "user"), default=None)
    if last is None or is_answered(said[last + 1 :]):
        return []
    asked = [part for part in said[last].sentences if is_question(part) or kind_of(part) == "ask"]
    return [Item(text=_NOT_ANSWERED + clipped(" ".join(asked), MAX_ASK_CHARS), order=last)] if asked else []


def _gist(answer: Said) -> str:
    """The first sentence of an answer, or the first quotation when this responder wrote it."""
    if is_own_text(answer):
        return next(iter(_QUOTED_LINE.findall(answer.text)), "")
    return next(iter(answer.sentences), "")


def _other_statements(said: Sequence[Said], notes: Sequence[Item]) -> list[Item]:
    """What a person said that is no note of any kind: it fills what room is left, newest first."""
    known = Known(note.text for note in notes)
    statements = (
        Item(text=clipped(part, MAX_ASK_CHARS), order=order)
        for order in range(len(said) - 1, -1, -1)
        if said[order].speaker == "user"
        for part in said[order].sentences
        if len(part.split()) + len(part) // 12 >= 4 and not is_question(part) and not known.has(part)
    )
    return [item for item, _ in zip(statements, range(MOST_ITEMS_PER_SECTION), strict=False)]


def _identifier_line(asked: SummaryRequest) -> list[Item]:
    """One line with the exact identifiers, those of the earlier summary first."""
    earlier = [line for line in asked.previous_summary.splitlines() if _IDENTIFIERS in line]
    listed = re.findall(r"`([^`]+)`", "\n".join(earlier))
    spoken = [part.text for part in asked.said if part.speaker in ("user", "assistant", "calls")]
    names = list(dict.fromkeys([*listed, *identifiers(spoken, most=MOST_IDENTIFIERS)]))[-MOST_IDENTIFIERS:]
    line = _IDENTIFIERS + ", ".join(f"`{name}`" for name in names)
    return [Item(text=line, order=len(asked.said))] if names else []


def _earlier(summary: str) -> dict[Section, list[Item]]:
    """The items of an earlier summary under today's headings, the newest first."""
    sections = {section.title: section for section in SECTIONS} | _AS_USUAL
    found: dict[Section, list[Item]] = {section: [] for section in SECTIONS}
    for title, lines in read_outline(summary).items():
        section = sections.get(title, CONTEXT)
        # Only the newest request is kept at length, and it is older now.
        lines = [clipped(line, MAX_ASK_CHARS) for line in lines] if section is GOAL else lines[::-1]
        # An answer that was still open when the history was cut stands in the part that was kept.
        kept = [line for line in lines if not line.startswith((_IDENTIFIERS, _NOT_ANSWERED))]
        ages = range(len(kept)) if section is GOAL else range(-1, -len(kept) - 1, -1)
        found[section].extend(Item(text=line, order=age) for line, age in zip(kept, ages, strict=True))
    return found


def _focused(items: Sequence[Item], focus: str) -> list[Item]:
    """The items with words of the focus first, otherwise in the same order."""
    wanted = words(focus)
    return sorted(items, key=lambda item: -len(shared(wanted, words(item.text)))) if wanted else list(items)


def _newest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: -item.order)


def _alternating(new: Iterable[Item], old: Iterable[Item]) -> list[Item]:
    return [item for item in chain.from_iterable(zip_longest(new, old)) if item is not None]


def _plain_letters(word: str) -> str:
    """The word in plain letters, or nothing when it has none, is very short, or could not be a name."""
    letters = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return letters if letters.isascii() and 3 <= len(letters) <= MAX_SLUG_WORD_CHARS else ""
