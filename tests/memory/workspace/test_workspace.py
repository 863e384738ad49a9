"""The workspace: made once, never overwritten, and read for the context with visible marks."""

from __future__ import annotations

import resource
from datetime import date
from importlib.resources import files
from pathlib import Path
from time import time_ns

import pytest

from nacre.memory.workspace.folder import FolderWorkspace
from nacre.memory.workspace.workspace import (
    SHORT_FORMS,
    TEMPLATES,
    ContextFiles,
    TemplateMissing,
    cut_text,
    daily_log_path,
    ensure_workspace,
    read_context_file,
    template_text,
    without_front_matter,
)


def at(root: Path) -> FolderWorkspace:
    return FolderWorkspace(root, lock_dir=root.parent / "locks")


async def test_new_workspace_gets_everything(tmp_path: Path) -> None:
    """A new folder holds all templates, the first-run file and its folders, and nothing of git."""
    report = await ensure_workspace(at(tmp_path / "a" / "workspace"))

    assert report.is_new
    assert sorted(report.created) == sorted([*TEMPLATES, "BOOTSTRAP.md", ".gitignore"])
    assert _names(tmp_path / "a" / "workspace") == sorted([*report.created, "memory", "shared"])


async def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    """A second start changes no file, brings a deleted template back, and BOOTSTRAP.md never."""
    await ensure_workspace(at(tmp_path))
    (tmp_path / "SOUL.md").write_text("mine", encoding="utf-8")
    for name in ("TOOLS.md", "BOOTSTRAP.md", ".gitignore"):
        (tmp_path / name).unlink()

    report = await ensure_workspace(at(tmp_path))

    assert (report.created, report.is_new) == (("TOOLS.md",), False)
    assert (tmp_path / "SOUL.md").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "BOOTSTRAP.md").exists()


async def test_workspace_that_was_only_begun_is_still_new(tmp_path: Path) -> None:
    """Killed after its first file, a workspace is finished as a new one on the next start."""
    (tmp_path / "BOOTSTRAP.md").write_text("begun", encoding="utf-8")

    report = await ensure_workspace(at(tmp_path))

    assert report.is_new
    assert "BOOTSTRAP.md" not in report.created
    assert (tmp_path / "BOOTSTRAP.md").read_text(encoding="utf-8") == "begun"


async def test_a_full_disk_leaves_no_part_of_a_template(tmp_path: Path) -> None:
    """With room again, the next start writes all of it; an empty AGENTS.md would count as the owner's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            await ensure_workspace(at(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "AGENTS.md").exists()

    await ensure_workspace(at(tmp_path))

    assert (tmp_path / "AGENTS.md").read_text(encoding="utf-8") == template_text("AGENTS.md")


async def test_brought_workspace_is_not_new(tmp_path: Path) -> None:
    """A folder that already has a memory gets no first-run file."""
    (tmp_path / "memory").mkdir()

    report = await ensure_workspace(at(tmp_path))

    assert not report.is_new
    assert not (tmp_path / "BOOTSTRAP.md").exists()


async def test_link_in_place_of_a_template_is_not_followed(tmp_path: Path) -> None:
    """A dangling link named like a template is left alone; nothing is created at its target."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "USER.md").symlink_to("../elsewhere.md")

    report = await ensure_workspace(at(root))

    assert "USER.md" not in report.created
    assert not (tmp_path / "elsewhere.md").exists()


async def test_without_templates_only_folders_are_made(tmp_path: Path) -> None:
    """An owner who wants no files gets none."""
    await ensure_workspace(at(tmp_path), with_templates=False)

    assert _names(tmp_path) == ["memory", "shared"]


@pytest.mark.parametrize("name", [*TEMPLATES, *SHORT_FORMS.values(), "BOOTSTRAP.md", "gitignore"])
def test_each_template_is_packaged_and_short(name: str) -> None:
    """Every template has text, and all context files together fit the context's limits."""
    text = template_text(name)

    assert text.strip()
    assert not text.startswith("---")
    assert len(text) < 5000


def test_missing_template_is_named() -> None:
    """A broken install is an error with the file's name."""
    with pytest.raises(TemplateMissing, match=r"workspace_template/NOPE\.md is missing"):
        template_text("NOPE.md")


def test_packaged_templates_are_the_known_ones() -> None:
    """No template lies in the package that nobody copies."""
    packaged = {
        entry.name for entry in files("nacre.workspace_template").iterdir() if entry.name.endswith(".md")
    }

    assert packaged - {"README.md"} == {*TEMPLATES, *SHORT_FORMS.values(), "BOOTSTRAP.md"}


