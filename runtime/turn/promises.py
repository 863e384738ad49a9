"""Promises: writes what the owner asked to remember, and shows reminders when their topic is named.

A reminder is a line of `memory/reminders.md`: a task that begins with a topic, or with several words for it:

    - [ ] boat, mooring: ask Ilse for the contract

The first private message that names the topic brings the line to the model, at the tail of the request, and
ticks it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from nacre.memory.contracts.notes import text_of_note
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.workspace.workspace import REMINDERS, daily_log_path
from nacre.prompts import quoted, render
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.contracts.messages import ToolResultMessage

HEADING = "## Asked to remember"
POINTS_BACK = (
    "The assistant saved no note. If it should remember something, say it in one message or use /remember."
)
MOST_CHARS = 2_000
"""Of a longer text, only the beginning is saved; the transcript has all of it."""

END_CHARS = 1_000
"""A request, or a claim to have saved something, is at the beginning or the end of a long text."""

_READING = frozenset(
    ("read", "list", "memory_search", "memory_get", "memory_recall", "memory_recall_facts", "memory_forget")
)

_ASKING = tuple(
    """
    rememb forget mind note memo record down save store remind merk vergiss denk notier notiz schreib
    erinner souv rappel oublie retien reten recuerd recué acuerd acuér olvide anota apunta cuenta lembr
    esqueça ricord tieni dimentic annota onthoud ihåg запомн запиш забудь напомни 记 記 忘 备
    備 提醒 覚え メモ 기억 메모 적어
    """.split()
)
"""Every request to remember contains one of these stems; other messages are not parsed."""
_CLAIMING = tuple(
    """
    rememb forget note mind saved stored recorded written added merk notier gespeichert aufgeschrieben
    souviendrai retiens noté n'oublierai enregistré recordaré anotado guardado cuenta nota olvidaré lembrar
    anotei guardei esquecer ricorderò dimenticherò onthouden genoteerd opgeslagen запомн запис сохранил
    забуду помнить 记 保存 覚え メモ 記録 忘れ 기억 메모 저장
    """.split()
)
_RHETORICAL = re.compile(r"\b(?:remember|don['’]?t forget)\s*,", re.IGNORECASE)
"""Encouragement, as in "Remember, every step counts", is not a request."""
_CLAIMS = re.compile(
    "|".join(
        row.strip()
        for row in r"""
