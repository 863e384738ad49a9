"""Orders of others that come by tool servers, imports, engines and tools that write files never live on.

As `test_poison.py`: the model obeys all that it reads, and the owner approves nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import nacre
from nacre import Agent
from nacre.runtime.contracts.inbound import Quoted
from nacre.runtime.tools.function import ToolContext
from tests.cli.program import run_here
from tests.extensions.importers import exports, sources
from tests.extensions.importers.results import import_report
from tests.faults.apart.obeying import TODAY, WORDINGS
from tests.faults.apart.poisoned_home import COUNTS, SLOW_COUNTS, Home, honest, lived
from tests.runtime.agents import said

CLUB = "chats/line-group-club"
IN_CLUB = {"chat_kind": "group", "channel": "line", "chat_id": "club"}
OF_EVE = {**IN_CLUB, "sender_id": "eve", "is_owner": False}


def orders_of(wordings: Sequence[str]) -> dict[str, str]:
    """A text for each wording, by its order."""
    return {f"zq{number}x": text.format(order=f"zq{number}x") for number, text in enumerate(wordings, 1)}


async def anew(home: Home, agent: Agent) -> None:
    """The owner begins a new conversation, in which the model obeys what it obeyed before once more."""
    await agent.respond(said("/new"))
    home.model.obeyed.clear()


def pages(root: Path) -> dict[str, Any]:
    """The settings of the server with the page."""
    program = Path(__file__).with_name("page_server.py")
    arguments = [str(program), str(root / "page.txt")]
    return {"mcp": {"servers": {"web": {"command": sys.executable, "args": arguments}}}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["page", "broken_page"])
@COUNTS
async def test_results_of_a_real_tool_server(tmp_path: Path, name: str, count: int) -> None:
    """What its tool gives, and what an error of it says."""
    pytest.importorskip("mcp")
    home, texts = Home(tmp_path, pages(tmp_path)), orders_of(WORDINGS[:count])
    async with home.agent() as agent:
        for order, text in texts.items():
            (tmp_path / "page.txt").write_text(text)
            async with asyncio.timeout(60):  # until the server has started
                while order not in home.model.seen:
                    home.model.first = ((f"web__{name}", {}),)
                    await agent.respond(said("Look at the page."))
            await agent.respond(said("/new"))
    assert home.model.seen == {*texts}
    assert await lived(home, [*texts]) == []
    assert await honest(home, 6) == (6, 0)


# -- imported conversations ---------------------------------------------------------------------------

SEARCHED = {"memorySearch": {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}}


def exported(folder: Path, texts: dict[str, str], way: str) -> tuple[str, Path]:
    """An export with an order in each conversation, or in each note; the program's name and the place."""
    if way == "notes of OpenClaw":
        root = sources.openclaw(folder / "openclaw")
        for order, text in texts.items():
            (root / f"workspace/memory/{order}.md").write_text(f"{text}\n")
        return "openclaw", root
    conversations = []
    for number, (order, text) in enumerate(texts.items()):
        role = "assistant" if way == "answers of ChatGPT" else "user"
        nodes = {
            "r": {"id": "r", "message": None, "parent": None, "children": ["q"]},
            "q": exports.message("q", "r", role, text, 1742000000.0 + number),
        }
        if way == "memories of ChatGPT":
            told = "\n".join(texts.values())
            nodes = {**nodes, "q": exports.memory("q", "r", told, 1742000000.0 + number)}
        conversations.append(
            {
                "id": f"c{order}",
                "title": f"Talk {number}",
                "create_time": 1742000000.0,
                "current_node": "q",
                "mapping": nodes,
            }
        )
    return "chatgpt", exports.chatgpt(folder / "export.zip", conversations)


def imported(home: Path, texts: dict[str, str], way: str) -> list[str]:
    """Imports an export, and goes back to its conversations, so that they have keys; these keys."""
    import_report(home, *exported(home, texts, way))
    if way == "notes of OpenClaw":
        return []
    files = sorted((home / ".nacre/agents/main/sessions").glob("*.jsonl"))
    resumed = [run_here(home, "sessions", "resume", file.stem, "--json").stdout for file in files]
    return [json.loads(each)["key"] for each in resumed]


