"""The page over HTTP, as a browser without scripts sees it."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("sse_starlette", reason="the extra serve is not installed: make page")

from nacre.bridges.answering.turns import RunHere
from nacre.extensions.http.page.transcript import LiveTurn, LiveTurns
from nacre.extensions.http.server.guard import MOST_WRONG_TOKENS
from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.runtime.contracts.inbound import Inbound
from tests.extensions.http.serving import Browser, Served, served
from tests.servers import provider_wire as wire

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
        for path in (
            "/",
            "/chat",
            "/memory",
            "/memory/note?path=USER.md",
            "/sessions",
            "/context",
            "/search?q=a",
            "/usage",
        ):
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
    paths = (
        "/chat/say",
        "/chat/stop",
        "/memory/note",
        "/memory/note/undo",
        "/memory/changes",
        "/sessions/x/resume",
    )
    for path in paths:
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
    chat, found = await owner.get("/chat"), await owner.get("/search?q=boat+HALCYON")
    [session] = re.findall(r'href="(/sessions/[^"?]+)\?entry=', found)
    transcript, context = await owner.get(session), await owner.get("/context")

    assert events[-1][0] == "close"
    answer = [data for name, data in events if name == "answer"][-1]
    for text in (answer, chat, transcript):
        assert "<strong>Halcyon</strong>" in text
    assert "<mark>Halcyon</mark>" in found
    for text in (answer, chat, transcript, found):
        assert "<script>doc" not in text
        assert "<img src=x" not in text
        assert 'href="javascript' not in text
    assert "<svg" in transcript
    assert "What is the boat called?" in context
    assert "AGENTS.md" in context


async def test_half_a_character_keeps_no_conversation_from_being_shown(page: Served, owner: Browser) -> None:
    """A lone surrogate, as a model may write it, is shown as a question mark."""
    await owner.say("What is it?", reply="Half a sign: \ud83d")

    assert "Half a sign: ?" in await owner.get("/chat")


async def test_a_search_of_earlier_is_told_by_what_was_searched(page: Served, owner: Browser) -> None:
    """Its result is JSON, which is for models and stands below."""
    page.provider.tool_calls(("memory_search", {"query": "sugar in the tea"}))
    await owner.say("Do I take sugar?")
    lines = re.findall(r"<summary.*?</summary>", await owner.get("/"), re.DOTALL)

    assert [("sugar in the tea" in line, "{" in line) for line in lines if "memory_search" in line] == [
        (True, False)
    ]


async def test_whoever_comes_after_the_end_sees_that_it_ended(page: Served, owner: Browser) -> None:
    """The form shows a running turn; if it ends before its stream opens, the stream still says so."""
    page.provider.reply("Halcyon.")
    shown = await owner.post("/chat/say", session="main", text="What is the boat called?")
    [turn] = re.findall(r'sse-connect="([^"]+)"', shown.text)
    await owner.events(turn)
    late = dict(await owner.events(turn))

    assert 'class="running"' in shown.text
    assert 'class="running"' not in late["notes"]
    assert "Halcyon." in late["answer"]


async def test_what_happens_while_a_slow_browser_reads_is_sent_afterwards(page: Served) -> None:
    """A turn that ends between two updates is told to its end."""
    turns, turn = LiveTurns(RunHere()), LiveTurn(id="1", key="agent:main:main", message="Hello")
    page.provider.reply("Halcyon.")
    turns.begin(turn, page.agent, Inbound(text="Hello", chat_kind="direct", is_owner=True))
    seen: list[tuple[bool, str]] = []
    async for now in turns.changes("1"):
        seen.append((now.is_done, now.text))
        async for _ in turns.changes("1"):  # the turn ends while this reader is busy
            pass

    assert seen == [(False, ""), (True, "Halcyon.")]


async def test_every_view_lists_the_conversations_by_title_and_day(page: Served, owner: Browser) -> None:
    """The title is the first message, escaped; the conversation that is shown is marked."""
    await owner.say(f"## Winter feed {CANARY}", session="hives")
    await owner.say("And the boat?", session="main")
    chat = await owner.get("/chat?session=hives")
    [current] = re.findall(r'<a href="([^"]+)" title="[^"]*" aria-current="page">', chat)

    assert current == "/chat?session=agent%3Amain%3Adirect%3Ahives"
    for path in ("/chat", "/memory", "/memory/changes", "/memory/review", "/search", "/usage", "/context"):
        shown = await owner.get(path)
        assert "<h2>Today</h2>" in shown
        assert '<span class="conversation-title">Winter feed &lt;script&gt;' in shown
        assert '<span class="conversation-title">And the boat?' in shown
        assert "<script>doc" not in shown


async def test_a_new_conversation_is_its_own_and_private(page: Served, owner: Browser) -> None:
    """Its name is fresh each time, nothing is kept before the first message, and it has memory."""
    first, second = [str((await owner.http.get("/chat/new")).url) for _ in range(2)]
    name = first.partition("session=")[2]
    before = await owner.get("/sessions")
    await owner.say("What do I like?", session=name)
    listed = await owner.get("/sessions")

    assert first != second
    assert "No conversations yet" in before
    assert f"agent%3Amain%3Adirect%3A{name}" in listed
    assert "MEMORY.md" in await owner.get(f"/context?session={name}")


async def test_a_chat_shows_and_offers_its_models(page: Served, owner: Browser) -> None:
    """The name above a chat is the model that answers there, other chats keep theirs, and a conversation in
    which nothing was said yet has no random name."""
    name = str((await owner.http.get("/chat/new")).url).partition("session=")[2]
    await owner.say("/model offline/extractive", session=name, reply=None)
    chosen, other = await owner.get(f"/chat?session={name}"), await owner.get("/chat?session=main")

    def shown(text: str) -> list[str]:
        return re.findall(r'title="Choose another model for this chat">([^<]+)<', text)

    assert (shown(chosen), shown(other)) == (["offline/extractive"], ["openai/test-model"])
    assert '{"text": "/model offline/extractive"}' in other
    assert '{"text": "/model openai/test-model"}' in chosen
    assert "<h1>New conversation</h1>" in chosen
    assert '<span class="conversation-title">New conversation</span>' in other


async def test_a_folded_sidebar_stays_folded(page: Served, owner: Browser) -> None:
    """The cookie of the page's script is read for each view."""
    open_view = await owner.get("/memory")
    owner.http.cookies.set("nacre_sidebar", "folded")

    assert 'class="framed"' in open_view
    assert 'class="framed folded"' in await owner.get("/memory")
    assert 'class="framed folded"' in await owner.get("/chat")


