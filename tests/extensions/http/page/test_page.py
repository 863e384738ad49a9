"""The page over HTTP, as a browser without scripts sees it."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("sse_starlette", reason="the extra serve is not installed: make page")

from nacre.extensions.http.server.guard import MOST_WRONG_TOKENS
from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.memory.files.sources.source import PRIVATE, Source
from tests.extensions.http.serving import Browser, Served, served

CANARY = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Served]:
    """A running page."""
    async with served(tmp_path) as found:
        yield found


@pytest.fixture
async def owner(page: Served) -> AsyncIterator[Browser]:
    """The owner's browser."""
    browser = Browser(page)
    async with browser.http:
        await browser.login()
        yield browser


async def test_nobody_but_the_owner_sees_anything(page: Served) -> None:
    """Without a token there is the form alone; a stranger's is refused with 403, an unknown one with 401."""
    browser = Browser(page)
    async with browser.http:
        for path in ("/", "/chat", "/memory", "/memory/note?path=MEMORY.md", "/sessions", "/context"):
            answer = await browser.http.get(path)
            assert answer.url.path == "/login"
            assert "MEMORY" not in answer.text
        assert (await browser.login(page.stranger)).status_code == 403
        assert (await browser.login("guessed")).status_code == 401
        assert (await browser.http.get("/memory")).url.path == "/login"
        entered = await browser.login()
        cookie = entered.history[0].headers["set-cookie"].lower()
    assert entered.url.path == "/chat"
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    policy = entered.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_wrong_tokens_wait_and_a_good_one_of_the_same_address_enters(page: Served) -> None:
    """Nobody's guesses keep the owner out."""
    browser = Browser(page)
    async with browser.http:
        guessed = [
            (await browser.login(f"no{number}")).status_code for number in range(MOST_WRONG_TOKENS + 5)
        ]
        assert guessed[:MOST_WRONG_TOKENS] == [401] * MOST_WRONG_TOKENS
        assert 429 in guessed
        assert (await browser.login()).url.path == "/chat"


async def test_a_form_of_another_page_changes_nothing(page: Served, owner: Browser) -> None:
    """Without the key that stands in our own forms every change is refused."""
    for path in ("/chat/say", "/chat/stop", "/memory/note", "/memory/changes"):
        answer = await owner.http.post(path, data={"text": "x", "path": "memory/a.md", "form_key": "made up"})
        assert answer.status_code == 403
    assert not (page.workspace / "memory/a.md").exists()


async def test_no_other_program_logs_the_owner_out(page: Served, owner: Browser) -> None:
    """The way out wants the key of our own forms, and a page at another port is another site."""
    assert (await owner.http.post("/logout", headers={"origin": "http://127.0.0.1:1"})).status_code == 403
    assert (await owner.http.post("/logout")).status_code == 403
    assert (await owner.http.get("/memory")).url.path == "/memory"
    assert (await owner.post("/logout")).url.path == "/login"
    assert (await owner.http.get("/memory")).url.path == "/login"


async def test_an_answer_streams_and_stands_in_every_view(page: Served, owner: Browser) -> None:
    """The answer is Markdown without its HTML, and is in the chat, the session and the search."""
    page.provider.reply(
        f"**Halcyon** is the boat. {CANARY} [x](javascript:alert(1)) ![p](http://x.test/p.png)"
    )
    shown = await owner.post("/chat/say", session="main", text="What is the boat called?")
    [turn] = re.findall(r'sse-connect="([^"]+)"', shown.text)
    events = await owner.events(turn)
    chat, listed = await owner.get("/chat"), await owner.get("/sessions?q=halcyon")
    [session] = re.findall(r'href="(/sessions/[^"]+)"', listed)
    transcript, context = await owner.get(session), await owner.get("/context")

    assert events[-1][0] == "close"
    answer = [data for name, data in events if name == "answer"][-1]
    for text in (answer, chat, transcript):
        assert "<strong>Halcyon</strong>" in text
        assert "<script>doc" not in text
        assert "<img" not in text
        assert 'href="javascript' not in text
    assert "<svg" in transcript
    assert "What is the boat called?" in context
    assert "AGENTS.md" in context


