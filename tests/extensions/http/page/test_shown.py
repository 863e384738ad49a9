"""What is shown, before it is a page: hostile Markdown, and where things stand in the picture."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed: make page")

from nacre.extensions.http.page.charts import HEIGHT, WIDTH, context_picture, cost_picture
from nacre.extensions.http.page.rendering import (
    LineMark,
    diff_lines,
    diff_of,
    dollars,
    highlighted,
    safe_html,
)
from nacre.runtime.agent.insight.timeline import timeline
from nacre.runtime.agent.insight.usage import UsageRow
from nacre.runtime.contracts.budget import ContextBudget
from nacre.sessions.contracts.messages import AssistantMessage, Text, Usage, user_message
from nacre.sessions.entries.entries import Compaction, Entry

ALLOWED = {
    *("p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "a", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
    *("div", "span", "button", "mark"),
}
OURS = {"type", "tabindex", "role", "aria-label", "data-copy"}
"""Attributes of the boxes around code and tables, and of the boxes of tasks."""
HOSTILE = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,<script>alert(1)</script>)",
    "[a](&#106;avascript:alert(1)) [b](java\tscript:alert(1)) [c](vbscript:x) [d](file:///etc/passwd)",
    '![x](https://a.test/"onerror="alert(1)) ![y](javascript:alert(1))',
    "<https://a.test/?q=<script>> <javascript:alert(1)>",
    '```"><script>alert(1)</script>\nx\n```',
    '[a](https://a.test "t\\" onclick=\\"alert(1)")',
    "| <script> |\n|--:|\n| <svg onload=alert(1)> |",
    "[x]: javascript:alert(1)\n\n[x]",
    '```html"onload=alert(1)\n<script>alert(1)</script>\n```',
    "```python\n'<img src=x onerror=alert(1)>'\n```",
    "- [x] <script>alert(1)</script>",
]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_of_anybody_can_do_nothing(text: str) -> None:
    """Only tags of texts, no attribute but those of links, and these lead to the web or to mail."""
    tags = _Tags()
    tags.feed(safe_html(text))

    for tag, attributes in tags.found:
        assert tag in ALLOWED
        assert set(attributes) <= {"href", "rel", "target", "title", "class", "start"} | OURS
        assert re.match(r"https?://|mailto:", attributes.get("href") or "https://")


def test_code_has_colors_and_a_button_that_copies_it() -> None:
    """A known language is colored with classes alone; an unknown one is plain text."""
    shown = safe_html('```python\nname = "Ana"  # a friend\n```')
    unknown = safe_html("```nosuch\na < b\n```")

    assert '<span class="c-s2">"Ana"</span>' in shown
    assert '<span class="c-c1"># a friend</span>' in shown
    assert shown.count("data-copy") == 1
    assert "style=" not in shown
    assert "a &lt; b" in unknown


def test_code_that_is_long_or_many_has_one_color() -> None:
    """Lexers take a time that grows with the square of hostile code, while nobody else is served."""
    block = "```java\nint " + "a " * 400 + "\n```\n"

    assert 'class="c-' not in safe_html("```java\nint " + "a " * 1_000 + "\n```")
    assert safe_html(block * 50).count('<span class="c-kt">int</span>') == 13


def test_a_text_without_end_is_shown_as_it_is() -> None:
    """Nobody else is served while a page is made; the parser needs seconds for some hundred kilobytes."""
    assert safe_html("#<b>" * 50_000, words=("b",)).startswith('<pre tabindex="0">#&lt;<mark>b</mark>&gt;#')


def test_a_task_list_has_boxes() -> None:
    """Also nested ones; brackets elsewhere stay as they are written."""
    shown = safe_html("- [x] Order *sugar*\n- [ ] Feed\n  - [ ] warm\n\nAn [ ] elsewhere")

    assert shown.count('aria-label="done"') == 1
    assert shown.count('aria-label="open"') == 2
    assert "</span>Order <em>sugar</em>" in shown
    assert "An [ ] elsewhere" in shown


def test_each_line_with_a_history_has_one_button_at_its_end() -> None:
    """In paragraphs, nested lists, tables and code; the text of a button is escaped."""
    text = "# Log\n\none\ntwo\n\n- a\n  - b\n\n| h | i |\n|---|---|\n| x | y |\n\n```sh\nls\n```\n"
    lines = {0: "Log", 2: "one", 3: "two", 5: "a", 6: "b", 8: "i", 10: "y", 12: "</div>"}
    marks = {at: LineMark(target=f"line-{at}", text="<b>", label='"') for at in lines}
    shown = safe_html(text, marks=marks)
    places = re.findall(r'(\w+|</div>)<button type="button" class="when" popovertarget="line-(\d+)"', shown)

    assert [(int(at), before) for before, at in places] == list(lines.items())
    assert shown.count('aria-label="&quot;"><span>&lt;b&gt;</span></button>') == len(lines)
    assert "popovertarget" not in safe_html(text)


def test_searched_words_are_marked_and_nothing_else_is() -> None:
    """In any case, also when they are written like HTML or like a pattern."""
    assert highlighted("The Hive & <b>hive</b>", ["hive"]) == (
        "The <mark>Hive</mark> &amp; &lt;b&gt;<mark>hive</mark>&lt;/b&gt;"
    )
    assert highlighted("a.c abc", ["a.c"]) == "<mark>a.c</mark> abc"
    assert "<mark>蜂</mark>箱" in safe_html("**蜂箱**", words=["蜂"])


def test_cost_by_day_has_a_bar_for_each_day_up_to_today() -> None:
    """The tallest is the dearest, days without a call are flat, and older days are left out."""
    rows = [
        UsageRow(name=day, calls=1, usage=Usage(input_tokens=10, output_tokens=1, cost_usd=cost))
        for day, cost in (("2025-12-01", 9.0), ("2026-01-18", 0.5), ("2026-01-20", 2.0))
    ]
    picture = cost_picture(rows, date(2026, 1, 20), count=30)

    assert len(picture.bars) == 30
    assert picture.summary == "$2.50 in the last 30 days"
    assert [bar.title for bar in picture.bars if bar.height] == ["18 Jan 2026: $0.50", "20 Jan 2026: $2.00"]
    assert max(picture.bars, key=lambda bar: bar.height) is picture.bars[-1]
    assert cost_picture([], date(2026, 1, 20)).ticks == ()


def test_small_amounts_of_money_are_not_zero() -> None:
    """Two digits that count; nothing spent is $0.00, and no price is no number."""
    assert [dollars(each) for each in (0, 0.00002, 0.0123, 0.5, 1234.5, None)] == [
        *("$0.00", "<$0.001", "$0.012", "$0.50", "$1,234.50"),
        "no price known",
    ]


def test_the_picture_has_every_answer_its_parts_and_marks_within_its_frame() -> None:
    """The parts of a bar reach from the ground to what was counted; after a compaction there is a summary."""
    picture = context_picture(timeline(_branch(), _budget(), has_price=lambda _model: True))

    assert len(picture.bars) == 3
    assert [mark.kind for mark in picture.marks] == ["compaction"]
    assert "3 answers, 0 flushes, 1 compactions" in picture.summary
    assert {block.part for block in picture.bars[2].blocks} == {"fixed", "summary", "conversation"}
    for bar in picture.bars:
        assert sum(block.height for block in bar.blocks) == pytest.approx(
            picture.bottom - bar.blocks[-1].y, abs=0.5
        )
        for block in bar.blocks:
            assert 0 < block.x < WIDTH
            assert 0 < block.y < HEIGHT


def test_a_picture_without_prices_tells_of_no_dollars() -> None:
    """Of an answer that cost nothing, by a model without a known price, it says that no price is known."""
    branch = [
        replace(entry, body=replace(entry.body, usage=replace(entry.body.usage, cost_usd=0.0)))
        if isinstance(entry.body, AssistantMessage) and entry.body.usage
        else entry
        for entry in _branch()
    ]
    picture = context_picture(timeline(branch, _budget(), has_price=lambda _model: False))

    assert picture.summary.startswith("3 answers, 0 flushes, 1 compactions, no price known;")
    assert all(bar.title.endswith("no price known") for bar in picture.bars)
    assert (
        "$0.0000" in context_picture(timeline(branch, _budget(), has_price=lambda _model: True)).bars[0].title
    )


def test_a_diff_is_told_line_by_line() -> None:
    """Lines that begin like a heading of a diff are lines of the note all the same."""
    lines = diff_lines(diff_of("-- a\nb\n", "++ a\nb\n", "memory/x.md"))

    assert [(line.kind, line.text) for line in lines if line.kind != "place"] == [
        ("file", "memory/x.md"),
        ("gone", "-- a"),
        ("added", "++ a"),
        ("same", "b"),
    ]


def _budget() -> ContextBudget:
    return ContextBudget(
        window_tokens=24_000,
        window_source="model",
        reserve_tokens=12_000,
        soft_threshold_tokens=4_000,
        keep_recent_tokens=6_000,
    )


def _branch() -> list[Entry]:
    found: list[Entry] = []

    def add(body: object) -> None:
        parent = found[-1].id if found else None
        found.append(
            Entry(id=f"e{len(found)}", parent_id=parent, timestamp="2026-01-20T10:00:00Z", body=body)  # type: ignore[arg-type]
        )

    for tokens in (3_000, 9_000):
        add(user_message("The hive needs sugar. " * 100, timestamp_ms=0))
        add(_answer(tokens))
    add(Compaction(summary="Keep bees. " * 50, first_kept_entry_id="e2", tokens_before=9_000))
    add(_answer(4_000))
    return found


def _answer(tokens: int) -> AssistantMessage:
    return AssistantMessage(
        content=(Text(text="Noted."),),
        api="x",
        provider="openai",
        model="x",
        usage=Usage(input_tokens=tokens - 10, output_tokens=10, cost_usd=0.01),
        stop_reason="stop",
        timestamp_ms=0,
    )
