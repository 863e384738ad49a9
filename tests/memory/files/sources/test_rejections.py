"""What the owner rejected stays rejected, whoever writes it again, until the owner wants it after all."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from nacre.memory.files.proposals import ReviewQueue, note_bytes
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.files.sources.rejections import REJECTED_FILE, lift, reject, rejected_lines
from nacre.memory.files.sources.source import PRIVATE, Source, Writer
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.workspace.folder import FolderWorkspace

LOG = "memory/2026-03-14.md"
FALSE = "- Anna's phone: 555-1234"


class Home:
    """A workspace, and its writers."""

    def __init__(self, root: Path) -> None:
        self.root = root / "workspace"
        (self.root / "memory").mkdir(parents=True)
        self.folder = FolderWorkspace(self.root, lock_dir=root / "locks")

    def by(self, written_by: Writer, *, is_approved: bool = False, wish: bool = False) -> SourcedWorkspace:
        said_by = ("owner",) if written_by == "hand" else ("owner", "assistant")
        source = Source(written_by=written_by, audience=PRIVATE, said_by=said_by, at="2026-03-14T10:00")  # type: ignore[arg-type]

        async def begin() -> SourceOf:
            return lambda _line: source

        async def is_wished() -> bool:
            return wish

        return SourcedWorkspace(
            self.folder, Sources(self.folder), begin, is_approved=is_approved, is_owners_wish=is_wished
        )

    async def refused(self, text: str, path: str = LOG) -> list[str]:
        lines = text.splitlines()
        found = await rejected_lines(Sources(self.folder), path, text, lines)
        return [line for line in lines if line in found]

    def text(self, name: str = LOG) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("written_by", ["flush", "capture", "reflection", "import", "tool", "code"])
async def test_no_writer_brings_a_rejected_line_back(
    home: Home, written_by: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left out and counted, and the rest is written; alone, not even its heading is."""
    caplog.set_level(logging.INFO)
    await reject(home.folder, LOG, FALSE, [FALSE])
    writer = home.by(written_by)

    alone = await writer.append(LOG, FALSE, heading="## Notes")
    assert (alone.written, alone.rejected_lines, home.text()) == ("", 1, "")
    both = await writer.append(LOG, f"{FALSE}\n{FALSE}\u2028- The mast is paid.", heading="## Notes")
    assert (both.written, both.rejected_lines) == ("## Notes\n\n- The mast is paid.", 1)
    assert "1 lines of memory/2026-03-14.md are left out" in caplog.text
    assert "555" not in home.text() + caplog.text


@pytest.mark.parametrize("written_by", ["flush", "reflection", "import"])
async def test_a_whole_note_is_written_without_it(home: Home, written_by: Writer) -> None:
    """Lines that the note has already stay as they are, at the place of the others."""
    await reject(home.folder, LOG, FALSE, [FALSE])
    (home.root / "MEMORY.md").write_text("- By hand.\n")
    await home.by(written_by).change("MEMORY.md", lambda old: (old or b"") + f"{FALSE}\n- New.\n".encode())
    assert home.text("MEMORY.md") == "- By hand.\n- New.\n"


@pytest.mark.parametrize("written_by", ["tool", "code"])
async def test_a_caller_that_counts_on_its_whole_text_is_told(home: Home, written_by: Writer) -> None:
    """Such as a page of facts, of which a part would not be what it was asked to keep."""
    await reject(home.folder, LOG, FALSE, [FALSE])
    with pytest.raises(WaitsForReview, match="rejected these words before"):
        await home.by(written_by).change("MEMORY.md", lambda _: f"{FALSE}\n- New.\n".encode())
    assert home.text("MEMORY.md") == ""


async def test_a_value_is_known_in_other_words(home: Home) -> None:
    """By its thing, under its heading, with another mark, day or source; not of another person or day."""
    page = "# People\n\n## Anna\n\n- City: Porto (memory/2026-01-02.md#L1)\n- Visit: tomorrow (2026-03-15)\n"
    await reject(home.folder, "MEMORY.md", page, page.splitlines())
    await reject(
        home.folder, LOG, "- My boat is called Pilot.\n- ok then\n", ["- My boat is called Pilot.", "- done"]
    )

    assert await home.refused("- Anna's city is Porto.\n* **Anna city**: porto") == [
        "- Anna's city is Porto.",
        "* **Anna city**: porto",
    ]
    assert await home.refused("# P\n## Anna\n| City | Porto |") == ["| City | Porto |"]
    assert await home.refused("# P\n## Ben\n- City: Porto\n- Visit: tomorrow (2026-04-02)\n- done") == []
    assert await home.refused("# P\n## Anna\n- City: Lisbon\n- City: not Porto") == []
    assert await home.refused("- [ ] my boat is called PILOT") == ["- [ ] my boat is called PILOT"]