async def test_two_tabs_change_one_note(page: Served, owner: Browser) -> None:
    """The second to save sees both texts, and nothing of the first is lost; saving again is a decision."""
    note = page.workspace / "memory/2026-01-20.md"
    note.parent.mkdir(exist_ok=True)
    note.write_text("# Tuesday\n\nThe key hangs at Marco's.\n")
    opened = await owner.get("/memory/note?path=memory/2026-01-20.md")
    [stamp] = re.findall(r'name="stamp" value="([^"]+)"', opened)
    fields = {"path": "memory/2026-01-20.md", "stamp": stamp}
    first = await owner.post("/memory/note", text="# Tuesday\r\n\r\nThe key is with Anna.\r\n", **fields)
    second = await owner.post("/memory/note", text="# Tuesday\n\nThe key is lost.\n", **fields)
    kept = note.read_text()
    [fresh] = re.findall(r'name="stamp" value="([^"]+)"', second.text)
    third = await owner.post("/memory/note", text="# Lost\n", path=fields["path"], stamp=fresh)

    assert (first.status_code, second.status_code, third.status_code) == (200, 409, 200)
    assert kept == "# Tuesday\n\nThe key is with Anna.\n"
    assert "with Anna" in second.text
    assert "The key is lost." in second.text
    assert note.read_text() == "# Lost\n"


async def test_notes_are_listed_found_and_nothing_else_is(page: Served, owner: Browser) -> None:
    """By month, and by words with a score and the reason; what is no note is refused."""
    folder = page.workspace / "memory"
    folder.mkdir(exist_ok=True)
    (folder / "2026-01-20.md").write_text(f"The cabin's key hangs at Marco's. {CANARY}\n")
    listed = await owner.get("/memory")
    found = await owner.get("/memory?q=cabin+key")
    refused = await owner.http.get("/memory/note", params={"path": "../../nacre.json5"})

    assert "<h2>2026-01</h2>" in listed
    assert "memory/2026-01-20.md#L1" in found
    assert "place 1 by words" in found
    assert "<script>doc" not in found
    assert refused.status_code == 409
    assert "sk-loopback" not in refused.text


async def test_what_waits_is_answered_on_the_page(page: Served, owner: Browser) -> None:
    """Accepted with the owner's own text, and rejected; what was answered in another tab is told."""
    queue = ReviewQueue(page.state / "agents/main/proposals", lock_dir=page.state / "locks")
    source = Source(written_by="flush", audience=PRIVATE, at="2026-01-20T10:00:00Z")
    writes = [
        ProposedWrite(path="memory/2026-01-20.md", text=text, source=source, is_append=True)
        for text in (f"- Buy sugar. {CANARY}", "- Sell the hive.")
    ]
    first, second = [await queue.propose(write) for write in writes]
    shown = await owner.get("/memory/review")
    written = await owner.post("/memory/review", proposal=first, answer="accept", text="- Buy honey.\r\n")
    again = await owner.post("/memory/review", proposal=first, answer="accept", text="- Buy honey.\r\n")
    rejected = await owner.post("/memory/review", proposal=second, answer="reject")

    assert "<ins>- Buy sugar. &lt;script&gt;" in shown
    assert (written.status_code, again.status_code, rejected.status_code) == (200, 409, 200)
    assert "may have been answered already" in again.text
    assert "Nothing is waiting." in rejected.text
    assert (page.workspace / "memory/2026-01-20.md").read_text() == "- Buy honey.\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_what_a_session_wrote_is_shown_and_taken_back(page: Served, owner: Browser) -> None:
    """Its diff and its session stand there; undone once, the line is gone and it cannot be undone again."""
    page.provider.tool_calls(("append", {"path": "memory/2026-01-20.md", "text": f"- Sugar. {CANARY}"}))
    page.provider.reply("Noted.")
    shown = await owner.post("/chat/say", session="main", text="Note the sugar.")
    await owner.events(re.findall(r'sse-connect="([^"]+)"', shown.text)[0])
    changes = await owner.get("/memory/changes")
    [commit] = re.findall(r'name="commit" value="([0-9a-f]{40})"', changes)
    undone = await owner.post("/memory/changes", commit=commit)
    again = await owner.post("/memory/changes", commit=commit)

    assert "<ins>- Sugar. &lt;script&gt;" in changes
    assert "agent:main:main</a>" in changes
    assert (undone.status_code, again.status_code) == (200, 409)
    assert "taken back" in undone.text
    assert not (page.workspace / "memory/2026-01-20.md").exists()
