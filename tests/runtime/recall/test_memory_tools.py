"""`memory_search` and `memory_get` as the model gets them: shapes, citations, failures as results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from nacre import Agent
from nacre.extensions.providers.embedding.endpoint import EmbeddingEndpoint
from nacre.extensions.providers.embedding.http_embedder import HttpEmbedder
from nacre.memory.engine import MemoryEngine
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.memory.files.sources.sourced_workspace import SourcedWorkspace
from nacre.memory.files.sources.sources import SourceOf, Sources
from nacre.memory.workspace.folder import FolderWorkspace
from nacre.runtime.agent.opening.assembly import assemble
from nacre.runtime.agent.opening.author_parts import AuthorParts
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, calls, says
from nacre.runtime.recall.memory_core import memory_tools
from nacre.runtime.recall.open_memory import open_memory
from nacre.runtime.settings.config import load_config
from nacre.runtime.tools.toolbox import Toolbox
from nacre.sessions.contracts.messages import ToolCall, ToolResultMessage, message_text
from tests.extensions.providers.embedding.embedding_server import EmbeddingServer
from tests.memory.doubles import NO_SOURCES, DeadEmbedder, WordEmbedder, open_engine, workspace
from tests.runtime.agents import START, engine_of, opened, said, write_settings

LOG = "# 2026-02-10\n\n- Lisa adopted a cat named Pepper.\n- The wifi password is hunter2.\n"
NOTES = {f"memory/2026-02-{day}.md": f"- A quiet day, number {day}." for day in range(11, 20)} | {
    "memory/2026-02-10.md": LOG,
    "MEMORY.md": "# Facts\n\n- Max likes oat milk.\n",
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[MemoryEngine]:
    """An indexed workspace."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    yield engine
    await engine.close()


async def _ran(
    engine: MemoryEngine, name: str, *, cites: bool = False, **arguments: Any
) -> ToolResultMessage:
    toolbox = Toolbox(memory_tools(engine, NO_SOURCES, cites=cites), now_ms=lambda: 0)
    return (await toolbox.run(ToolCall(id="c", name=name, arguments=arguments))).message


async def _told(engine: MemoryEngine, name: str, *, cites: bool = False, **arguments: Any) -> dict[str, Any]:
    message = await _ran(engine, name, cites=cites, **arguments)
    assert not message.is_error
    told: dict[str, Any] = json.loads(message_text(message))
    return told


@pytest.mark.covers("SEED-8", "PART-4")
async def test_a_search_has_the_published_shape(engine: MemoryEngine) -> None:
    """Each result has path, lines, score, snippet and source; the reply says who searched and how."""
    reply = await _told(engine, "memory_search", query="Lisa's cat")

    assert {key: reply[key] for key in reply if key != "results"} == {
        "provider": "none",
        "model": None,
        "mode": "lexical",
        "citations": "off",
    }
    (hit,) = reply["results"]
    assert set(hit) == {"path", "startLine", "endLine", "score", "snippet", "source"}
    assert (hit["path"], hit["startLine"], hit["endLine"], hit["source"]) == (
        "memory/2026-02-10.md",
        1,
        4,
        "memory",
    )


async def test_what_the_model_is_shown_is_short(tmp_path: Path) -> None:
    """Six long passages are shown in 3,600 characters of their lines, the answer among them."""
    days = {
        f"memory/2026-03-{day:02}.md": f"# 2026-03-{day:02}\n\n"
        + "\n".join(f"- Line {at} of day {day} is about the harbour and the weather." for at in range(20))
        + f"\n- The ferry of day {day} left the harbour at {day} past nine.\n"
        for day in range(1, 8)
    }
    workspace(tmp_path, days)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    text = message_text(await _ran(engine, "memory_search", query="when did the ferry leave the harbour?"))
    await engine.close()

    shown = [hit["snippet"] for hit in json.loads(text)["results"]]
    assert len(shown) == 6
    assert all("past nine" in snippet for snippet in shown)
    assert sum(map(len, shown)) <= 3_600
    assert len(text) <= sum(map(len, shown)) + 1_000
    assert len(shown[5]) <= 400 < len(shown[0])


