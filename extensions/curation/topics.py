"""Pages about one person, project or thing, `memory/<name>.md` without a day, and edits of their lines."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nacre.extensions.curation.edits import Edit, Place, TidiedNote, tidied, without_citation
from nacre.extensions.curation.note_changes import note_names, note_texts
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.proposals import ProposalFailed
from nacre.memory.files.sources.secrets import without_secrets
from nacre.memory.files.sources.source import EVERYBODY, PRIVATE
from nacre.memory.files.sources.sources import Sources, line_key
from nacre.memory.text.chunker import day_in
from nacre.memory.text.claims import Claim
from nacre.memory.text.forms.spelling import fold
from nacre.memory.workspace.workspace import MEMORY_FOLDER

MAX_NAME_CHARS = 60
_MAX_SLUG_BYTES = 200
_OTHER_NOTES = frozenset(("facts", "reminders"))
"""Notes in the same folder whose lines have a form of their own."""

Topics = Mapping[str, str | None]
"""The text of each page; `None` for one that must stay as it is."""


class NotAPage(Exception):
    """A page cannot have this name. The message is a clause that says why."""


async def read_topics(workspace: Workspace) -> Topics:
    """The pages of the workspace. One that cannot be read, or that has words of others, must stay as it is.

    Raises:
        ProposalFailed: the folder cannot be read.
    """
    sources, found = Sources(workspace), dict[str, str | None]()
    for name in sorted(await note_names(workspace, MEMORY_FOLDER)):
        stem = topic_name(name)
        if day_in(stem) or _slug(stem) in _OTHER_NOTES:
            continue
        try:
            text = (await note_texts(workspace, [name])).get(name)
        except ProposalFailed:
            text = None
        known = [each for each in await sources.of_lines(name, (text or "").split("\n")) if each]
        is_own = all(each.is_owners_word and each.audience in (PRIVATE, EVERYBODY) for each in known)
        found[name] = text if is_own else None
    return found


def topic_name(path: str) -> str:
    return path.removeprefix(f"{MEMORY_FOLDER}/").removesuffix(".md")


def topic_page(name: str, pages: Topics) -> tuple[str, str]:
    """The path and the title of the page with this name: one of `pages`, in whichever case, or a new one.

    Raises:
        NotAPage: no page may have this name.
    """
    given = unicodedata.normalize("NFC", " ".join(topic_name(name.strip()).split()))
    slug = _slug(given)
    if len(given) > MAX_NAME_CHARS or len(slug.encode()) > _MAX_SLUG_BYTES or not slug:
        raise NotAPage(f"a name is a few words of {MAX_NAME_CHARS} characters at most")
    if any(each in given for each in "/\\:") or given.startswith("."):
        raise NotAPage(f"a page is directly in {MEMORY_FOLDER}/")
    if day_in(slug) or slug in _OTHER_NOTES:
        raise NotAPage("this is the name of another kind of notes")
    if without_secrets(given) != given:
        raise NotAPage("it looks like a key or a password")
    path = next((each for each in pages if _slug(topic_name(each)) == slug), f"{MEMORY_FOLDER}/{slug}.md")
    if pages.get(path, "") is None:
        raise NotAPage("that page cannot be read, or has words that are not the owner's")
    return path, " ".join(_words(given))


def topics_in(pages: Topics, lines: Iterable[Place]) -> list[str]:
    """The paths of the pages that lines name and a model may see, those named by most lines first."""
    said = Counter(word for place in lines for word in Claim(place.text.replace("'s", "")).stems)
    count = {
        path: sum(said[word] for word in Claim(topic_name(path)).stems)
        for path, text in pages.items()
        if text and without_secrets(text) == text
    }
    return sorted(filter(count.get, count), key=count.__getitem__, reverse=True)


def topic_notes(edits: Sequence[Edit], pages: Topics, curated: str) -> tuple[TidiedNote, ...]:
    """The pages with these edits, without new lines that a page or the `curated` note has."""
    wanted, has = dict[str, list[Edit]](), dict[str, set[str]]()
    for edit in edits:
        if edit.page:
            known = has.setdefault(edit.page, _keys(pages.get(edit.page) or "") | _keys(curated))
            new = {key: line for line in reversed(edit.added) for key in _keys(line)}
            new = {key: new[key] for key in reversed(new) if edit.removed or key not in known}
            known |= new.keys()
            if new or edit.removed:
                wanted.setdefault(edit.page, []).append(replace(edit, added=tuple(new.values())))
    notes: list[TidiedNote] = []
    for path, kept in wanted.items():
        note = tidied(path, pages.get(path) or f"# {kept[0].title}\n", kept)
        notes.append(replace(note, before=pages.get(path)))
    return tuple(notes)


def _keys(text: str) -> set[str]:
    return {line_key(fold(without_citation(line))) for line in text.splitlines()} - {""}


def _slug(name: str) -> str:
    return "-".join(_words(unicodedata.normalize("NFC", name).casefold()))


def _words(name: str) -> list[str]:
    """The words of a name; characters that files or Markdown may treat specially separate them."""
    kept = (each if each.isalnum() or unicodedata.category(each)[0] == "M" else " " for each in name)
    return "".join(kept).split()
