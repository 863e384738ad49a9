"""Exports the owner's private conversations as Markdown for qmd, and no conversation with others."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nacre.memory.contracts.transcripts import TranscriptInfo, TranscriptSource, TranscriptText
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.recall.transcripts import ANYBODY, OWNER

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
        for info in await self.source.transcripts():
            if self._is_over_age(info):
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

    def _is_over_age(self, info: TranscriptInfo) -> bool:
        if self._retention_days is None:
            return False
        return info.modified_ns / 1e9 < self._now().timestamp() - self._retention_days * _DAY_SECONDS

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
