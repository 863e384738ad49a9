"""Where a compaction cuts, and what its summary must cover."""

from __future__ import annotations

import pytest

from nacre.sessions.compaction.cut import CompactionPlan, NothingToCompact, plan_compaction
from nacre.sessions.contracts.messages import message_text
from nacre.sessions.view.transcript import build_transcript
from tests.sessions.talk import Branch, answer, result, user, words


def planned(branch: Branch, keep: int) -> CompactionPlan | NothingToCompact:
    return plan_compaction(branch.entries, keep_recent_tokens=keep, count_tokens=words, tokens_before=99)


def plan(branch: Branch, keep: int) -> CompactionPlan:
    found = planned(branch, keep)
    assert isinstance(found, CompactionPlan), found
    return found


def turns(count: int, size: int = 6) -> Branch:
    """`count` exchanges; each message has `size` words and so `size + 4` tokens."""
    branch = Branch()
    for number in range(count):
        branch.say(user(f"q{number} " + "w " * (size - 1)))
        branch.say(answer(f"a{number} " + "w " * (size - 1)))
    return branch


@pytest.mark.covers("A10-1")
def test_the_cut_keeps_about_the_recent_tokens() -> None:
    """The newest messages up to the wanted size stay, everything older is to be summarized."""
    found = plan(turns(5), 40)
    assert found.first_kept_entry_id == "e7"
    assert [message_text(message)[:2] for message in found.to_summarize] == [
        "q0",
        "a0",
        "q1",
        "a1",
        "q2",
        "a2",
    ]
    assert (found.turn_prefix, found.tokens_before, found.previous_summary) == ((), 99, None)


@pytest.mark.covers("A10-1")
def test_what_fits_is_not_compacted() -> None:
    """A session smaller than what would be kept has nothing to compact, and the reason says so."""
    found = planned(turns(2), 1000)
    assert isinstance(found, NothingToCompact)
    assert "about 40 tokens" in found.reason
    assert isinstance(planned(Branch(), 10), NothingToCompact)


@pytest.mark.covers("A10-1")
def test_a_call_is_never_parted_from_its_result() -> None:
    """A cut that would fall on a result moves on to the next message that may begin the kept part."""
    branch = Branch(
        [user("q"), answer("", "c1"), result("c1", "w " * 50), answer("then"), user("more"), answer("ok")]
    )
    found = plan(branch, 30)
    assert found.first_kept_entry_id == "e4"
    assert found.turn_prefix
    assert len(found.turn_prefix) == 3


@pytest.mark.covers("A11-3")
def test_a_late_result_holds_the_cut_back() -> None:
    """Where a user message stands between a call and its result, the cut stays before the call."""
    branch = turns(2)
    branch.say(answer("", "c1"))
    branch.say(user("hm"))
    branch.say(result("c1", "w " * 20))
    assert plan(branch, 10).first_kept_entry_id == "e5"


@pytest.mark.covers("W8-4")
def test_a_giant_last_result_still_has_a_legal_cut() -> None:
    """When no cut lies behind the wanted place, the last one before it is taken, not the first of all."""
    branch = turns(3)
    branch.say(user("go"))
    branch.say(answer("", "c1"))
    branch.say(result("c1"))
    branch.say(answer("", "c2"))
    branch.say(result("c2", "w " * 500))
    found = plan(branch, 20)
    assert (found.first_kept_entry_id, bool(found.turn_prefix)) == ("e10", True)
    assert [message_text(message) for message in found.turn_prefix] == ["go", "", "done"]


@pytest.mark.covers("A10-1")
def test_the_request_of_a_split_turn_stays_verbatim() -> None:
    """When a long turn is cut in its middle, the user's request is in the next context, word for word."""
    branch = Branch([user("the request")])
    for number in range(6):
        branch.say(answer(f"step {number}", f"c{number}"))
        branch.say(result(f"c{number}", "w " * 10))
    found = plan(branch, 30)
    branch.compact(found.first_kept_entry_id)
    shown = [message_text(item.message) for item in build_transcript(branch.entries)]
    assert shown[1:3] == ["the request", "step 5"]


def test_a_request_alone_is_not_summarized() -> None:
    """A cut directly behind a request moves back to it: no model is asked to summarize one request."""
    branch = turns(3)
    branch.say(user("short question"))
    branch.say(answer("w " * 100))
    found = plan(branch, 50)
    assert (found.first_kept_entry_id, bool(found.turn_prefix)) == ("e7", False)


