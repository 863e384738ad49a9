"""What the logs change in the bank: pages by kind and entity, links back, hand edits kept, nothing twice."""

from __future__ import annotations

import re

from hypothesis import given, settings, strategies as st

from nacre.memory.files.bank.opinions import opinions_of
from nacre.memory.files.bank.pages import LINK, OPINIONS, WORLD
from nacre.memory.files.bank.proposal import proposal
from nacre.memory.files.bank.taken import NAME as TAKEN
from tests.memory.files.bank.logs import DAY, LOG, after, of

PETER = "bank/entities/Peter.md"
LATER = "memory/2026-02-02.md"


def _opinion(log: str, pages: dict[str, str], day: str = LATER) -> float:
    made = after({DAY: LOG, day: f"## Retain\n{log}\n"}, pages)
    return opinions_of(made[OPINIONS])[0].confidence


def test_each_line_is_put_on_the_page_of_its_kind_and_of_its_entities() -> None:
    """The layout of the description, and every item links to its line of the log."""
    pages = {change.path: change.after for change in of(LOG).changes}

    assert set(pages) == {
        WORLD,
        OPINIONS,
        PETER,
        "bank/experience.md",
        "bank/entities/warelay.md",
        "bank/entities/The-Castle.md",
    }
    assert pages[WORLD] == (
        "# World\n\n- @Peter: Currently in Marrakech (Jan 18–22) for Andy's birthday. "
        "(memory/2026-01-20.md#L7)\n"
    )
    assert pages[OPINIONS] == (
        "# Opinions\n\n- @Peter: Prefers concise replies on WhatsApp. (c=0.95)\n"
        "  - for: memory/2026-01-20.md#L10 (c=0.95)\n"
    )
    assert "## World\n\n- Currently in Marrakech" in pages[PETER]
    assert "- Prefers concise replies on WhatsApp. (c=0.95, bank/opinions.md)\n" in pages[PETER]
    log = LOG.splitlines()
    for page in pages.values():
        for link in LINK.findall(page):
            assert re.match(r"- [WBOS]", log[int(link.rpartition("L")[2]) - 1])


def test_a_second_run_changes_nothing() -> None:
    """Also where `.taken` was lost, as after a kill before it was written."""
    pages = after({DAY: LOG}, {})
    again = proposal({DAY: LOG}, pages)
    without = proposal({DAY: LOG}, {path: text for path, text in pages.items() if path != TAKEN})

    assert (again.changes, again.taken.before) == ((), again.taken.after)
    assert without.changes == ()


def test_what_a_hand_did_is_kept() -> None:
    """A reworded item, a removed one, words around them, Windows line ends and a number stay as they are."""
    pages = after({DAY: LOG}, {})
    pages[WORLD] = (
        "# My world\r\n\r\nWords of mine.\r\n\r\n"
        "- @Peter: in Morocco (memory/2026-01-20.md#L7)\r\n\r\nEnd.\r\n"
    )
    pages[PETER] = "# Peter\n\nMy cousin.\n"
    pages[OPINIONS] = pages[OPINIONS].replace("(c=0.95)\n  -", "(c=0.4)\n  -")

    assert proposal({DAY: LOG}, pages).changes == ()
    more = after({DAY: LOG, LATER: "## Retain\n- W @peter: Is back.\n"}, pages)
    assert more[WORLD] == f"{pages[WORLD]}\r\n- @peter: Is back. (memory/2026-02-02.md#L2)\r\n"
    assert more[PETER] == f"{pages[PETER]}\n## World\n\n- Is back. (memory/2026-02-02.md#L2)\n"
    assert more[OPINIONS] == pages[OPINIONS]


def test_links_follow_their_lines() -> None:
    """A line that moved in its log is linked where it stands now, on every page, and is not put twice."""
    pages = after({DAY: LOG}, {})
    moved = LOG.replace("- W @Peter", "- W @Anna: Has arrived.\n- W @Peter")
    made = after({DAY: moved}, pages)

    assert made[WORLD].count("Marrakech") == 1
    assert "birthday. (memory/2026-01-20.md#L8)" in made[WORLD]
    assert "- @Anna: Has arrived. (memory/2026-01-20.md#L7)" in made[WORLD]
    assert "for: memory/2026-01-20.md#L11" in made[OPINIONS]
    assert proposal({DAY: moved}, made).changes == ()


def test_evidence_moves_an_opinion() -> None:
    """The same again raises it, the contrary or a doubtful repetition lowers it, another statement is new."""
    begun = after({DAY: LOG.replace("0.95", "0.6")}, {})
    said = "@Peter: {}oncise replies on WhatsApp."

    assert _opinion(f"- O(c=0.9) {said.format('Prefers c')}", begun) > 0.6
    assert _opinion(f"- O(c=0.9) {said.format('Does not prefer c')}", begun) < 0.6
    assert _opinion(f"- O(c=0.1) {said.format('Prefers c')}", begun) < 0.6
    assert _opinion(f"- O(c=0.9) {said.format('Prefers c').replace('@Peter', '@Anna')}", begun) == 0.6
    assert _opinion("- O(c=0.9) @Peter: Prefers long replies on the phone.", begun) == 0.6


def test_entity_pages_follow_the_opinion() -> None:
    """The number on the page of an entity is that of `opinions.md`, also one that a hand wrote there."""
    pages = after({DAY: LOG}, {})
    pages[OPINIONS] = pages[OPINIONS].replace("WhatsApp. (c=0.95)", "WhatsApp. (c=0.20)")

    assert "(c=0.20, bank/opinions.md)" in after({DAY: LOG}, pages)[PETER]


@settings(max_examples=30)
@given(st.permutations([0.9, 0.2, 0.7, 0.55]))
def test_lines_of_one_day_count_the_same_in_any_order(confidences: list[float]) -> None:
    """The number depends on what the day's lines say, and not on which came first."""
    lines = "".join(f"- O(c={sure}) @Peter: Likes jazz.\n" for sure in confidences)
    made = after({DAY: f"## Retain\n{lines}"}, {})

    assert [opinion.confidence for opinion in opinions_of(made[OPINIONS])] == [0.59]


WORDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"), min_size=1, max_size=30)
LINES = st.tuples(
    st.sampled_from(["W", "B", "O(c=0.8)", "S", "X"]), st.sampled_from([" @a", " @B @a", ""]), WORDS
)


@settings(max_examples=100)
@given(st.lists(LINES, max_size=8), st.lists(LINES, max_size=8))
def test_any_two_days_come_to_rest(
    first: list[tuple[str, str, str]], second: list[tuple[str, str, str]]
) -> None:
    """Whatever the lines say, one writing is enough, day by day, and no page is lost."""
    logs = {
        day: "## Retain\n" + "".join(f"- {kind}{names}: {words}\n" for kind, names, words in lines)
        for day, lines in ((DAY, first), (LATER, second))
    }
    one = after({DAY: logs[DAY]}, {})
    both = after(logs, one)

    assert proposal({DAY: logs[DAY]}, one).changes == ()
    assert proposal(logs, both).changes == ()
    assert all(path in both for path in one)
