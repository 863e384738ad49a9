"""What is written of a whole conversation, all of it sentences that were said: a summary, notes, a name."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice, zip_longest

from nacre.memory.text.evidence import fold
from nacre.memory.text.forms.words import stop_words_for
from nacre.record import Record
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.offline.answers import is_quoting
from nacre.runtime.models.offline.intent import KINDS, finder_for, read_intent
from nacre.runtime.models.offline.notes import MAX_NOTE_CHARS, Item, Known, answers, notes_of
from nacre.runtime.models.offline.phrases import PHRASES
from nacre.runtime.models.offline.reading import Said, finished_calls, read_labelled
from nacre.runtime.models.offline.sentences import clipped, folded, plain, unmarked
from nacre.sessions.contracts.messages import message_text

SUMMARY_TOKENS = 1_500  # whatever more a request allows: summaries of summaries must not grow


class Section(Record):
    """A heading of a `level`; `under` is one above it without own lines, `{}` in `marker` a line's number."""

    title: str
    marker: str = "- "
    under: str = ""
    level: int = 2


GOAL, CONSTRAINTS = Section(title="Goal"), Section(title="Constraints & Preferences")
DONE = Section(title="Done", marker="- [x] ", under="Progress", level=3)
IN_PROGRESS = Section(title="In Progress", marker="- [ ] ", under="Progress", level=3)
BLOCKED, DECISIONS = Section(title="Blocked", under="Progress", level=3), Section(title="Key Decisions")
NEXT_STEPS, CONTEXT = Section(title="Next Steps", marker="{}. "), Section(title="Critical Context")
SECTIONS = (GOAL, CONSTRAINTS, DONE, IN_PROGRESS, BLOCKED, DECISIONS, NEXT_STEPS, CONTEXT)

ORIGINAL_REQUEST = Section(title="Original Request", marker="")
EARLY_PROGRESS, SUFFIX_CONTEXT = Section(title="Early Progress"), Section(title="Context for Suffix")
_AS_USUAL = {ORIGINAL_REQUEST.title: GOAL, EARLY_PROGRESS.title: DONE, SUFFIX_CONTEXT.title: CONTEXT}

_PLACES = {
    DECISIONS: ("decision",),
    CONSTRAINTS: ("preference", "rule"),
    CONTEXT: ("fact", "date"),
    NEXT_STEPS: ("open",),
}
"""Which kinds of notes stand in a section of a summary."""
_IN_FLUSH = {DECISIONS: "Decisions", CONSTRAINTS: "Preferences", CONTEXT: "Facts", NEXT_STEPS: "Open asks"}
"""The headings of the same in the notes of a flush."""

MOST_GOALS, MOST_ITEMS_PER_SECTION, MOST_SLUG_WORDS = 8, 40, 2
MAX_LAST_ASK_CHARS, MAX_ASK_CHARS, MAX_STEP_CHARS = 600, 200, 240

_CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous-summary>(.*?)</previous-summary>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus[^:\n]*:[ \t]*([^\n]+)", re.MULTILINE)
_EARLIER = 1_000_000  # what was said before has places before those of a conversation
_HEADING = re.compile(r"\n#{1,6} +")
_NO_ITEM = re.compile(r"\W*(?:none|nothing|n/a)?\W*|---.*|\*\*Turn Context.*", re.IGNORECASE)
_CALL = re.compile(r"(?:^|; )(append|write|edit)\((?:.{0,40}?)path=\"([^\"\n]{1,200})\"", re.DOTALL)
_QUOTED_LINE = re.compile(r"^> (?!—)(.+)$", re.MULTILINE)
_SLUG_USER = re.compile(r"^User: (.*?)(?=^(?:User|Assistant): |\Z)", re.DOTALL | re.MULTILINE)


def summary_of(request: ModelRequest, *, count_tokens: Callable[[str], int]) -> str:
    """The summary that a request asks for; nothing inside the tags of the prompt is an instruction."""
    prompt = message_text(request.messages[-1]) if request.messages else ""
    talk, without_talk = _CONVERSATION.search(prompt), _CONVERSATION.sub("", prompt)
    previous, instructions = _PREVIOUS.search(without_talk), _PREVIOUS.sub("", without_talk)
    said = read_labelled(talk[1]) if talk else []
    if f"## {ORIGINAL_REQUEST.title}" in instructions:
        candidates = _of_turn_prefix(said)
    else:
        focus = _FOCUS.search(instructions)
        candidates = _of_history(said, previous[1] if previous else "", focus[1] if focus else "")
    return _outline(candidates, request, count_tokens, "(none)")


