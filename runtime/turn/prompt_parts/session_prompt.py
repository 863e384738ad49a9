"""The system prompt of one session: frozen in its transcript, with what changed since said at the tail.

    nacre.prompt ─► question ─► answer ─► nacre.changes ─► question ─► … ─► compaction ─► nacre.prompt

A provider reads a request from its cache as far as it begins like the last one. So the prompt stays what it
was, after a restart too, until a compaction begins the conversation anew; and what changed is a message of
the transcript, which stays where it is. The prompt is made anew at once where its frame is another one (what
the chat may see, instructions of the program, a section of an extension), where such messages are large,
and where a line was removed from a file or a log: what the owner deletes is not sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from nacre.runtime.contracts.model import ToolSpec
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.turn.prompt_parts.frozen_prompt import (
    FrozenPrompt,
    Known,
    applied,
    changes_between,
    frozen_prompt,
    removed_lines,
)
from nacre.runtime.turn.prompt_parts.system_prompt import StablePart
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.view.transcript import CHANGES_TYPE, PROMPT_TYPE, RECALL_TYPE, Follower

MOST_TOLD_SHARE = 10
"""What changed may fill this share of the window, a tenth; then it is cheaper to make the prompt anew."""
CHARS_PER_TOKEN = 4


class ToldPrompt:
    """What the transcript of one session says of its prompt, kept up to date while that grows."""

    def __init__(self) -> None:
        self.frozen: FrozenPrompt | None = None
        self.known = Known()
        self.tools: dict[str, str] = {}
        self.told_chars = 0
        self.recalled: tuple[str, ...] = ()
        """The logs and notes that the newest reminder quotes, where it was seen."""
        self._text: str | None = None
        self._described: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] | None = None
        self._follower = Follower()

    def follow(self, branch: Sequence[Entry]) -> None:
        """Takes what is new of a branch."""
        fresh = self._follower.fresh(branch)
        if fresh is None:
            self._begin(None)
            ended = range(len(branch) - 1, -1, -1)
            begun = (place for place in ended if _begins(branch[place]))
            fresh = branch[next(begun, 0) :]
        for entry in fresh:
            self._take(entry)

    def text(self, part: StablePart) -> str:
        """The stable text of the prompt that is told, in this frame; the same object as long as it stays."""
        if self._text is None:
            assert self.frozen is not None, "what was told is asked for"
            known = self.frozen.known
            same = (dict(part.tools), dict(part.files)) == (dict(known.tools), dict(known.files))
            self._text = part.text if same else replace(part, tools=known.tools, files=known.files).text
        return self._text

    def described(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tools described and ordered as they were told, with those that are new behind them."""
        if self._described is None or self._described[0] is not tools:
            told = tools
            if any(self.tools.get(tool.name) != tool.description for tool in tools):
                places = {name: place for place, name in enumerate(self.tools)}
                told = tuple(
                    replace(tool, description=self.tools.get(tool.name, tool.description))
                    for tool in sorted(tools, key=lambda tool: places.get(tool.name, len(places)))
                )
            self._described = (tools, told)
        return self._described[1]

    def _begin(self, frozen: FrozenPrompt | None) -> None:
        self.frozen = frozen
        self.known = frozen.known if frozen is not None else Known()
        self.tools = dict(self.known.tools)
        self.told_chars = 0
        self._text, self._described = None, None

    def _take(self, entry: Entry) -> None:
        data = entry.custom_data(PROMPT_TYPE)
        if data is not None:
            self._begin(frozen_prompt(data))
        elif isinstance(entry.body, Compaction):
            self._begin(None)
        elif isinstance(entry.body, CustomMessage) and entry.body.custom_type == RECALL_TYPE:
            paths = (entry.body.details or {}).get("paths")
            self.recalled = tuple(map(str, paths)) if isinstance(paths, list) else ()
        elif isinstance(entry.body, CustomMessage) and entry.body.custom_type == CHANGES_TYPE:
            known = applied(self.known, entry.body.details or {})
            if known is None:  # somebody else's: the prompt is made anew
                self._begin(None)
                return
            self.known = known
            self.tools, self._described = {**known.tools, **self.tools}, None
            self.told_chars += len(entry.body.content)


class SessionPrompt:
    """The prompt of one session, for one turn in a window of so many tokens."""

    def __init__(self, session: OpenSession, *, window_tokens: int) -> None:
        self._session = session
        self._most_told_chars = window_tokens * CHARS_PER_TOKEN // MOST_TOLD_SHARE

    def texts(self, part: StablePart, now: str) -> tuple[str, str]:
        """The stable and the changing part of the prompt: as they were told, or else as they are."""
        told = self._told()
        if told.frozen is None or told.frozen.frame != part.digest:
            return part.text, now
        return told.text(part), told.frozen.known.now

    def tools(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tools as they were told; which there are, and what they take, is always the present truth."""
        return self._told().described(tools)

    @property
    def told_paths(self) -> frozenset[str]:
        """The logs and notes of past days that the model has been told of."""
        told = self._told()
        return frozenset((*told.known.logs, *(told.recalled if told.frozen is None else ())))

    async def bring_up_to_date(
        self,
        part: StablePart,
        now: str,
        logs: Mapping[str, str],
        *,
        is_deleted: Callable[[str, Sequence[str]], Awaitable[bool]],
        recall_again: Callable[[], Awaitable[None]],
    ) -> None:
        """Puts the prompt into the transcript, or what changed of it; nothing where nothing did.

        `is_deleted` tells whether a file lacks one of these lines, which may have been cut out of its
        shown text alone. `recall_again` replaces the recalled notes.

        Raises:
            SessionError: the transcript cannot be written.
        """
        told, journal = self._told(), self._session.journal
        present = Known(tools=part.tools, files=part.files, logs=logs, now=now)
        if told.frozen is not None and told.frozen.frame == part.digest:
            changes = changes_between(told.known, present)
            if changes is None:
                return
            removed = removed_lines(told.known, present)
            has_deleted = any([await is_deleted(path, lines) for path, lines in removed.items()])
            if not has_deleted and told.told_chars + len(changes.text) <= self._most_told_chars:
                await journal.append(
                    CustomMessage(custom_type=CHANGES_TYPE, content=changes.text, details=changes.details)
                )
                return
        if told.frozen is not None:
            await recall_again()
        prompt = FrozenPrompt(frame=part.digest, known=present)
        await journal.append_custom(PROMPT_TYPE, prompt.to_record())

    def _told(self) -> ToldPrompt:
        told = self._session.journal.kept(ToldPrompt)
        told.follow(self._session.branch)
        return told


def _begins(entry: Entry) -> bool:
    return isinstance(entry.body, Compaction) or entry.custom_data(PROMPT_TYPE) is not None
