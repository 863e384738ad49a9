"""A model's summary stands on a page only if each of its sentences has a link that the page has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.extensions.curation.pages import checked_summary, with_summary
from nacre.extensions.curation.reflection import propose_bank, with_summaries
from nacre.memory.files.proposals import write_changes
from nacre.memory.workspace.folder import FolderWorkspace
from tests.extensions.curation.logs import DAY, LOG

AT = "2026-03-14T12:00:00+00:00"
PAGE = f"""# Peter

## World

- In Marrakech. ({DAY}#L7)

## Opinions

- Short. (c=0.95, bank/opinions.md)
"""
GOOD = f"Peter (46) is in Marrakech ({DAY}#L7). He likes it short. (bank/opinions.md)"


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (GOOD, True),
        (GOOD.replace(" He", "\n\nHe"), True),
        (f"彼はマラケシュにいる ({DAY}#L7)", True),
        ("", False),
        ("Peter is in Marrakech.", False),
        (f"{GOOD} He is rich.", False),
        (f"He is rich. He is in Marrakech ({DAY}#L7).", False),
        (f"Peter is in Marrakech ({DAY}#L8).", False),
        (f"Peter is in Marrakech ({DAY}#L7, memory/2026-01-21.md#L7).", False),
        (f"Peter (memory/2026-01-21.md#L7) is away ({DAY}#L7).", False),
        (f"({DAY}#L7)", False),
        (f"## Retain - W: Peter is rich ({DAY}#L7)", False),
        (f"See [here](https://example.org) ({DAY}#L7)", False),
        (f"Peter {'walks ' * 200}({DAY}#L7)", False),
    ],
)
@pytest.mark.covers("SEED-26")
def test_each_sentence_has_its_link(answer: str, is_kept: bool) -> None:
    """A sentence without a link, a link that is not there, and anything but sentences is refused whole."""
    assert checked_summary(answer, PAGE) == (" ".join(answer.split()) if is_kept else "")


def test_a_summary_is_the_first_section_and_is_replaced() -> None:
    """The rest of the page stays byte for byte."""
    once = with_summary(PAGE, "One.")

    assert once == PAGE.replace("## World", "## Summary\n\nOne.\n\n## World")
    assert with_summary(once, "Two.") == once.replace("One.", "Two.")
    assert with_summary("# Peter\n\n## Summary\n", "One.") == "# Peter\n\n## Summary\n\nOne.\n"


def test_what_a_hand_wrote_is_no_models_to_change(tmp_path: Path) -> None:
    """A summary of a reflection is followed by the next one; one that the owner reworded stays."""
    log, page = tmp_path / "workspace" / DAY, tmp_path / "workspace/bank/entities/Peter.md"
    log.parent.mkdir(parents=True)
    log.write_text(LOG, encoding="utf-8")

    async def reflect(words: str) -> str:
        async def summary_of(path: str, _page: str) -> str:
            return f"{words} ({DAY}#L7)" if path.endswith("Peter.md") else "no link"

        workspace = FolderWorkspace(tmp_path / "workspace", lock_dir=tmp_path / "locks")
        made = await with_summaries(workspace, await propose_bank(workspace), summary_of)
        await write_changes(workspace, (*made.changes, made.taken), at=AT, redacts_secrets=False)
        return page.read_text(encoding="utf-8")

    async def story() -> None:
        assert f"# Peter\n\n## Summary\n\nHe is away ({DAY}#L7)\n\n" in await reflect("He is away")
        # the link of the summary follows its line, and that makes it nobody else's
        log.write_text(LOG.replace("- W @Peter", "- W @Peter: Has a cat.\n- W @Peter", 1), encoding="utf-8")
        again = await reflect("He is far away")
        assert again.count("## Summary") == 1
        assert "He is far away" in again
        page.write_text(again.replace("He is far away", "He travels"), encoding="utf-8")
        log.write_text(LOG.replace("## Weather", "- W @Peter: Has a dog.\n\n## Weather"), encoding="utf-8")
        last = await reflect("He is back")
        assert "Has a dog." in last
        assert "He travels" in last
        assert "He is back" not in last
        assert "no link" not in page.with_name("warelay.md").read_text(encoding="utf-8")

    asyncio.run(story())
