"""A write that waits for the owner: its effect on a note, and why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nacre.memory.files.sources.source import Source
from nacre.record import Record

_NAME_CHARS = 60


class ProposedWrite(Record):
    """A write to the note `path` that has not been done.

    With `is_append`, `text` is Markdown to be added as by `Workspace.append` with the remaining fields.
    Otherwise `text` is the whole note after the write and `before` the note now; `None` stands for no note.
    Bytes that are not UTF-8 are surrogates. `source` says where the text comes from.
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
    """A write was not done but waits for the owner; `text` is what waits.

    `because` names the people besides the owner whose words are the reason, if they are. An empty
    `proposal_id` means that nothing waits, because the owner has rejected the same words before.
    """

    def __init__(self, path: str, proposal_id: str, text: str, *, because: str = "") -> None:
        why = f"because of words that are not the owner's: {because}" if because else "as memory.writes says"
        super().__init__(
            f"Nothing was written into {path}: it has to wait for the owner, who approves it as proposal "
            f"{proposal_id}, {why}. Tell the owner that `/review` shows it, and do not write it again."
            if proposal_id
            else f"Nothing was written into {path}: the owner rejected these words before. "
            "Do not write them again; `/remember` is for the owner who wants them after all."
        )
        self.path, self.proposal_id, self.text, self.because = path, proposal_id, text, because


class Reviewing(Protocol):
    """Stores the writes that wait for the owner."""

    async def propose(self, write: ProposedWrite) -> str:
        """Stores a write on disk and returns its id. Equal writes are stored once.

        The id is empty for words that the owner has rejected; they are not proposed again.

        Raises:
            OSError, FileBusy: the write cannot be stored.
        """
        ...


def added_lines(write: ProposedWrite) -> tuple[str, ...]:
    before = frozenset((write.before or "").splitlines())
    return tuple(line for line in (write.text or "").splitlines() if line.strip() and line not in before)


def names_of_others(sources: Sequence[Source]) -> str:
    """The names of the people besides the owner who contributed to these sources."""
    names = dict.fromkeys(name for source in sources if not source.is_owners_word for name in source.names)
    said = dict.fromkeys(
        who for source in sources for who in source.said_by if who not in ("owner", "assistant")
    )
    return ", ".join(" ".join(name.split())[:_NAME_CHARS] for name in (names or said))
