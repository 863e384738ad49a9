"""A transcript from another store, within a transaction. Edge."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from nacre.sessions.disk.json_text import json_value
from nacre.sessions.stores.copying import refuse_another
from nacre.sessions.stores.postgres import statements
from nacre.sessions.stores.postgres.heads import begin, head_of, lines_from
from nacre.sessions.stores.postgres.rows import Moment


def results_of(rows: Moment, name: str) -> dict[str, bytes]:
    """The whole results of a transcript, by their names."""
    head = head_of(rows, name)
    if head is None:
        return {}
    return {each: bytes(body) for each, body in rows.run(statements.RESULTS, transcript=head.id)}


def brought_in(rows: Moment, *, name: str, data: bytes, results: Mapping[str, bytes], at: datetime) -> None:
    """Makes a transcript of JSON lines, with its results, or lets one go on that begins so.

    Raises:
        SessionCorrupt: there is another one of that name.
    """
    head = head_of(rows, name)
    there = b"".join(lines_from(rows, head)) if head is not None else b""
    refuse_another(name, there, data)
    transcript = head.id if head is not None else None
    if len(there) < len(data):
        if head is not None:
            rows.run(statements.REMOVE_TRANSCRIPT, name=name)
        lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
        transcript = begin(rows, name, lines, _session_id(lines[0], name), at)
    for each, body in results.items():
        rows.fenced(statements.KEEP_RESULT, lane=None, transcript=transcript, name=each, body=body)


def _session_id(header: bytes, name: str) -> str:
    found = json_value(header)
    told = found.get("id") if isinstance(found, dict) else None
    return told if isinstance(told, str) and told else name.removesuffix(".jsonl")