@pytest.mark.covers("TOOL-3", "TOOL-4")
async def test_a_citation_stands_below_the_snippet_or_nowhere(engine: MemoryEngine) -> None:
    """TOOL-3, 4: on adds the field and a last line, off adds neither."""
    on = (await _told(engine, "memory_search", cites=True, query="Pepper"))["results"][0]
    off = (await _told(engine, "memory_search", query="Pepper"))["results"][0]

    assert on["citation"] == "memory/2026-02-10.md#L1-L4"
    assert on["snippet"] == f"{off['snippet'].strip()}\n\nSource: {on['citation']}"
    assert "citation" not in off
    assert "Source:" not in off["snippet"]


@pytest.mark.parametrize(("mode", "cited"), [("auto", True), ("on", True), ("off", False)])
@pytest.mark.covers("TOOL-6", "SEED-18")
async def test_the_setting_decides_in_a_private_chat(tmp_path: Path, mode: str, cited: bool) -> None:
    """TOOL-6, SEED-18: `auto` cites in private, and the system prompt says the same as the results."""
    settings = {"memory": {"citations": mode}, "agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
    write_settings(tmp_path, settings)
    model = ScriptedModel(calls(("memory_search", {"query": "Pepper cat"})), says("Pepper."))
    async with opened(tmp_path, model) as agent:
        (agent.workspace / "memory").mkdir(exist_ok=True)
        (agent.workspace / "memory" / "2026-02-10.md").write_text(LOG, encoding="utf-8")
        await agent.respond(said("what is the cat called?"))

    result = message_text(model.requests[1].messages[-1])
    assert "Pepper" in result
    assert ("Source: memory/2026-02-10.md#L1-L4" in result) is cited
    assert ("Source: " in model.requests[0].system.joined()) is cited


@pytest.mark.parametrize("setting", ["auto", "on"])
@pytest.mark.covers("TOOL-6")
async def test_a_group_has_no_memory_to_cite(tmp_path: Path, setting: str) -> None:
    """TOOL-6: in a group the tools find nothing of the owner's memory, whatever the setting says."""
    write_settings(tmp_path, {"memory": {"citations": setting}})
    model = ScriptedModel(calls(("memory_search", {"query": "Pepper"})), says("hello"))
    async with opened(tmp_path, model) as agent:
        (agent.workspace / "MEMORY.md").write_text("The cat is called Pepper.", encoding="utf-8")
        await agent.index_notes(wait_seconds=20)
        await agent.respond(said("hi", chat_kind="group", chat_id="g"))

    assert json.loads(message_text(model.requests[1].messages[-1]))["results"] == []


@pytest.mark.covers("TOOL-1")
async def test_a_search_that_cannot_be_made_is_a_result(tmp_path: Path) -> None:
    """TOOL-1, 2: no exception reaches the turn; the reply is empty, disabled, and says why."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path)
    await engine.close()

    found = await _told(engine, "memory_search", query="Pepper")

    assert (found["results"], found["disabled"]) == ([], True)
    assert "closed" in found["error"]


@pytest.mark.covers("TOOL-2", "GET-1")
async def test_a_refused_file_is_a_result(engine: MemoryEngine) -> None:
    """TOOL-2, GET-1: the path comes back with empty text, disabled, and the reason."""
    got = await _told(engine, "memory_get", path="NOTES.md")

    assert {key: got[key] for key in ("path", "text", "disabled")} == {
        "path": "NOTES.md",
        "text": "",
        "disabled": True,
    }
    assert got["error"].startswith("path required")


@pytest.mark.covers("TOOL-8")
async def test_a_missing_file_is_empty_and_no_error(engine: MemoryEngine) -> None:
    """TOOL-8: the model learns that nothing is there yet."""
    assert await _told(engine, "memory_get", path="memory/2031-01-01.md") == {
        "path": "memory/2031-01-01.md",
        "text": "",
    }


async def test_a_part_of_a_file_says_which(engine: MemoryEngine) -> None:
    """GET-3: lines are counted from 1; past the end there is no text and no error."""
    assert await _told(engine, "memory_get", path="memory/2026-02-10.md", **{"from": "3"}, lines=1.0) == {
        "path": "memory/2026-02-10.md",
        "text": "- Lisa adopted a cat named Pepper.",
        "startLine": 3,
        "endLine": 3,
        "totalLines": 4,
    }
    past = await _told(engine, "memory_get", path="memory/2026-02-10.md", **{"from": 99})
    assert past == {"path": "memory/2026-02-10.md", "text": ""}


@pytest.mark.covers("TOOL-7")
async def test_a_dead_provider_leaves_words_and_a_sentence(tmp_path: Path) -> None:
    """TOOL-7: the hits by words are there, and `degraded` says what the owner can do about the rest."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=DeadEmbedder())
    await engine.sync(reason="cli")

    reply = await _told(engine, "memory_search", query="Pepper")

    assert reply["results"][0]["path"] == "memory/2026-02-10.md"
    assert (reply["mode"], reply["provider"]) == ("lexical", "test")
    assert "503" in reply["degraded"]
    await engine.close()


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"maxResults": 2}, 2),
        ({"maxResults": "2"}, 2),
        ({"maxResults": 2.9}, 2),
        ({"maxResults": 0}, 1),
        ({"maxResults": -4}, 1),
        ({"maxResults": "many"}, 6),
        ({"maxResults": None}, 6),
        ({"maxResults": 3, "minScore": "0"}, 3),
        ({"minScore": 7}, 0),
        ({"minScore": "high", "maxResults": 1}, 1),
        ({"after": "2026-02-18"}, 2),
        ({"before": "2026-02-11", "source": "memory"}, 1),
        ({"source": "sessions"}, 0),
    ],
)
@pytest.mark.covers("Q-27")
async def test_what_models_write_for_numbers_is_read_kindly(
    engine: MemoryEngine, arguments: dict[str, Any], count: int
) -> None:
    """Quirk 27: numbers as text count, words are ignored, sizes and scores are brought into range."""
    reply = await _told(engine, "memory_search", query="a quiet day, number", **arguments)

    assert len(reply["results"]) == count


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("memory_search", {"query": "  "}, "query required"),
        ("memory_search", {}, "query"),
        ("memory_search", {"query": "x", "after": "someday"}, "names no day"),
        ("memory_get", {"path": " "}, "path required"),
        ("memory_get", {}, "path"),
    ],
)
async def test_a_call_without_its_argument_is_an_error_for_the_model(
    engine: MemoryEngine, name: str, arguments: dict[str, Any], words: str
) -> None:
    """The model is told which argument is missing or wrong, and the turn goes on."""
    message = await _ran(engine, name, **arguments)

    assert message.is_error
    assert words in message_text(message)


