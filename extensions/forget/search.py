"""Searches every place where forgotten words may remain: transcripts, databases, git, and all files.

Files are searched as text, JSON, base64 and SQLite databases, freed pages included.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from nacre.extensions.forget.targets import transcripts_with
from nacre.memory.contracts.notes import encoding_of_note, text_of_note
from nacre.memory.contracts.workspace import FileBusy
from nacre.memory.files.proposals import Target
from nacre.memory.workspace.git import GitFailed
from nacre.memory.workspace.history.forgetting import owners_objects, versions_with
from nacre.memory.workspace.history.repository import HISTORY_FOLDER, Repository
from nacre.runtime.session_lifecycle.session_memory import slug_of
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import storage_of
from nacre.sessions.stores.rewriting import RewritableStore

OUT_OF_REACH = (
    "Out of reach: backups and copies of the disk, data that providers of models and embeddings keep, "
    "messages that were sent to a chat, and the memory of running programs."
)
_MAX_NAMES = 50
_GIT = ".git"
_SKIPPED_FOLDERS = frozenset({_GIT, "locks", "models"})
_SOURCE_OF = re.compile(rb'^\{"version": 1, "path": "[^"]*"', re.MULTILINE)


async def remaining_places(
    config: Config, store: RewritableStore, target: Target, removed: Sequence[str]
) -> list[str]:
    """Sentences about the places that still have the target; `removed` are the lines that were removed.

    Raises:
        SessionError, StorageFailed: a place cannot be searched.
    """
    sentences = []
    found = await transcripts_with(store, target)
    if found:
        sentences.append(
            f"These transcripts have it: {_names(found)}. Nacre sends it to the model when such a session "
            "continues. --transcripts removes it."
        )
    if (elsewhere := storage_of(config).other_rows) is not None:
        rows = await elsewhere.having(lambda text: text_matches(text, target), but_sessions=bool(found))
        if rows:
            tables = ", ".join(f"{table} ({count})" for table, count in rows.items())
            sentences.append(f"Rows of these tables have it: {tables}.")
    # Bytes find a line even where nothing separates it from its neighbors.
    plain = (line.strip(" -*+>").encode() for line in removed)
    needles = [needle for needle in plain if len(needle) >= _MIN_NEEDLE_BYTES]
    in_files = await asyncio.to_thread(_file_sentences, config, target, needles, frozenset(found))
    return [*sentences, *in_files]


def _file_sentences(
    config: Config, target: Target, needles: Sequence[bytes], reported: frozenset[str]
) -> list[str]:
    left = []
    if config.is_in_files:
        if versions := matching_versions(config, target):
            left.append(
                f"The notes' git history has it in older versions ({versions}). --git-history removes it."
            )
        left += _owner_git_sentences(config, target)
        left += _git_sentences(config, target, needles)
        left += [
            f"{path} is a damaged history that was set aside and cannot be searched. Delete it."
            for path in Repository(config.workspace, state_dir=config.state_dir).set_aside()
        ]
    names: list[Path] = []
    elsewhere: list[Path] = []
    packed: list[Path] = []
    unread: list[Path] = []
    for path in _other_files(config):
        if _name_matches(path.name, target):
            names.append(path)
        if path.name == _GIT or str(path) in reported or not path.is_file():
            packed += [path] if path.name == _GIT else []
            continue
        try:
            with path.open("rb") as file:
                head = file.read(32)
            if head.startswith(_PACKED):
                packed.append(path)
            elif _file_matches(path, target, needles):
                elsewhere.append(path)
        except OSError:
            unread.append(path)
    for paths, sentence in (
        (elsewhere, "These files have it: {}."),
        (names, "These file names have it: {}. Rename or remove the files."),
        (packed, "These files or repositories are compressed or encrypted and were not searched: {}."),
        (unread, "These files could not be read: {}."),
    ):
        if paths:
            left.append(sentence.format(_names(paths)))
    return left


def _git_sentences(config: Config, target: Target, needles: Sequence[bytes]) -> list[str]:
    repository = Repository(config.workspace, state_dir=config.state_dir)
    sentences = []
    if repository.is_there:
        try:
            names, messages = _names_and_messages(repository, target)
        except (GitFailed, FileBusy, OSError) as error:
            return [f"The git history could not be searched: {error}."]
        if names:
            sentences.append(
                f"Names of notes in the git history have it: {_names(names)}. They stay in its trees."
            )
        if messages:
            sentences.append(f"Messages of commits have it: {_names(messages)}.")
    folders = (config.state_dir / HISTORY_FOLDER, config.workspace / ".git")
    files = (path for folder in folders for path in folder.rglob("*") if "objects" not in path.parts)
    plain = (path for path in files if path.is_file() and not path.is_symlink())
    if own := [path for path in plain if _path_matches(path, target, needles)]:
        sentences.append(f"These files of git have it: {_names(own)}.")
    return sentences


def _names_and_messages(
    repository: Repository, target: Target, *, of_owner: bool = False
) -> tuple[list[str], list[str]]:
    """Matching names in any tree, and commits or tags with a matching text, whether or not a branch has
    them."""
    environment = owners_objects(repository) if of_owner else {}
    how = "--batch-check=%(objecttype) %(objectname)"
    listed = repository.git("cat-file", "--batch-all-objects", how, environment=environment)
    objects = [row.split() for row in listed.decode().splitlines() if not row.startswith("blob ")]
    if not objects:
        return [], []
    given = "".join(f"{name}\n" for _, name in objects).encode()
    stream = io.BytesIO(repository.git("cat-file", "--batch", stdin=given, environment=environment))
    names: dict[str, None] = {}
    messages = []
    for kind, name in objects:
        data = stream.read(int(stream.readline().split()[2]))
        stream.read(1)
        if kind != "tree":
            if target.matches_any(data.decode("utf-8", "replace")):
                messages.append(name[:12])
            continue
        for found in re.finditer(rb"[0-7]+ ([^\0]+)\0.{%d}" % (len(name) // 2), data, re.DOTALL):
            entry = found[1].decode("utf-8", "replace")
            if _name_matches(entry, target):
                names[entry] = None
    return list(names), messages


def _path_matches(path: Path, target: Target, needles: Sequence[bytes]) -> bool:
    try:
        return _name_matches(path.name, target) or _file_matches(path, target, needles)
    except OSError:
        return False  # the file was removed meanwhile


def matching_versions(config: Config, target: Target) -> int:
    """How many versions in the git history match, names of notes in them apart; 0 if it cannot be read."""
    repository = Repository(config.workspace, state_dir=config.state_dir)
    if not repository.is_there:
        return 0

    def says(data: bytes) -> bool:
        return target.matches_any(text_of_note(_SOURCE_OF.sub(b"", data)))

    try:
        return versions_with(repository, says)
    except GitFailed:
        return 0


def _owner_git_sentences(config: Config, target: Target) -> list[str]:
    """Sentences about the `.git` of the workspace, which is the owner's and is only read."""
    git_dir = config.workspace / ".git"
    if not os.path.lexists(git_dir):
        return []
    repository = Repository(config.workspace, state_dir=config.state_dir)
    try:
        with repository.opened():
            versions = versions_with(
                repository, lambda data: target.matches_any(text_of_note(data)), of_owner=True
            )
            names, messages = _names_and_messages(repository, target, of_owner=True)
    except (GitFailed, FileBusy, OSError) as error:
        return [f"Your repository {git_dir} could not be searched: {error}."]
    places = [
        *([f"in {versions} versions of files"] if versions else []),
        *([f"in names of files in its trees ({_names(names)})"] if names else []),
        *([f"in messages of commits or tags ({_names(messages)})"] if messages else []),
    ]
    if not places:
        return []
    return [
        f"Your repository {git_dir} has it {', '.join(places)}. Nacre does not change it: "
        "rewrite it with git, or delete it."
    ]


