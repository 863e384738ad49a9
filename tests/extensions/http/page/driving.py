"""A real Chromium over the page: watched for what must never happen, checked by axe-core."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from tests.extensions.http.serving import Served

AXE = Path(__file__).parents[3] / "fixtures/axe/axe.min.js"
CANARY = '<script>window.owned=1</script><img src="x" onerror="window.owned=1"><svg onload="window.owned=1">'
"""What must be shown as text wherever it stands."""
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass
class Watched:
    """A browser window, and what went wrong in it."""

    context: BrowserContext
    page: Page
    problems: list[str] = field(default_factory=list)

    async def healthy(self) -> None:
        """That nothing wrote an error, that no foreign script ran, and that axe finds nothing serious."""
        assert await self.page.evaluate("window.owned") is None, f"a script ran on {self.page.url}"
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await self.page.evaluate(wide) <= 0, f"{self.page.url} is wider than the screen"
        await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            f"{each['id']}: {each['help']}: {node['html'][:160]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
        assert not serious, (self.page.url, serious)
        assert not self.problems, (self.page.url, self.problems)


@asynccontextmanager
async def window(
    served: Served, size: Mapping[str, int] = DESK, *, scheme: str = "light", expected: tuple[str, ...] = ()
) -> AsyncIterator[Watched]:
    """A window that has logged in. Lines with one of the `expected` texts are no problem."""
    from playwright.async_api import async_playwright, expect

    expect.set_options(timeout=30_000)  # a busy machine may take five seconds for a long talk
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        options: dict[str, Any] = {"viewport": dict(size), "color_scheme": scheme}
        context = await browser.new_context(**options)
        try:
            watched = Watched(context=context, page=await context.new_page())
            watch(watched, watched.page, expected)
            await watched.page.goto(f"{served.url}/chat")
            await watched.page.get_by_label("The owner's token").fill(served.owner)
            await watched.page.get_by_role("button", name="Log in").click()
            await watched.page.wait_for_url("**/chat")
            yield watched
        finally:
            await context.close()
            await browser.close()


def watch(watched: Watched, page: Page, expected: tuple[str, ...] = ()) -> None:
    """Notes every error that a tab writes."""

    def note(text: str) -> None:
        if not any(each in text for each in expected):
            watched.problems.append(text)

    page.on("console", lambda line: note(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: note(str(error)))
