"""Facts that code appends to a model's summary, so that no model can omit them.

Unanswered requests, exact identifiers, failed tool calls and touched files are read from the messages.
Identifiers and files carry over from one compaction to the next; the other facts cover one summarized part
only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nacre.record import Record
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    call_text,
    message_text,
)
from nacre.sessions.entries.entries import Compaction

OPEN_ASKS_HEADING = "## Asks without a recorded answer"
IDENTIFIERS_HEADING = "## Exact identifiers"
FAILURES_HEADING = "## Tool Failures"

MOST_OPEN_ASKS = 5
MAX_ASK_CHARS = 300
MOST_IDENTIFIERS = 24
MOST_FAILURES = 8
MAX_FAILURE_CHARS = 240
"""`MOST_FAILURES` and `MAX_FAILURE_CHARS` are OpenClaw's limits."""

FILE_LIST_LIMIT = 40

_READING = ("read",)
_MODIFYING = ("write", "edit", "append")
_FILE_LIST = re.compile(r"\s*<(read-files|modified-files)>\n(.*?)\n</\1>", re.DOTALL)
_MORE = re.compile(r"\.\.\. and \d+ more")
_RENEWED = re.compile(
    rf"(?:\A|\n+)(?:{re.escape(IDENTIFIERS_HEADING)}|{re.escape(FAILURES_HEADING)})\n(?:- [^\n]*(?:\n|\Z))*"
)
_LISTED_IDENTIFIERS = re.compile(rf"{re.escape(IDENTIFIERS_HEADING)}\n((?:- [^\n]*(?:\n|\Z))*)")


class SummaryFacts(Record):
    """Facts of a summarized part, found without a model; each list is in order of appearance."""

    open_asks: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    tool_failures: tuple[str, ...] = ()
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


def facts_of(
    previous: Compaction | None, messages: Sequence[Message], *, open_asks: Sequence[str] = ()
) -> SummaryFacts:
    """Collects the facts of the messages that a compaction removes from view.

    Files and identifiers of the `previous` compaction carry over. Only the newest 24 identifiers are kept.
    """
    read, modified = file_operations(previous, messages)
    return SummaryFacts(
        open_asks=tuple(_line(ask, MAX_ASK_CHARS) for ask in open_asks[-MOST_OPEN_ASKS:]),
        identifiers=_identifiers(previous, messages),
        tool_failures=_tool_failures(messages),
        read_files=tuple(sorted(read - modified)),
        modified_files=tuple(sorted(modified)),
    )


def with_facts(summary: str, facts: SummaryFacts) -> str:
    """Appends the facts to a summary, leaving out what the summary already says."""
    summary = without_facts(summary)
    squeezed = " ".join(summary.split())
    # A name inside of another name does not count.
    missing = [n for n in facts.identifiers if not re.search(rf"(?<!\w){re.escape(n)}(?!\w)", summary)]
    blocks = [
        (OPEN_ASKS_HEADING, [ask for ask in facts.open_asks if ask not in squeezed]),
        (IDENTIFIERS_HEADING, [f"`{name}`" for name in missing]),
        (FAILURES_HEADING, list(facts.tool_failures)),
    ]
    for heading, lines in blocks:
        if lines:
            summary += f"\n\n{heading}\n" + "\n".join(f"- {line}" for line in lines)
    for tag, paths in (("read-files", facts.read_files), ("modified-files", facts.modified_files)):
        if paths:
            more = [f"... and {len(paths) - FILE_LIST_LIMIT} more"] if len(paths) > FILE_LIST_LIMIT else []
            summary += f"\n\n<{tag}>\n" + "\n".join([*paths[:FILE_LIST_LIMIT], *more]) + f"\n</{tag}>"
    return summary


def without_facts(summary: str) -> str:
    """Removes the parts that the next compaction writes again. Unanswered requests stay."""
    return _RENEWED.sub("\n", _FILE_LIST.sub("", summary).rstrip()).strip()


def file_operations(previous: Compaction | None, messages: Sequence[Message]) -> tuple[set[str], set[str]]:
    """The files that the previous compaction and the `messages` read, and those that they changed.

    The previous ones come from the compaction's details, unless an extension wrote these, and from the lists
    at the end of its summary.
    """
    read, modified = set[str](), set[str]()
    if previous is not None:
        details = previous.details if previous.details and not previous.from_hook else {}
        read |= _listed(details, "readFiles") | _in_summary(previous.summary, "read-files")
        modified |= _listed(details, "modifiedFiles") | _in_summary(previous.summary, "modified-files")
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            path = call.arguments.get("path") or call.arguments.get("file_path")
            if isinstance(path, str) and call.name in _READING:
                read.add(path)
            elif isinstance(path, str) and call.name in _MODIFYING:
                modified.add(path)
    return read, modified


def _listed(details: Mapping[str, object], key: str) -> set[str]:
    paths = details.get(key)
    return {path for path in paths if isinstance(path, str)} if isinstance(paths, list | tuple) else set()


def _in_summary(summary: str, tag: str) -> set[str]:
    lists = (found[2] for found in _FILE_LIST.finditer(summary) if found[1] == tag)
    lines = (line for each in lists for line in each.split("\n"))
    return {line for line in lines if line.strip() and not _MORE.fullmatch(line)}