def _other_files(config: Config) -> Iterator[Path]:
    roots = {config.state_dir, config.folders.agent_dir, config.folders.index_file.parent}
    roots |= {config.folders.sessions_file.parent, *([config.workspace] if config.is_in_files else [])}
    history, seen = config.state_dir / HISTORY_FOLDER, {config.workspace / _GIT}
    for root in roots:
        around = (above / _GIT for above in root.parents if (above / _GIT).exists())
        for path in (*around, *root.rglob("*")):
            inner = (path.parent if path.name == _GIT else path).parts[len(root.parts) :]
            is_passed = not _SKIPPED_FOLDERS.isdisjoint(inner) or path.is_relative_to(history)
            if path not in seen and not is_passed and not path.is_symlink():
                seen.add(path)
                yield path


def _names(paths: Sequence[Path | str]) -> str:
    shown = ", ".join(str(path) for path in paths[:_MAX_NAMES])
    return f"{shown} and {len(paths) - _MAX_NAMES} more" if len(paths) > _MAX_NAMES else shown


_SQLITE = b"SQLite format 3\0"
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"age-encryption.org/")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_CONTROL_CHARS = re.compile("[\0-\x1f\x7f-\x9f\ufffd]+")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4,}\s*){2,}={0,2}")
_BLANKS = re.compile(r"\s+")
_PLAIN_BASE64 = str.maketrans("-_", "+/")
_MIN_NEEDLE_BYTES = 4


