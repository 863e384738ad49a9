"""Settings that cannot work are refused when the agent is opened, and no key gets into a trace."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from nacre import Agent
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"session": {"mainKey": "two words"}}, r"session\.mainKey.*'two words'"),
        ({"session": {"mainKey": "dm"}}, r"session\.mainKey.*none of the scheme's words"),
        ({"agents": {"defaults": {"workspace": "~nora/notes"}}}, "'~nora/notes' names another user's home"),
        ({"agents": {"defaults": {"contextTokens": 100}}}, "greater than or equal to 4000"),
    ],
)
async def test_a_setting_that_cannot_work_is_refused_at_once(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    """Not on the first message, and not by making a folder somewhere."""
    write_settings(tmp_path, settings)
    with pytest.raises(ConfigError, match=problem):
        await Agent.open(state_dir=tmp_path, environment={"HOME": str(tmp_path)})


async def test_a_key_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    """Neither the sentence nor the trace behind it holds the provider's key."""
    write_settings(tmp_path, {"models": {"providers": {"openai": "sk-secret"}}})
    with pytest.raises(ConfigError, match=r"models\.providers\.openai") as refused:
        await Agent.open(state_dir=tmp_path, environment={"HOME": str(tmp_path)})
    assert "sk-secret" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(("written", "meant"), [("-Infinity", 1), ("0.5", 1), ("90.7", 90)])
def test_minutes_are_put_between_their_limits(tmp_path: Path, written: str, meant: int) -> None:
    """Whatever number a file has, also one that is below every limit."""
    (tmp_path / "nacre.json5").write_text(f"{{session: {{idleMinutes: {written}}}}}")

    assert load_config({"HOME": str(tmp_path)}, state_dir=tmp_path).settings.session.idle_minutes == meant
