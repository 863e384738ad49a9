"""Takes the pictures of docs/page.md: `python -m tests.extensions.http.page.pictures`.

A conversation with a small window is held with the loopback provider, so that there is a flush, a compaction
and something to review; then a real Chromium looks at each view.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.extensions.http.page.driving import PHONE, window
from tests.extensions.http.serving import Browser, served
from tests.isolation import isolate
from tests.servers import provider_wire as wire
from tests.servers.provider_wire import Step

PICTURES = Path(__file__).parents[4] / "docs/pictures"
ROUNDS = 16
LOG = "Reading of the scale, in kilograms, with wind and rain noted beside it. " * 110
NOTE = (
    "- The east hive is light: 14 kg on 3 March, feed it before the frost.\n- The scale is read each morning."
)
ANSWERS = (
    "The **east hive** lost 0.4 kg since yesterday. Until Saturday:\n\n- [x] order sugar\n- [ ] feed it",
    "Noted. The last week:\n\n| hive | change |\n|---|--:|\n| east | −0.4 kg |\n| west | +0.1 kg |\n\n"
    "```python\nchange_kg = weights['east'][-1] - weights['east'][-8]  # a week\n```",
    "That is normal for the season: they fly less, and eat what they have.",
)
OTHERS = {
    "boat": "Which winter storage is cheaper, the harbor or the barn?",
    "kyoto": "京都に三日間行きます。静かな計画を作ってください。",
    "taxes": "Which receipts are missing for the tax return?",
}
"""Further conversations, by session."""
CACHED_TOKENS = 3_500
SETTINGS = {
    "memory": {"writes": "review"},
    "agents": {
        "defaults": {
            "model": {"primary": "openai/gpt-4o-mini"},
            "userTimezone": "UTC",
            "contextTokens": 24_000,
            "memorySearch": {"provider": "none"},
        }
    },
}


def _responder() -> Any:
    asked = 0

    def answer(request: Mapping[str, Any]) -> Step:
        nonlocal asked
        names = [tool["function"]["name"] for tool in request.get("tools", ())]
        tokens = len(json.dumps(request["messages"])) // 5
        counted = wire.usage(tokens - CACHED_TOKENS, 60, cached_tokens=CACHED_TOKENS)
        last = request["messages"][-1]
        if names == ["append"]:
            if last["role"] == "tool":
                return wire.reply("NO_REPLY", usage=counted)
            return wire.tool_calls(("append", {"path": "", "text": NOTE}), usage=counted)
        if not names:
            return wire.reply("## Goal\nKeep the hives through the winter.\n", usage=counted)
        if last["role"] != "tool" and "scale" in str(last["content"])[:400]:
            return wire.tool_calls(("read", {"path": "MEMORY.md"}), usage=counted)
        asked += 1
        return wire.reply(ANSWERS[asked % len(ANSWERS)], usage=counted)

    return answer


async def take(folder: Path) -> None:
    """Writes the pictures."""
    with tempfile.TemporaryDirectory() as home:
        async with served(Path(home), SETTINGS, responder=_responder()) as page:
            memory = page.workspace / "memory"
            memory.mkdir(exist_ok=True)
            (memory / "2026-03-02.md").write_text(
                "# Monday\n\n- The east hive was opened; the queen is there.\n"
            )
            (memory / "2026-03-03.md").write_text(
                "# Tuesday\n\n- The east hive weighs 14 kg, the west hive 17 kg.\n"
            )
            browser = Browser(page)
            async with browser.http:
                await browser.login()
                for session, text in OTHERS.items():
                    await browser.say(text, session=session, reply=None)
                for number in range(ROUNDS):
                    text = (
                        f"Readings of day {number + 1}. {LOG}"
                        if number < ROUNDS - 2
                        else QUESTIONS[number % 2]
                    )
                    await browser.say(text, reply=None)
                await browser.say("/remember The east hive has a new queen, marked blue.", reply=None)
                await browser.get("/memory/changes")  # commits the notes
            for size, scheme, kind, views in LOOKS:
                async with window(page, size, scheme=scheme) as seen:
                    for name, path in views.items():
                        if name == "login":  # the last one of its window
                            await seen.context.clear_cookies()
                        await seen.page.goto(page.url + path)
                        if name == "session":
                            await seen.page.get_by_role("link", name="transcript").first.click()
                            await seen.page.locator("svg.picture").wait_for()
                        if name == "note":
                            await seen.page.locator(".note .when").last.click()
                        await seen.healthy()
                        await seen.page.screenshot(path=folder / f"page-{name}-{kind}.png")


QUESTIONS = ("What does the scale say of the east hive?", "Is it normal that they fly so little now?")
LOOKS = (
    ({"width": 960, "height": 640}, "light", "desk", {"chat": "/chat", "session": "/sessions"}),
    (
        {"width": 960, "height": 520},
        "light",
        "desk",
        {
            "search": "/search?q=hive+light",
            "note": "/memory/note?path=memory/2026-03-03.md",
            "review": "/memory/review",
            "conversations": "/sessions",
            "notes": "/memory",
        },
    ),
    (
        {"width": 1200, "height": 640},
        "light",
        "desk",
        {"timeline": "/memory/changes", "usage": "/usage"},
    ),
    (
        PHONE,
        "dark",
        "phone",
        {"chat": "/chat", "context": "/context", "overview": "/memory/overview", "login": "/login"},
    ),
)

if __name__ == "__main__":
    isolate()
    PICTURES.mkdir(exist_ok=True)
    asyncio.run(take(PICTURES))