def text_matches(text: str, target: Target) -> bool:
    """Whether a text has the target: plainly, in base64, with JSON escapes, or in a JSON value on a line."""
    if target.matches_any(text) or ("\\u" in text and target.matches_any(_without_escapes(text))):
        return True
    if any(target.matches_any(decoded) for decoded in _base64_texts(text)):
        return True
    if "{" not in text and "[" not in text:
        return False
    values = (value for line in (text, *text.splitlines()) for value in _json_texts(line))
    return any(map(target.matches_any, values))


def _name_matches(name: str, target: Target) -> bool:
    """Whether the name of a file or folder matches; `_` separates words, and accents may be left out."""
    plain, unaccented = name.replace("_", " "), Target(words=frozenset(map(slug_of, target.words)))
    return target.matches(plain) or unaccented.matches(plain)


def _file_matches(path: Path, target: Target, needles: Sequence[bytes]) -> bool:
    """Whether a file has the target anywhere in its bytes. Raises `OSError`."""
    data = path.read_bytes()
    if any(needle in data for needle in needles):
        return True
    if data.startswith(_SQLITE) and any(text_matches(value, target) for value in _sqlite_texts(path)):
        return True
    if b"\0" not in data or encoding_of_note(data) != "utf-8":
        return text_matches(text_of_note(data), target)
    # Without its zero bytes, most UTF-16 is plain text.
    return any(
        _binary_matches(each.decode("utf-8", "replace"), target) for each in (data, data.replace(b"\0", b""))
    )


def _binary_matches(text: str, target: Target) -> bool:
    """Whether a piece between control characters matches; a word may touch other letters on one side."""
    whole = [re.compile(rf"\b{re.escape(word)}|{re.escape(word)}\b") for word in target.words]
    for piece in _CONTROL_CHARS.split(text):
        if target.matches(piece):
            return True
        folded = piece.casefold()
        has_all = whole and all(word in folded for word in target.words)
        if has_all and all(each.search(folded) for each in whole):
            return True
    return False


def _sqlite_texts(path: Path) -> Iterator[str]:
    """The cells of all tables, and the words of each row of a full-text index."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = bytes
            # Full-text indexes come first, because a table that cannot be read ends the search.
            tables = database.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
                " ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC"
            ).fetchall()
            for number, (table, statement) in enumerate(tables):
                quoted, sql = table.decode("utf-8", "replace").replace('"', '""'), (statement or b"").upper()
                if b"USING FTS5" in sql:
                    yield from _words_by_row(database, quoted, f"temp.words{number}")
                if sql.startswith(b"CREATE VIRTUAL"):
                    continue
                for row in database.execute(f'SELECT * FROM "{quoted}"'):
                    yield from (cell.decode("utf-8", "replace") for cell in row if isinstance(cell, bytes))
    except sqlite3.Error:
        return  # its bytes are searched in any case


def _words_by_row(database: sqlite3.Connection, table: str, view: str) -> Iterator[str]:
    with suppress(sqlite3.Error):  # its tokenizer is unknown, or it has no positions
        database.execute(f'CREATE VIRTUAL TABLE {view} USING fts5vocab(main, "{table}", instance)')
        rows = database.execute(f"SELECT doc, term FROM {view} ORDER BY doc, col, offset")
        for _row, words in groupby(rows, key=lambda row: row[0]):
            yield b" ".join(term for _, term in words).decode("utf-8", "replace")


def _base64_texts(text: str) -> Iterator[str]:
    """The decoded base64 in a text, even if it is broken into lines or follows a word directly."""
    for found in _BASE64.finditer(text):
        packed = _BLANKS.sub("", found[0]).rstrip("=").translate(_PLAIN_BASE64)
        for start in range(4):
            piece = packed[start:]
            piece = piece[: len(piece) - (len(piece) % 4 == 1)]
            yield base64.b64decode(piece + "=" * (-len(piece) % 4)).decode("utf-8", "replace")


def _without_escapes(text: str) -> str:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _json_texts(line: str) -> Iterator[str]:
    try:
        stack: list[Any] = [json.loads(line)]
    except (ValueError, RecursionError):
        return
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
            if value.startswith(("{", "[")):
                yield from _json_texts(value)
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            stack += [*value, *value.values()]
