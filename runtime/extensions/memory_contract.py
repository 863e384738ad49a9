"""`MemoryContract`: tests of what every memory engine must do, which its author inherits.

    class TestMyEngine(MemoryContract):
        def engine(self) -> MemoryPlugin:
            return MyEngine()

The methods are plain functions without a fixture, so any runner can call them. `engine` returns a new one
each time. For an engine that captures, `said` is the captured text, `asked` the question that recalls it, and
`found` a word that the recalled text must have. `settings` becomes `home.settings`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.extensions.loading import EngineParts, engine_parts
from nacre.runtime.recall.memory_plugin import MemoryHome, MemoryPlugin
from nacre.runtime.recall.memory_slot import RECALL_SECONDS
from nacre.runtime.tools.function import FunctionTool, ToolChat

ODD_WORDS = ("", " \n", "\0", "'; --", "%s {} \\", "ß\u200b\U0001f41d", "\ud800", "word " * 20_000)
"""Texts that people and programs really send."""


class MemoryContract:
    """Inherit it and implement `engine`. A failing test raises `AssertionError` with a sentence."""

    said = "Remember that my boat is called Halcyon."
    asked = "What is my boat called?"
    found = "Halcyon"
    settings: Mapping[str, Any] = MappingProxyType({})

    def engine(self) -> MemoryPlugin:
        """A new engine that has not been started."""
        raise NotImplementedError("Override engine(self) and return a new engine.")

    def test_an_empty_memory_starts_answers_and_closes(self) -> None:
        """With nothing to remember, recall is empty, the status is one line, and sync ends."""

        async def story(home: MemoryHome) -> None:
            async with self._started(home) as engine:
                recalled = await engine.recall(chat_in(home), self.asked)
                _check(recalled == "", f"An empty memory recalled {recalled!r}.")
                status = await engine.status()
                _check(bool(status.strip()) and "\n" not in status, f"The status is not a line: {status!r}.")
                await engine.sync()
                engine.session_started()
                engine.notes_changed()
                engine.transcripts_changed()

        self._run(story)

    def test_one_that_was_never_started_can_be_closed(self) -> None:
        """`close` is also called after a `start` that failed."""

        async def story(_home: MemoryHome) -> None:
            await self.engine().close()

        self._run(story)

    def test_tools_stay_the_same_from_turn_to_turn(self) -> None:
        """Tool names are unique and schemas do not change, because the provider's cache depends on them."""

        async def story(home: MemoryHome) -> None:
            async with self._started(home) as engine:
                first, second = (_specs(engine, home) for _ in range(2))
                names = [name for name, _ in first]
                _check(first == second, "The tools changed between two turns.")
                _check(len(set(names)) == len(names), f"Two tools have one name: {names}.")
                chat = chat_in(home)
                text = engine.instructions(chat)
                _check(text == engine.instructions(chat), "The instructions changed between two turns.")

        self._run(story)

    def test_its_hooks_and_commands_can_be_taken(self) -> None:
        """After the start: hook names exist, commands have unique words, and neither changes."""

        async def story(home: MemoryHome) -> None:
            async with self._started(home) as engine:
                parts = engine_parts(engine, Commands())
                again = engine_parts(engine, Commands())
                _check(list(parts.hooks) == list(again.hooks), "Its hooks changed between two calls.")
                words, words_again = _words(parts), _words(again)
                _check(words == words_again, "Its commands changed between two calls.")

        self._run(story)

    def test_what_was_captured_is_recalled_after_a_restart(self) -> None:
        """It is on disk, or wherever the engine stores it, when `close` returns."""

        async def story(home: MemoryHome) -> None:
            if not self._captures():
                return
            async with self._started(home) as engine:
                await engine.capture(chat_in(home), self.said, "Noted.")
            async with self._started(home) as engine:
                recalled = await engine.recall(chat_in(home), self.asked)
            _check(self.found in recalled, f"{self.asked!r} recalled {recalled!r}, without {self.found!r}.")

        self._run(story)

    def test_agents_do_not_share_their_memory(self) -> None:
        """What one agent captured is not recalled by another agent with the same state folder."""

        async def story(home: MemoryHome) -> None:
            if not self._captures():
                return
            async with self._started(home) as engine:
                await engine.capture(chat_in(home), self.said, "Noted.")
            other = MemoryHome(
                agent_id="other",
                workspace=home.workspace.with_name("workspace-other"),
                state_dir=home.state_dir,
                engine_id=home.engine_id,
                now=home.now,
                settings=home.settings,
            )
            other.workspace.mkdir()
            async with self._started(other) as engine:
                recalled = await engine.recall(chat_in(other), self.asked)
            _check(self.found not in recalled, f"Another agent recalled {recalled!r}.")

        self._run(story)

    def test_odd_words_do_no_harm(self) -> None:
        """Empty, long and broken texts are captured or skipped, and recall stays within its time limit."""

        async def story(home: MemoryHome) -> None:
            async with self._started(home) as engine:
                for words in ODD_WORDS:
                    await engine.capture(chat_in(home), words, words)
                    async with asyncio.timeout(RECALL_SECONDS):
                        recalled = await engine.recall(chat_in(home), words)
                    _check(isinstance(recalled, str), f"recall gave {type(recalled).__name__}.")

        self._run(story)

    def _captures(self) -> bool:
        kind = type(self.engine())
        return kind.capture is not MemoryPlugin.capture and kind.recall is not MemoryPlugin.recall

    @asynccontextmanager
    async def _started(self, home: MemoryHome) -> AsyncIterator[MemoryPlugin]:
        engine = self.engine()
        try:
            await engine.start(home)
            yield engine
        finally:
            await engine.close()

    def _run(self, story: Callable[[MemoryHome], Awaitable[None]]) -> None:
        async def bounded() -> None:
            with _home(self.settings) as home:
                async with asyncio.timeout(60):
                    await story(home)

        asyncio.run(bounded())


def chat_in(home: MemoryHome) -> ToolChat:
    """The owner's private chat with the agent of this home."""
    return ToolChat(
        session_key=f"agent:{home.agent_id}:main",
        session_id="11111111-1111-4111-8111-111111111111",
        channel="terminal",
        policy=ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True),
        workspace=home.workspace,
    )


@contextmanager
def _home(settings: Mapping[str, Any]) -> Iterator[MemoryHome]:
    with TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        yield MemoryHome(
            agent_id="main",
            workspace=workspace,
            state_dir=Path(folder),
            engine_id="tested",
            now=lambda: datetime(2026, 3, 14, 12, 0, tzinfo=UTC),
            settings=settings,
        )


def _specs(engine: MemoryPlugin, home: MemoryHome) -> list[tuple[str, object]]:
    chat = chat_in(home)
    bound = [tool.bound(chat) if isinstance(tool, FunctionTool) else tool for tool in engine.tools(chat)]
    return [(tool.name, tool.spec()) for tool in bound]


def _words(parts: EngineParts) -> list[str]:
    """The commands that the owner may use in private, including the engine's."""
    policy = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)
    return [command.usage for command in parts.commands.offered(policy)]


def _check(is_true: bool, problem: str) -> None:
    if not is_true:
        raise AssertionError(problem)
