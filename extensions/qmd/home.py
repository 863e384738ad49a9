"""An agent's qmd folder: the collections that qmd indexes, its index, and what Nacre stores about it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from nacre.closing import stop_tasks
from nacre.extensions.qmd.program import BROKEN_INDEX, BUSY, DAMAGED, Program, QmdFailed, listed_collections
from nacre.memory.contracts.notes import CHATS_FOLDER, is_markdown
from nacre.memory.contracts.settings import at_home
from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptSource, TranscriptText
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.transcripts import ANYBODY, OWNER
from nacre.runtime.settings.sections.memory import QmdPath, QmdUpdate
from nacre.runtime.settings.sections.section import duration_seconds

log = logging.getLogger(__name__)

Kind = Literal["notes", "chats", "extra", "sessions"]
"""`notes` are the owner's, `chats` those of other chats, `extra` the folders in the settings."""

PREFIX = "qmd/"
"""The prefix of paths outside of the workspace: `qmd/<collection>/<path>`."""


class Collection(Record):
    """A folder that qmd indexes. `below` is its path in the workspace, `""` for the workspace itself, and
    `None` outside of it."""

    name: str
    root: Path
    pattern: str
    kind: Kind
    below: str | None

    def shown(self, path: str) -> str | None:
        """The path of a file as Nacre shows it; `None` for a path that cannot be in the collection."""
        if not self.holds(path):
            return None
        if self.below is None:
            return f"{PREFIX}{self.name}/{path}"
        return f"{self.below}/{path}" if self.below else path

    def holds(self, path: str) -> bool:
        """Whether a relative path is a Markdown file that matches the pattern."""
        parts = path.split("/")
        return (
            is_markdown(path)
            and path.isprintable()
            and not any(part in ("", "..") or part.startswith(".") for part in parts)
            and "\\" not in path
            and _expression(self.pattern).fullmatch(path) is not None
        )


def wanted_collections(
    *,
    agent_id: str,
    workspace: Path,
    user_folder: Path,
    includes_default: bool,
    paths: Sequence[QmdPath],
    sessions: Path | None,
) -> tuple[Collection, ...]:
    """All collections of an agent, including those whose folder does not exist yet."""
    found: list[Collection] = []
    taken: set[str] = set()

    def add(name: str, root: Path, pattern: str, kind: Kind) -> None:
        found.append(
            Collection(
                name=_free(f"{_plain(name)}-{_plain(agent_id)}", taken),
                root=root,
                pattern=pattern,
                kind=kind,
                below=_below(workspace, root),
            )
        )

    if includes_default:
        add("memory-root", workspace, "MEMORY.md", "notes")
        older, newer = workspace / "memory.md", workspace / "MEMORY.md"
        if older.is_file() and not (newer.exists() and older.samefile(newer)):
            add("memory-alt", workspace, "memory.md", "notes")
        add("memory-dir", workspace / "memory", "**/*.md", "notes")
        add("memory-chats", workspace / CHATS_FOLDER, "**/*.md", "chats")
    for number, path in enumerate(paths, start=1):
        place = Path(os.path.normpath(workspace / at_home(path.path, user_folder)))
        is_file = is_markdown(place.name) and not place.is_dir()
        add(
            path.name.strip() or f"custom-{number}",
            place.parent if is_file else place,
            place.name if is_file else path.pattern,
            "extra",
        )
    if sessions is not None:
        add("sessions", sessions, "**/*.md", "sessions")
    return tuple(found)


def named(path: str, collections: Mapping[str, Collection]) -> tuple[Collection, str] | None:
    """The collection of `qmd/<collection>/<path>` and the path in it, if there is one."""
    name, _, rest = path.removeprefix(PREFIX).partition("/")
    collection = collections.get(name)
    return (collection, rest) if collection is not None and collection.holds(rest) else None


def holder(path: str, collections: Sequence[Collection]) -> tuple[Collection, str] | None:
    """The collection in the workspace that includes a path, and the path in the collection."""
    for collection in collections:
        if collection.below is None:
            continue
        beginning = f"{collection.below}/" if collection.below else ""
        if path.startswith(beginning) and collection.holds(rest := path.removeprefix(beginning)):
            return collection, rest
    return None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-") or "collection"


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def _below(workspace: Path, root: Path) -> str | None:
    try:
        relative = root.relative_to(workspace).as_posix()
    except ValueError:
        return None
    return "" if relative == "." else relative