def test_agents_template_holds_the_required_rules() -> None:
    """The rules that the rest of Nacre relies on stand in AGENTS.md."""
    text = template_text("AGENTS.md")

    for word in (
        "BOOTSTRAP.md",
        "memory/YYYY-MM-DD.md",
        "MEMORY.md",
        "memory_search",
        "memory_get",
        "`append`",
    ):
        assert word in text
    for word in (
        "NO_REPLY",
        "HEARTBEAT.md",
        "Remember this",
        "shared/",
        "Ask first",
        "TOOLS.md",
        "SOUL.md",
        "USER.md",
    ):
        assert word in text


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("---\ntitle: x\n---\n\n# A\n", "# A\n"),
        ("\ufeff---\r\nx: 1\r\n---\r\n# A\r\n", "# A\r\n"),
        ("# A\n---\nb\n", "# A\n---\nb\n"),
        ("---\nnever closed\n", "---\nnever closed\n"),
        ("", ""),
    ],
)
def test_front_matter_is_stripped(text: str, body: str) -> None:
    """Only a closed block at the very beginning is front matter."""
    assert without_front_matter(text) == body


def test_daily_log_path() -> None:
    """A day's log has one name, padded."""
    assert daily_log_path(date(2026, 1, 5)) == "memory/2026-01-05.md"


async def test_context_file_is_read_clean(tmp_path: Path) -> None:
    """BOM and trailing space go; what no encoding has becomes a visible sign."""
    (tmp_path / "SOUL.md").write_bytes(b"\xef\xbb\xbfcaf\x81\n\n  \n")

    file = await read_context_file(at(tmp_path), "SOUL.md", max_chars=100)

    assert (file.text, file.missing, file.raw_chars, file.injected_chars, file.truncated) == (
        "caf\ufffd",
        False,
        4,
        4,
        False,
    )


@pytest.mark.covers("A1-7")
async def test_missing_context_file_is_marked(tmp_path: Path) -> None:
    """The model sees where the file was expected."""
    file = await read_context_file(at(tmp_path), "SOUL.md", max_chars=100)

    assert file.missing
    assert file.text == "[MISSING] Expected at: SOUL.md"


async def test_linked_context_files_are_refused(tmp_path: Path) -> None:
    """Neither a link out of the workspace nor one to a private file inside puts text into the context."""
    root = tmp_path / "workspace"
    root.mkdir()
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    (root / "MEMORY.md").write_text("secret", encoding="utf-8")
    (root / "SOUL.md").symlink_to("../secret.md")
    (root / "TOOLS.md").symlink_to("MEMORY.md")
    (root / "USER.md").mkdir()

    for file in await ContextFiles(at(root), now_ns=time_ns).read(["SOUL.md", "TOOLS.md", "USER.md"]):
        assert file.missing
        assert file.text.startswith("[MISSING]")
        assert "secret" not in file.text.replace("secret.md", "")


@pytest.mark.covers("A1-9")
def test_cut_keeps_head_and_tail_around_two_lines() -> None:
    """70 % of the limit from the head, 20 % from the tail, and a mark that says so."""
    text = "".join(chr(ord("a") + number % 26) for number in range(1000))

    cut = cut_text(text, "SOUL.md", 100)

    assert cut == (
        f"{text[:70]}\n\n[...truncated, read SOUL.md for full content...]\n"
        f"…(truncated SOUL.md: kept 70+20 chars of 1000)…\n\n{text[-20:]}"
    )


@pytest.mark.covers("A1-12")
async def test_totals_are_spent_in_order(tmp_path: Path) -> None:
    """A file's own limit holds first, then what is left of the total; the last ones get nothing."""
    for name in ("A.md", "B.md", "C.md"):
        (tmp_path / name).write_text(name[0] * 1000, encoding="utf-8")

    first, second, third = await ContextFiles(at(tmp_path), now_ns=time_ns).read(
        ["A.md", "B.md", "C.md"], per_file_chars=500, total_chars=1100
    )

    assert (first.truncated, second.truncated, third.truncated) == (True, True, True)
    assert first.text.startswith("A" * 350)
    assert second.raw_chars == 1000
    assert third.text == ""


async def test_huge_context_file_is_cut_without_being_read_whole(tmp_path: Path) -> None:
    """A file beyond the read bound still enters the context, marked as cut."""
    (tmp_path / "A.md").write_bytes(b"x" * (3 * 1024 * 1024))

    file = await read_context_file(at(tmp_path), "A.md", max_chars=20_000)

    assert file.truncated
    assert file.raw_chars == 2 * 1024 * 1024
    assert file.injected_chars < 20_200


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