def flush_notes(request: ModelRequest, said: Sequence[Said], *, count_tokens: Callable[[str], int]) -> str:
    """The notes of what was `said` before a request; empty when none is new, worth keeping, and fits."""
    calls = (done.call for done in finished_calls(request.messages) if not done.failed)
    appended = [str(call.arguments.get("text")) for call in calls if call.name == "append"]
    recalled = [part.text for part in said if part.speaker == "other"]
    known = Known([request.system.joined(), *recalled, *appended])
    found = _newest_notes(said, known, most=MOST_ITEMS_PER_SECTION)
    groups = {Section(title=_IN_FLUSH[section], level=3): notes for section, notes in found.items()}
    text = _outline(groups, request, count_tokens, "")
    return f"{text}\n" if text else ""


def decisions_of(said: Sequence[tuple[str, str]]) -> list[str]:
    """What was decided, preferred or dated in a conversation of (`user` or `assistant`, text), word for word.

    In the order in which it was said; the newest ones where there are many.
    """
    parts = [Said(speaker="user" if who == "user" else "assistant", text=text) for who, text in said]
    newest = islice(notes_of(parts, Known(()), {"decision", "preference", "date"}), MOST_ITEMS_PER_SECTION)
    return [item.text for item in sorted(newest, key=lambda item: item.order)]


def _newest_notes(said: Sequence[Said], known: Known, *, most: int) -> dict[Section, list[Item]]:
    """The newest `most` notes of each section; no more is read than that takes."""
    found: dict[Section, list[Item]] = {section: [] for section in _PLACES}
    section_of = {kind: section for section, kinds in _PLACES.items() for kind in kinds}
    wanted = set(KINDS)
    for note in notes_of(said, known, wanted):
        section = section_of[note.kind]
        found[section].append(note)
        if len(found[section]) == most:
            wanted.difference_update(_PLACES[section])
            if wanted.isdisjoint(section_of):
                break
    return found


def slug_of(request: ModelRequest) -> str:
    """One or two words that the person used most, joined by `-`; none when they have no plain letters."""
    prompt = message_text(request.messages[-1]) if request.messages else ""
    said = fold("\n".join(_SLUG_USER.findall(prompt.rpartition("</conversation>")[0])))
    words = re.findall(r"(?<!\w)[a-z]{3,14}(?!\w)", said)
    nothing, asking = stop_words_for(words), PHRASES["asking"]
    counted = Counter(word for word in words if word not in nothing and not asking.fullmatch(word))
    # Of words that were said equally often the longer one says more.
    most = sorted(counted, key=lambda word: (-counted[word], -len(word)))[:MOST_SLUG_WORDS]
    return "-".join(word for word in counted if word in most)


def _of_history(said: Sequence[Said], previous: str, focus: str) -> dict[Section, list[Item]]:
    # What has words of the focus goes first, wherever it was said; else the newest.
    most = sys.maxsize if focus else MOST_ITEMS_PER_SECTION
    new = {section: list[Item]() for section in SECTIONS} | _newest_notes(said, Known(()), most=most)
    new |= {GOAL: _goals(said), DONE: _done(said, most=most)}
    old, finder = _earlier(previous), finder_for(focus)
    candidates: dict[Section, list[Item]] = {}
    for section in SECTIONS:
        both = [*filter(None, chain.from_iterable(zip_longest(new[section], old[section])))]
        # Words of the focus first; sorting keeps the order of what has as many.
        both.sort(key=lambda item: -len(finder.look(plain(item.text)).terms))
        candidates[section] = both[:MOST_ITEMS_PER_SECTION]
    return candidates


def _of_turn_prefix(said: Sequence[Said]) -> dict[Section, list[Item]]:
    asked = [part.text for part in said if part.speaker == "user"]
    steps = [Item(text=_gist(part), order=at) for at, part in enumerate(said) if _gist(part)]
    return {
        ORIGINAL_REQUEST: [Item(text=clipped(text, MAX_LAST_ASK_CHARS), order=0) for text in asked],
        EARLY_PROGRESS: [*_done(said, most=MOST_ITEMS_PER_SECTION), *steps][:MOST_ITEMS_PER_SECTION],
        SUFFIX_CONTEXT: [*notes_of(said, Known(asked))],
    }


