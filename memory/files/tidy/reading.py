"""The curated note and the daily logs of a workspace, and the lines of them that may be worked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from nacre.memory.contracts.notes import is_markdown
from nacre.memory.contracts.workspace import FileBytes, PathOutsideRoot, ReadFailed, Workspace
from nacre.memory.files.sources.secrets import without_secrets
from nacre.memory.files.sources.sources import Sources
from nacre.memory.files.template_words import told_lines
from nacre.memory.files.tidy.edits import Place
from nacre.memory.files.tidy.rules import places
from nacre.memory.text.chunker import day_in_path
from nacre.memory.workspace.workspace import MEMORY_FOLDER, OLDER_NAMES
from nacre.record import Record

CURATED = "MEMORY.md"


class TidyFailed(Exception):
    """The notes cannot be tidied; nothing was changed. A sentence."""


class Notes(Record):
    """What there is: `path` is the curated note, `texts` has it, if there is one, and the logs, oldest first.

    `places` are the lines that may be named to a model and that rules look at: the owner's word, and no
    secrets. `left_out` is what the others say; `of_others` counts those that are not the owner's word.
    """

    path: str
    texts: Mapping[str, str]
    places: tuple[Place, ...]
    left_out: frozenset[str]
    of_others: int

    @property
    def curated(self) -> str | None:
        """The text of the curated note; `None` where there is none."""
        return self.texts.get(self.path)

    @property
    def log_places(self) -> tuple[Place, ...]:
        """The lines of the logs that count."""
        return tuple(place for place in self.places if place.path != self.path)

    def curated_places(self, text: str) -> tuple[Place, ...]:
        """The lines that count of the curated note, as `text` has it now."""
        told = "\n".join(told_lines(self.path, text.split("\n")))
        return tuple(place for place in places(self.path, told) if place.text not in self.left_out)


async def read_notes(workspace: Workspace, *, after: date | None = None, before: date | None = None) -> Notes:
    """The owner's curated note, and their logs from the day `after` to `before`, both included.

    Raises:
        TidyFailed: one of them cannot be read, or is no text.
    """
    path = CURATED
    texts = await _texts(workspace, [CURATED, OLDER_NAMES[CURATED]])
    if CURATED not in texts and texts:
        path = OLDER_NAMES[CURATED]
    logs = await _texts(workspace, await _logs(workspace, after, before))
    kept = {name: texts[name] for name in (path,) if name in texts} | logs
    sources = Sources(workspace)
    found: list[Place] = []
    left_out: set[str] = set()
    of_others = 0
    for name, text in kept.items():
        lines = text.split("\n")
        told, known = told_lines(name, lines), await sources.of_lines(name, lines)
        for place in places(name, "\n".join(told)):
            source = known[place.number - 1]
            if source is not None and not source.is_owners_word:
                of_others += 1
                left_out.add(place.text)
            elif without_secrets(place.text) == place.text:
                found.append(place)
            else:
                left_out.add(place.text)
    return Notes(
        path=path, texts=kept, places=tuple(found), left_out=frozenset(left_out), of_others=of_others
    )


async def _logs(workspace: Workspace, after: date | None, before: date | None) -> list[str]:
    try:
        entries = await workspace.list_folder(MEMORY_FOLDER)
    except FileNotFoundError:
        return []
    except (OSError, PathOutsideRoot) as error:
        raise TidyFailed(f"The folder {MEMORY_FOLDER} cannot be read: {error}.") from error
    found = []
    for entry in entries:
        day = day_in_path(entry.name)
        if day is None or entry.is_folder or not is_markdown(entry.name):
            continue
        if (after or day) <= day <= (before or day):
            found.append(f"{MEMORY_FOLDER}/{entry.name}")
    return sorted(found)


async def _texts(workspace: Workspace, names: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, found in (await workspace.read_many(names)).items():
        if not isinstance(found, FileNotFoundError):
            texts[name] = _text(name, found)
    return texts


def _text(name: str, found: FileBytes | ReadFailed) -> str:
    if isinstance(found, Exception):
        raise TidyFailed(f"{name} cannot be read: {found}.")
    if str(found.relative) != name or found.is_cut:
        why = f"{found.size_bytes} bytes are too long" if found.is_cut else f"a link to {found.relative}"
        raise TidyFailed(f"{name} cannot be used: {why}.")
    try:
        return found.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TidyFailed(f"{name} is no UTF-8 text: {error}. Save it as UTF-8.") from error