@pytest.mark.parametrize("wanted", ["hand", "approved", "wish", "accepted"])
async def test_the_owner_may_want_it_after_all(home: Home, wanted: str, tmp_path: Path) -> None:
    """By writing it through a command, by approving or accepting it, or by asking to remember it."""
    await reject(home.folder, LOG, FALSE, [FALSE])
    if wanted == "accepted":
        queue = ReviewQueue(tmp_path / "proposals", lock_dir=tmp_path / "locks")
        sources = Sources(home.folder, review=queue, reviews_all=True)
        with pytest.raises(WaitsForReview):
            await SourcedWorkspace(home.folder, sources, home.by("flush")._begin).append(LOG, "- New: 1")
        [proposal] = await queue.waiting()
        await queue.accept(proposal, home.folder, edited=f"{FALSE}\n")
    else:
        writer: Writer = "hand" if wanted == "hand" else "tool"
        await home.by(writer, is_approved=wanted == "approved", wish=wanted == "wish").append(LOG, FALSE)

    assert FALSE in home.text()
    (home.root / LOG).unlink()
    assert await home.refused(FALSE) == []


async def test_a_hand_edit_lifts_it_while_it_stands(home: Home) -> None:
    """The editor tells nobody, so the notes are looked at; a line of others does not count."""
    await reject(home.folder, LOG, FALSE, [FALSE])
    page = Source(written_by="tool", audience=PRIVATE, said_by=("tool",), at="2026-03-14T10:00")
    await Sources(home.folder).keep("memory/page.md", FALSE, lambda _line: page)
    (home.root / "memory/page.md").write_text(f"{FALSE}\n")
    assert await home.refused(FALSE) == [FALSE]

    (home.root / "MEMORY.md").write_text("# Notes\n\n- Anna's phone is 555-1234.\n")
    assert await home.refused(FALSE) == []
    (home.root / "MEMORY.md").unlink()
    assert await home.refused(FALSE) == [FALSE]


async def test_a_rejected_proposal_stays_rejected_for_all(home: Home, tmp_path: Path) -> None:
    """Also where no write waits for the owner; the owner who accepts another wording lifts only that."""
    queue = ReviewQueue(tmp_path / "proposals", lock_dir=tmp_path / "locks")
    waiting = Sources(home.folder, review=queue, reviews_all=True)
    with pytest.raises(WaitsForReview):
        await SourcedWorkspace(home.folder, waiting, home.by("flush")._begin).append(LOG, FALSE)
    [proposal] = await queue.waiting()
    await queue.reject(proposal, home.folder)

    await home.by("import").append("memory/old.md", f"{FALSE}\n- More.\n")
    assert home.text("memory/old.md") == "- More.\n"


async def test_what_a_hook_quotes_is_no_claim(home: Home) -> None:
    """A note of a session that ended quotes it word for word."""
    await reject(home.folder, LOG, FALSE, [FALSE])
    await home.by("hook").append("memory/2026-03-14-boat.md", FALSE)
    assert home.text("memory/2026-03-14-boat.md") == f"{FALSE}\n"


async def test_the_file_has_no_words_and_another_workspace_other_digests(home: Home, tmp_path: Path) -> None:
    """Digests of two devices count together, and what cannot be read is skipped."""
    other = Home(tmp_path / "other")
    await reject(home.folder, LOG, FALSE, [FALSE])
    await reject(other.folder, LOG, FALSE, [FALSE])
    mine, theirs = home.text(REJECTED_FILE), other.text(REJECTED_FILE)
    assert "555-1234" not in mine
    assert "5551234" not in mine
    assert "phone" not in mine.lower()
    assert not set(json.loads(mine)["rejected"]) & set(json.loads(theirs)["rejected"])

    await reject(other.folder, LOG, "- A: 1", ["- Gate code: 4711"])
    merged = f"<<<<<<< mine\n{mine}=======\n{other.text(REJECTED_FILE)}>>>>>>> theirs\n{{\n"
    (home.root / REJECTED_FILE).write_text(merged)
    assert await home.refused(f"{FALSE}\n- New.") == [FALSE]
    await lift(home.folder, LOG, FALSE, [FALSE])
    assert await home.refused(FALSE) == []


async def test_a_workspace_without_rejections_reads_no_note(home: Home) -> None:
    """The test of a write is one look at a file that is not there; nothing is made for a lift."""
    await lift(home.folder, LOG, FALSE, [FALSE])
    await home.by("hand").append(LOG, FALSE)
    assert not (home.root / REJECTED_FILE).exists()
    assert note_bytes(home.text()) == f"{FALSE}\n".encode()
