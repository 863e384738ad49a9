"""What the pages of `bank/` would become: from the logs, the pages and what was taken before. Pure.

Items are added, links follow their lines, and confidence moves; whatever else stands on a page stays as it
is. A second proposal over what the first one made is empty.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence

from nacre.memory.files.bank import opinions, taken
from nacre.memory.files.bank.opinions import Opinion
from nacre.memory.files.bank.pages import (
    ENTITIES,
    EXPERIENCE,
    OPINIONS,
    WORLD,
    about,
    joined,
    lines_of,
    relinked,
    said_on,
    titled,
    with_items,
    words_of,
)
from nacre.memory.files.bank.retain import Kind, Retained, Unparsed, retained
from nacre.memory.text.markdown_blocks import ITEM
from nacre.record import Record

_PAGES: Mapping[Kind, str] = {"W": WORLD, "B": EXPERIENCE}
_SECTIONS: Mapping[Kind, str] = {
    "W": "World",
    "B": "Experience",
    "O": "Opinions",
    "S": "Observations",
}


class Change(Record):
    """A page as it is, `None` where there is none yet, and as it would be."""

    path: str
    before: str | None
    after: str

    @property
    def diff(self) -> str:
        """The change as a unified diff, such as `git apply` takes."""
        before = (self.before or "").splitlines(keepends=True)
        lines = difflib.unified_diff(
            before,
            self.after.splitlines(keepends=True),
            fromfile="/dev/null" if self.before is None else f"a/{self.path}",
            tofile=f"b/{self.path}",
        )
        ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
        return "".join(ended)


class Proposal(Record):
    """What would be written: `changes` that people read, and `bank/.taken` behind them."""

    changes: tuple[Change, ...]
    taken: Change
    unparsed: tuple[Unparsed, ...]

    @property
    def diff(self) -> str:
        """All changes of pages as one unified diff."""
        return "".join(change.diff for change in self.changes)


def proposal(
    logs: Mapping[str, str], pages: Mapping[str, str], *, of_others: Collection[str] = ()
) -> Proposal:
    """What the `logs` would change; both map a path to its text, `pages` has those of `bank/` that exist.

    `of_others` are links of lines that are not the owner's word: these stay where they are.
    """
    read = (line for path in sorted(logs) for line in retained(path, logs[path]))
    lines = [_left(line) if isinstance(line, Retained) and line.link in of_others else line for line in read]
    found = _once([line for line in lines if isinstance(line, Retained)])
    before = taken.taken(pages.get(taken.NAME, ""))
    moved = {
        before[line.digest]: line.link for line in found if before.get(line.digest, line.link) != line.link
    }
    after = {path: relinked(text, moved) for path, text in pages.items() if path != taken.NAME}
    _put(after, [line for line in found if line.digest not in before], [*found])
    links = taken.written(before | {line.digest: line.link for line in found})
    return Proposal(
        changes=tuple(
            Change(path=path, before=pages.get(path), after=text)
            for path, text in sorted(after.items())
            if text != pages.get(path)
        ),
        taken=Change(path=taken.NAME, before=pages.get(taken.NAME), after=links),
        unparsed=tuple(line for line in lines if isinstance(line, Unparsed)),
    )


def _left(line: Retained) -> Unparsed:
    reason = "it is not the owner's word, as `nacre memory why` tells"
    return Unparsed(path=line.path, line=line.line, text=line.text[:120], reason=reason)


def _once(lines: Sequence[Retained]) -> tuple[Retained, ...]:
    """In the order of days; what a log says twice counts once."""
    ordered = sorted(lines, key=lambda line: (line.day, line.path, line.line))
    first: dict[str, Retained] = {}
    for line in ordered:
        first.setdefault(line.digest, line)
    return tuple(first.values())


def _put(pages: dict[str, str], new: Sequence[Retained], found: Sequence[Retained]) -> None:
    """Puts the new lines onto the pages, and the opinions' confidence onto those of entities."""
    for line in new:
        if page := _page_of(line):
            said = about(line.entities, line.text)
            _add(pages, page, said, f"- {said} ({line.link})")
        if line.kind != "O":
            for name in line.entities:
                said = line.text if len(line.entities) == 1 else about(line.entities, line.text)
                path, section = _entity_page(pages, name), _SECTIONS[line.kind]
                _add(pages, path, said, f"- {said} ({line.link})", section=section)
    text, known = opinions.weighed(pages.get(OPINIONS, ""), [line for line in new if line.kind == "O"])
    if text:
        pages[OPINIONS] = text
    old = {line.link for line in found} - {line.link for line in new}
    for opinion in known:
        _tell_entities(pages, opinion, is_new=bool(opinion.new or opinion.links) and not opinion.links & old)


def _page_of(line: Retained) -> str:
    if line.kind == "S":
        return "" if line.entities else WORLD
    return _PAGES.get(line.kind, "")


def _add(pages: dict[str, str], path: str, said: str, item: str, *, section: str = "") -> None:
    text = pages.get(path) or titled(path)
    if words_of(f"- {said}") not in said_on(text):
        pages[path] = with_items(text, [item], section=section)


def _entity_page(pages: Mapping[str, str], name: str) -> str:
    """The page of an entity, under the name that it was first given: upper and lower case are one."""
    path = f"{ENTITIES}/{name}.md"
    return next((known for known in pages if known.casefold() == path.casefold()), path)


def _tell_entities(pages: dict[str, str], opinion: Opinion, *, is_new: bool) -> None:
    """The pages of its entities repeat an opinion; one that was taken off such a page stays away."""
    for name in opinion.entities:
        path = _entity_page(pages, name)
        said = f"{opinion.text} (c={opinion.confidence:.2f}, {OPINIONS})"
        text = pages.get(path, "")
        if words_of(f"- {opinion.text}") in said_on(text):
            pages[path] = joined([*_told_again(lines_of(text), opinion.text, said)])
        elif is_new:
            pages[path] = with_items(text or titled(path), [f"- {said}"], section=_SECTIONS["O"])


def _told_again(lines: Sequence[str], opinion: str, said: str) -> Iterator[str]:
    for line in lines:
        item, bare = ITEM.match(line), line.rstrip()
        is_it = bare.endswith(f", {OPINIONS})") and words_of(line) == words_of(f"- {opinion}")
        yield f"{item[0]}{said}{line[len(bare) :]}" if item and is_it else line