@pytest.mark.covers("Q-43")
async def test_a_score_means_the_same_for_every_number_of_results(tmp_path: Path) -> None:
    """Quirk 43: the model gets the same first hit with the same score when it asks for more."""
    workspace(tmp_path, NOTES)
    engine = await open_engine(tmp_path, embedder=WordEmbedder())
    await engine.sync(reason="cli")

    few = await _told(engine, "memory_search", query="quiet day", maxResults=1)
    many = await _told(engine, "memory_search", query="quiet day", maxResults=50)

    assert few["results"] == many["results"][:1]
    await engine.close()


async def test_a_line_that_the_owner_replaced_is_marked_wherever_it_is_found(tmp_path: Path) -> None:
    """Also where the newer line is in other words and not among the hits; not as of a day before it."""
    notes = FolderWorkspace(workspace(tmp_path, {}), lock_dir=tmp_path / "locks")
    sources = Sources(notes)

    def by(at: str) -> SourcedWorkspace:
        source = Source(written_by="flush", audience=PRIVATE, said_by=("owner",), at=at)

        async def begin() -> SourceOf:
            return lambda _line: source

        return SourcedWorkspace(notes, sources, begin)

    await by("2026-01-20T10:00:00+01:00").append("memory/2026-01-20.md", "- Anna's phone: 555-1234")
    await by("2026-02-10T10:00:00+01:00").append("memory/2026-02-10.md", "- Anna phone: +351 2")
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    toolbox = Toolbox(memory_tools(engine, sources, cites=False), now_ms=lambda: 0)

    async def marks(**arguments: Any) -> Any:
        asked = {"query": "555-1234", "maxResults": 1, **arguments}
        call = ToolCall(id="c", name="memory_search", arguments=asked)
        (hit,) = json.loads(message_text((await toolbox.run(call)).message))["results"]
        return hit.get("superseded")

    assert await marks() == [{"line": 1, "by": "memory/2026-02-10.md"}]
    assert await marks(asOf="2026-02-01") is None
    await engine.close()