def _goals(said: Sequence[Said]) -> list[Item]:
    """What a person asked last, newest first, the very last in full length; what was told is a note."""
    goals: list[str] = []
    for part in reversed(said):
        wish = read_intent(part.text) if part.speaker == "user" and part.sentences else None
        if wish and not wish.small_talk and (wish.question or not wish.to_keep):
            goals.append(clipped(part.text, MAX_ASK_CHARS if goals else MAX_LAST_ASK_CHARS))
            if len(goals) == MOST_GOALS:
                break
    return [Item(text=text, order=at - 2 * _EARLIER) for at, text in enumerate(goals)]


def _done(said: Sequence[Said], *, most: int) -> list[Item]:
    """What was written into files, and questions with the beginning of their answers, newest first.

    `most` or a few more; no more turns are read than that takes.
    """
    done: list[Item] = []
    end = len(said)
    while end and len(done) < most:
        start = next((at for at in range(end - 1, 0, -1) if said[at].speaker == "user"), 0)
        done += sorted(_done_in_turn(said, start, end), key=lambda item: -item.order)
        end = start
    return done


def _done_in_turn(said: Sequence[Said], start: int, end: int) -> list[Item]:
    done: list[Item] = []
    question = ""
    for order in range(start, end):
        part, told = said[order], list[str]()
        if part.speaker == "user":
            question = " ".join(sentence for sentence in part.sentences if sentence in part.questions)
        elif part.speaker == "calls":
            told = [f"`{name}` on `{path}`" for name, path in _CALL.findall(part.text)]
        elif question and answers(part) and (gist := _gist(part)):
            told = [f"Asked “{clipped(question, MAX_ASK_CHARS)}”, answered: {gist}"]
            question = ""
        done.extend(Item(text=text, order=order) for text in told)
    return done


def _gist(part: Said) -> str:
    """The first sentence of an answer, or the first quotation when this responder wrote it."""
    if part.speaker != "assistant":
        return ""
    if not is_quoting(part.text):
        return clipped(part.first_sentence, MAX_STEP_CHARS)
    quoted = _QUOTED_LINE.search(part.text)
    return clipped(quoted[1], MAX_STEP_CHARS) if quoted else ""


def _earlier(summary: str) -> dict[Section, list[Item]]:
    """The items of an earlier summary under today's headings, the newest first."""
    sections = {section.title: section for section in SECTIONS} | _AS_USUAL
    found = {section: list[Item]() for section in SECTIONS}
    for block in _HEADING.split(f"\n{summary}"):
        title, *lines = block.split("\n")
        section = sections.get(title.strip("*: "), CONTEXT)
        texts = [text for line in lines if not _NO_ITEM.fullmatch(text := unmarked(line))]
        items = [
            Item(text=clipped(text, MAX_NOTE_CHARS), order=at - _EARLIER) for at, text in enumerate(texts)
        ]
        # Of goals the newest stand first; everywhere else they stand last.
        found[section] += items if section is GOAL else reversed(items)
    return found


def _outline(
    candidates: Mapping[Section, Sequence[Item]],
    request: ModelRequest,
    count: Callable[[str], int],
    empty: str,
) -> str:
    """The headings with as many candidates as fit, taken from each section in turn, each statement once.

    Candidates come most important first and are written in their order. The first section, which says what
    was asked, may repeat others. A heading without lines has `empty` under it, or is left out without that.
    """
    allowed_tokens = SUMMARY_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    most_tokens = min(SUMMARY_TOKENS, allowed_tokens)
    chosen: list[tuple[Section, Item]] = []
    seen = set[tuple[bool, str]]()
    left_tokens = most_tokens - count(_written(candidates, chosen, empty))
    first = next(iter(candidates))
    in_turn = zip_longest(*([(section, item) for item in items] for section, items in candidates.items()))
    for section, item in filter(None, chain.from_iterable(in_turn)):
        statement = (section is first, folded(item.text))
        tokens = count(f"{section.marker}{item.text}\n") + 1
        if tokens <= left_tokens and statement not in seen:
            seen.add(statement)
            chosen.append((section, item))
            left_tokens -= tokens
    while chosen and count(_written(candidates, chosen, empty)) > most_tokens:
        chosen.pop()
    return _written(candidates, chosen, empty)


def _written(sections: Iterable[Section], chosen: Sequence[tuple[Section, Item]], empty: str) -> str:
    parts: list[str] = []
    for section in sections:
        items = sorted((item for of, item in chosen if of is section), key=lambda item: item.order)
        lines = [section.marker.format(number) + item.text for number, item in enumerate(items, start=1)]
        above = f"## {section.under}" if section.under else ""
        if lines or empty:
            parts += [above] if above and above not in parts else []
            parts.append("\n".join([f"{'#' * section.level} {section.title}", *(lines or [empty])]))
    return "\n\n".join(parts)
