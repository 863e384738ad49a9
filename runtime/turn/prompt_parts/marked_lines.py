"""Notes as a model reads them: a line that is not the owner's word says so."""

from __future__ import annotations

from nacre.memory.files.sources.source import Source
from nacre.memory.files.sources.sources import Sources
from nacre.prompts import render


async def marked(sources: Sources, path: str, text: str) -> str:
    """The text of the note `path`, with a mark behind each line that others, or a tool, may have said."""
    lines = text.split("\n")
    found = await sources.of_lines(path, lines)
    return "\n".join(_marked(line, source) for line, source in zip(lines, found, strict=True))


def _marked(line: str, source: Source | None) -> str:
    if source is None or source.is_owners_word:
        return line
    named = ", ".join((*source.said_by, *source.names))
    return render("recall/others_line", text=line, name=named)
