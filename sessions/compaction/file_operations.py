"""Which files a summarised conversation read and changed, carried on over compactions. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nacre.sessions.contracts.messages import AssistantMessage, Message
from nacre.sessions.entries.entries import Compaction

_READING = ("read",)
_MODIFYING = ("write", "edit", "append")
_LIST = re.compile(r"\s*<(read-files|modified-files)>\n(.*?)\n</\1>", re.DOTALL)
FILE_LIST_LIMIT = 40
_MORE = re.compile(r"\.\.\. and \d+ more")


@dataclass(frozen=True, kw_only=True)
class FileOperations:
    """Paths that were read, and paths that were written, edited or appended to."""

    read: frozenset[str]
    modified: frozenset[str]


def file_operations(previous: Compaction | None, messages: Sequence[Message]) -> FileOperations:
    """The files of the previous compaction and of the tool calls in `messages`.

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
    return FileOperations(read=frozenset(read), modified=frozenset(modified))


def file_lists(read: Sequence[str], modified: Sequence[str]) -> str:
    """The lists as they stand at the end of a summary, at most 40 files each; empty without files."""
    blocks = ""
    for tag, paths in (("read-files", read), ("modified-files", modified)):
        if paths:
            more = [f"... and {len(paths) - FILE_LIST_LIMIT} more"] if len(paths) > FILE_LIST_LIMIT else []
            blocks += f"\n\n<{tag}>\n" + "\n".join([*paths[:FILE_LIST_LIMIT], *more]) + f"\n</{tag}>"
    return blocks


def without_file_lists(summary: str) -> str:
    """A stored summary without its file lists, which the next compaction writes anew."""
    return _LIST.sub("", summary).rstrip()


def _listed(details: Mapping[str, object], key: str) -> set[str]:
    paths = details.get(key)
    return {path for path in paths if isinstance(path, str)} if isinstance(paths, list | tuple) else set()


def _in_summary(summary: str, tag: str) -> set[str]:
    lines = [line for found in _LIST.finditer(summary) if found[1] == tag for line in found[2].split("\n")]
    return {line for line in lines if line.strip() and not _MORE.fullmatch(line)}
