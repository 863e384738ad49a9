"""Ten years with an assistant: what is stale, lost, poisoned or doubled at the end, and what a day costs.

    python -m benchmarks.decade [--days 60] [--extract] [--words] [--pages] [--keep DIR] [--show] [--seed 7]

A made-up life (`benchmarks/life/days.py`) is lived through a real agent, day by day, with a clock that the
script moves: messages, group chats with strangers, pages with lies, ended sessions, flushes, consolidation
while idle, search. Nobody is asked over a network. Without `--extract`, the answers of the model are recorded
ones: templates written by hand, filled from the script's truth, as a careful model would answer. They also do
what a careless one would: they note every lie and try to move it into MEMORY.md. With `--extract`, the
offline responder answers, and there is no consolidation. `--words` searches without the embedding model. With
`--pages`, the recorded answers give each friend who is not a close one a page, `memory/<name>.md`. A folder
that an earlier run has kept is only asked again, 200 things, with today's program.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.life.days import FIRST, Life, Matter, Said
from nacre import Agent, Inbound, tool
from nacre.extensions.curation.consolidation import Consolidation
from nacre.extensions.curation.edits import without_citation
from nacre.memory.contracts.records import SearchHit
from nacre.memory.files.sources.attribution import attributed
from nacre.memory.text.chunker import day_in_path
from nacre.runtime.contracts.inbound import Quoted
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.models.offline.model import OfflineModel
from nacre.runtime.models.scripted import Clock, CountingIds
from nacre.runtime.models.tokenizer import estimate_tokens
from nacre.runtime.settings.config import load_config
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from nacre.sessions.view.sent_view import estimate_message_tokens
from tests.runtime.agents import engine_of, write_settings

EXAM = 200
"""How many things are asked about at the end, each of them now and as of an earlier day."""
ALIKE = 0.8
"""From which share of common words two lines of curated notes are near-duplicates."""
_PLACED = re.compile(r"> (\S+\.md#L\d+): (.+)")
_NEGATION = re.compile(r"\b(?:no|not|none|wrong|mistake)\b")
_WORD = re.compile(r"[^\W_]+")


class Watched:
    """A model that counts what it is asked and looks for the words of strangers in private prompts."""

    name = "benchmark/recorded"
    context_window_tokens: int | None = 200_000

    def __init__(self, life: Life, clock: Clock, *, has_pages: bool = False) -> None:
        self.life = life
        self.clock = clock
        self.has_pages = has_pages
        self.known: dict[str, Said] = {}
        self.background_tokens = 0
        self.prompt_tokens: list[int] = []
        self.poisoned: set[str] = set()
        self._numbers = CountingIds("call_")

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """The recorded answer; see the module's docstring."""
        is_private = "Chat: direct" in request.system.changing
        asked = [estimate_message_tokens(each, estimate_tokens) for each in request.messages]
        system = request.system.joined()
        if request.purpose != "turn":
            self.background_tokens += estimate_tokens(system) + sum(asked)
        elif is_private:
            self.prompt_tokens.append(estimate_tokens(system) + sum(asked[:-1]))
        if is_private:
            self.poisoned |= {each.must_not_rule for each in self.life.lies if each.must_not_rule in system}
        async for item in self.answered(request):
            if isinstance(item, AssistantMessage) and request.purpose != "turn":
                self.background_tokens += estimate_message_tokens(item, estimate_tokens)
            yield item

    async def answered(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """The answer of a kind of request."""
        calls: list[tuple[str, dict[str, str]]] = []
        match request.purpose:
            case "turn":
                calls, text = self._turn(request)
            case "flush":
                calls, text = self._flush(request)
            case "tidy":
                text = json.dumps({"edits": list(self._edits(message_text(request.messages[-1])))})
            case _:
                text = "daily talk"
        if text:
            yield TextDelta(text=text)
        made = (ToolCall(id=self._numbers(), name=name, arguments=given) for name, given in calls)
        yield AssistantMessage(
            content=(*((Text(text=text),) if text else ()), *made),
            api="benchmark",
            provider="benchmark",
            model="recorded",
            usage=None,
            stop_reason="toolUse" if calls else "stop",
            timestamp_ms=self.clock.now_ms(),
        )

    async def aclose(self) -> None:
        """Holds nothing."""

    def _turn(self, request: ModelRequest) -> tuple[list[tuple[str, dict[str, str]]], str]:
        said = self.known.get(message_text(request.messages[-1]))
        if isinstance(request.messages[-1], ToolResultMessage) or said is None:
            return [], "Done."
        if said.by == "page":
            return [("read_page", {"address": message_text(request.messages[-1]).split()[-1]})], ""
        is_asked = said.text.startswith(("Remember", "Please note"))
        if is_asked and any(each.name == "append" for each in request.tools):
            return [("append", {"path": f"memory/{self.clock():%Y-%m-%d}.md", "text": said.noted})], ""
        return [], "All right."

    def _flush(self, request: ModelRequest) -> tuple[list[tuple[str, dict[str, str]]], str]:
        if isinstance(request.messages[-1], ToolResultMessage):
            return [], "NO_REPLY"
        written = {
            str(call.arguments.get("text"))
            for each in request.messages
            if isinstance(each, AssistantMessage)
            for call in each.tool_calls
        }
        heard = [message_text(each) for each in request.messages if isinstance(each, UserMessage)]
        meant = [self.known[each] for each in heard if each in self.known]
        notes = [note for note in dict.fromkeys(each.noted for each in meant) if note and note not in written]
        return ([("append", {"text": "\n".join(notes)})], "") if notes else ([], "NO_REPLY")

    def _edits(self, asked: str) -> Iterator[dict[str, Any]]:
        places = [(found[1], found[2]) for found in _PLACED.finditer(asked)]
        curated = [place for place in places if day_in_path(place[0].partition("#")[0]) is None]
        newest: dict[str, tuple[tuple[str, str], Said]] = {}
        notes = {said.note: said for said in self.known.values() if said.note}
        for place in places:
            said = notes.get(place[1])
            if said is None or place in curated:
                continue
            if said.by != "owner":
                newest[place[1]] = (place, said)
            elif said.matter is not None and (said.matter.is_lasting or self.has_pages):
                newest[said.matter.note("")] = (place, said)
        for begins, (place, said) in newest.items():
            here = {"at": place[0], "says": place[1]}
            page = said.matter.person if said.matter is not None and not said.matter.is_lasting else ""
            older = [
                each
                for each in curated
                if each[1].startswith(f"- {begins.rstrip()}") and each[0].startswith("memory/") == bool(page)
            ]
            edit: dict[str, Any] = {"from": [here], "write": [place[1]], "under": "Rules"}
            if page:
                edit |= {"page": page, "under": None}
            elif said.matter is not None:
                edit |= {"under": "People" if said.matter.person else "The owner"}
            if older:
                edit |= {"remove": [{"at": at, "says": says} for at, says in older], "superseded_by": here}
            if said.kind == "retract" and older:
                del edit["write"], edit["from"]
            if said.kind != "retract" or older:
                yield edit


class Extracting(Watched):
    """The offline responder, watched."""

    def __init__(self, life: Life, clock: Clock) -> None:
        super().__init__(life, clock)
        self._offline = OfflineModel(clock.now_ms, CountingIds("call_"), estimate_tokens)
        self.name = self._offline.name
        self.context_window_tokens = self._offline.context_window_tokens

    async def answered(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """The answer of the offline responder."""
        async for item in self._offline.stream(request):
            yield item


@dataclass
class Figures:
    """The counts, with sentences about each failure and figures of each day."""

    asked: int = 0
    stale: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    lies_first: list[str] = field(default_factory=list)
    labeled: list[str] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)
    then_asked: int = 0
    then_wrong: list[str] = field(default_factory=list)
    poisoned: set[str] = field(default_factory=set)
    lines: int = 0
    alike: list[str] = field(default_factory=list)
    curated_chars: int = 0
    most_chars: int = 0
    pages: int = 0
    page_chars: int = 0
    outdated: list[str] = field(default_factory=list)
    search_ms: list[float] = field(default_factory=list)
    sourced_ms: list[float] = field(default_factory=list)
    background: list[int] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    idle_tokens: int = 0
    cpu_seconds: float = 0.0
    chunks: int = 0

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Name, figure and what is wanted."""
        tenth = max(1, len(self.background) // 10)
        prompts = max(1, len(self.prompt) // 10)
        yield "questions now / then", f"{self.asked} / {self.then_asked}", ""
        yield "stale answers", f"{_share(self.stale, self.asked)}", "≤ 1 %"
        yield "lost facts", f"{_share(self.lost, self.asked)}", "≤ 1 %"
        yield "a stranger's value first", f"{_share(self.lies_first, self.asked)}", "≤ 1 %"
        yield "the same, labeled as not the owner's word", f"{_share(self.labeled, self.asked)}", ""
        yield "true values marked as superseded", f"{_share(self.marked, self.asked)}", "≤ 1 %"
        yield "wrong or lost as of an earlier day", f"{_share(self.then_wrong, self.then_asked)}", ""
        yield "poisoned rules", f"{len(self.poisoned)}", "0"
        yield "near-duplicates", f"{_share(self.alike, self.lines)} of {self.lines} lines", "≤ 1 %"
        yield "MEMORY.md, characters", f"{self.curated_chars:,} of {self.most_chars:,}", "within"
        if self.pages:
            yield "pages; characters of the longest", f"{self.pages}; {self.page_chars:,}", "bounded"
            yield "lines of pages with an old value", f"{len(self.outdated)}", "0"
        yield "search p50, ms", f"{median(self.search_ms):.1f}", "≤ 10"
        yield "with the sources of its hits, p50, ms", f"{median(self.sourced_ms):.1f}", ""
        if not self.background:  # the life was lived before
            return
        first, last = self.background[:tenth], self.background[-tenth:]
        yield "background tokens a day, first / last tenth", f"{fmean(first):.0f} / {fmean(last):.0f}", "flat"
        first, last = self.prompt[:prompts], self.prompt[-prompts:]
        yield "prompt tokens, first / last tenth", f"{fmean(first):.0f} / {fmean(last):.0f}", "flat"
        yield "background tokens on idle days", f"{self.idle_tokens}", "0"
        yield "CPU seconds; chunks", f"{self.cpu_seconds:.0f}; {self.chunks:,}", ""


def _share(wrong: Sequence[str], count: int) -> str:
    return f"{len(wrong) / max(1, count):.2%}"


class Place:
    """Which of the hits say the truth about a thing, and which another value without a mark."""

    def __init__(self, folder: Path, hits: Sequence[SearchHit], labeled: Collection[tuple[str, int]]) -> None:
        self.hits = hits
        self.labeled = labeled
        self.lines = [list(self._lines(folder, hit)) for hit in hits]

    def has_marked(self, matter: Matter, value: str | None) -> bool:
        """Whether a line that has only the current value is marked as superseded."""
        return any(
            is_marked and matter.person in text and value is not None and value in text
            for lines in self.lines
            for _, text, is_marked in lines
            if not any(old in text for old in matter.old)
        )

    def first(
        self, matter: Matter, value: str | None, wrong: Sequence[str], *, is_labeled: bool | None = None
    ) -> tuple[int, int]:
        """The ranks of the first hit with the `value` (`None`: that it has none), and with a `wrong` one.

        With `is_labeled`, only wrong ones count whose source says that they are the owner's word, or not.
        """
        rights, wrongs = [99], [99]
        for rank, lines in enumerate(self.lines):
            for number, text, is_marked in lines:
                is_wrong = any(each in text for each in wrong) and not is_marked
                is_others = (self.hits[rank].path, number) in self.labeled
                about = matter.person in text
                is_right = about and (value in text if value else _NEGATION.search(text) is not None)
                if is_right:
                    rights.append(rank)
                elif about and is_wrong and is_labeled in (None, is_others):
                    wrongs.append(rank)
        return min(rights), min(wrongs)

    @staticmethod
    def _lines(folder: Path, hit: SearchHit) -> Iterator[tuple[int, str, bool]]:
        marked = {old.line for old in hit.superseded}
        texts = (folder / hit.path).read_text(encoding="utf-8").split("\n")
        for number in range(hit.start_line, hit.end_line + 1):
            if texts[number - 1] in hit.snippet:
                yield number, texts[number - 1], number in marked


class Decade:
    """One life, lived in a folder."""

    def __init__(
        self, folder: Path, life: Life, *, is_extracting: bool, has_pages: bool, embedder: str, show: bool
    ) -> None:
        self.folder = folder
        self.life = life
        self.show = show
        self.was_lived = (folder / "workspace").exists()
        self.figures = Figures()
        self.clock = Clock(datetime(FIRST.year, FIRST.month, FIRST.day, 8, tzinfo=UTC))
        self.model = (
            Extracting(life, self.clock) if is_extracting else Watched(life, self.clock, has_pages=has_pages)
        )
        self.is_extracting = is_extracting
        self._pages: dict[str, str] = {}
        search = {"provider": embedder, "sync": {"watch": False}}
        write_settings(
            folder,
            {"memory": {"consolidate": "apply"}, "agents": {"defaults": {"memorySearch": search}}},
        )
        self.environment = {"HOME": str(folder / "home")}
        self.workspace = folder / "workspace"

    async def run(self) -> Figures:
        """Lives all days and asks."""

        @tool(chats=("private",))
        def read_page(address: str) -> str:
            """Reads a web page."""
            return self._pages[address]

        opened = await Agent.open(
            state_dir=self.folder,
            model=self.model,
            environment=self.environment,
            clock=self.clock,
            new_id=CountingIds(),
            watch=False,
            tools=(read_page,),
        )
        begun = time.process_time()
        async with opened as agent:
            self._agent, self._engine = agent, engine_of(agent._parts)
            self._sources = agent._parts.turn.memory.plugin.sources
            named = load_config(self.environment, state_dir=self.folder, model_name="openai/recorded")
            self._consolidation = Consolidation(named, self.clock, open_model=lambda *_: self.model)
            day = self._passed() if self.was_lived else await self._live_all()
            await self._examine(day)
            self.figures.chunks = (await self._engine.status()).chunks
        self.figures.cpu_seconds = time.process_time() - begun
        self.figures.poisoned = set(self.model.poisoned)
        self._look_at_notes()
        return self.figures

    async def _live_all(self) -> date:
        was_silent, exam = False, self.life.chance(1)
        for day, messages in self.life:
            await self._live(day, messages, was_silent=was_silent)
            was_silent = not messages
            if messages and exam.random() < 0.3:
                await self._ask_now(exam.choice(self.life.matters), before=day)
        for number in (0, 1):  # what was said last is noted and consolidated, too
            day = FIRST + timedelta(days=self.life.days + number)
            await self._live(day, [Said(kind="chatter", text="Good morning.")], was_silent=False)
        return day

    def _passed(self) -> date:
        """Lets the days of a life that was lived before pass."""
        for _ in self.life:
            pass
        day = FIRST + timedelta(days=self.life.days + 1)
        self.clock.advance(seconds=timedelta(days=self.life.days + 2).total_seconds())
        return day

    async def _live(self, day: date, messages: Sequence[Said], *, was_silent: bool) -> None:
        figures, before = self.figures, self.model.background_tokens
        morning = datetime(day.year, day.month, day.day, 8, tzinfo=UTC)
        self.clock.advance(seconds=(morning - self.clock()).total_seconds())
        if not self.is_extracting:
            await self._consolidation.run_due()
        prompts = len(self.model.prompt_tokens)
        for said in messages:
            self.clock.advance(minutes=20)
            await self._say(said)
        await self._consolidation.seen(None)
        await self._agent._parts.lifecycle.close()  # what ends a session goes on behind the reply
        figures.background.append(self.model.background_tokens - before)
        figures.prompt += self.model.prompt_tokens[prompts:][:1]
        if was_silent and not messages:
            figures.idle_tokens += figures.background[-1]
        self.clock.advance(hours=4)

    async def _say(self, said: Said) -> None:
        text, quoted = said.text, ()
        if said.by == "page":
            text = f"Read this for me: https://example.com/{len(self._pages)}"
            if self.is_extracting:  # the offline responder reads no pages, but strangers are forwarded
                text, quoted = "Look at this.", (Quoted(text=said.text, kind="forward", said_by="Mallory"),)
            self._pages[text.split()[-1]] = said.text
        self.model.known[text] = said
        if said.by == "group":
            inbound = Inbound(
                text=text,
                chat_kind="group",
                channel="telegram",
                chat_id="7",
                sender_id="mallory",
                is_mentioned=True,
            )
        else:
            inbound = Inbound(text=text, chat_kind="direct", is_owner=True, quoted=quoted)
        await self._agent.respond(inbound)

    async def _hits(self, text: str, **limits: Any) -> Place:
        await self._engine.sync(reason="benchmark")
        begun = time.perf_counter()
        report = await self._engine.search(text, max_results=6, **limits)
        self.figures.search_ms.append((time.perf_counter() - begun) * 1000)
        report, sources = await attributed(self._engine, self._sources, report, **limits)
        self.figures.sourced_ms.append((time.perf_counter() - begun) * 1000)
        labeled = {
            (hit.path, number)
            for hit in report.hits
            for each in sources.get(hit.citation, ())
            if not each.source.is_owners_word
            for number in range(each.start_line, each.end_line + 1)
        }
        return Place(self.workspace, report.hits, labeled)

    async def _ask_now(self, matter: Matter, *, before: date) -> None:
        if matter.values[-1][0] >= before:
            return  # said today: it is in the conversation
        figures, question = self.figures, self.life.question(matter)
        place = await self._hits(question)
        right, stale = place.first(matter, matter.now, matter.old)
        lies = [each for each in matter.lies if each not in matter.old]
        _, lie = place.first(matter, matter.now, lies, is_labeled=False)
        _, labeled = place.first(matter, matter.now, lies, is_labeled=True)
        figures.asked += 1
        for is_so, wrong in (
            (right == 99, figures.lost),
            (stale < right, figures.stale),
            (lie < min(right, stale), figures.lies_first),
            (labeled < min(right, stale), figures.labeled),
            (place.has_marked(matter, matter.now), figures.marked),
        ):
            if is_so:
                wrong.append(f"{self.clock():%Y-%m-%d} {question} {matter.values} lies {matter.lies}")
                kind = next(name for name, each in vars(figures).items() if each is wrong)
                self._print(kind, wrong[-1], place)

    async def _ask_then(self, matter: Matter) -> None:
        periods = list(zip(matter.values, matter.values[1:], strict=False))
        periods = [each for each in periods if each[0][1] is not None]
        if not periods:
            return
        (_, value), (until, _) = self.life.chance(len(matter.values)).choice(periods)
        day, figures = until - timedelta(days=1), self.figures
        place = await self._hits(question := self.life.question(matter), as_of=day)
        others = [each for _, each in matter.values if each not in (None, value)]
        right, wrong = place.first(matter, value, [str(each) for each in others])
        figures.then_asked += 1
        if right > wrong or right == 99:
            figures.then_wrong.append(f"{question} as of {day}: {matter.values}")
            self._print("then", figures.then_wrong[-1], place)

    async def _examine(self, day: date) -> None:
        self.figures.search_ms.clear()
        self.figures.sourced_ms.clear()
        chance = self.life.chance(2)
        for matter in chance.sample(self.life.matters, min(EXAM, len(self.life.matters))):
            await self._ask_now(matter, before=day)
            await self._ask_then(matter)

    def _look_at_notes(self) -> None:
        text = (self.workspace / "MEMORY.md").read_text(encoding="utf-8")
        figures = self.figures
        figures.poisoned |= {each.must_not_rule for each in self.life.lies if each.must_not_rule in text}
        figures.curated_chars = len(text)
        figures.most_chars = load_config(
            self.environment, state_dir=self.folder
        ).settings.agent.bootstrap_max_chars
        notes = sorted((self.workspace / "memory").glob("*.md"))
        pages = [path for path in notes if day_in_path(path.name) is None]
        figures.pages = len(pages)
        for path in (self.workspace / "MEMORY.md", *sorted((self.workspace / "bank").rglob("*.md")), *pages):
            lines = [each for each in path.read_text(encoding="utf-8").split("\n") if each.startswith("- ")]
            words = [Counter(_WORD.findall(without_citation(each).casefold())) for each in lines]
            figures.lines += len(lines)
            if path in pages:
                figures.page_chars = max(figures.page_chars, len(path.read_text(encoding="utf-8")))
                figures.outdated += [line for line in lines if self._is_outdated(line)]
            figures.alike += [
                line for at, line in enumerate(lines) if any(_are_alike(words[at], one) for one in words[:at])
            ]

    def _is_outdated(self, line: str) -> bool:
        begun = (each for each in self.life.matters if line.startswith(f"- {each.note('')}"))
        return any(without_citation(line).find(str(each.now)) < 0 for each in begun if each.now is not None)

    def _print(self, kind: str, about: str, place: Place) -> None:
        if not self.show:
            return
        print(f"{kind}: {about}")
        for hit, lines in zip(place.hits, place.lines, strict=True):
            shown = [f"{'OLD ' if is_marked else ''}{text}" for _, text, is_marked in lines]
            told = " | ".join(each for each in shown if "- **" not in each and each[:1] in ("-", ">", "O"))
            print(f"    {hit.score:.2f} {hit.citation} {told}"[:500])


def _are_alike(one: Counter[str], other: Counter[str]) -> bool:
    return (one & other).total() >= ALIKE * max(1, (one | other).total())


async def lived(
    folder: Path,
    *,
    days: int,
    is_extracting: bool = False,
    has_pages: bool = False,
    embedder: str = "local",
    show: bool = False,
    seed: int = 7,
    in_key_words: bool = False,
) -> Figures:
    """The figures of a life of so many days, lived in a new folder."""
    life = Life(days, seed, in_key_words=in_key_words)
    decade = Decade(
        folder, life, is_extracting=is_extracting, has_pages=has_pages, embedder=embedder, show=show
    )
    return await decade.run()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--extract", action="store_true", help="ask the offline responder")
    parser.add_argument("--words", action="store_true", help="search by words alone")
    parser.add_argument("--key-words", action="store_true", help="ask for `Ada's boat`, in no sentence")
    parser.add_argument("--pages", action="store_true", help="put what friends are told of on pages")
    parser.add_argument(
        "--keep", type=Path, help="a folder for what the agent writes; if it is full, ask only"
    )
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = asyncio.run(
            lived(
                given.keep or Path(name),
                days=given.days,
                is_extracting=given.extract,
                has_pages=given.pages,
                embedder="none" if given.words else "local",
                show=given.show,
                seed=given.seed,
                in_key_words=given.key_words,
            )
        )
    print("| What | Figure | Wanted |\n| --- | --- | --- |")
    for row in figures.rows():
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
