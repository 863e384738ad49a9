"""Path containment: no spelling, link or case leads out of the root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, strategies as st

from nacre.memory.contracts.workspace import PathOutsideRoot
from nacre.memory.workspace.paths import contained_path, open_regular, path_in_root

PIECES = st.sampled_from(
    [
        "..",
        ".",
        "a",
        "A",
        "shared",
        "in",
        "out",
        "loop",
        "up",
        "near",
        "b.md",
        "\0",
        "/",
        "",
        "~",
        "café",
        "c\\d",
        "con",
    ]
) | st.text(max_size=6)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with links of every kind, next to a secret that must stay out of reach."""
    return furnished(tmp_path)


def furnished(folder: Path) -> Path:
    root = folder / "root"
    (root / "a").mkdir(parents=True)
    (folder / "secret.md").write_text("secret", encoding="utf-8")
    (root / "a" / "b.md").write_text("b", encoding="utf-8")
    (root / "in").symlink_to("a")
    (root / "out").symlink_to(folder)
    (root / "near").symlink_to(f"{root}-of-another")
    (root / "up").symlink_to("../secret.md")
    (root / "dangling").symlink_to("../not-there/x.md")
    (root / "loop").symlink_to("loop")
    return root


@pytest.fixture(scope="module")
def shared_root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield furnished(Path(folder))


@given(pieces=st.lists(PIECES, max_size=5), absolute=st.booleans())
def test_accepted_path_is_always_inside(shared_root: Path, pieces: list[str], absolute: bool) -> None:
    """Whatever is asked for, the answer is a real path inside the real root, or a refusal."""
    asked = ("/" if absolute else "") + "/".join(pieces)
    try:
        path = contained_path(shared_root, asked)
    except PathOutsideRoot:
        return

    assert path == Path(os.path.realpath(path))
    assert path.is_relative_to(os.path.realpath(shared_root))
    assert "\0" not in str(path)


@pytest.mark.parametrize(
    "asked",
    [
        "../secret.md",
        "a/../../secret.md",
        "a/../a/b.md",
        "out/secret.md",
        "out/new/file.md",
        "near/secret.md",
        "up",
        "dangling",
        "loop",
        "loop/x.md",
        "/etc/passwd",
        "~/x.md",
        "a\0.md",
        "a\nb.md",
        "..\\secret.md",
        "C:/x.md",
        "C:\\x.md",
        "con",
        "a/NUL.md",
        "Com1",
        "",
        "   ",
        "x" * 256,
        "é" * 128,
        "a/" * 2100 + "b",
        "\ud800.md",
    ],
)
def test_hostile_spellings_are_refused(root: Path, asked: str) -> None:
    """Each way out, and each name that no system holds safely, is refused with a sentence."""
    with pytest.raises(PathOutsideRoot, match=r"\.$"):
        contained_path(root, asked)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("a/b.md", "a/b.md"),
        ("./a//b.md", "a/b.md"),
        ("in/b.md", "a/b.md"),
        ("in/new.md", "a/new.md"),
        ("not/yet/there.md", "not/yet/there.md"),
        (".", "."),
        ("contact.md", "contact.md"),
        ("...", "..."),
        ("notes ~ old.md", "notes ~ old.md"),
    ],
)
def test_paths_inside_come_back_real(root: Path, asked: str, found: str) -> None:
    """A path inside is returned with its links resolved, whether or not the file exists yet."""
    assert path_in_root(root, contained_path(root, asked)) == PurePosixPath(found)


def test_absolute_path_inside_is_accepted(root: Path, tmp_path: Path) -> None:
    """An absolute path inside the root is the same file, also through a linked root."""
    linked = tmp_path / "linked"
    linked.symlink_to(root)

    assert contained_path(root, str(root / "a" / "b.md")) == contained_path(root, "a/b.md")
    assert contained_path(linked, str(linked / "a" / "b.md")) == contained_path(root, "a/b.md")
    assert contained_path(linked, str(root / "a" / "b.md")) == contained_path(root, "a/b.md")


def test_neighbour_with_the_same_beginning_is_outside(root: Path) -> None:
    """`/x/root-2` is not inside `/x/root`."""
    with pytest.raises(PathOutsideRoot):
        contained_path(root, f"{root}-2/file.md")


def test_link_that_appears_after_the_check_is_not_followed(root: Path) -> None:
    """A symlink put in the checked place before the file is opened is refused."""
    path = contained_path(root, "fresh.md")
    path.symlink_to("../secret.md")

    with pytest.raises(PathOutsideRoot, match="became a symbolic link"):
        open_regular(path, os.O_RDONLY)
    with pytest.raises(PathOutsideRoot, match="became a symbolic link"):
        open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def test_pipe_neither_blocks_nor_is_read(root: Path) -> None:
    """A named pipe is refused at once in both directions, and so is a folder."""
    os.mkfifo(root / "pipe")

    for flags in (os.O_RDONLY, os.O_WRONLY):
        with pytest.raises(PathOutsideRoot, match="not a"):
            open_regular(root / "pipe", flags)
    with pytest.raises(IsADirectoryError):
        open_regular(root / "a", os.O_RDONLY)


def test_regular_file_opens(root: Path) -> None:
    """An ordinary file is opened as `os.open` would."""
    descriptor = open_regular(contained_path(root, "a/b.md"), os.O_RDONLY)
    try:
        assert os.read(descriptor, 10) == b"b"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("path", ["../x", "~/x", "/etc/passwd", "out/x"])
def test_no_refusal_names_the_root(tmp_path: Path, path: str) -> None:
    """The root's path has the account's name in it, and a stranger may read what a tool answers."""
    root = tmp_path / "nora"
    root.mkdir()
    (root / "out").symlink_to("/")

    with pytest.raises(PathOutsideRoot) as refused:
        contained_path(root, path)

    assert "nora" not in str(refused.value)
