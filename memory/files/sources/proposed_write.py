"""A write that waits for the owner: what it would do to a note, which writes wait, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from nacre.memory.contracts.notes import CHATS_FOLDER, is_markdown
from nacre.memory.files.sources.source import PRIVATE, Source, Writer
from nacre.records.record import Record

_REVIEWED: frozenset[Writer] = frozenset({"flush", "hook"})
_OPEN_NOTES = re.compile(r"memory/(?!facts\.md$).+", re.IGNORECASE)
_OPEN_IN_OTHER_CHATS = (f"{CHATS_FOLDER}/", "people/")
_NAME_CHARS = 60


class ProposedWrite(Record):
    """What would be written into the note `path`.

    With `is_append`, `text` is Markdown that would be added as `Workspace.append` does it with the fields
    that follow. Else it would be the whole note in the place of `before`, and `None` is no note. Bytes that
    are no text stand as surrogates. `source` is where it comes from.
    """

    path: str
    text: str | None
    source: Source
    before: str | None = None
    is_append: bool = False
    skip_repeats: bool = True
    heading: str = ""
    below: str = ""


class WaitsForReview(OSError):
    """A write that was not done and is not lost: it waits for the owner. `text` is what waits.

    `because` says who besides the owner was heard, where that is the reason. Without a `proposal_id` nothing
    waits: the owner has rejected the same words before.
    """

    def __init__(self, path: str, proposal_id: str, text: str, *, because: str = "") -> None:
        why = f"because of words that are not the owner's: {because}" if because else "as memory.writes says"
        super().__init__(
            f"Nothing was written into {path}: it has to wait for the owner, who approves it as proposal "
            f"{proposal_id}, {why}. Tell the owner that `/review` shows it, and do not write it again."
            if proposal_id
            else f"Nothing was written into {path}: the owner rejected these words before. "
            "Do not write them again."
        )
        self.path, self.proposal_id, self.text, self.because = path, proposal_id, text, because


class Reviewing(Protocol):
    """Keeps what waits."""

    async def propose(self, write: ProposedWrite) -> str:
        """Keeps a write, on disk when it returns; its id. One that waits already is not kept twice.

        The id is empty for words that the owner has rejected: they are not proposed again.

        Raises:
            OSError, FileBusy: it cannot be kept.
        """
        ...


def is_reviewed(source: Source) -> bool:
    """Whether what comes from there waits: what a flush or a hook writes, and all that comes of a group."""
    return source.written_by in _REVIEWED or source.audience != PRIVATE


def is_open(write: ProposedWrite) -> bool:
    """Whether a write goes ahead although words of others were heard.

    That is a note which no prompt carries and which only gains lines: a daily log or another note below
    `memory/`. A chat that is not private also changes its own notes and facts. Everything else can become a
    rule, a fact, a skill or a setting: files of the prompt, `memory/facts.md`, `bank/`, `skills/`, unknown
    names.
    """
    if write.source.audience != PRIVATE and write.path.startswith(_OPEN_IN_OTHER_CHATS):
        return True
    only_adds = write.is_append or (write.text is not None and _keeps_lines(write.before or "", write.text))
    return only_adds and is_markdown(write.path) and bool(_OPEN_NOTES.fullmatch(write.path))


def added_lines(write: ProposedWrite) -> tuple[str, ...]:
    """The lines that a write brings into its note."""
    before = frozenset((write.before or "").splitlines())
    return tuple(line for line in (write.text or "").splitlines() if line.strip() and line not in before)


def removes_lines(write: ProposedWrite) -> bool:
    """Whether a write takes a line away or moves one."""
    return not write.is_append and not _keeps_lines(write.before or "", write.text or "")


def told_names(sources: Sequence[Source]) -> str:
    """Who besides the owner has a part in these sources."""
    names = dict.fromkeys(name for source in sources if not source.is_owners_word for name in source.names)
    said = dict.fromkeys(
        who for source in sources for who in source.said_by if who not in ("owner", "assistant")
    )
    return ", ".join(" ".join(name.split())[:_NAME_CHARS] for name in (names or said))


def _keeps_lines(before: str, after: str) -> bool:
    """Whether all lines of `before` stand in `after`, in their order."""
    left = iter(after.splitlines())
    return all(line in left for line in before.splitlines())