def _identifiers(previous: Compaction | None, messages: Sequence[Message]) -> tuple[str, ...]:
    earlier: list[str] = []
    if previous is not None:
        earlier = identifiers([without_facts(previous.summary)], most=MOST_IDENTIFIERS)
        for block in _LISTED_IDENTIFIERS.finditer(previous.summary):
            earlier += [line.removeprefix("- ").strip("`") for line in block[1].splitlines()]
    new = identifiers(_spoken_newest_first(messages), most=MOST_IDENTIFIERS)
    return tuple(dict.fromkeys([*(name for name in earlier if name not in new), *new]))[-MOST_IDENTIFIERS:]


def _spoken_newest_first(messages: Sequence[Message]) -> Iterator[str]:
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            yield from reversed([call_text(call) for call in message.tool_calls])
        if not isinstance(message, ToolResultMessage):
            yield message_text(message)


def _tool_failures(messages: Sequence[Message]) -> tuple[str, ...]:
    failures: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ToolResultMessage) and message.is_error:
            text = _line(message_text(message), MAX_FAILURE_CHARS) or "failed (no output)"
            details = message.details or {}
            codes = [
                f"{key}={details[key]}" for key in ("status", "exitCode") if details.get(key) is not None
            ]
            shown = f" ({_line(' '.join(codes), 60)})" if codes else ""
            failures.setdefault(message.tool_call_id, f"{message.tool_name}{shown}: {text}")
    lines = list(failures.values())
    more = [f"...and {len(lines) - MOST_FAILURES} more"] if len(lines) > MOST_FAILURES else []
    return (*lines[:MOST_FAILURES], *more)


def _line(text: str, max_chars: int) -> str:
    squeezed = " ".join(text.split())
    return squeezed if len(squeezed) <= max_chars else f"{squeezed[: max_chars - 1]}…"


MAX_IDENTIFIER_CHARS = 200
MAX_READ_CHARS = 20_000
"""Of a longer text, only the beginning and the end are read."""

_PATTERNS = re.compile(
    r"https?://[^\s<>\"'`)\]}“”‘’«»]+"
    r"|(?<![\w-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w-])"
    r"|(?<![\w/.~-])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)+/?"
    r"|(?<![\w/.@+-])[\w.@+-]+(?:/[\w.@+-]+)*/[\w@+-]+\.[A-Za-z][A-Za-z0-9]{0,7}(?![\w/])"
    r"|(?<![\w.-])[\w-]+\.(?:py|md|js|ts|json|json5|toml|yaml|yml|txt|sql|sqlite|csv|sh|rs|go|html|css"
    r"|pdf|env)(?!\w)"
    r"|(?<![\w#&])#\d{1,7}(?!\w)"
    r"|(?<![\w-])[A-Z][A-Z0-9]{1,9}-\d{1,7}(?![\w-])"
    r"|(?<![\w.:-])[A-Za-z0-9][\w.-]{0,80}:\d{2,5}(?![\w:])"
    r"|(?<![\w.-])v?\d+\.\d+\.\d+(?:[-+][\w.]+)?(?![\w.])",
    re.ASCII,
)
_SIGNS = re.compile(
    r"[/.#:-](?:(?<=/)|(?<=\.)\w|(?<=#)\d|(?<=[A-Z0-9]-)\d|(?<=:)\d\d|(?<=-)[0-9a-f]{4}-)", re.ASCII
)
"""Every identifier matches this, or has a digit and matches `_HEX`, so most texts are skipped at once."""
_HEX = re.compile("[0-9a-f]{7}")
_SHAPE = bytes(
    ord("1" if sign.isdigit() else "a" if sign.isalpha() or sign == "_" else "." if sign in ".#:-" else sign)
    for sign in map(chr, range(128))
) + bytes(128)
"""Kinds of characters: digits, letters, and signs that precede a letter or a digit."""
_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?![\w-])", re.ASCII)
"""Hexadecimal words with at least one letter and one digit, which excludes words and numbers."""


def identifiers(newest_first: Iterable[str], *, most: int) -> list[str]:
    """The last `most` identifiers mentioned, without duplicates, in order of mention.

    Reads texts only until it has found enough.

    >>> identifiers(["See https://example.org/a, commit 9fceb02 in src/app.py (#41)."], most=9)
    ['https://example.org/a', '9fceb02', 'src/app.py', '#41']
    """
    found: dict[str, None] = {}
    for text in newest_first:
        for name in reversed(_names(_ends(text))):
            found.setdefault(name)
        if len(found) >= most:
            break
    return list(found)[:most][::-1]


def _names(text: str) -> list[str]:
    shape = text.encode("ascii", "replace").translate(_SHAPE)
    if b"1" not in shape and b"/" not in shape and b".a" not in shape:
        return []
    if not _SIGNS.search(text) and not (b"1" in shape and _HEX.search(text)):
        return []
    spans = [match.span() for match in _PATTERNS.finditer(text)]
    hashes = [match.span() for match in _HASH.finditer(text)]
    free = [span for span in hashes if not any(start <= span[0] < end for start, end in spans)]
    names = (text[start:end].rstrip(".,;:!?") for start, end in sorted(spans + free))
    return [name for name in names if 1 < len(name) <= MAX_IDENTIFIER_CHARS]


def has_identifier(text: str) -> bool:
    return bool(_names(_ends(text)))


def _ends(text: str) -> str:
    if len(text) <= MAX_READ_CHARS:
        return text
    return f"{text[: MAX_READ_CHARS * 3 // 4]}\n{text[-MAX_READ_CHARS // 4 :]}"
