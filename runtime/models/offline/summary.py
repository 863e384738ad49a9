"""What is written of a whole conversation: a summary, the notes of a flush, a name.

All by extraction: sentences that were said, sorted under headings.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

from nacre.memory.text.stop_words import stop_words_for
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.offline.answers import is_quoting
from nacre.runtime.models.offline.intent import is_question, read_intent
from nacre.runtime.models.offline.notes import (
    Item,
    Known,
    Section,
    is_answered,
    notes_of,
    outline,
    read_outline,
)
from nacre.runtime.models.offline.phrases import PHRASES
from nacre.runtime.models.offline.reading import Said, finished_calls, read_labelled, read_request
from nacre.runtime.models.offline.recall import finder_for
from nacre.runtime.models.offline.sentences import clipped, plain
from nacre.sessions.contracts.messages import message_text

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
    "rule": (CONSTRAINTS, "Preferences"),
    "fact": (CONTEXT, "Facts"),
    "date": (CONTEXT, "Facts"),
    "open": (NEXT_STEPS, "Open asks"),
}
"""Where notes of a kind stand: in a summary, and in the notes of a flush."""

FLUSH_HEADING = "Notes before compaction"
MOST_NOTES_PER_GROUP = 12
MOST_GOALS = 8
MOST_ITEMS_PER_SECTION = 40
MAX_LAST_ASK_CHARS = 600
MAX_ASK_CHARS = 200
MAX_STEP_CHARS = 240
MOST_SLUG_WORDS = 2
MAX_SLUG_WORD_CHARS = 14

_CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous-summary>(.*?)</previous-summary>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus[^:\n]*:[ \t]*([^\n]+)", re.MULTILINE)
_EARLIER = 1_000_000
"""Added to the places in a conversation to stand before all of it."""

_CALL = re.compile(r"(?:^|; )(append|write|edit)\((?:.{0,40}?)path=\"([^\"\n]{1,200})\"", re.DOTALL)
_QUOTED_LINE = re.compile(r"^> (?!—)(.+)$", re.MULTILINE)
_SLUG_USER = re.compile(r"^User: (.*?)(?=^(?:User|Assistant): |\Z)", re.DOTALL | re.MULTILINE)


def summary_of(request: ModelRequest, *, count_tokens: Callable[[str], int]) -> str:
    """The summary that a request asks for, no longer than it allows where the headings alone fit.

    Nothing inside the tags of the prompt counts as an instruction.
    """
    prompt = message_text(request.messages[-1]) if request.messages else ""
    talk, without_talk = _CONVERSATION.search(prompt), _CONVERSATION.sub("", prompt)
    previous, instructions = _PREVIOUS.search(without_talk), _PREVIOUS.sub("", without_talk)
    said = read_labelled(talk[1]) if talk else []
    if f"## {ORIGINAL_REQUEST.title}" in instructions:
        candidates = _of_turn_prefix(said)
    else:
        focus = _FOCUS.search(instructions)
        candidates = _of_history(said, previous[1] if previous else "", focus[1] if focus else "")
    allowed_tokens = SUMMARY_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    return outline(candidates, most_tokens=min(SUMMARY_TOKENS, allowed_tokens), count_tokens=count_tokens)


def flush_notes(request: ModelRequest, *, count_tokens: Callable[[str], int]) -> str:
    """The notes of a conversation under headings; empty when nothing new is worth keeping, or none fits.

    What stands in the prompt, in recalled notes, or was appended in this conversation is not new.
    """
    said = read_request(request).said
    calls = (done.call for done in finished_calls(request.messages) if not done.failed)
    appended = [str(call.arguments.get("text")) for call in calls if call.name == "append"]
    recalled = [part.text for part in said if part.speaker == "other"]
    notes = notes_of(said, Known([request.system.joined(), *recalled, *appended]))
    groups = {
        Section(title=title, under=FLUSH_HEADING): [note for note in notes if _PLACES[note.kind][1] == title]
        for title in dict.fromkeys(title for _, title in _PLACES.values())
    }
    text = outline(
        {section: notes[:MOST_NOTES_PER_GROUP] for section, notes in groups.items()},
        most_tokens=request.max_output_tokens or SUMMARY_TOKENS,
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


def _of_history(said: Sequence[Said], previous: str, focus: str) -> dict[Section, list[Item]]:
    notes = notes_of(said, Known(()))
    new = {section: [note for note in notes if _PLACES[note.kind][0] is section] for section in SECTIONS}
    new |= {GOAL: _goals(said), DONE: _done(said)}
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
        EARLY_PROGRESS: [*_done(said), *steps][:MOST_ITEMS_PER_SECTION],
        SUFFIX_CONTEXT: notes_of(said, Known(asked)),
    }


def _goals(said: Sequence[Said]) -> list[Item]:
    """What a person asked last, newest first, the very last in full length; what was told is a note."""
    goals: list[str] = []
    for part in reversed(said):
        wish = read_intent(part.text) if part.speaker == "user" and part.sentences else None
        if wish and not wish.small_talk and (wish.question or not wish.to_keep) and len(goals) < MOST_GOALS:
            goals.append(clipped(part.text, MAX_ASK_CHARS if goals else MAX_LAST_ASK_CHARS))
    return [Item(text=text, order=at - 2 * _EARLIER) for at, text in enumerate(goals)]


def _done(said: Sequence[Said]) -> list[Item]:
    """What was written into files, and questions with the beginning of their answers, newest first."""
    done: list[Item] = []
    question = ""
    for order, part in enumerate(said):
        told: list[str] = []
        if part.speaker == "user":
            question = " ".join(sentence for sentence in part.sentences if is_question(sentence))
        elif part.speaker == "calls":
            told = [f"`{name}` on `{path}`" for name, path in _CALL.findall(part.text)]
        elif question and is_answered([part]) and (gist := _gist(part)):
            told = [f"Asked “{clipped(question, MAX_ASK_CHARS)}”, answered: {gist}"]
            question = ""
        done.extend(Item(text=text, order=order) for text in told)
    return sorted(done, key=lambda item: -item.order)


def _gist(part: Said) -> str:
    """The first sentence of an answer, or the first quotation when this responder wrote it."""
    if part.speaker != "assistant":
        return ""
    said = _QUOTED_LINE.findall(part.text) if is_quoting(part.text) else part.sentences
    return clipped(next(iter(said), ""), MAX_STEP_CHARS)


def _earlier(summary: str) -> dict[Section, list[Item]]:
    """The items of an earlier summary under today's headings, the newest first."""
    sections = {section.title: section for section in SECTIONS} | _AS_USUAL
    found: dict[Section, list[Item]] = {section: [] for section in SECTIONS}
    for title, lines in read_outline(summary).items():
        section = sections.get(title, CONTEXT)
        items = [Item(text=line, order=at - _EARLIER) for at, line in enumerate(lines)]
        # Of goals the newest stand first; everywhere else they stand last.
        found[section] += items if section is GOAL else reversed(items)
    return found


def _plain_letters(word: str) -> str:
    """The word in plain letters, or nothing when it has none, is very short, or could not be a name."""
    letters = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return letters if letters.isascii() and 3 <= len(letters) <= MAX_SLUG_WORD_CHARS else ""
