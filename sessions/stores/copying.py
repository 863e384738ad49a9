"""Copies sessions from one store to another: records, transcripts, full results and ended sessions.

Each transcript is copied completely or not at all, and existing ones are not written again, so that an
interrupted copy can continue. The source does not change. Records are copied first, because a folder of
transcripts without records looks like one that lost its index.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionCorrupt
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.rewriting import RewritableStore
from nacre.sessions.stores.store import SessionStore


class CopyableStore(SessionStore, Protocol):
    """A store that can be copied from and to."""

    async def whole_results(self, name: str) -> Mapping[str, bytes]:
        """A transcript's full results by name."""

    async def import_transcript(self, name: str, data: bytes, results: Mapping[str, bytes]) -> None:
        """Stores a transcript that another store exported, after its results; all of it or nothing.

        An existing transcript that `data` continues is replaced.

        Raises:
            SessionCorrupt: a different transcript with that name exists; it is unchanged.
        """


class AgentSessions(CopyableStore, RewritableStore, Protocol):
    """The session store of a backend."""


def refuse_another(name: str, there: bytes, data: bytes) -> None:
    """Raises `SessionCorrupt` unless one of the two transcripts continues the other."""
    if not (data.startswith(there) or there.startswith(data)):
        raise SessionCorrupt(f"The target has a different transcript {name}. Move it away to copy this one.")


class SessionSum(Record):
    """The counts of the copied sessions in a store, and a checksum over everything."""

    transcripts: int
    results: int
    lines: int
    endings: int
    size_bytes: int
    checksum: str


class Copied(Record):
    """The totals of both stores after a copy, and sentences about parts that were not copied."""

    source: SessionSum
    target: SessionSum
    problems: tuple[str, ...]


async def copy_sessions(source: CopyableStore, target: CopyableStore) -> Copied:
    """Copies what the target lacks, then reads both stores again.

    Of two different records for one key, the one changed last wins.

    Raises:
        SessionError: a store refused; another call continues the copy.
    """
    problems: list[str] = []
    lines = await source.index.all()

    def newer(present: Mapping[str, SessionRecord]) -> Mapping[str, SessionRecord]:
        return {
            key: record
            for key, record in lines.items()
            if key not in present
            or (record != present[key] and record.updated_at_ms >= present[key].updated_at_ms)
        }

    await target.index.edit(newer)
    for facts in await source.transcripts():
        data = await source.exported(facts.name)
        whole = _whole_lines(data)
        if whole != data:
            problems.append(f"The last line of {facts.name} is incomplete and was not copied.")
        if not whole:
            continue
        try:
            await target.import_transcript(facts.name, whole, await source.whole_results(facts.name))
        except SessionCorrupt as error:
            problems.append(str(error))
    for ended in await source.ended_sessions.all():
        if not await target.ended_sessions.has(ended):
            await target.ended_sessions.put(ended)
    return Copied(
        source=await _summed(source, source), target=await _summed(target, source), problems=tuple(problems)
    )


async def _summed(store: CopyableStore, source: CopyableStore) -> SessionSum:
    checksum, size_bytes, results = sha256(), 0, 0
    wanted = {facts.name for facts in await source.transcripts()}
    found = [facts for facts in await store.transcripts() if facts.name in wanted]
    for facts in found:
        data, whole = _whole_lines(await store.exported(facts.name)), await store.whole_results(facts.name)
        for name, part in ((facts.name, data), *sorted(whole.items())):
            checksum.update(f"{name}\n{len(part)}\n".encode() + part)
        size_bytes += len(data)
        results += len(whole)
    keys, due = await source.index.all(), set(await source.ended_sessions.all())
    lines = {key: record for key, record in (await store.index.all()).items() if key in keys}
    endings = [ended for ended in await store.ended_sessions.all() if ended in due]
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


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]
