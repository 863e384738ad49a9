"""A line of `sessions.json` that leads to no transcript: told, and its session found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions.index.test_index import MAIN, index, record, transcript
from tests.sessions.talk import set_aside_in


@pytest.mark.parametrize("strange", ["7", "null", '"x"', "{}", '{"sessionId": "nobodys", "updatedAt": 9}'])
@pytest.mark.parametrize("has_backup", [True, False])
@pytest.mark.covers("ATT-16")
async def test_a_strange_line_is_told_and_its_session_found_again(
    tmp_path: Path, strange: str, has_backup: bool
) -> None:
    """What names no transcript is set aside, and the key goes on in the session that it had."""
    await transcript(tmp_path, "s-1", key=MAIN)
    await index(tmp_path).update(MAIN, lambda present: record("s-1"))
    await index(tmp_path).close()
    if not has_backup:
        for path in [*tmp_path.glob("*.bak"), *tmp_path.glob("*.changes")]:
            path.unlink()
    odd = f'{{"{MAIN}": {strange}, "other": {{"sessionId": "s-9", "updatedAt": 1}}}}'
    (tmp_path / "sessions.json").write_text(odd)

    sessions = index(tmp_path)
    found = await sessions.recover(MAIN)

    assert found is not None
    assert found.session_id == "s-1"
    assert set_aside_in(tmp_path) == [odd.encode()]
    assert len(sessions.notices) == 1
    assert "continues in s-1" in sessions.notices[0]
    assert {key: item.session_id for key, item in (await index(tmp_path).all()).items()} == {
        MAIN: "s-1",
        "other": "s-9",
    }


async def test_a_session_that_was_left_is_not_found_again(tmp_path: Path) -> None:
    """A transcript that somebody removed brings back none of the key's former sessions."""
    await transcript(tmp_path, "s-1", key=MAIN)
    await index(tmp_path).update(MAIN, lambda present: record("s-1"))
    left = record("s-2", previous_session_ids=("s-1",))
    await index(tmp_path).update(MAIN, lambda present: left)

    sessions = index(tmp_path)

    assert await sessions.recover(MAIN) == left
    assert await sessions.recover("agent:main:none") is None
    assert sessions.notices == ()
