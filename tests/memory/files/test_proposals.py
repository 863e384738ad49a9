"""What waits for the owner is on disk, and is written, merged or refused as the note is by then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nacre.memory.files.proposals import ProposalConflict, ProposalUnknown, ReviewQueue
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.files.sources.source import PRIVATE, Source, Writer
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.workspace.folder import FolderWorkspace

LOG = "memory/2026-01-20.md"


class Home:
    """A workspace whose writes wait, and one writer of it at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root / "workspace"
        self.root.mkdir()
        self.folder = FolderWorkspace(self.root, lock_dir=root / "locks")
        self.proposals = root / "proposals"
        self.queue = ReviewQueue(self.proposals, lock_dir=root / "locks")
        self.sources = Sources(self.folder, review=self.queue, reviews_all=True)

    def writer(self, written_by: Writer = "flush", audience: str = PRIVATE) -> SourcedWorkspace:
        """A session's way to the notes."""
        source = Source(written_by=written_by, audience=audience, said_by=("owner",), at="2026-01-20T10:00")

        async def begin() -> SourceOf:
            return lambda _line: source

        return SourcedWorkspace(self.folder, self.sources, begin)

    async def append(self, text: str, **who: str) -> None:
        """Something that has to wait."""
        with pytest.raises(WaitsForReview, match="wait for the owner"):
            await self.writer(**who).append(LOG, text, heading="## Flush")  # type: ignore[arg-type]

    async def change(self, old: str, new: str) -> None:
        """A change by a hook."""
        with pytest.raises(WaitsForReview):
            await self.writer("hook").change(LOG, lambda _: new.encode())
        assert (self.root / LOG).read_text() == old

    def text(self) -> str:
        """The note."""
        return (self.root / LOG).read_text()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose notes wait."""
    return Home(tmp_path)


@pytest.mark.parametrize(
    ("written_by", "audience", "waits"),
    [
        ("flush", PRIVATE, True),
        ("hook", PRIVATE, True),
        ("tool", "chats/telegram-group-7", True),
        ("tool", PRIVATE, False),
        ("code", PRIVATE, False),
    ],
)
async def test_who_waits(home: Home, written_by: Writer, audience: str, waits: bool) -> None:
    """A flush, a hook and a group do; what the owner has noted in private is written at once."""
    if waits:
        await home.append("- The gate code is 4711.", written_by=written_by, audience=audience)
        assert not (home.root / LOG).exists()
    else:
        await home.writer(written_by, audience).append(LOG, "- The gate code is 4711.")
        assert home.text() == "- The gate code is 4711.\n"
    assert len(await home.queue.waiting()) == waits


async def test_what_waits_is_written_as_it_would_have_been_and_has_its_source(home: Home) -> None:
    """Accepted by another process, behind what was written since; asked twice, it waits once."""
    await home.append("- The boat is red.")
    await home.append("- The boat is red.")
    (home.root / "memory").mkdir()
    (home.root / LOG).write_text("- By hand.\n")
    later = ReviewQueue(home.proposals, lock_dir=home.root.parent / "other-locks")
    [proposal] = await later.waiting()
    told = await later.diff(proposal, home.folder)
    await later.accept(proposal, home.folder)

    assert [line for line in told.splitlines()[3:] if line[0] == "+"] == [
        "+",
        "+## Flush",
        "+",
        "+- The boat is red.",
    ]
    assert home.text() == "- By hand.\n\n## Flush\n\n- The boat is red.\n"
    assert await home.queue.waiting() == ()
    sources: Sequence[Source | None] = await home.sources.of_lines(LOG, ["- The boat is red.", "- By hand."])
    assert [source and source.written_by for source in sources] == ["flush", None]


async def test_a_change_is_merged_or_refused_and_never_overwrites(home: Home) -> None:
    """What was changed elsewhere since stays; in the same place nothing is written and the proposal waits."""
    await home.folder.change(LOG, lambda _: b"one\ntwo\nthree\n")
    await home.change("one\ntwo\nthree\n", "one\ntwo!\nthree\n")
    await home.folder.change(LOG, lambda _: b"one\ntwo\nthree\nfour\n")
    [proposal] = await home.queue.waiting()
    await home.queue.accept(proposal, home.folder)
    assert home.text() == "one\ntwo!\nthree\nfour\n"

    await home.change(home.text(), "one\ntwo?\nthree\nfour\n")
    await home.folder.change(LOG, lambda _: b"one\nTWO\nthree\nfour\n")
    [proposal] = await home.queue.waiting()
    with pytest.raises(ProposalConflict, match="has changed since at line 2"):
        await home.queue.accept(proposal, home.folder)
    assert home.text() == "one\nTWO\nthree\nfour\n"
    await home.queue.reject(await home.queue.find(proposal.id[:5]), home.folder)
    assert home.text() == "one\nTWO\nthree\nfour\n"
    with pytest.raises(ProposalUnknown, match="may have been answered already"):
        await home.queue.find(proposal.id)


async def test_an_edited_text_is_the_owners_and_a_torn_file_hides_nothing(home: Home) -> None:
    """The owner's words are written in the place of what waited; what cannot be read is set aside."""
    await home.append("- The boat is red.")
    (home.proposals / "0badf00d.json").write_bytes(b'{"version": 1, "id"')
    [proposal] = await home.queue.waiting()
    await home.queue.accept(proposal, home.folder, edited="- The boat is blue.\n")

    assert home.text().endswith("- The boat is blue.\n")
    [source] = await home.sources.of_lines(LOG, ["- The boat is blue."])
    assert source is None
    assert (home.proposals / "0badf00d.unreadable").read_bytes() == b'{"version": 1, "id"'