@lru_cache(maxsize=64)
def _expression(pattern: str) -> re.Pattern[str]:
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    opened = pattern.count("{") == pattern.count("}") and "{" in pattern
    if not opened:
        pieces = {key: value for key, value in pieces.items() if key not in ("{", "}", ",")}
    tokens = re.split(r"(\*\*/|\*\*|[*?{},])", pattern)
    try:
        return re.compile("".join(pieces.get(token, re.escape(token)) for token in tokens))
    except re.error:
        return re.compile(re.escape(pattern))


_STATE_FILE = "nacre.json"


class QmdState(Record):
    """What is stored between runs: the path and pattern of each created collection, times in seconds since
    the epoch, and why the built-in engine answers; empty if qmd does."""

    collections: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    updated_at_seconds: float = 0.0
    embedded_at_seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class QmdHome:
    """The folder `agents/<id>/qmd` in the state folder."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "xdg-config"

    @property
    def cache(self) -> Path:
        return self.folder / "xdg-cache"

    @property
    def sessions(self) -> Path:
        """The folder of exported conversations, unless the settings name another."""
        return self.folder / "sessions"

    def environment(self, passed_on: Mapping[str, str]) -> dict[str, str]:
        """The environment of the program, with these folders instead of the owner's."""
        return {
            **passed_on,
            "XDG_CONFIG_HOME": str(self.config),
            "XDG_CACHE_HOME": str(self.cache),
            "QMD_CONFIG_DIR": str(self.config / "qmd"),
            "NO_COLOR": "1",
        }

    def recipe(self) -> list[str]:
        """Shell lines that make the owner's own `qmd` use this index."""
        return [
            f"export XDG_CONFIG_HOME={shlex.quote(str(self.config))}",
            f"export XDG_CACHE_HOME={shlex.quote(str(self.cache))}",
        ]

    def make(self, shared_cache: Path) -> None:
        """Creates the folders, and links the models that the owner's own qmd has downloaded.

        Raises:
            OSError: the folders cannot be created.
        """
        for folder in (self.config / "qmd", self.cache / "qmd", self.sessions):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        models, own = shared_cache / "qmd" / "models", self.cache / "qmd" / "models"
        if models.is_dir() and not os.path.lexists(own):
            with suppress(OSError):  # without the link, qmd downloads them again
                own.symlink_to(models.resolve(), target_is_directory=True)

    def set_index_aside(self) -> None:
        """Moves qmd's index aside, so that qmd creates a new one from the notes.

        Raises:
            OSError: it cannot be moved.
        """
        aside = self.cache / "qmd" / "damaged"
        aside.mkdir(exist_ok=True, mode=0o700)
        for file in (self.cache / "qmd").glob("index.*"):
            file.replace(aside / file.name)

    def state(self) -> QmdState:
        """The stored state; an empty one if it cannot be read."""
        try:
            found: Any = json.loads((self.folder / _STATE_FILE).read_bytes())
            return QmdState(
                collections={
                    str(name): (str(path), str(pattern))
                    for name, (path, pattern) in found["collections"].items()
                },
                updated_at_seconds=float(found["updated_at_seconds"]),
                embedded_at_seconds=float(found["embedded_at_seconds"]),
                problem=str(found["problem"]),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return QmdState()

    def store(self, state: QmdState) -> None:
        """Stores the state. Failures are ignored, because only a status needs it."""
        file = self.folder / _STATE_FILE
        with suppress(OSError):
            new = file.with_suffix(".new")
            new.write_text(json.dumps(asdict(state), ensure_ascii=False, indent=1), encoding="utf-8")
            new.replace(file)

    def change_state(self, **changes: Any) -> None:
        """Stores other values in the present state."""
        self.store(replace(self.state(), **changes))


_TITLE = "# Session "
_DAY_SECONDS = 86_400.0


class SessionExports:
    """Writes `<folder>/<session id>.md` for each private session; without `retention_days`, keeps all."""

    def __init__(
        self, source: TranscriptSource, folder: Path, *, retention_days: int | None, now: Clock
    ) -> None:
        self.source = source
        self._folder = folder
        self._retention_days = retention_days
        self._now = now
        self._seen: dict[str, tuple[int, int, bool]] = {}

    async def write(self) -> None:
        """Brings the folder in line with the sessions. Files that would not change are not written.

        Raises:
            OSError: the sessions cannot be listed, or the folder cannot be written.
        """
        kept: set[str] = set()
        oldest_seconds = 0.0
        if self._retention_days is not None:
            oldest_seconds = self._now().timestamp() - self._retention_days * _DAY_SECONDS
        for info in await self.source.transcripts():
            if info.modified_ns / 1e9 < oldest_seconds:
                continue
            name = f"{Path(info.name).stem}.md"
            if await self._exported(info, name):
                kept.add(name)
        await asyncio.to_thread(self._remove_others, kept)

    async def _exported(self, info: TranscriptInfo, name: str) -> bool:
        *marks, is_export = self._seen.get(name, (0, 0, False))
        if marks == [info.size_bytes, info.modified_ns]:
            return is_export
        text = await self.source.text(info.name)
        if text is None:  # it cannot be read now, so the file stays
            return True
        is_export = is_private(text)
        if is_export:
            await asyncio.to_thread(_write, self._folder / name, _markdown(name, text))
        self._seen[name] = (info.size_bytes, info.modified_ns, is_export)
        return is_export

    def _remove_others(self, kept: set[str]) -> None:
        for file in self._folder.glob("*.md"):
            if file.name not in kept and _is_export(file):
                file.unlink(missing_ok=True)


def is_private(text: TranscriptText) -> bool:
    """Whether the owner speaks in it, and nobody who might be someone else."""
    speakers = {line.partition(":")[0] for line in text.lines}
    return OWNER in speakers and ANYBODY not in speakers


def _markdown(name: str, text: TranscriptText) -> bytes:
    days = [day for day in text.days if day is not None]
    day = f"\n{days[0].isoformat()}\n" if days else ""
    messages = "\n\n".join(text.lines)
    return f"{_TITLE}{Path(name).stem}\n{day}\n{messages}\n".encode("utf-8", "replace")


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if file.is_file() and not file.is_symlink() and file.read_bytes() == data:
        return
    new = file.with_suffix(".new")
    new.write_bytes(data)
    new.chmod(0o600)
    new.replace(file)


def _is_export(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as opened:
        first = opened.readline(500).decode("utf-8", "replace")
    return first.rstrip("\n") == f"{_TITLE}{file.stem}"


BOOT_TRIES = 3
RETRY_SECONDS = 0.5
"""The pause before the first update is tried again; it doubles each time."""
PAUSE_SECONDS = 3_600.0
"""The pause after a failed update if the settings have no interval."""
EMBED_WAIT_SECONDS = 60.0
MOST_EMBED_WAIT_SECONDS = 3_600.0
"""After a failed `qmd embed`, the pause is a minute; it doubles each time, up to an hour."""


class Upkeep:
    """The collections of one agent; one update runs at a time.

    `embeds` means that the search mode uses vectors. `embedding` is a lock shared by the agents of a process,
    because each embedding run loads a model.
    """

    def __init__(
        self,
        program: Program,
        home: QmdHome,
        settings: QmdUpdate,
        *,
        collections: Sequence[Collection],
        exports: SessionExports | None,
        embeds: bool,
        embedding: asyncio.Lock,
        now: Clock,
    ) -> None:
        self._program = program
        self._home = home
        self._settings = settings
        self._collections = collections
        self._exports = exports
        self._embeds = embeds
        self._embedding = embedding
        self._now = now
        self._following: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()
        """Set it when there is something to read."""
        self._turns = asyncio.Lock()
        self._begun = 0
        self._ended_at: float | None = None
        self._may_embed_at = 0.0
        self._embed_wait_seconds = EMBED_WAIT_SECONDS
        self.problem = ""

    @property
    def is_dirty(self) -> bool:
        """Whether an update has yet to read a change."""
        return self.changed.is_set() or self._turns.locked()

    async def start(self) -> None:
        """Starts to update, and waits for the first update if the settings say so."""
        on_boot = self._settings.on_boot
        if on_boot and self._settings.wait_for_boot_sync:
            await self._quietly(boot=True)
            on_boot = False
        self._following = asyncio.create_task(self._follow(boot=on_boot), name="qmd-updates")

    async def close(self) -> None:
        """Stops updates and kills a running program."""
        await stop_tasks(self._following)
        if self._exports is not None:
            await self._exports.source.close()

    async def settled(self, seconds: float) -> None:
        """Waits up to `seconds` for a running update."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._turns:
                pass

    async def update(self, *, force: bool = True, boot: bool = False) -> None:
        """Updates everything and waits for it.

        Without `force`, does nothing within `debounceMs` of the last update. Callers during an update wait
        for the next one, which they share.

        Raises:
            QmdFailed: it failed; `problem` has the same message.
        """
        begun = self._begun
        async with self._turns:
            if self._begun > begun:  # that update started after this call, so it has read the change
                if self.problem:
                    raise QmdFailed(self.problem)
                return
            if not force and self._rest_seconds():
                return
            self._begun += 1
            self.changed.clear()
            try:
                await self._once(boot=boot)
                self.problem = ""
            except (QmdFailed, OSError) as error:
                self.changed.set()
                self.problem = str(error)
                raise QmdFailed(self.problem) from error
            finally:
                self._ended_at = asyncio.get_running_loop().time()

    async def repair(self) -> None:
        """Creates all collections again. Raises `QmdFailed` if qmd cannot create them."""
        async with self._turns:
            await self._create_collections(again=True)

    async def _create_collections(self, *, again: bool = False) -> None:
        seconds = self._settings.command_timeout_ms / 1000
        output = await self._program.run("collection", "list", "--json", seconds=seconds)
        listed = listed_collections(output.or_failed("qmd collection list"))
        state = await asyncio.to_thread(self._home.state)
        stored = dict(state.collections)
        wanted = {each.name: each for each in self._collections if each.root.is_dir()}
        for name in sorted(stored.keys() - wanted.keys()):
            if name in listed:
                await self._program.run("collection", "remove", name, seconds=seconds)
            del stored[name]
        for name, collection in wanted.items():
            marks = (str(collection.root), collection.pattern)
            if name in listed and stored.get(name) == marks and not again:
                continue
            if name in listed:
                await self._program.run("collection", "remove", name, seconds=seconds)
            output = await self._program.run(
                *("collection", "add", marks[0], "--name", name, "--mask", marks[1]), seconds=seconds
            )
            if output.code and "already exists" not in output.err + output.out:
                output.or_failed(f"qmd collection add {name}")
            stored[name] = marks
        if stored != state.collections:
            await asyncio.to_thread(self._home.change_state, collections=stored)

    async def _follow(self, *, boot: bool) -> None:
        if boot:
            await self._quietly(boot=True)
        interval_seconds = duration_seconds(self._settings.interval) or None
        while True:
            if self.problem:  # wait for the interval, whatever is written meanwhile
                await asyncio.sleep(interval_seconds or PAUSE_SECONDS)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_seconds):
                        await self.changed.wait()
            await asyncio.sleep(self._rest_seconds())
            await self._quietly()

    def _rest_seconds(self) -> float:
        if self._ended_at is None:
            return 0.0
        due = self._ended_at + self._settings.debounce_ms / 1000
        return max(0.0, due - asyncio.get_running_loop().time())

    async def _quietly(self, *, boot: bool = False) -> None:
        try:
            await self.update(force=boot, boot=boot)
        except QmdFailed as error:
            log.warning("qmd was not updated: %s", error)

    async def _once(self, *, boot: bool) -> None:
        if self._exports is not None:
            await self._exports.write()
        tries = BOOT_TRIES if boot else 1
        for number in range(tries):
            try:
                await self._update_or_repair()
                break
            except QmdFailed as error:
                if number + 1 == tries or not BUSY.search(error.output):
                    raise
            await asyncio.sleep(RETRY_SECONDS * 2**number)
        await asyncio.to_thread(self._home.change_state, updated_at_seconds=self._now().timestamp())
        await self._embed_if_due()

    async def _update_or_repair(self) -> None:
        try:
            await self._create_collections()
            await self._run_update()
        except QmdFailed as error:
            if DAMAGED.search(error.output):
                await asyncio.to_thread(self._home.set_index_aside)
            elif not BROKEN_INDEX.search(error.output):
                raise
            log.warning("qmd's collections are created again: %s", error)
            await self._create_collections(again=True)
            await self._run_update()

    async def _run_update(self) -> None:
        output = await self._program.run("update", seconds=self._settings.update_timeout_ms / 1000)
        output.or_failed("qmd update")

    async def _embed_if_due(self) -> None:
        # A search works without vectors, so a failure is only logged.
        interval_seconds = duration_seconds(self._settings.embed_interval)
        loop_seconds = asyncio.get_running_loop().time()
        state = await asyncio.to_thread(self._home.state)
        age_seconds = self._now().timestamp() - state.embedded_at_seconds
        is_due = interval_seconds and age_seconds >= interval_seconds and loop_seconds >= self._may_embed_at
        if not self._embeds or not is_due:
            return
        try:
            async with self._embedding:
                output = await self._program.run("embed", seconds=self._settings.embed_timeout_ms / 1000)
            output.or_failed("qmd embed")
        except QmdFailed as error:
            self._may_embed_at = asyncio.get_running_loop().time() + self._embed_wait_seconds
            log.warning("no vectors from qmd, tried again in %.0f s: %s", self._embed_wait_seconds, error)
            self._embed_wait_seconds = min(MOST_EMBED_WAIT_SECONDS, 2 * self._embed_wait_seconds)
            return
        self._embed_wait_seconds = EMBED_WAIT_SECONDS
        await asyncio.to_thread(self._home.change_state, embedded_at_seconds=self._now().timestamp())