def test_the_exchange_before_an_unanswered_message_stays() -> None:
    """What was just said most likely refers to the last answer, so the last exchange is kept with it."""
    branch = turns(3)
    branch.say(user("yes, the second one " + "w " * 30))
    assert plan(branch, 30).first_kept_entry_id == "e5"


def test_a_large_exchange_before_an_unanswered_message_goes() -> None:
    """The last exchange is kept with a new message only when it is small; the new message always is."""
    branch = turns(2)
    branch.say(user("q"))
    branch.say(answer("w " * 200))
    branch.say(user("and now " + "w " * 30))
    assert plan(branch, 30).first_kept_entry_id == "e7"


def test_records_before_the_first_kept_message_are_kept_with_it() -> None:
    """Settings and flush records right before the cut stay on the kept side."""
    branch = turns(2)
    branch.record()
    branch.record("setting")
    branch.say(user("q"))
    branch.say(answer("a"))
    assert plan(branch, 10).first_kept_entry_id == "e5"


@pytest.mark.covers("A10-11", "W8-3", "ASK-3")
def test_the_second_compaction_begins_at_the_first_ones_tail() -> None:
    """What the first compaction kept is summarized or kept by the second, never lost."""
    branch = turns(4)
    first = plan(branch, 40)
    branch.compact(first.first_kept_entry_id, "Summary one.")
    for message in turns(2, size=8).entries:
        branch.say(message.body)  # type: ignore[arg-type]  # `turns` says messages only

    second = plan(branch, 40)

    assert [message_text(message)[:2] for message in second.to_summarize] == ["q2", "a2", "q3", "a3"]
    assert second.previous_summary == "Summary one."


def test_a_compaction_without_its_kept_part_covers_all_before_it() -> None:
    """When the first kept entry of the last compaction is not there, the next begins right behind it."""
    branch = turns(2)
    branch.compact("nowhere")
    for text in ("b1", "b2", "b3"):
        branch.say(user(text))
        branch.say(answer("yes"))
    assert [message_text(message) for message in plan(branch, 8).to_summarize] == ["b1", "yes", "b2", "yes"]


@pytest.mark.covers("W8-2")
def test_right_after_a_compaction_there_is_nothing_to_do() -> None:
    """With the same wanted size a second compaction in a row finds nothing; a smaller one does."""
    branch = turns(6)
    branch.compact(plan(branch, 40).first_kept_entry_id)
    branch.record()
    assert isinstance(planned(branch, 40), NothingToCompact)
    assert plan(branch, 20).first_kept_entry_id == "e11"


def test_one_endless_turn_cannot_be_compacted() -> None:
    """When only the request precedes the cut there is nothing to summarize, and the history stays."""
    branch = Branch([user("go"), answer("", "c1"), result("c1", "w " * 500)])
    assert planned(branch, 10) == NothingToCompact(
        reason="Nothing to compact: the latest turn is all there is to summarize."
    )


def test_recalled_notes_are_not_summarized() -> None:
    """Notes that came from files are not written into a summary, and no kept part begins with them."""
    branch = Branch()
    branch.recall("w " * 20)
    for entry in turns(3).entries:
        branch.say(entry.body)  # type: ignore[arg-type]  # `turns` says messages only
    branch.recall("w " * 30)
    found = plan(branch, 25)
    assert all("w w w w w w w w" not in message_text(message) for message in found.to_summarize)
    assert found.first_kept_entry_id == "e6"


def test_file_lists_go_on_over_compactions() -> None:
    """Files read and changed in summarized parts are listed with those of earlier compactions."""
    branch = Branch(
        [user("q"), answer("", "c1", path="b.md", tool="edit"), result("c1"), answer("done " + "w " * 40)]
    )
    branch.compact(
        "e1",
        "S\n\n<read-files>\nb.md\nold.md\n... and 3 more\n</read-files>",
        details={"modifiedFiles": ["new.md"]},
    )
    branch.say(user("next"))
    branch.say(answer("", "c2", path="c.md"))
    branch.say(result("c2"))
    branch.say(user("x " * 50))

    found = plan(branch, 10)

    assert found.facts.read_files == ("c.md", "old.md")
    assert found.facts.modified_files == ("b.md", "new.md")
    assert found.previous_summary == "S"
    assert found.details() == {"readFiles": ["c.md", "old.md"], "modifiedFiles": ["b.md", "new.md"]}


def test_only_what_is_kept_is_counted() -> None:
    """A plan for a long history takes no time for the tokens of what goes."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return words(text)

    found = plan_compaction(
        turns(200).entries, keep_recent_tokens=60, count_tokens=count, tokens_before=1_000
    )
    assert isinstance(found, CompactionPlan)
    assert len(set(counted)) < 20
