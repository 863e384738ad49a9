"""What code adds below a summary, and takes off again before the next one."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.compaction.cut import CompactionPlan, plan_compaction
from nacre.sessions.compaction.facts import (
    SummaryFacts,
    facts_of,
    has_identifier,
    identifiers,
    with_facts,
    without_facts,
)
from nacre.sessions.contracts.messages import Message, Text, ToolResultMessage
from nacre.sessions.entries.entries import Compaction
from tests.sessions.talk import Branch, answer, result, user, words


def failed(call: str, text: str, **details: object) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call,
        tool_name="shell",
        content=(Text(text=text),) if text else (),
        is_error=True,
        timestamp_ms=1,
        details=details or None,
    )


def compaction(summary: str) -> Compaction:
    return Compaction(summary=summary, first_kept_entry_id="x", tokens_before=1)


@pytest.mark.covers("A11-4")
def test_tool_failures_are_listed_with_their_codes() -> None:
    """White space is collapsed, long text is cut, an empty failure says that it failed."""
    facts = facts_of(
        None,
        [
            failed("a", "no such\n   file", status="failed", exitCode=2),
            failed("b", ""),
            failed("c", "x" * 400),
        ],
    )
    assert facts.tool_failures[0] == "shell (status=failed exitCode=2): no such file"
    assert facts.tool_failures[1] == "shell: failed (no output)"
    assert facts.tool_failures[2] == f"shell: {'x' * 239}…"


@pytest.mark.covers("A11-4")
def test_a_failure_counts_once_and_eight_are_shown() -> None:
    """A second result of the same call is no second failure; of ten failures two are only counted."""
    twice = facts_of(None, [failed("a", "one"), failed("a", "one")])
    many = facts_of(None, [failed(f"c{number}", f"failure {number}") for number in range(10)])

    assert twice.tool_failures == ("shell: one",)
    assert len(many.tool_failures) == 9
    assert many.tool_failures[-1] == "...and 2 more"


@pytest.mark.covers("A11-4")
def test_without_failures_nothing_is_added() -> None:
    """Results that went well leave no heading behind."""
    assert with_facts("## Goal\nBees", facts_of(None, [result("a", "fine")])) == "## Goal\nBees"


@pytest.mark.covers("ASK-19")
def test_identifiers_that_the_summary_lost_are_appended() -> None:
    """Those that its own words hold are not said twice; tool output is no source of them."""
    facts = facts_of(
        None,
        [
            user("Deploy src/hive.py of #412 to db.local:5432."),
            answer("", "c1", tool="shell", path="notes/bees.md"),
            result("c1", "see other/noise.py"),
        ],
    )
    text = with_facts("## Goal\nDeploy `src/hive.py`, not #4120.", facts)

    assert facts.identifiers == ("src/hive.py", "#412", "db.local:5432", "notes/bees.md")
    assert text.endswith("## Exact identifiers\n- `#412`\n- `db.local:5432`\n- `notes/bees.md`")


def test_identifiers_go_on_over_compactions() -> None:
    """What the last summary held, in its words or in its list, is there for the next one; newest win."""
    before = compaction("## Goal\nFix #7.\n\n## Exact identifiers\n- `src/old.py`\n- `10.0.0.1:80`")
    facts = facts_of(before, [user("and #7 again, then #8")])
    many = facts_of(before, [user(" ".join(f"#{number}" for number in range(100, 130)))])

    assert facts.identifiers == ("src/old.py", "10.0.0.1:80", "#7", "#8")
    assert len(many.identifiers) == 24
    assert many.identifiers[-1] == "#129"


def test_no_more_is_read_than_the_newest_identifiers_take() -> None:
    """A history of any length costs what its newest part does; what was mentioned last stands last."""
    texts = [f"see #{number}, and #1 again" for number in range(1_000, 0, -1)]
    unread = iter(texts)

    assert identifiers(unread, most=3) == ["#999", "#1000", "#1"]
    assert next(unread) == texts[2]


@pytest.mark.parametrize(
    "name",
    ["https://e.org", "~/a/b", "src/a.py", "a.md", "#4", "AB-12", "db.:5432", "v1.2.3", "9fceb02"],
)
def test_each_kind_of_name_is_found_alone(name: str) -> None:
    """What most texts have none of is looked for first, and overlooks no name."""
    assert identifiers([f"so {name}"], most=9) == [name]
    assert has_identifier(name)


@given(st.text(st.sampled_from("abf09/.#:-_ AZ@é\ud800"), max_size=30))
def test_texts_are_skipped_only_where_nothing_would_be_found(text: str) -> None:
    """A text is read as its copy behind an identifier, which no quick look skips."""
    found, read_anyway = (set(identifiers([each], most=99)) for each in (text, f"#9 {text}"))
    assert read_anyway - {"#9"} == found - {"#9"}


@pytest.mark.covers("W8-5")
def test_failures_and_lists_are_taken_off_before_the_next_summary() -> None:
    """A summary does not grow by lists of lists; an open ask stays until a model settles it."""
    facts = SummaryFacts(
        open_asks=("Book the ferry?",),
        identifiers=("#1",),
        tool_failures=("shell: no",),
        read_files=("a.md",),
        modified_files=("b.md",),
    )
    text = with_facts("## Goal\nBees", facts)

    assert without_facts(text) == "## Goal\nBees\n\n## Asks without a recorded answer\n- Book the ferry?"
    assert with_facts(text, facts) == text
    assert without_facts("## Tool Failures\n- x: y") == ""


def planned(branch: Branch) -> CompactionPlan:
    plan = plan_compaction(branch.entries, keep_recent_tokens=8, count_tokens=words, tokens_before=0)
    assert isinstance(plan, CompactionPlan)
    return plan


@pytest.mark.parametrize("before", [(), (answer("I look.", "c1"), result("c1"))])
@pytest.mark.parametrize("partly", ["", "I am just"])
@pytest.mark.covers("ASK-17")
def test_an_ask_whose_answer_was_broken_off_is_named(partly: str, before: tuple[Message, ...]) -> None:
    """Aborted with a word said or without, also behind a tool; asks that were answered are not."""
    branch = Branch(
        [
            user("What is the time?"),
            answer("Nine."),
            user("Please book the ferry."),
            *before,
            answer(partly, stop_reason="aborted"),
            user("And the weather?"),
            answer("Fine."),
            user("Thanks."),
            answer("You are welcome."),
        ]
    )
    assert planned(branch).facts.open_asks == ("Please book the ferry.",)


def test_an_ask_that_the_summary_holds_is_not_repeated() -> None:
    """The summary's own words are read without regard to white space."""
    facts = SummaryFacts(open_asks=("Please book the ferry.",))
    said = "## Goal\nPlease book\nthe ferry."

    assert with_facts(said, facts) == said
    assert with_facts("## Goal\nA ferry", facts).endswith("answer\n- Please book the ferry.")