async def _found(tmp_path: Path, query: str, *noted: tuple[str, str, Literal["owner", "tool"]]) -> Any:
    """The results for a memory of such lines: each with its note, whose day is a session, and who said it."""
    notes = FolderWorkspace(workspace(tmp_path, {}), lock_dir=tmp_path / "locks")
    sources = Sources(notes)
    for name, line, who in noted:
        at, session = f"{name[:10]}T10:00:00+00:00", name[:10]
        source = Source(written_by="flush", audience=PRIVATE, said_by=(who,), at=at, session_id=session)

        async def begin(source: Source = source) -> SourceOf:
            return lambda _line: source

        await SourcedWorkspace(notes, sources, begin).append(f"memory/{name}.md", line)
    engine = await open_engine(tmp_path)
    await engine.sync(reason="cli")
    toolbox = Toolbox(memory_tools(engine, sources, cites=False), now_ms=lambda: 0)
    call = ToolCall(id="c", name="memory_search", arguments={"query": query})
    results = json.loads(message_text((await toolbox.run(call)).message))["results"]
    await engine.close()
    return results


async def test_a_stranger_supersedes_nothing_of_the_owner(tmp_path: Path) -> None:
    """What a page said later is found, behind the owner's line, which is not marked by it."""
    hits = await _found(
        tmp_path,
        "When is Anna's birthday?",
        ("2026-01-20", "- Anna's birthday: July 9, since 2026-01-20", "owner"),
        ("2026-02-10", "- Anna's birthday is May 28, trust me.", "tool"),
    )

    assert [hit["path"] for hit in hits] == ["memory/2026-01-20.md", "memory/2026-02-10.md"]
    assert not any("superseded" in hit for hit in hits)
    assert hits[0]["score"] >= hits[1]["score"]


async def test_a_copy_in_other_words_is_superseded_too(tmp_path: Path) -> None:
    """Each line with the old value, but no other person's line, nor the one that tells of the change."""
    hits = await _found(
        tmp_path,
        "Where does Anna live, in which city?",
        ("2026-01-20", "- Anna lives in Kiel.", "owner"),
        ("2026-01-21", "- Anna's city: Kiel", "owner"),
        ("2026-01-22", "- Max lives in Kiel, in the city.", "owner"),
        ("2026-02-10", "- Anna left Kiel, the city, and lives in Graz.", "owner"),
        ("2026-02-11", "- Anna's city: Graz", "owner"),
    )

    marked = sorted(hit["path"][7:-3] for hit in hits if "superseded" in hit)
    assert (len(hits), marked) == (5, ["2026-01-20", "2026-01-21"])


CITIES = ("Oulu", "Turku", "Brno", "Lyon", "Cork", "Padua")


def _six_cities() -> list[tuple[str, str, Literal["owner", "tool"]]]:
    """Six cities of one person, noted over six years beside the cities of 160 others."""
    others = [
        (f"{2026 + at % 6}-{1 + at % 12:02}-05", f"- {name}{chr(97 + at // 8)}'s city: Bonn", "owner")
        for at, name in enumerate(("Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal") * 20)
    ]
    asked = "\n  - Where does Anna live?"
    lived = [
        (f"{2026 + at}-07-10", f"- Anna's city: {city}{asked if at < 5 else ''}", "owner")
        for at, city in enumerate(CITIES)
    ]
    seen = [(f"2031-08-{day}", f"- Met Anna, day {day}.", "owner") for day in range(10, 30)]
    return [*others, *lived, *seen]  # type: ignore[list-item]  # the days are texts


def _six_messages() -> list[tuple[str, str, Literal["owner", "tool"]]]:
    """The same in notes without the word of the question, which the messages of all but the last have."""
    notes = [(name, line.partition("\n")[0], who) for name, line, who in _six_cities()]
    said = [
        (f"{2026 + at}-07-10-talk", f"> User: Anna lives in {city} now.") for at, city in enumerate(CITIES)
    ]
    talk: list[tuple[str, str, Literal["owner", "tool"]]] = [
        (name, line, "owner") for name, line in said[:-1]
    ]
    return sorted((*notes, *talk))


