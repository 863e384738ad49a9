"""The page in a real Chromium, on a phone's and a desk's size: `make page`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import provider_wire as wire

pytest.importorskip("playwright", reason="Playwright is not installed: make page")
pytest.importorskip("sse_starlette", reason="the extra serve is not installed: make page")

from playwright.async_api import Route, expect

from nacre.extensions.http.server.tokens import Tokens
from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.memory.files.sources.source import PRIVATE, Source
from tests.extensions.http.page.driving import CANARY, CHROMIUM, DESK, PHONE, watch, window
from tests.extensions.http.serving import Served, served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium"),
]
SIZES = [pytest.param(PHONE, "dark", id="phone"), pytest.param(DESK, "light", id="desk")]


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Served]:
    """A running page whose notes and files have hostile words."""
    async with served(tmp_path) as found:
        memory = found.workspace / "memory"
        memory.mkdir(exist_ok=True)
        (memory / "2026-01-20.md").write_text(
            f"# Tuesday {CANARY}\n\nThe cabin's key hangs at Marco's. {CANARY}\n"
        )
        (found.workspace / "hostile.txt").write_text(CANARY)
        yield found


@pytest.mark.parametrize(("size", "scheme"), SIZES)
async def test_chat_streams_shows_tools_and_runs_nobodys_script(
    page: Served, size: dict[str, int], scheme: str, tmp_path: Path
) -> None:
    """A file goes in, a tool is one line that opens, words show before the answer ends, Stop ends it."""
    file = tmp_path / "<img src=x onerror=window.owned=1>.txt"
    file.write_text(CANARY)
    page.provider.tool_calls(("read", {"path": "hostile.txt"}))
    page.provider.reply(
        f"**Read it.** {CANARY}\n\n| a | b |\n|--:|:-:|\n| 1 | [x](javascript:window.owned=1) |"
    )
    async with window(page, size, scheme=scheme) as seen:
        tab = seen.page
        await tab.locator("#files").set_input_files(file)
        await tab.get_by_label("Message").fill(f"What is in it? {CANARY}")
        await tab.get_by_label("Message").press("Enter")
        answer = tab.locator(".said.assistant.live").last
        await expect(answer.locator("strong")).to_have_text("Read it.")
        await answer.locator("summary").click()
        await expect(answer.locator("details pre").last).to_contain_text("onerror")
        await expect(tab.get_by_label("Message")).to_have_value("")
        await expect(tab.get_by_role("button", name="Stop")).to_be_hidden()
        await seen.healthy()

        page.provider.add(wire.stall("These words are here before"))
        await tab.get_by_label("Message").fill("Go on")
        await tab.get_by_role("button", name="Send").click()
        answer = tab.locator(".said.assistant.live").last
        await expect(answer).to_contain_text("These words are here before")
        await tab.reload()
        await expect(tab.locator(".said.assistant.live")).to_contain_text("These words are here before")
        await tab.get_by_role("button", name="Stop").click()
        await expect(tab.locator(".said.assistant.live .problem")).to_contain_text("stopped")
        await expect(tab.get_by_role("button", name="Stop")).to_be_hidden()
        await tab.reload()
        await expect(tab.locator("#log")).to_contain_text("What is in it?")
        await seen.healthy()


@pytest.mark.parametrize(("size", "scheme"), SIZES)
async def test_every_other_view(page: Served, size: dict[str, int], scheme: str) -> None:
    """Memory, search, a note, changes, what waits, sessions, a transcript with its picture, the context."""
    page.provider.reply(f"Noted. {CANARY}")
    async with window(page, size, scheme=scheme) as seen:
        tab = seen.page
        await tab.get_by_label("Message").fill(f"Remember the cabin. {CANARY}")
        await tab.get_by_role("button", name="Send").click()
        await expect(tab.locator(".live .markdown")).to_contain_text("Noted.")
        for path, words in {
            "/memory": "memory/2026-01-20.md",
            "/memory/overview": "learned in seven days",
            "/search?q=key": "by words",
            "/search?q=cabin": "Remember the cabin",
            "/memory/note?path=memory/2026-01-20.md": "hangs at Marco",
            "/memory/changes": "What was learned",
            "/memory/review": "Waiting",
            "/sessions": "Remember the cabin",
            "/context": "AGENTS.md",
            "/usage": "By day",
        }.items():
            await tab.goto(page.url + path)
            await expect(tab.locator("main")).to_contain_text(words)
            await seen.healthy()
        await tab.goto(f"{page.url}/sessions")
        await tab.get_by_role("link", name="transcript").click()
        await expect(tab.locator("svg.picture")).to_be_visible()
        await seen.healthy()


@pytest.mark.parametrize(("size", "scheme"), SIZES)
async def test_code_is_copied_and_tables_keep_their_words(
    page: Served, size: dict[str, int], scheme: str
) -> None:
    """The code is on the clipboard as it was written; no cell breaks a word, and nothing is too wide."""
    table = "| Hive | Place | Queen | Weight | Advice |\n|---|---|---|--:|---|\n"
    table += "| Southeasternmost | greenhouse | unknown | 17.25 kg | Recommendation |\n" * 2
    page.provider.reply(
        f"```python\nif a < b:\n    print('{CANARY}')\n```\n\n{table}\n- [x] fed\n- [ ] weighed"
    )
    async with window(page, size, scheme=scheme) as seen:
        tab = seen.page
        await seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await tab.get_by_label("Message").fill("Show me")
        await tab.get_by_label("Message").press("Enter")
        # What is shown of a growing answer is replaced, and its buttons with it.
        await expect(tab.get_by_role("img", name="done")).to_be_visible()
        await expect(tab.get_by_role("button", name="Stop")).to_be_hidden()
        await tab.get_by_role("button", name="Copy").first.click()
        await expect(tab.get_by_role("button", name="Copied")).to_be_visible()
        copied = await tab.evaluate("navigator.clipboard.readText()")
        heights = (
            "[...document.querySelectorAll('tbody td')].map((cell) => cell.getBoundingClientRect().height)"
        )
        assert copied == f"if a < b:\n    print('{CANARY}')\n"
        assert max(await tab.evaluate(heights)) < 60
        await expect(tab.get_by_role("img", name="done")).to_be_visible()
        await expect(tab.locator(".c-k").first).to_have_text("if")
        await seen.healthy()


@pytest.mark.parametrize(("size", "scheme"), SIZES)
async def test_the_sidebar_leads_from_conversation_to_conversation(
    page: Served, size: dict[str, int], scheme: str
) -> None:
    """A desk always shows it, also at the end of a long talk; on a phone a button opens it."""
    page.provider.reply("Long.\n\n" * 120)
    page.provider.reply("Short.")
    async with window(page, size, scheme=scheme) as seen:
        tab, sidebar = seen.page, seen.page.locator("#sidebar")
        for session, text in (("hives", "How are the hives?"), ("boat", "Where is the boat?")):
            await tab.goto(f"{page.url}/chat?session={session}")
            await tab.get_by_label("Message").fill(text)
            await tab.get_by_label("Message").press("Enter")
            await expect(tab.locator(".live .running")).to_have_count(0)
            await expect(tab.locator("#chat-head h1")).to_have_text(text)
            await expect(sidebar.locator("[aria-current=page]").last).to_have_text(text)
        await tab.goto(f"{page.url}/chat?session=hives")
        if size == PHONE:
            await expect(sidebar).to_be_hidden()
            await tab.get_by_role("button", name="Menu", exact=True).click()
            await seen.healthy()
            await tab.keyboard.press("Escape")
            await expect(sidebar).to_be_hidden()
            await tab.get_by_role("button", name="Menu", exact=True).click()
        await expect(sidebar.get_by_role("heading", name="Today")).to_be_in_viewport()
        await sidebar.get_by_role("link", name="Where is the boat?").click()
        await expect(tab.locator("main")).to_contain_text("Short.")
        await expect(tab.get_by_role("heading", name="Where is the boat?")).to_be_attached()


async def test_a_desk_folds_the_sidebar_and_begins_in_the_middle(page: Served) -> None:
    """The strip of icons stays in every view and can be opened again; the first message is written beside its
    suggestions, and the field is at the bottom from then on."""
    page.provider.reply("Noted.")
    async with window(page, DESK) as seen:
        tab, sidebar = seen.page, seen.page.locator("#sidebar")
        field, starter = tab.locator(".composer"), tab.locator(".starter").last
        box, before = await field.bounding_box(), await starter.bounding_box()
        assert box is not None
        assert before is not None
        assert 0 < box["y"] - (before["y"] + before["height"]) < 80
        await tab.get_by_role("button", name="Sidebar").click()
        await tab.goto(f"{page.url}/memory")
        folded = await sidebar.bounding_box()
        assert folded is not None
        assert folded["width"] < 80
        await expect(sidebar.get_by_role("link", name="Usage")).to_be_visible()
        await expect(sidebar.get_by_label("Search everything")).to_be_hidden()
        await seen.healthy()
        await tab.get_by_role("button", name="Sidebar").click()
        await expect(sidebar.get_by_label("Search everything")).to_be_visible()
        await tab.goto(f"{page.url}/chat")
        await tab.get_by_label("Message").fill("Hello")
        await tab.get_by_label("Message").press("Enter")
        await expect(tab.locator(".live .markdown")).to_contain_text("Noted.")
        box = await field.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] > DESK["height"] - 60


async def test_right_to_left_words_a_new_title_and_the_end_on_a_phone(page: Served, tmp_path: Path) -> None:
    """Hebrew begins at the right; the bar has the title of what was said; a reload shows the last words."""
    page.provider.reply("שלום עולם.")
    page.provider.reply("Long.\n\n" * 60)
    edge = "const p = document.querySelector('.said p'), words = document.createRange(); "
    edge += (
        "words.selectNodeContents(p); p.getBoundingClientRect().right - words.getBoundingClientRect().right"
    )
    async with window(page, PHONE, expected=("413", "Failed to load resource")) as seen:
        tab, field = seen.page, seen.page.get_by_label("Message")
        await field.fill("שלום")
        await field.press("Enter")
        await expect(tab.locator(".bar-title")).to_have_text("שלום")
        assert await tab.evaluate(edge) < 2
        await field.fill("More")
        await field.press("Enter")
        await expect(tab.locator("#log")).to_contain_text("Long.")
        await expect(tab.locator(".running")).to_have_count(0)
        await tab.reload()
        await expect(tab.locator("time").last).to_be_in_viewport()
        large = tmp_path / "large.txt"
        large.write_bytes(b"z" * (21 << 20))
        await tab.locator("#files").set_input_files(large)
        await field.press("Enter")
        await expect(tab.get_by_role("alert")).to_have_text(
            "large.txt has more than 20 MB. Nothing was sent."
        )
        await seen.healthy()


async def test_words_typed_while_a_message_is_sent_and_words_that_could_not_be_sent_stay(
    page: Served,
) -> None:
    """The next message is not erased by the first one; without a network or a login nothing is lost, the page
    says why, and the login leads back to the conversation."""
    page.provider.reply("Noted.")
    page.provider.reply("Also noted.")
    is_sent = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_sent.wait()
        await route.continue_()

    async with window(page, expected=("Failed to load resource", "htmx:")) as seen:
        tab, field = seen.page, seen.page.get_by_label("Message")
        await tab.goto(f"{page.url}/chat?session=hives")
        await tab.route("**/chat/say", hold)
        await field.fill("The hive is light.")
        await field.press("Enter")
        await field.press("Enter")  # an empty field sends nothing, also not later
        await field.press_sequentially("Feed")
        is_sent.set()
        await expect(tab.locator(".live .markdown")).to_contain_text("Noted.")
        await expect(field).to_have_value("Feed")

        await seen.context.set_offline(True)
        await field.press("Enter")
        await expect(tab.get_by_role("alert")).to_contain_text("cannot be reached")
        await expect(field).to_have_value("Feed")
        await seen.healthy()
        await seen.context.set_offline(False)

        await seen.context.clear_cookies()
        await field.press("Enter")
        await tab.get_by_label("The owner's token").fill(page.owner)
        await tab.get_by_role("button", name="Log in").click()
        await expect(field).to_have_value("Feed")
        await field.press("Enter")
        await expect(tab.locator(".live .markdown")).to_contain_text("Also noted.")
        await expect(tab.locator("#log")).to_contain_text("The hive is light.")
        await expect(tab.get_by_role("alert")).to_be_hidden()
        await field.fill("A secret")
        await tab.get_by_role("button", name="Log out").click()
        await expect(tab.get_by_label("The owner's token")).to_be_visible()
        assert "A secret" not in await tab.evaluate("JSON.stringify(sessionStorage)")


async def test_an_answer_whose_turn_or_login_is_gone_is_not_awaited_forever(page: Served) -> None:
    """The page loads again and shows what is on disk, or asks for the token."""
    page.provider.add(wire.stall("It has"))
    async with window(page, expected=("Failed to load", "EventSource", "[object Event]")) as seen:
        tab = seen.page
        await tab.route(
            "**/chat/turns/*", lambda route: route.continue_(url=f"{page.url}/chat/turns/gone"), times=1
        )
        await tab.get_by_label("Message").fill("How heavy is the hive?")
        await tab.get_by_label("Message").press("Enter")
        await expect(tab.locator(".live .markdown")).to_contain_text("It has")
        await seen.context.clear_cookies()
        Tokens(page.state).revoke("owner")  # ends the stream
        await expect(tab.get_by_label("The owner's token")).to_be_visible()
        assert tab.url.endswith("/login?to=/chat")


@pytest.mark.parametrize(("size", "scheme"), SIZES)
async def test_a_model_is_chosen_from_a_list(page: Served, size: dict[str, int], scheme: str) -> None:
    """A click changes the model of this chat; what was begun in the field stays there."""
    async with window(page, size, scheme=scheme) as seen:
        tab = seen.page
        await tab.get_by_label("Message").fill("A draft")
        await tab.get_by_role("button", name="openai/test-model").click()
        await seen.healthy()
        await tab.get_by_role("button", name="offline/extractive").click()
        await expect(tab.locator(".live .markdown")).to_contain_text("offline/extractive")
        await expect(tab.locator(".model")).to_have_text("offline/extractive")
        await expect(tab.locator(".empty")).to_have_count(0)
        await expect(tab.get_by_label("Message")).to_have_value("A draft")
        await tab.locator(".model").click()
        await tab.get_by_role("button", name="openai/test-model").click()
        await expect(tab.locator(".model")).to_have_text("openai/test-model")


async def test_a_line_of_a_note_is_taken_back_where_it_stands(page: Served) -> None:
    """The button beside the line opens its history; Undo takes that line alone."""
    path = "memory/2026-01-22.md"
    page.provider.tool_calls(("append", {"path": path, "text": "- The hive is light.\n- Feed it."}))
    page.provider.reply("Noted.")
    async with window(page) as seen:
        tab = seen.page
        await tab.get_by_label("Message").fill("Note that.")
        await tab.get_by_label("Message").press("Enter")
        await expect(tab.locator(".live .markdown")).to_contain_text("Noted.")
        await tab.goto(f"{page.url}/memory/changes")
        await tab.goto(f"{page.url}/memory/note?path={path}")
        await tab.get_by_role("listitem").filter(has_text="light").get_by_role("button").click()
        await expect(tab.get_by_role("dialog")).to_contain_text("Note that.")
        await seen.healthy()
        await tab.get_by_role("button", name="Remove this line").click()
        await expect(tab.locator(".note")).to_have_text(re.compile("^\\s*Feed it"))
        await seen.healthy()
    assert (page.workspace / path).read_text() == "- Feed it.\n"


async def test_two_tabs_change_one_note(page: Served) -> None:
    """The second tab is shown both texts, and the note keeps the first until it is told again."""
    note = page.workspace / "memory/2026-01-21.md"
    note.write_text("The boat is red.\n")
    async with window(page, expected=("409",)) as seen:
        address = f"{page.url}/memory/note?path=memory/2026-01-21.md"
        other: Any = await seen.context.new_page()
        watch(seen, other, ("409",))
        for tab in (seen.page, other):
            await tab.goto(address)
            await tab.get_by_text("Edit", exact=True).click()
        await seen.page.get_by_label("The note's Markdown").fill("The boat is blue.\n")
        await seen.page.get_by_role("button", name="Save").click()
        await expect(seen.page.locator(".note")).to_contain_text("blue")
        await other.get_by_label("The note's Markdown").fill("The boat is green.\n")
        await other.get_by_role("button", name="Save").click()
        await expect(other.locator(".conflict")).to_contain_text("The boat is blue.")
        await expect(other.locator(".conflict ins")).to_contain_text("The boat is green.")
        assert note.read_text() == "The boat is blue.\n"
        await other.get_by_role("button", name="Save").click()
        await expect(other.locator(".note")).to_contain_text("green")
        await seen.healthy()
    assert note.read_text() == "The boat is green.\n"


@pytest.mark.parametrize(("size", "scheme"), SIZES)
async def test_review(page: Served, size: dict[str, int], scheme: str) -> None:
    """One proposal is written as the owner edits it, one is rejected, with the keyboard alone."""
    queue = ReviewQueue(page.state / "agents/main/proposals", lock_dir=page.state / "locks")
    source = Source(written_by="flush", audience=PRIVATE, at="2026-01-20T10:00:00Z")
    for text in (f"- Buy sugar. {CANARY}", "- Sell the hive."):
        path = f"memory/{CANARY.translate({47: None})[:20]}.md" if "Sell" in text else "memory/2026-01-22.md"
        await queue.propose(ProposedWrite(path=path, text=text, source=source, is_append=True))
    async with window(page, size, scheme=scheme) as seen:
        tab = seen.page
        await tab.goto(f"{page.url}/memory/review")
        await expect(tab.locator(".diff ins").first).to_have_text(f"- Buy sugar. {CANARY}")
        await seen.healthy()
        await tab.get_by_text("Edit before it is written").first.press("Enter")
        await tab.locator("textarea").first.fill("- Buy honey.")
        await tab.get_by_role("button", name="Accept").first.press("Enter")
        await expect(tab.get_by_role("status")).to_have_text("Written into memory/2026-01-22.md.")
        await tab.get_by_role("button", name="Reject").press("Enter")
        await expect(tab.locator("main")).to_contain_text("Nothing is waiting.")
        await seen.healthy()
    assert (page.workspace / "memory/2026-01-22.md").read_text() == "- Buy honey.\n"
