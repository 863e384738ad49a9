"""Whatever stands in the index's place: no session is lost, no byte is thrown away, and it can be written."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from hypothesis import example, given, settings, strategies as st

from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from tests.sessions.index.crash_driver import transcript
from tests.sessions.talk import set_aside_in, ticking_clock

MAIN = "agent:main:main"

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["sessionId", "updatedAt", "sessionFile", "previousSessionIds", "origin", "label", "provider", "odd"]
)
LINES = st.dictionaries(
    st.sampled_from([MAIN, "k", ""]), st.dictionaries(FIELDS, VALUES, max_size=4) | VALUES
)


@settings(max_examples=60)
@given(data=st.binary(max_size=60) | LINES.map(lambda value: json.dumps(value).encode()))
@example(data=b"")
@example(data=b"[" * 100_000)
@example(data=b'{"' + MAIN.encode() + b'": {"sessionId": "\\ud800"}}')
def test_any_bytes_in_the_place_of_the_index_lose_nothing(data: bytes) -> None:
    """They are the index, or they are set aside; the session of the folder is there either way."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_goes_on(Path(folder), data))


async def _goes_on(folder: Path, data: bytes) -> None:
    transcript(folder, "s-1", MAIN)
    (folder / "sessions.json").write_bytes(data)
    index = SessionIndex(folder, now=ticking_clock())

    found = await index.all()

    if index.notices:
        assert set_aside_in(folder) == [data]
        assert found[MAIN].session_id == "s-1"
    else:
        assert (folder / "sessions.json").read_bytes() == data
    added = SessionRecord(session_id="new", updated_at_ms=1)
    await index.update("agent:main:new", lambda _: added)
    assert await SessionIndex(folder, now=ticking_clock()).all() == {**found, "agent:main:new": added}
    assert (folder / "s-1.jsonl").exists()
