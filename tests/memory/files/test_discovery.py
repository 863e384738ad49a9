"""Which files are memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.memory.contracts.errors import ReadRefused
from nacre.memory.contracts.notes import NoteListing
from nacre.memory.workspace.extra_paths import resolved_extra_paths
from tests.memory.doubles import workspace
from tests.memory.files.folder_notes import listing, read_excerpt


def _paths(found: NoteListing) -> list[str]:
    return [note.name for note in found.notes]


def _reasons(found: NoteListing) -> dict[str, str]:
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

    assert _paths(listing(root)) == [
        "MEMORY.md",
        "memory/2026-01-01.md",
        "memory/2026-02-10.md",
        "memory/people/lisa.MD",
    ]


@pytest.mark.covers("DISC-2", "DISC-3", "DISC-4", "DISC-8")
def test_extra_paths_are_folders_files_and_patterns(tmp_path: Path) -> None:
    """A folder gives its Markdown files, a file itself, a pattern what it matches; each file once."""
    root = workspace(tmp_path, {"extra/a.md": "a", "extra/b.txt": "b", "extra/deep/c.md": "c", "one.md": "1"})
    team = tmp_path / "team"
    team.mkdir()
    (team / "t.md").write_text("t")

    found = listing(root, ["extra", "one.md", "extra/*.md", "../team"])

    assert _paths(found) == ["extra/a.md", "extra/deep/c.md", "one.md", "../team/t.md"]


@pytest.mark.covers("DISC-1")
def test_paths_are_normalised_once() -> None:
    """Blank paths are dropped, `notes` and `./notes` are one, order is kept."""
    root = Path("/w")

    places = resolved_extra_paths(root, ["notes", "./notes", " ", "../x/", "/abs", "a/**/*.md"])

    assert [str(place) for place in places] == ["/w/notes", "/x", "/abs", "/w/a/**/*.md"]
    assert (places[-1].folder, places[-1].pattern) == (Path("/w/a"), ("**", "*.md"))


@pytest.mark.covers("DISC-5", "DISC-6")
def test_what_is_passed_over_is_listed_with_its_reason(tmp_path: Path) -> None:
    """Missing paths, links, tool folders, wrong kinds and empty patterns are told, not swallowed."""
    root = workspace(
        tmp_path, {"memory/a.md": "a", "memory/node_modules/x.md": "x", "x.txt": "t", "memory/b.md": "b"}
    )
    (root / "memory" / "link.md").symlink_to(root / "memory" / "a.md")
    (root / "memory" / "dir").symlink_to(tmp_path)
    (root / "linked").symlink_to(tmp_path)
    os.mkfifo(root / "memory" / "pipe.md")

    found = listing(root, ["gone", "linked", "x.txt", "memory/none*.md", "nowhere/*.md", "linked/*.md"])

    assert _paths(found) == ["memory/a.md", "memory/b.md"]
    reasons = _reasons(found)
    assert reasons["gone"] == "missing"
    assert "symbolic link" in reasons["link.md"]
    assert "symbolic link" in reasons["dir"]
    assert "symbolic link" in reasons["linked"]
    assert "folder of tools" in reasons["node_modules"]
    assert "regular" in reasons["pipe.md"]
    assert "Markdown" in reasons["x.txt"]
    assert "matches nothing" in reasons["none*.md"]
    assert reasons["nowhere"] == "missing"
    assert not found.may_be_deleted("nowhere/was-here.md")


@pytest.mark.covers("DISC-8")
def test_a_file_under_two_names_is_one_file(tmp_path: Path) -> None:
    """A hard link, like a name on a file system that folds case, does not double a memory."""
    root = workspace(tmp_path, {"MEMORY.md": "facts"})
    (root / "memory.md").hardlink_to(root / "MEMORY.md")

    assert _paths(listing(root)) == ["MEMORY.md"]


def test_a_missing_or_empty_workspace_proves_nothing(tmp_path: Path) -> None:
    """An unmounted drive looks like an empty folder, so nothing may be taken for deleted."""
    (tmp_path / "empty").mkdir()

    for found in (listing(tmp_path / "gone"), listing(tmp_path / "empty")):
        assert found.notes == ()
        assert not found.may_be_deleted("MEMORY.md")


def test_a_missing_extra_path_keeps_what_was_indexed_from_it(tmp_path: Path) -> None:
    """Its files may come back with the drive; files elsewhere may still be deleted."""
    root = workspace(tmp_path, {"MEMORY.md": "facts"})

    found = listing(root, ["../drive"])

    assert not found.may_be_deleted("../drive/a.md")
    assert found.may_be_deleted("../drive2/a.md")
    assert found.may_be_deleted("memory/old.md")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_an_unreadable_folder_keeps_what_was_indexed_from_it(tmp_path: Path) -> None:
    """A folder without permission is listed, and its files do not count as deleted."""
    root = workspace(tmp_path, {"memory/a.md": "a", "memory/secret/b.md": "b"})
    (root / "memory" / "secret").chmod(0)
    try:
        found = listing(root)
    finally:
        (root / "memory" / "secret").chmod(0o700)

    assert _paths(found) == ["memory/a.md"]
    assert not found.may_be_deleted("memory/secret/b.md")
    assert found.may_be_deleted("memory/c.md")


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("*.md", "a.md", True),
        ("*.md", "sub/a.md", False),
        ("*.md", ".hidden.md", False),
        (".*.md", ".hidden.md", True),
        ("**/*.md", "a.md", True),
        ("**/*.md", "one/two/three/a.md", True),
        ("**/*.md", "one/.hidden/a.md", False),
        ("**/log?/*.md", "x/log1/a.md", True),
        ("**/log?/*.md", "x/log/a.md", False),
        ("proj*", "project/deep/down/a.md", True),
        ("proj*", "other/project/a.md", False),
        ("[ab]/*/x.md", "a/q/x.md", True),
        ("[ab]/*/x.md", "c/q/x.md", False),
    ],
)
def test_patterns_are_matched_as_a_shell_does(tmp_path: Path, pattern: str, path: str, covered: bool) -> None:
    """Files and whole folders; what is found can also be read, and the folders on the way are looked into."""
    root = workspace(tmp_path, {f"extra/{path}": "a", "MEMORY.md": "facts"})
    (place,) = resolved_extra_paths(root, [f"extra/{pattern}"])

    assert place.covers(root / "extra" / path) is covered
    assert _paths(listing(root, [f"extra/{pattern}"])) == ["MEMORY.md", *([f"extra/{path}"] * covered)]
    if covered:
        assert read_excerpt(root, [f"extra/{pattern}"], f"extra/{path}").text == "a"
    else:
        with pytest.raises(ReadRefused):
            read_excerpt(root, [f"extra/{pattern}"], f"extra/{path}")


@pytest.mark.covers("DISC-6")
def test_a_pattern_follows_no_link(tmp_path: Path) -> None:
    """Neither out of its folder nor in circles, of which a few would never end."""
    root = workspace(tmp_path, {"extra/a.md": "a", "extra/sub/b.md": "b"})
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret.md").write_text("secret")
    (root / "extra" / "out").symlink_to(tmp_path / "private")
    for number in range(4):
        (root / "extra" / f"circle{number}").symlink_to(root / "extra")

    assert _paths(listing(root, ["extra/**/*.md"])) == ["extra/a.md", "extra/sub/b.md"]


def test_folders_whose_names_look_like_patterns_are_folders(tmp_path: Path) -> None:
    """Brackets in the name of the workspace or of an extra folder are no wildcards."""
    home = tmp_path / "notes [max]"
    home.mkdir()
    root = workspace(home, {"[old] extra/a.md": "a", "plain/b.md": "b", "plain/[c].md": "c"})

    found = listing(root, ["[old] extra", "plain/*.md"])

    assert _paths(found) == ["[old] extra/a.md", "plain/[c].md", "plain/b.md"]
    assert found.skipped == ()


def test_a_name_that_is_no_unicode_is_told(tmp_path: Path) -> None:
    """It cannot be stored or shown, and must not keep the others from being indexed."""
    root = workspace(tmp_path, {"memory/a.md": "a"})
    try:
        Path(os.fsdecode(os.fsencode(root) + b"/memory/caf\xe9.md")).write_text("coffee")
    except OSError:
        pytest.skip("this file system takes Unicode names only")

    found = listing(root)

    assert _paths(found) == ["memory/a.md"]
    (skipped,) = found.skipped
    assert skipped.path.endswith("caf\\xe9.md")
    assert "not Unicode" in skipped.reason


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="paths may not be as long elsewhere")
def test_folders_may_be_nested_deeper_than_python_calls(tmp_path: Path) -> None:
    """Hundreds of folders in each other are walked, not an error."""
    root = workspace(tmp_path, {"memory/a.md": "a"})
    depth = sys.getrecursionlimit() + 100
    descriptor = os.open(root / "memory", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("deep.md", os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)

    assert _paths(listing(root)) == ["memory/a.md", f"memory/{'d/' * depth}deep.md"]
    subprocess.run(["rm", "-rf", str(root / "memory" / "d")], check=True)
