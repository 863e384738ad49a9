"""From one store to another: transcripts byte for byte, whole results, lines, endings.

Each transcript is there whole or not at all, and what is there already is not written again: a copy that was
killed goes on where it was. Nothing of the source is changed. Lines come first: a folder of transcripts
without them would be taken for one that lost its index.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol

from nacre.records.record import Record
from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.rewriting import RewritableStore
from nacre.sessions.stores.store import SessionStore


class CopyableStore(SessionStore, Protocol):
    """A store that can be copied from and into."""

    async def whole_results(self, name: str) -> Mapping[str, bytes]:
        """The results of a transcript that are kept whole, by their names."""

    async def bring_in(self, name: str, data: bytes, results: Mapping[str, bytes]) -> None:
        """Keeps a transcript as another store exported it, behind its results; all of it or nothing.

        One that `data` goes on from is replaced.

        Raises:
            SessionCorrupt: there is another one of that name; it stays.
        """


class AgentSessions(CopyableStore, RewritableStore, Protocol):
    """All that a backend's sessions can do."""


def refuse_another(name: str, there: bytes, data: bytes) -> None:
    """Raises `SessionCorrupt` for a transcript that does not begin as the one that is there, or goes on."""
    if not (data.startswith(there) or there.startswith(data)):
        raise SessionCorrupt(
            f"The transcript {name} is another one in the target, which stays. Move it away to copy this one."
        )


class SessionSum(Record):
    """What a store has of what is copied: how many of each, and one checksum over all of it."""

    transcripts: int
    results: int
    lines: int
    endings: int
    size_bytes: int
    checksum: str


class Copied(Record):
    """What of both stores is there after a copy, and sentences about what was not copied."""

    source: SessionSum
    target: SessionSum
    problems: tuple[str, ...]


async def copy_sessions(source: CopyableStore, target: CopyableStore) -> Copied:
    """Copies what the target does not have; both are read anew afterwards.

    Of two lines of one key that differ, the one that was changed last counts.

    Raises:
        SessionError: a store refused; what was copied before stays, and another call goes on.
    """
    problems: list[str] = []
    lines = await source.index.all()
    await target.index.edit(lambda present: _newer(lines, present))
    for facts in await source.transcripts():
        data = await source.exported(facts.name)
        whole = _whole_lines(data)
        if whole != data:
            problems.append(f"The last line of {facts.name} was torn by a kill; it is not copied.")
        if not whole:
            continue
        try:
            await target.bring_in(facts.name, whole, await source.whole_results(facts.name))
        except SessionCorrupt as error:
            problems.append(str(error))
    for ended in await source.endings.all():
        if not await target.endings.has(ended):
            await target.endings.put(ended)
    return Copied(
        source=await _summed(source, source), target=await _summed(target, source), problems=tuple(problems)
    )


async def _summed(store: CopyableStore, source: CopyableStore) -> SessionSum:
    """What a store has of what `source` has."""
    checksum, size_bytes, results = sha256(), 0, 0
    wanted = {facts.name for facts in await source.transcripts()}
    found = [facts for facts in await store.transcripts() if facts.name in wanted]
    for facts in found:
        data, whole = _whole_lines(await store.exported(facts.name)), await store.whole_results(facts.name)
        for name, part in ((facts.name, data), *sorted(whole.items())):
            checksum.update(f"{name}\n{len(part)}\n".encode() + part)
        size_bytes += len(data)
        results += len(whole)
    keys, due = await source.index.all(), set(await source.endings.all())
    lines = {key: record for key, record in (await store.index.all()).items() if key in keys}
    endings = [ended for ended in await store.endings.all() if ended in due]
    for key, record in sorted(lines.items()):
        checksum.update(f"{key}\n{record.session_id}\n".encode())
    for ended in endings:
        checksum.update(f"{ended.ended_at_ms}\n{ended.session_id}\n".encode())
    return SessionSum(
        transcripts=len(found),
        results=results,
        lines=len(lines),
        endings=len(endings),
        size_bytes=size_bytes,
        checksum=checksum.hexdigest(),
    )


def _newer(
    lines: Mapping[str, SessionRecord], present: Mapping[str, SessionRecord]
) -> Mapping[str, SessionRecord | None]:
    return {
        key: record
        for key, record in lines.items()
        if key not in present
        or (record != present[key] and record.updated_at_ms >= present[key].updated_at_ms)
    }


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]