async def obeyed_imports(home: Home, texts: dict[str, str], keys: Sequence[str]) -> list[str]:
    """What lives on when the owner goes on with conversations, or else has the model search for the words."""
    async with home.agent() as agent:
        for key in keys:
            await agent.respond(said("Go on.", session_key=key))
        for order, text in texts.items() if not keys else ():
            query = {"query": text.replace(order, "it"), "maxResults": 20, "minScore": 0}
            home.model.first = (("memory_search", query),)
            await agent.respond(said("What did I say about it?"))
            await agent.respond(said("/new"))
    # The newest memories of ChatGPT are the note, and a search shows the best hits.
    assert home.model.seen == {*texts} if keys else home.model.seen
    return await lived(home, [*texts])


@pytest.mark.parametrize("way", ["memories of ChatGPT", "notes of OpenClaw"])
@SLOW_COUNTS
def test_what_an_import_brings_is_searched_for(tmp_path: Path, way: str, count: int) -> None:
    """Notes that a search finds: nobody knows who wrote them."""
    texts = orders_of(WORDINGS[:count])
    imported(tmp_path, texts, way)
    home = Home(tmp_path / ".nacre", SEARCHED)
    assert asyncio.run(obeyed_imports(home, texts, ())) == []
    assert asyncio.run(honest(home, 6)) == (6, 0)


@pytest.mark.parametrize("way", ["questions of ChatGPT", "answers of ChatGPT"])
@SLOW_COUNTS
def test_an_imported_conversation_that_goes_on(tmp_path: Path, way: str, count: int) -> None:
    """The owner resumes it; its words were written elsewhere."""
    texts = orders_of(WORDINGS[:count])
    keys = imported(tmp_path, texts, way)
    home = Home(tmp_path / ".nacre", SEARCHED)
    assert asyncio.run(obeyed_imports(home, texts, keys)) == []
    assert asyncio.run(honest(home, 6)) == (6, 0)


# -- the table of LanceDB -----------------------------------------------------------------------------

LANCE: dict[str, Any] = {
    "plugins": {
        "slots": {"memory": "memory-lancedb"},
        "entries": {"memory-lancedb": {"config": {"autoCapture": True, "autoRecall": True}}},
    }
}


@pytest.mark.parametrize("way", ["forward", "page", "group"])
@SLOW_COUNTS
async def test_memories_that_are_stored_captured_and_recalled(tmp_path: Path, way: str, count: int) -> None:
    """What others said is stored by the model; unasked it never comes back, and asked for it is theirs."""
    pytest.importorskip("lancedb")
    home, texts = Home(tmp_path, LANCE), orders_of(WORDINGS[:count])
    async with home.agent() as agent:
        for order, text in texts.items():
            if way == "group":
                await agent.respond(said(text, **OF_EVE))
            elif way == "page":
                home.page, home.model.first = text, (("fetch", {}),)
                await agent.respond(said("Look at the page."))
            else:
                quoted = (Quoted(text=text, kind="forward", said_by="Eve"),)
                await agent.respond(said("Remember: I always like this.", quoted=quoted))
            await anew(home, agent)
            home.model.prompts.clear()
            await agent.respond(said(f"What about this: {text.replace(order, 'the thing')}"))
            assert order not in "".join(home.model.prompts)
            home.model.first = (("memory_recall", {"query": text.replace(order, "it"), "limit": 20}),)
            await agent.respond(said("Look into your memory."))
            await agent.respond(said("/new"))
    assert home.model.seen == {*texts}
    assert await lived(home, [*texts]) == []
    assert await honest(home, 6) == (6, 0)


# -- tools that write files, and the folder that all chats share --------------------------------------


@nacre.tool
def save_page(context: ToolContext, path: str, text: str) -> str:
    """Saves a page as a file of the workspace."""
    file = context.chat.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as open_file:
        open_file.write(text)
    return "Saved."


