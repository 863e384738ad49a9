"""What `memory_get` shows, and what it never does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nacre.memory.contracts.errors import ReadRefused
from nacre.memory.files.note_files import MAX_EXCERPT_CHARS
from tests.memory.doubles import workspace
from tests.memory.files.folder_notes import read_excerpt

TEXT = "one\ntwo\nthree\nfour\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with memory, a secret beside it, and folders that could be extra paths."""
    return workspace(
        tmp_path,
        {
            "MEMORY.md": TEXT,
            "memory/deep/a.md": TEXT,
            "memory/..x.md": "dots",
            "memory/notes.txt": "no",
            "NOTES.md": "secret",
            ".memory/x.md": "secret",
            "extra/extra.md": "extra",
            "extra/sub/b.md": "b",
        },
    )


@pytest.mark.parametrize(
    ("from_line", "lines", "text", "span"),
    [
        (None, None, "one\ntwo\nthree\nfour", (1, 4)),
        (2, 2, "two\nthree", (2, 3)),
        (3, None, "three\nfour", (3, 4)),
        (None, 1, "one", (1, 1)),
        (0, 0, "one\ntwo\nthree\nfour", (1, 4)),
        (-3, 1, "one", (1, 1)),
        (3, 99, "three\nfour", (3, 4)),
        (9, 2, "", (0, 0)),
    ],
)
@pytest.mark.covers("GET-3", "QMD-36")
def test_lines_are_sliced_from_one(
    root: Path, from_line: int | None, lines: int | None, text: str, span: tuple[int, int]
) -> None:
    """`from` counts from 1, `lines` is how many; past the end is empty, not an error."""
    excerpt = read_excerpt(root, (), "MEMORY.md", from_line=from_line, lines=lines)

    assert (excerpt.text, (excerpt.start_line, excerpt.end_line), excerpt.total_lines) == (text, span, 4)


@pytest.mark.parametrize("path", ["memory/deep/a.md", " memory/deep/a.md ", "./memory/deep/../deep/a.md"])
def test_any_spelling_of_a_memory_file_is_read(root: Path, path: str) -> None:
    """The answer names the stored path."""
    assert read_excerpt(root, (), path).path == "memory/deep/a.md"
    assert read_excerpt(root, (), str(root / "memory/deep/a.md")).text.startswith("one")
    assert read_excerpt(root, (), "memory/..x.md").text == "dots"


@pytest.mark.parametrize("path", ["memory/2031-01-01.md", "memory.md", "memory/none/at/all.md"])
@pytest.mark.covers("GET-3", "SEED-14")
def test_a_missing_file_is_empty_not_an_error(root: Path, path: str) -> None:
    """A note that does not exist yet gives empty text."""
    excerpt = read_excerpt(root, (), path)

    assert (excerpt.text, excerpt.missing, excerpt.path) == ("", True, path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "  ",
        "NOTES.md",
        ".memory/x.md",
        "memory/../NOTES.md",
        "../outside.md",
        "/etc/passwd",
        "/etc/hosts.md",
        "memory",
        "memory/notes.txt",
        "memory/deep",
        "extra/extra.md",
        "~/notes.md",
        "memory/a\x00.md",
        "C:\\memory\\a.md",
        "memory\\deep\\a.md",
    ],
)
@pytest.mark.covers("GET-1", "Q-21")
def test_everything_else_is_refused_with_a_sentence(root: Path, path: str) -> None:
    """The refusal says what may be read and shows nothing of the file."""
    with pytest.raises(ReadRefused) as refused:
        read_excerpt(root, (), path)

    assert "secret" not in str(refused.value)
    assert len(str(refused.value)) > 20


@pytest.mark.covers("SEED-12")
def test_transcripts_are_not_read(root: Path) -> None:
    """A path that a search gave for a transcript is refused by name."""
    with pytest.raises(ReadRefused, match="transcript"):
        read_excerpt(root, (), "sessions/abc.jsonl")


@pytest.mark.covers("GET-2")
def test_extra_paths_are_read_as_configured(root: Path, tmp_path: Path) -> None:
    """A folder, one file and a pattern each open exactly what they index, also outside of the workspace."""
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "t.md").write_text("team")

    assert read_excerpt(root, ["extra"], "extra/sub/b.md").text == "b"
    assert read_excerpt(root, ["extra/extra.md"], "extra/extra.md").text == "extra"
    assert read_excerpt(root, ["../team"], "../team/t.md").text == "team"
    assert read_excerpt(root, ["extra/*.md"], "extra/extra.md").text == "extra"
    for extra, path in ((["extra/extra.md"], "extra/sub/b.md"), (["extra/*.md"], "NOTES.md")):
        with pytest.raises(ReadRefused):
            read_excerpt(root, extra, path)


@pytest.mark.covers("GET-2", "SEED-14", "Q-22")
def test_no_symbolic_link_is_followed(root: Path, tmp_path: Path) -> None:
    """Neither a linked file, nor a linked folder on the way, nor a linked extra folder, wherever it leads."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "s.md").write_text("secret")
    (root / "memory" / "link.md").symlink_to(tmp_path / "outside" / "s.md")
    (root / "memory" / "inner.md").symlink_to(root / "NOTES.md")
    (root / "memory" / "folder").symlink_to(tmp_path / "outside")
    (root / "linked").symlink_to(tmp_path / "outside")

    for extra, path in (
        ((), "memory/link.md"),
        ((), "memory/inner.md"),
        ((), "memory/folder/s.md"),
        (("linked",), "linked/s.md"),
    ):
        with pytest.raises(ReadRefused):
            read_excerpt(root, extra, path)


@pytest.mark.covers("QMD-36")
def test_a_long_file_is_cut_at_a_line_end(root: Path) -> None:
    """Without a number of lines an excerpt stays bounded and says so; with one, the caller decides."""
    (root / "memory" / "long.md").write_text("twelve chars\n" * 5_000)

    cut = read_excerpt(root, (), "memory/long.md")
    asked = read_excerpt(root, (), "memory/long.md", lines=5_000)

    assert cut.truncated
    assert len(cut.text) <= MAX_EXCERPT_CHARS
    assert cut.text.endswith("twelve chars")
    assert (asked.truncated, asked.end_line, cut.total_lines) == (False, 5_000, 5_000)


@given(
    st.lists(st.sampled_from(["..", ".", "memory", "link", "a.md", "MEMORY.md", "x", "~", ""]), max_size=6),
    st.text(max_size=5),
)
@pytest.mark.covers("SEED-14")
def test_no_spelling_leads_out(parts: list[str], tail: str) -> None:
    """Whatever the path, what is read is a memory file of this workspace or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        inside = {"MEMORY.md": "inside", "memory/a.md": "inside"}
        root = workspace(base, inside | {"x/a.md": "secret", "a.md": "secret"})
        (base / "a.md").write_text("secret")
        (root / "memory" / "link").symlink_to(base)
        path = "/".join([*parts, tail] if tail else parts)
        try:
            excerpt = read_excerpt(root, (), path)
        except ReadRefused:
            return
        assert excerpt.text in ("", "inside")
