"""What code adds below a model's summary, so that no model can forget it. Pure.

Requests that nobody answered, exact identifiers, failed tool calls and touched files are read off the
messages themselves. Identifiers and files go on over compactions; the rest speaks of one part only.
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
"""The two bounds on failures are OpenClaw's."""

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
    """What is known of a summarised part without asking a model; each list in order of appearance."""

    open_asks: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    tool_failures: tuple[str, ...] = ()
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


def facts_of(
    previous: Compaction | None, messages: Sequence[Message], *, open_asks: Sequence[str] = ()
) -> SummaryFacts:
    """The facts of the messages that a compaction takes out of view.

    The files and identifiers of the `previous` compaction are taken over; of all identifiers the
    newest 24 count.
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
    """The summary with the facts below it; what its own words hold already is not said twice."""
    summary = without_facts(summary)
    squeezed = " ".join(summary.split())
    blocks = [
        (OPEN_ASKS_HEADING, [ask for ask in facts.open_asks if ask not in squeezed]),
        (IDENTIFIERS_HEADING, [f"`{name}`" for name in facts.identifiers if not _holds(summary, name)]),
        (FAILURES_HEADING, list(facts.tool_failures)),
    ]
    for heading, lines in blocks:
        if lines:
            summary += f"\n\n{heading}\n" + "\n".join(f"- {line}" for line in lines)
    return summary + _file_lists(facts.read_files, facts.modified_files)


def without_facts(summary: str) -> str:
    """A summary without what the next compaction writes anew; asks stay, until a model settles them."""
    return _RENEWED.sub("\n", _FILE_LIST.sub("", summary).rstrip()).strip()


def file_operations(previous: Compaction | None, messages: Sequence[Message]) -> tuple[set[str], set[str]]:
    """The files that were read and those that were changed: of the previous compaction, and of `messages`.

    The previous ones come from its details, unless an extension wrote these, and from the lists at
    the end of its summary.
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


def _file_lists(read: Sequence[str], modified: Sequence[str]) -> str:
    """The lists as they stand at the end of a summary, at most 40 files each; empty without files."""
    blocks = ""
    for tag, paths in (("read-files", read), ("modified-files", modified)):
        if paths:
            more = [f"... and {len(paths) - FILE_LIST_LIMIT} more"] if len(paths) > FILE_LIST_LIMIT else []
            blocks += f"\n\n<{tag}>\n" + "\n".join([*paths[:FILE_LIST_LIMIT], *more]) + f"\n</{tag}>"
    return blocks


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
            told = _line(message_text(message), MAX_FAILURE_CHARS) or "failed (no output)"
            failures.setdefault(message.tool_call_id, f"{message.tool_name}{_codes(message)}: {told}")
    lines = list(failures.values())
    more = [f"...and {len(lines) - MOST_FAILURES} more"] if len(lines) > MOST_FAILURES else []
    return (*lines[:MOST_FAILURES], *more)


def _codes(result: ToolResultMessage) -> str:
    """Status and exit code as the tool reported them, in brackets."""
    details = result.details or {}
    told = [f"{key}={details[key]}" for key in ("status", "exitCode") if details.get(key) is not None]
    return f" ({_line(' '.join(told), 60)})" if told else ""


def _holds(text: str, name: str) -> bool:
    """Whether the name stands in the text as a whole, not as the beginning of another."""
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def _line(text: str, max_chars: int) -> str:
    """The text on one line, cut with a sign where it is longer."""
    squeezed = " ".join(text.split())
    return squeezed if len(squeezed) <= max_chars else f"{squeezed[: max_chars - 1]}…"


MAX_IDENTIFIER_CHARS = 200
MAX_READ_CHARS = 20_000
"""Of a longer text only its beginning and its end are read: nobody typed it."""

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
_SIGNS = re.compile(r"/|\.\w|#\d|[A-Z0-9]-\d|:\d\d|[0-9a-f]{7}", re.ASCII)
"""One of these stands in every name, so that most texts are passed over at once."""
_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?![\w-])", re.ASCII)
"""Words of hexadecimal signs with at least one letter and one digit, so that no word or number is one."""


def identifiers(newest_first: Iterable[str], *, most: int) -> list[str]:
    """The `most` exact names that were mentioned last, each once, the last one at the end.

    Texts are read only until there are so many.

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
    """The names in a text in their order."""
    if not _SIGNS.search(text):
        return []
    spans = [match.span() for match in _PATTERNS.finditer(text)]
    hashes = [match.span() for match in _HASH.finditer(text)]
    free = [span for span in hashes if not any(start <= span[0] < end for start, end in spans)]
    return [name for start, end in sorted(spans + free) if (name := _name(text[start:end]))]


def has_identifier(text: str) -> bool:
    """Whether there is such a name in a text."""
    return bool(_names(_ends(text)))


def _name(found: str) -> str:
    """What was found without the marks behind it; empty for what is no name."""
    name = found.rstrip(".,;:!?")
    return name if 1 < len(name) <= MAX_IDENTIFIER_CHARS else ""


def _ends(text: str) -> str:
    if len(text) <= MAX_READ_CHARS:
        return text
    return f"{text[: MAX_READ_CHARS * 3 // 4]}\n{text[-MAX_READ_CHARS // 4 :]}"
