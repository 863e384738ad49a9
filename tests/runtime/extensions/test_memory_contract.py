"""The engines that are here keep the contract that authors inherit, and it notices who does not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from nacre import FunctionTool, MemoryHome, MemoryPlugin, ToolChat, tool
from nacre.runtime.extensions.memory_contract import MemoryContract
from nacre.runtime.providers.opening import new_for_each
from nacre.runtime.recall.memory_core import MemoryCore, memory_core
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings

EXAMPLE = Path(__file__).parents[3] / "examples" / "06-engine.py"


def example_engine() -> MemoryPlugin:
    """The engine of the example, which is a program and no module."""
    spec = spec_from_file_location("engine_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    engine = module.LineMemory()
    assert isinstance(engine, MemoryPlugin)
    return engine


class TestNothing(MemoryContract):
    """An engine that remembers nothing is one too."""

    def engine(self) -> MemoryPlugin:
        return MemoryPlugin()


class TestExample(MemoryContract):
    """The one of examples/06-engine.py."""

    def engine(self) -> MemoryPlugin:
        return example_engine()


class TestMemoryCore(MemoryContract):
    """The one that comes with Nacre goes through the same door."""

    @pytest.fixture(autouse=True)
    def _state(self, tmp_path: Path) -> None:
        self.state_dir = tmp_path
        write_settings(tmp_path, {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})

    def engine(self) -> MemoryPlugin:
        config = load_config({"HOME": str(self.state_dir)}, state_dir=self.state_dir)
        config.workspace.mkdir(exist_ok=True)
        core = memory_core(config, lambda: datetime(2026, 3, 14, tzinfo=UTC), watch=True, lent=new_for_each)
        assert isinstance(core, MemoryCore)
        return core


class Forgetful(MemoryPlugin):
    """Keeps what was said in the process alone."""

    def __init__(self) -> None:
        self._heard = ""

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        self._heard = asked

    async def recall(self, chat: ToolChat, asked: str) -> str:
        return self._heard


class Shared(MemoryPlugin):
    """Keeps one file for all agents."""

    async def start(self, home: MemoryHome) -> None:
        self._file = home.folder().parent / "all"
        self._file.touch()

    async def capture(self, chat: ToolChat, asked: str, answered: str) -> None:
        self._file.write_text(asked, encoding="utf-8", errors="replace")

    async def recall(self, chat: ToolChat, asked: str) -> str:
        return self._file.read_text(encoding="utf-8")


class Restless(MemoryPlugin):
    """Makes another tool each time."""

    def __init__(self) -> None:
        self._number = 0

    def tools(self, chat: ToolChat) -> Sequence[FunctionTool[..., Any]]:
        self._number += 1

        @tool(name=f"remember_{self._number}")
        def remember() -> str:
            """Remembers."""
            return ""

        return (remember,)


@pytest.mark.parametrize(
    ("kind", "method", "problem"),
    [
        (Forgetful, "test_what_was_captured_is_recalled_after_a_restart", "without 'Halcyon'"),
        (Shared, "test_agents_do_not_share_their_memory", "Another agent recalled"),
        (Restless, "test_tools_stay_the_same_from_turn_to_turn", "changed between two turns"),
    ],
)
def test_the_contract_notices_who_breaks_it(kind: type[MemoryPlugin], method: str, problem: str) -> None:
    """An engine that forgets, mixes agents, or changes its tools fails with a sentence."""

    class Suite(MemoryContract):
        def engine(self) -> MemoryPlugin:
            return kind()

    with pytest.raises(AssertionError, match=problem):
        getattr(Suite(), method)()