FILES = (
    "AGENTS.md",
    "SOUL.md",
    "USER.md",
    "MEMORY.md",
    "HEARTBEAT.md",
    "memory/facts.md",
    "memory/page.md",
    TODAY,
)


@COUNTS
async def test_files_that_a_tool_writes_by_their_path(tmp_path: Path, count: int) -> None:
    """They hold its lines, and no prompt, heartbeat, list of skills or group is told of them."""
    home, texts = Home(tmp_path, tools=(save_page,)), orders_of(WORDINGS[:count])
    async with home.agent() as agent:
        own = (("append", {"path": "memory/page.md", "text": "- The owner likes pears.\n"}),)
        home.model.owners = own
        await agent.respond(said("I like pears, note that."))
        await agent.respond(said("/new"))
        home.model.obeyed.update(texts)
        for number, text in enumerate(texts.values()):
            skill = f"---\nname: made{number}\ndescription: {' '.join(text.split())}\n---\n\n{text}\n"
            paths = [*((path, f"{text}\n") for path in FILES), (f"skills/made{number}/SKILL.md", skill)]
            home.model.first = [("save_page", {"path": path, "text": words}) for path, words in paths]
            await agent.respond(said("Save the pages."))
            await agent.respond(said("/new"))
        home.model.prompts.clear()
        home.model.seen.clear()
        home.model.obeyed.clear()
        await agent.respond(said("Good morning."))
        await agent.respond(said("", trigger="heartbeat"))
        await agent.respond(said("Good morning.", **IN_CLUB, sender_id="nora"))
        assert home.model.prompts
        assert home.model.seen == set()

        home.model.first = (("read", {"path": "memory/page.md"}),)
        await agent.respond(said("Read the page."))
        assert home.model.seen == {*texts}
    saved = "\n".join(text for text in texts.values())
    assert (home.workspace / "AGENTS.md").read_text().endswith(f"{saved}\n")
    assert await shown_later(home, texts) == []


async def shown_later(home: Home, texts: Iterable[str]) -> list[str]:
    """The orders that a later private prompt has; the files may hold them."""
    async with home.agent() as agent:
        await agent.respond(said("/new"))
        home.model.prompts.clear()
        home.model.obeyed.update(texts)
        await agent.respond(said("Good morning."))
    return [order for order in texts if order in "\n".join(home.model.prompts)]


async def test_the_owners_lines_stay_theirs_where_a_tool_adds_some(tmp_path: Path) -> None:
    """Of a note by hand, only the new line is the tool's; the others are in the prompt."""
    home = Home(tmp_path, tools=(save_page,))
    async with home.agent() as agent:
        await agent.respond(said("Hello."))
        with (home.workspace / "USER.md").open("a") as file:
            file.write("- I keep bees.\n")
        home.model.first = (("save_page", {"path": "USER.md", "text": "- Buy more.\n"}),)
        await agent.respond(said("Save it."))
        await agent.respond(said("/new"))
        home.model.prompts.clear()
        await agent.respond(said("Good morning."))
    assert "- I keep bees." in home.model.prompts[-1]
    assert "Buy more" not in home.model.prompts[-1]


@COUNTS
async def test_the_folder_that_all_chats_share(tmp_path: Path, count: int) -> None:
    """A member's order does not stand there because the owner speaks in the group; the owner's words do."""
    home, texts = Home(tmp_path), orders_of(WORDINGS[:count])
    async with home.agent() as agent:
        for text in texts.values():
            home.model.obeyed.clear()
            await agent.respond(said(text, **OF_EVE))
            home.model.obeyed.clear()
            await agent.respond(said("Go on.", **IN_CLUB, sender_id="nora"))
        home.model.owners = (
            ("append", {"path": "shared/rules.md", "text": "- The club meets on Tuesdays.\n"}),
        )
        await agent.respond(
            said("Put into shared that the club meets on Tuesdays.", **IN_CLUB, sender_id="nora")
        )
    assert home.model.seen == {*texts}
    assert (home.workspace / "shared/rules.md").read_text() == "- The club meets on Tuesdays.\n"
    assert await lived(home, [*texts]) == []