async def test_an_ended_conversation_goes_on_by_a_button(tmp_path: Path) -> None:
    """It is current again under its key, with its words."""
    async with served(tmp_path, responder=lambda _request: wire.reply("Noted.")) as page:
        owner = Browser(page)
        async with owner.http:
            await owner.login()
            for text in ("The boat is called Halcyon.", "/new", "Something else."):
                await owner.say(text, reply=None)
            listed, chat = await owner.get("/sessions"), await owner.get("/chat")
            links = r'<a href="(/sessions/[^"]+)"><span class="conversation-title">The boat'
            [ended] = re.findall(links, listed)
            resumed = await owner.post(f"{ended}/resume")

    assert "The boat is called Halcyon." not in chat.split("<main")[1]
    assert str(resumed.url).endswith("/chat?session=agent%3Amain%3Amain")
    assert "The boat is called Halcyon." in resumed.text.split("<main")[1]


async def test_stop_is_offered_while_a_turn_runs_and_no_longer(page: Served, owner: Browser) -> None:
    """The style sheet shows the button where the mark of a running turn is."""
    page.provider.reply("Done.")
    shown = await owner.post("/chat/say", session="main", text="Go")
    events = await owner.events(re.findall(r'sse-connect="([^"]+)"', shown.text)[0])
    style = await owner.get("/static/page.css")

    assert 'class="running"' in shown.text
    assert 'class="running"' not in [data for name, data in events if name == "notes"][-1]
    assert 'class="running"' not in await owner.get("/chat")
    assert "body:has(.live .running) .stop" in style


async def test_the_login_says_where_the_token_is(page: Served) -> None:
    """Also how to get another one, without a token of any kind."""
    browser = Browser(page)
    async with browser.http:
        shown = re.sub("<[^>]+>", "", (await browser.http.get("/login")).text)
    assert "nacre admin access token add browser --owner" in shown
    assert "nacre admin access token revoke browser" in shown


async def test_an_empty_page_says_what_will_be_there(page: Served, owner: Browser) -> None:
    """Each view has a sentence of its own, and the chat has something to begin with."""
    for path, words in {
        "/chat": "data-fill=",
        "/memory": "No days are noted yet",
        "/memory/overview": "Nothing is known yet",
        "/search": "Everything in one search",
        "/sessions": "No conversations yet",
        "/usage": "Nothing was spent yet",
        "/context": "Nothing to show yet",
        "/memory/review": "Nothing is waiting.",
    }.items():
        assert words in await owner.get(path), path


