"""Files that go along with a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.cli.talk.keyboard.attached_files import MAX_FILE_BYTES, FileNotSent, dropped_files, mentioned_files


def test_a_message_brings_the_files_that_it_names(tmp_path: Path) -> None:
    """Quoted or not, with a sign behind its name, each once; addresses and names of people are words."""
    picture, spaced = tmp_path / "a.png", tmp_path / "two words.txt"
    picture.write_bytes(b"\x89PNG")
    spaced.write_bytes(b"text")
    text = f'See @{picture}, and @"{spaced}" and @{picture}? Ask @anna or me@{picture}, not @{tmp_path}.'

    files = mentioned_files(text)

    assert [(file.name, file.mime_type, file.data) for file in files] == [
        ("a.png", "image/png", b"\x89PNG"),
        ("two words.txt", "text/plain", b"text"),
    ]


def test_a_file_that_is_too_large_is_told(tmp_path: Path) -> None:
    """Nothing is cut off in silence."""
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(FileNotSent, match="more than 30000000 bytes"):
        mentioned_files(f"@{large}")


def test_what_is_dropped_on_a_terminal_is_named(tmp_path: Path) -> None:
    """Absolute paths of files, quoted or escaped as terminals do it; any other text is no drop."""
    plain, spaced = tmp_path / "a.png", tmp_path / "two words.txt"
    plain.touch()
    spaced.touch()
    escaped = str(spaced).replace(" ", "\\ ")

    assert dropped_files(f"{plain} ") == f"@{plain} "
    assert dropped_files(f"'{spaced}' {plain}") == f'@"{spaced}" @{plain} '
    assert dropped_files(escaped) == f'@"{spaced}" '
    for text in ("/status", f"see {plain}", f"{plain} and more", "it's", "'open", "", str(tmp_path)):
        assert dropped_files(text) == ""
