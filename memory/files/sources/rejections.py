"""Values that the owner rejected: no writer but the owner brings them back.

`.sources/rejected.jsonl` holds digests of what rejected, forgotten and undone lines said: of a thing and its
value where a line has them ("City: Porto" and "my city is Porto" are one), otherwise of the line's words. The
digests have a salt, which is stored in the same file and made from the time of the first rejection, so they
cannot be compared with those of another workspace or looked up in a table. Whoever has the file can still
test a guess.

A rejection has no effect while a note still has the line as the owner's word: they left it there, or wrote it
again by hand. The file only grows and is a contract: `FORMAT_VERSION`. Lines that cannot be read are skipped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

from nacre.memory.contracts.notes import MAX_NOTE_BYTES, WantedNotes, is_markdown, text_of_note
from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from nacre.memory.files.sources.sources import SOURCES_FOLDER, Sources, line_key, values_in
from nacre.memory.text.forms.spelling import fold

FORMAT_VERSION = 1
REJECTED_FILE = f"{SOURCES_FOLDER}/rejected.jsonl"
Wish = Callable[[], Awaitable[bool]]
_LEAST_CHARS = 8
"""Shorter lines without a value, such as `- done`, are about different things each time."""
_RESOLVED_DAY = re.compile(r"\((\d{4}-\d\d-\d\d)\)")


async def reject(workspace: Workspace, path: str, text: str, lines: Iterable[str]) -> None:
    """Stores that the owner rejected `lines` of the note `path` when its text was `text`.

    Raises `OSError`, `FileBusy` or `PathOutsideRoot` if this cannot be stored.
    """
    said = set[str]().union(*_statements(path, text, lines).values())
    if said:
        began = f"{await workspace.now_ns()} {workspace.place}"
        salts = await _read(workspace) or (hashlib.sha256(began.encode("utf-8", "replace")).hexdigest()[:32],)
        await _append(workspace, "rejected", {salt: _digests(salt, said) for salt in salts})


async def lift(workspace: Workspace, path: str, text: str, lines: Iterable[str]) -> None:
    """Stores that the owner wants these lines after all. Raises the same errors as `reject`."""
    known = await _read(workspace)
    said = set[str]().union(*_statements(path, text, lines).values()) if any(known.values()) else set()
    found = {salt: _digests(salt, said) & digests for salt, digests in known.items()}
    await _append(workspace, "lifted", {salt: digests for salt, digests in found.items() if digests})


async def rejected_lines(
    sources: Sources, path: str, text: str, lines: Iterable[str], *, is_wish: Wish | None = None
) -> frozenset[str]:
    """Those of the new `lines` of the note `path`, with the text `text`, that the owner rejected.

    If there are any, and `is_wish` says that the owner wishes to keep them, they are lifted.
    """
    known = await _read(sources.workspace)
    if not any(known.values()):
        return frozenset()
    found = {
        line: hits
        for line, said in _statements(path, text, lines).items()
        if (hits := {each for each in said for salt in known if _digests(salt, [each]) & known[salt]})
    }
    left = await _standing(sources, set[str]().union(*found.values()), found) if found else set()
    rejected = frozenset(line for line, said in found.items() if said - left)
    if rejected and is_wish is not None and await is_wish():
        await lift(sources.workspace, path, text, rejected)
        return frozenset()
    return rejected


async def _standing(sources: Sources, wanted: set[str], lines: Iterable[str]) -> set[str]:
    """Which of these statements of `lines` the notes have as the owner's word."""
    workspace = sources.workspace
    listed = await workspace.list_notes([WantedNotes(name=".", is_required=True)])
    read = await workspace.read_notes([note.name for note in listed.notes if is_markdown(note.name)])
    texts = {name: note.data for name, note in read.items() if not isinstance(note, Exception)}
    standing: set[str] = set()
    for name, said in (await asyncio.to_thread(_matching, texts, wanted, lines)).items():
        for line, source in zip(said, await sources.of_lines(name, tuple(said)), strict=True):
            standing |= said[line] if source is None or source.is_owners_word else set()
    return standing & wanted


def _matching(
    texts: Mapping[str, bytes], wanted: set[str], lines: Iterable[str]
) -> dict[str, dict[str, frozenset[str]]]:
    """The lines of notes with one of the `wanted` statements, by note."""
    from nacre.memory.text.claims import addresses, bare_words

    # a cheap test for stems saves reading the claims of years of notes
    stems = [each.value for line in lines for each in addresses(line)]
    stems += [frozenset(bare_words(line).split()) for line in lines]
    matching: dict[str, dict[str, frozenset[str]]] = {}
    for name, data in texts.items():
        text = text_of_note(data)
        folded = fold(text)
        if any(all(stem in folded for stem in each) for each in stems):
            said = _statements(name, text, text.splitlines())
            matching[name] = {line: each for line, each in said.items() if each & wanted}
    return matching


def _statements(path: str, text: str, lines: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """What each line says: each value of a thing, or else its words. Headings say nothing."""
    from nacre.memory.text.claims import bare_words  # slow, and unused without rejections

    values, found = values_in(path, text), dict[str, frozenset[str]]()
    for line in lines:
        key = "" if line.lstrip().startswith("#") else line_key(line)
        days = " ".join(_RESOLVED_DAY.findall(line))  # tomorrow is another day each time
        said = {
            f"{each.about} {' '.join(sorted(each.value))} {each.is_denied} {days}"
            for each in values.get(key, ())
        }
        if key and not said and len(words := bare_words(line)) >= _LEAST_CHARS // (1 + (not words.isascii())):
            said = {f"{words} {days}"}
        if said:
            found[line] = frozenset(said)
    return found


def _digests(salt: str, said: Iterable[str]) -> set[str]:
    texts = (f"{salt} {each}".encode("utf-8", "replace") for each in said)
    return {hashlib.sha256(text).hexdigest()[:20] for text in texts}


async def _append(workspace: Workspace, kind: str, found: Mapping[str, set[str]]) -> None:
    raws = [{"version": FORMAT_VERSION, "salt": salt, kind: sorted(each)} for salt, each in found.items()]
    if text := "".join(f"{json.dumps(raw)}\n" for raw in raws):
        await workspace.append(REJECTED_FILE, text, skip_repeats=False)


async def _read(workspace: Workspace) -> dict[str, set[str]]:
    """The digests that are rejected now, by salt; two devices may each have added one."""
    known: dict[str, set[str]] = {}
    try:
        data = (await workspace.read(REJECTED_FILE, max_bytes=MAX_NOTE_BYTES)).data
    except (OSError, PathOutsideRoot):
        return known
    for line in data.splitlines():
        with suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raw = json.loads(line)
            digests = known.setdefault(str(raw["salt"]), set())
            digests.update(map(str, raw.get("rejected", ())))
            digests.difference_update(map(str, raw.get("lifted", ())))
    return known