async def test_usage_shows_tokens_and_cost_by_day_and_conversation(page: Served, owner: Browser) -> None:
    """Where no price is known, tokens are drawn, and the page says that the sums are without that model."""
    await owner.say("How heavy is the hive?")
    shown = await owner.get("/usage")

    assert "<h2>By day</h2>" in shown
    assert "openai/test-model" in shown
    assert re.search(r"<title>\d+ \w+ \d+: [\d.]+k? tokens</title>", shown)
    assert re.search(r"<text[^>]*>[\d.]+k?</text>", shown)  # the scale is short enough for its place
    assert ">How heavy is the hive?</a>" in shown
    assert 'data-fill="/model "' in await owner.get("/chat")


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
    """By month with their first lines, by words with score and reason; what is no note is refused."""
    folder = page.workspace / "memory"
    folder.mkdir(exist_ok=True)
    (folder / "2026-01-20.md").write_text(f"The cabin's key hangs at Marco's. {CANARY}\n")
    curated = "# MEMORY.md: what lasts\n\nOne `line`.\n\n## Facts\n\n- The **boat**.\n"
    (page.workspace / "MEMORY.md").write_text(curated)
    listed = await owner.get("/memory")
    found = await owner.get("/search?q=cabin+key")
    refused = await owner.http.get("/memory/note", params={"path": "../../nacre.json5"})

    assert "January 2026</h2>" in listed
    assert '<span class="excerpt">The boat.</span>' in listed
    assert "20 Jan 2026" in listed
    assert "The cabin&#39;s key hangs at Marco&#39;s." in listed
    assert "memory/2026-01-20.md#L1" in found
    assert "place 1 by words" in found
    assert "<mark>cabin</mark>" in found
    assert "<script>doc" not in listed + found
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
    assert "Nothing is waiting." in rejected.text
    assert (page.workspace / "memory/2026-01-20.md").read_text() == "- Buy honey.\n"


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
async def test_what_a_conversation_taught_is_in_the_timeline_and_taken_back(
    page: Served, owner: Browser
) -> None:
    """Its lines, its diff and its conversation; undone once, the line is gone and cannot be undone again."""
    page.provider.tool_calls(("append", {"path": "memory/2026-01-20.md", "text": f"- Sugar. {CANARY}"}))
    before = await owner.get("/memory/changes")
    await owner.say("Note the sugar.")
    (page.workspace / ".sources/of-nothing.jsonl").write_text("")  # alone in a commit
    changes = await owner.get("/memory/changes")
    [commit] = re.findall(r'name="commit" value="([0-9a-f]{40})"', changes)
    undone = await owner.post("/memory/changes", commit=commit)
    again = await owner.post("/memory/changes", commit=commit)

    assert "<ins>- Sugar. &lt;script&gt;" in changes
    assert '<div class="markdown"><p>Sugar. &lt;script&gt;' in changes
    assert "Note the sugar.</a>" in changes
    assert "Nothing was learned yet" in before
    assert "Nothing was learned yet" not in changes
    assert "Sources of notes" not in changes
    assert (undone.status_code, again.status_code) == (200, 409)
    assert "taken back" in undone.text
    assert not (page.workspace / "memory/2026-01-20.md").exists()


@needs_git
async def test_each_line_of_a_note_has_its_history_and_an_undo(page: Served, owner: Browser) -> None:
    """One of two lines of one commit goes; the other stays, and a line that has changed since is refused."""
    path = "memory/2026-01-20.md"
    lines = f"- The hive is light. {CANARY}\n- Feed it."
    page.provider.tool_calls(("append", {"path": path, "text": lines}))
    await owner.say("Note the hive.")
    await owner.get("/memory/changes")  # commits
    shown = await owner.get(f"/memory/note?path={path}")
    cards = dict(
        re.findall(r'name="line" value="(\d+)"><input type="hidden" name="commit" value="(\w+)"', shown)
    )
    number = next(n for n in cards if f'aria-label="Today, history of line {n}"' in shown)
    undone = await owner.post("/memory/note/undo", path=path, line=number, commit=cards[number])
    kept = (page.workspace / path).read_text()
    again = await owner.post("/memory/note/undo", path=path, line="99", commit=cards[number])
    foreign = await owner.post("/memory/note/undo", path="../../nacre.json5", line="1", commit=cards[number])

    assert len(cards) == 2
    assert "Note the hive.</a>" in shown
    assert "said by" in shown
    assert "<script>doc" not in shown
    assert undone.status_code == 200
    assert kept == "- Feed it.\n"
    assert (again.status_code, foreign.status_code) == (409, 409)
    assert (page.workspace / path).read_text() == kept