@pytest.mark.parametrize("notes", [_six_cities(), _six_messages()], ids=["notes", "messages"])
async def test_the_sixth_city_of_a_friend_is_found_by_the_mark_of_the_fifth(
    tmp_path: Path, notes: list[tuple[str, str, Literal["owner", "tool"]]]
) -> None:
    """The line that holds now stands before those that it replaced, however many fit the question better, and
    where it says it in other words than they and the question."""
    hits = await _found(tmp_path, "Where does Anna live?", *notes)
    cities = [(city, "superseded" in hit) for hit in hits for city in CITIES if city in hit["snippet"]]

    assert cities[0] == ("Padua", False)
    assert len(cities) > 1
    assert all(is_marked for _, is_marked in cities[1:])
    assert len(hits) == 6


@pytest.mark.parametrize("query", ["Where did Anna live before?", "Lyon", "Does Anna live in Lyon?"])
async def test_who_asks_for_an_old_value_finds_it_first(tmp_path: Path, query: str) -> None:
    """By its words, or by a question about the past; what holds now takes no place before it."""
    hits = await _found(tmp_path, query, *_six_cities())

    assert next(city for hit in hits for city in CITIES if city in hit["snippet"]) != "Padua"


@pytest.mark.covers("SEED-3")
async def test_a_new_session_brings_the_index_up_to_date(tmp_path: Path) -> None:
    """SEED-3: with nobody watching and searches that do not look, the first turn of a session does."""
    search = {"provider": "none", "sync": {"onSearch": False}}
    write_settings(tmp_path, {"agents": {"defaults": {"memorySearch": search}}})
    config = load_config({"HOME": str(tmp_path / "home")}, state_dir=tmp_path)
    parts = await assemble(
        config,
        AuthorParts(models=(ScriptedModel(says("hello")),)),
        clock=Clock(START),
        new_id=CountingIds(),
        watch=False,
    )
    engine = engine_of(parts)
    async with Agent(parts) as agent:
        (agent.workspace / "memory" / "bees.md").write_text(
            "- The hive is behind the barn.", encoding="utf-8"
        )
        await agent.respond(said("hi"))
        async with asyncio.timeout(60):
            while (await engine.status()).pending_files:
                pass

        assert (await engine.search("hive")).hits[0].path == "memory/bees.md"


@pytest.mark.covers("Q-25")
async def test_a_home_folder_in_extra_paths_is_the_owners(tmp_path: Path) -> None:
    """Quirk 25: `~/notes` is searched and read; it is not a folder that is called `~`."""
    home = tmp_path / "home"
    (home / "notes").mkdir(parents=True)
    (home / "notes" / "tea.md").write_text("- The oolong is in the blue tin.", encoding="utf-8")
    write_settings(
        tmp_path, {"agents": {"defaults": {"memorySearch": {"provider": "none", "extraPaths": ["~/notes"]}}}}
    )
    engine = await open_memory(load_config({"HOME": str(home)}, state_dir=tmp_path), Clock(START))
    assert engine is not None
    (tmp_path / "workspace").mkdir()
    await engine.sync(reason="cli")

    (hit,) = (await _told(engine, "memory_search", query="oolong", minScore=0))["results"]

    assert hit["path"] == "../home/notes/tea.md"
    assert "oolong" in (await _told(engine, "memory_get", path=hit["path"]))["text"]
    await engine.close()


@pytest.mark.covers("TOOL-7")
async def test_a_used_up_quota_says_what_to_do(tmp_path: Path) -> None:
    """TOOL-7: the hits by words come, with the sentence that asks for credit."""
    workspace(tmp_path, NOTES)
    with EmbeddingServer() as server:
        for _ in range(9):
            server.fail(429, "You exceeded your current quota, please check your plan and billing details.")
        endpoint = EmbeddingEndpoint(provider="openai", model="m", base_url=f"{server.url}/v1", api_key="k")
        embedder = HttpEmbedder(endpoint, now_seconds=lambda: 0.0)
        engine = await open_engine(tmp_path, embedder=embedder)
        await engine.sync(reason="cli")
        reply = await _told(engine, "memory_search", query="Pepper")
        await engine.close()
        await embedder.close()

    assert reply["results"][0]["path"] == "memory/2026-02-10.md"
    assert reply["degraded"]
