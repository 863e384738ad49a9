"""What the file tools do to text: decode it, show a page of it, replace one passage. Opens no file."""

from __future__ import annotations

from nacre.memory.contracts.workspace import FileBytes
from nacre.runtime.tools.toolbox import ToolFailed

MAX_PAGE_LINES = 2_000
BINARY_PROBE_BYTES = 8_192


def characters(count: int) -> str:
    """So many characters, in words."""
    return f"{count} character{'' if count == 1 else 's'}"


def is_binary(data: bytes) -> bool:
    """Whether the bytes are no text: a zero byte near the beginning, as git decides it."""
    return b"\0" in data[:BINARY_PROBE_BYTES]


def text_to_change(data: bytes, name: str) -> str:
    """The whole text of a file that is about to be changed.

    Raises:
        ToolFailed: it is no UTF-8 text; writing it back would destroy what could not be read.
    """
    if is_binary(data):
        raise ToolFailed(f"{name} is a binary file; the file tools only change text.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed(
            f"{name} is not valid UTF-8 (byte {error.start}), so it is not overwritten. "
            "Write to another name, or let the owner convert it."
        ) from error


def encoded(text: str, name: str) -> bytes:
    """The text as UTF-8.

    Raises:
        ToolFailed: it contains half a surrogate pair, which no file can hold.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailed(
            f"The text for {name} has a broken character at position {error.start}. Leave it out."
        ) from error


def page(text: str, *, from_line: int, lines: int | None, page_chars: int, from_char: int = 1) -> str:
    """Lines of a text, and a note that says which of how many they are when it is not all of them.

    A line longer than a page is shown in pieces; `from_char` is where to begin in the first line.

    Raises:
        ToolFailed: the text has fewer lines than `from_line`, or the line fewer characters.
    """
    all_lines = text.split("\n")
    if all_lines[-1] == "":
        all_lines.pop()
    total = len(all_lines)
    if total == 0:
        return "(The file is empty.)"
    if from_line > total:
        raise ToolFailed(f"Line {from_line} is behind the end: the file has {total} lines.")
    if from_char > max(1, len(all_lines[from_line - 1])):
        raise ToolFailed(
            f"Character {from_char} is behind the end: line {from_line} has "
            f"{len(all_lines[from_line - 1])} characters."
        )
    wanted = all_lines[from_line - 1 : from_line - 1 + min(lines or MAX_PAGE_LINES, MAX_PAGE_LINES)]
    wanted[0] = wanted[0][from_char - 1 :]
    if len(wanted[0]) > page_chars:
        next_char = from_char + page_chars
        note = (
            f"[Line {from_line} of {total}, {len(wanted[0]) - page_chars} more characters; "
            f"go on with from={from_line}, char={next_char}.]"
        )
        return f"{wanted[0][:page_chars]}\n\n{note}"
    shown: list[str] = []
    left_chars = page_chars
    for line in wanted:
        if shown and len(line) + 1 > left_chars:
            break
        shown.append(line)
        left_chars -= len(line) + 1
    last = from_line + len(shown) - 1
    if from_line == 1 and from_char == 1 and last == total:
        return "\n".join(shown)
    go_on = f"; go on with from={last + 1}" if last < total else ""
    return "\n".join([*shown, "", f"[Lines {from_line}-{last} of {total}{go_on}.]"])


def replaced_once(text: str, old: str, new: str, *, name: str) -> str:
    """`text` with its only occurrence of `old` replaced; a file of CRLF lines keeps them.

    Raises:
        ToolFailed: `old` is empty, equals `new`, is not there, or is there more than once.
    """
    if not old:
        raise ToolFailed("old_text is empty. Give the passage that is to be replaced, exactly as it stands.")
    if old == new:
        raise ToolFailed("old_text and new_text are the same, so nothing would change.")
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        old, new = _with_crlf(old), _with_crlf(new)
    count = text.count(old)
    if count == 1:
        return text.replace(old, new)
    if count > 1:
        where = ", ".join(str(line) for line in _lines_of(text, old)[:10])
        raise ToolFailed(
            f"old_text was found {count} times in {name} (lines {where}). "
            "Include more of the lines around it, so that it is unique."
        )
    hint = (
        "It is there with different white space or line breaks; copy it exactly from the file."
        if " ".join(old.split()) in " ".join(text.split()) and old.strip()
        else "Read the file again and copy the passage exactly."
    )
    raise ToolFailed(f"old_text was not found in {name}. {hint}")


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, passage: str) -> list[int]:
    lines, start = [], text.find(passage)
    while start != -1:
        lines.append(text.count("\n", 0, start) + 1)
        start = text.find(passage, start + len(passage))
    return lines


def shown(name: str, content: FileBytes) -> tuple[str, str, str]:
    """A file's name and text, and a note when it is not the whole text.

    Raises:
        ToolFailed: it is no text.
    """
    if is_binary(content.data):
        raise ToolFailed(f"{name} is a binary file of {content.size_bytes} bytes; only text can be read.")
    text = content.data.decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    cut = f"\n[Only the first {len(content.data)} of {content.size_bytes} bytes were read.]"
    return name, text, cut if content.is_cut else ""
