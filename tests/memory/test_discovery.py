"""Which files are memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nacre.memory.discovery import Discovery, discover, fixed_part, resolved_extra_paths
from tests.memory.doubles import workspace


def _paths(found: Discovery) -> list[str]:
    return [file.path for file in found.files]


def _reasons(found: Discovery) -> dict[str, str]:
    return {Path(item.path).name: item.reason for item in found.skipped}


def test_curated_memory_and_logs_are_found_in_a_fixed_order(tmp_path: Path) -> None:
    """MEMORY.md, then memory/ with its sub-folders by name; other files of the workspace are not memory."""
    root = workspace(
        tmp_path,
        {
            "memory/2026-02-10.md": "b",
            "memory/2026-01-01.md": "a",
            "memory/people/lisa.MD": "c",
            "memory/notes.txt": "no",
            "MEMORY.md": "facts",
            "NOTES.md": "no",
        },
    )

    assert _paths(discover(root)) == [
        "MEMORY.md",
        "memory/2026-01-01.md",
        "memory/2026-02-10.md",
        "memory/people/lisa.MD",
    ]


def test_extra_paths_are_folders_files_and_patterns(tmp_path: Path) -> None:
    """A folder gives its Markdown files, a file itself, a pattern what it matches; each file once."""
    root = workspace(tmp_path, {"extra/a.md": "a", "extra/b.txt": "b", "extra/deep/c.md": "c", "one.md": "1"})
    team = tmp_path / "team"
    team.mkdir()
    (team / "t.md").write_text("t")

    found = discover(root, ["extra", "one.md", "extra/*.md", "../team"])

    assert _paths(found) == ["extra/a.md", "extra/deep/c.md", "one.md", "../team/t.md"]


def test_paths_are_normalised_once() -> None:
    """Blank paths are dropped, `notes` and `./notes` are one, order is kept."""
    root = Path("/w")

    assert resolved_extra_paths(root, ["notes", "./notes", " ", "../x/", "/abs"]) == (
        Path("/w/notes"),
        Path("/x"),
        Path("/abs"),
    )


def test_what_is_passed_over_is_listed_with_its_reason(tmp_path: Path) -> None:
    """Missing paths, links, tool folders, wrong kinds and empty patterns are told, not swallowed."""
    root = workspace(
        tmp_path, {"memory/a.md": "a", "memory/node_modules/x.md": "x", "x.txt": "t", "memory/b.md": "b"}
    )
    (root / "memory" / "link.md").symlink_to(root / "memory" / "a.md")
    (root / "memory" / "dir").symlink_to(tmp_path)
    (root / "linked").symlink_to(tmp_path)
    os.mkfifo(root / "memory" / "pipe.md")

    found = discover(root, ["gone", "linked", "x.txt", "none/*.md"])

    assert _paths(found) == ["memory/a.md", "memory/b.md"]
    reasons = _reasons(found)
    assert reasons["gone"] == "missing"
    assert "symbolic link" in reasons["link.md"]
    assert "symbolic link" in reasons["dir"]
    assert "symbolic link" in reasons["linked"]
    assert "folder of tools" in reasons["node_modules"]
    assert "regular" in reasons["pipe.md"]
    assert "Markdown" in reasons["x.txt"]
    assert "matches nothing" in reasons["*.md"]


def test_a_file_under_two_names_is_one_file(tmp_path: Path) -> None:
    """A hard link, like a name on a file system that folds case, does not double a memory."""
    root = workspace(tmp_path, {"MEMORY.md": "facts"})
    (root / "memory.md").hardlink_to(root / "MEMORY.md")

    assert _paths(discover(root)) == ["MEMORY.md"]


def test_a_missing_or_empty_workspace_proves_nothing(tmp_path: Path) -> None:
    """An unmounted drive looks like an empty folder, so nothing may be taken for deleted."""
    (tmp_path / "empty").mkdir()

    for found in (discover(tmp_path / "gone"), discover(tmp_path / "empty")):
        assert found.files == ()
        assert not found.may_be_deleted("MEMORY.md")


def test_a_missing_extra_path_keeps_what_was_indexed_from_it(tmp_path: Path) -> None:
    """Its files may come back with the drive; files elsewhere may still be deleted."""
    root = workspace(tmp_path, {"MEMORY.md": "facts"})

    found = discover(root, ["../drive"])

    assert not found.may_be_deleted("../drive/a.md")
    assert found.may_be_deleted("../drive2/a.md")
    assert found.may_be_deleted("memory/old.md")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_an_unreadable_folder_keeps_what_was_indexed_from_it(tmp_path: Path) -> None:
    """A folder without permission is listed, and its files do not count as deleted."""
    root = workspace(tmp_path, {"memory/a.md": "a", "memory/secret/b.md": "b"})
    (root / "memory" / "secret").chmod(0)
    try:
        found = discover(root)
    finally:
        (root / "memory" / "secret").chmod(0o700)

    assert _paths(found) == ["memory/a.md"]
    assert not found.may_be_deleted("memory/secret/b.md")
    assert found.may_be_deleted("memory/c.md")


def test_the_fixed_part_of_a_pattern_is_the_folder_above_its_wildcard() -> None:
    """That folder is what is watched and what contains the files."""
    assert fixed_part(Path("/a/b/**/*.md")) == Path("/a/b")
    assert fixed_part(Path("/a/b")) == Path("/a/b")