\bI(?:['’]ll| will| shall)(?: be sure to| definitely| certainly)? (?:remember|not forget|(?:make|take) a note)
\bI(?:['’]ll| will) keep (?:that|this|it) in mind|\bI won['’]t forget
\bI(?:['’]ve| have)(?: just| now)? (?:noted|saved|stored|remembered|recorded|made a note)
\bI(?:['’]ve| have)(?: just| now)? written (?:that|this|it) down
\bI(?:['’]ve| have)(?: just| now)? added (?:that|this|it) to (?:my|your) (?:memory|notes)
^(?:ok(?:ay)?|got it|sure|done|great|alright)?[,.!]?\s*(?:noted|saved|remembered)\b
\b(?:das |es )?merke ich mir\b|\bich (?:werde )?(?:mir |das |es ){0,2}(?:merken?|notieren?)\b
\bhabe? (?:ich )?(?:mir |das |es ){0,2}(?:notiert|gemerkt|gespeichert|aufgeschrieben)\b
^(?:notiert|gemerkt|gespeichert|anotado|guardado)\b
\bje (?:m'en souviendrai|le retiens|retiens|le note|l'ai noté|n'oublierai pas)|\bc'est (?:noté|enregistré)
\blo (?:recordaré|he anotado|he guardado|tendré en cuenta)|\btomo nota|\bno lo olvidaré
\bvou (?:me )?lembrar|\banotei|\bguardei|\bnão (?:vou )?esquecer
\bme lo ricorderò|\bho annotato|\bprendo nota|\bnon lo dimenticherò
\bik zal (?:het|dat) onthouden|\bik heb (?:het|dat) (?:genoteerd|opgeslagen)
(?:\bя |^)(?:это )?(?:запомн(?:ю|ил)|запис(?:ал|ываю)|сохранил|не забуду|буду помнить)
(?:我会?|我?已经?|好的?[,，]?)(?:帮你)?(?:记住|记下|记录|保存)|记[住下]了
覚えて(?:おき|い)ます|覚えました|メモしました|記録しました|忘れません
기억(?:하겠|할게|해 ?둘)|메모(?:했|해 ?두)|저장했
""".strip().splitlines()
    ),
    re.IGNORECASE | re.MULTILINE,
)
"""A reply that says it remembers, in eleven languages: English, German, French, Spanish, Portuguese, Italian,
Dutch, Russian, Chinese, Japanese and Korean."""


def writes(result: ToolResultMessage) -> bool:
    """Whether a tool call may have saved something: every successful call except of tools that only read."""
    return not result.is_error and result.tool_name not in _READING


def promised(words: str, reply: str) -> tuple[str, bool]:
    """The part of the owner's `words` to save, and whether they asked for it.

    The text is empty if nothing was promised, or if they refer to something said before ("remember that"). If
    they did not ask, the `reply` must claim to have saved something and the words must contain a fact.
    """
    asked, answered = _ends(words), _ends(reply)
    claims = _has(_CLAIMING, answered) and _CLAIMS.search(answered) is not None
    if not claims and not (_has(_ASKING, asked) and _has(_ASKING, _RHETORICAL.sub("", asked))):
        return "", False
    from nacre.runtime.models.offline.reading import read_intent  # compiles its patterns on first use

    intent = read_intent(words)
    kept = intent.to_keep[:MOST_CHARS].strip()
    return (kept, True) if intent.asked_to_keep else (kept if claims else "", False)


def _has(stems: Sequence[str], text: str) -> bool:
    folded = text.casefold()
    for stem in stems:  # noqa: SIM110 - a turn pays for each step of a generator
        if stem in folded:
            return True
    return False


def _ends(text: str) -> str:
    return text if len(text) <= 2 * END_CHARS else f"{text[:END_CHARS]}\n{text[-END_CHARS:]}"


_REMINDER = re.compile(r"\s*[-*+]\s+\[ \]\s+([^:：]{1,200}?)\s*[:：]\s*\S.*")
_TOPICS = re.compile("[,;/|，；、]")
MOST_REMINDERS = 200
"""How many open reminders a turn looks at, the newest first."""


async def due_reminders(session: OpenSession, parts: TurnParts, words: str) -> tuple[str, ...]:
    """The open reminders whose topic a private message names by all words of one of its names.

    Lines that the owner did not write are ignored, and all lines if the file cannot be changed.
    """
    path = PurePosixPath(REMINDERS)
    policy = session.policy
    if (
        not words.strip()
        or not policy.is_private
        or not policy.loads_daily_logs
        or not policy.may_write(path)
    ):
        return ()
    try:
        if (await parts.workspace.fingerprints([REMINDERS]))[REMINDERS] is None:
            return ()
        text = (await parts.workspace.read(REMINDERS)).text
    except (OSError, PathOutsideRoot):
        return ()
    lines = [line for line in text.splitlines() if _REMINDER.fullmatch(line)][-MOST_REMINDERS:]
    due = [line for line in lines if _names_topic(words, line)]
    if not due:
        return ()
    sources = await parts.sources.of_lines(REMINDERS, due)
    return tuple(
        line
        for line, source in zip(due, sources, strict=True)
        if source is None or (source.is_owners_word and "owner" in source.said_by)
    )


def _names_topic(words: str, line: str) -> bool:
    from nacre.memory.text.evidence import Finder  # a turn without reminders needs none of it
    from nacre.memory.text.lexical import match_query

    found = _REMINDER.fullmatch(line)
    for topic in _TOPICS.split(found[1]) if found else ():
        query = match_query(topic)
        finder = Finder(query) if query is not None else None
        if finder is not None and finder.terms and len(finder.look(words).terms) == len(finder.terms):
            return True
    return False


def reminder_text(due: Sequence[str]) -> str:
    """The text about reminders at the tail of a request."""
    return render("tail/reminders", text=quoted("\n".join(due)))


async def tick_reminders(parts: TurnParts, due: Sequence[str]) -> None:
    """Ticks reminders that the model was shown, with the day. An unticked one is shown again."""
    mark = f" ({parts.now():%Y-%m-%d})"

    def ticked(old: bytes | None) -> bytes | None:
        if old is None:
            return None
        lines = old.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        for at, line in enumerate(lines):
            (bare,) = line.splitlines()
            if text_of_note(bare.encode("utf-8", "surrogateescape")) in due:
                lines[at] = f"{bare.replace('[ ]', '[x]', 1).rstrip()}{mark}{line[len(bare) :]}"
        return "".join(lines).encode("utf-8", "surrogateescape")

    with suppress(OSError, PathOutsideRoot, FileBusy):
        await parts.workspace.change(REMINDERS, ticked)
        parts.on_notes(REMINDERS)


async def keep_promise(session: OpenSession, parts: TurnParts, words: str, reply: str) -> str:
    """Writes to today's log what the owner asked to remember, for a turn in which no tool wrote.

    Returns a sentence for the owner, or an empty string if there was nothing to save.
    """
    if not session.policy.is_private:
        return ""
    text, is_asked = promised(words, reply)
    if not text:
        return POINTS_BACK if is_asked else ""
    from nacre.memory.text.days.query_dates import with_dates, without_dates

    today = parts.now().date()
    path = daily_log_path(today)
    if not session.policy.may_write(PurePosixPath(path)):
        return f"The assistant saved no note of this: the settings make {path} read-only."
    workspace = session.sources(parts.sources).workspace(parts.workspace, "capture", words_of=without_dates)
    lines = [with_dates(line.strip().lstrip("-*• "), today) for line in text.splitlines()]
    try:
        if not parts.workspace.is_there:
            return ""  # the turn has reported that the workspace is gone
        items = "\n".join(f"- {line}" for line in lines if line)
        outcome = await workspace.append(path, items, heading=HEADING)
    except WaitsForReview:
        return ""  # the turn reports it
    except (OSError, PathOutsideRoot, FileBusy) as error:
        return f"The assistant saved no note of this, and {path} could not be written: {error}"
    if not outcome.written:
        return ""
    parts.on_notes(path)
    said = "you asked it to remember" if is_asked else "it said it would remember"
    return f"The assistant did not save what {said}, so Nacre wrote it to {path}."
