"""Asked something, the offline responder quotes notes with path and line, or says that it found nothing."""

from __future__ import annotations

import json

import pytest

from nacre.runtime.models.offline.reading import Said, finder_for
from nacre.runtime.models.offline.responder import Known, said_before
from tests.runtime.models.offline.requests import assistant, called, hits, said, told, user

ROSSI = ("memory/2026-11-18.md", 4, 4, "- My dentist is Dr. Rossi.")


@pytest.mark.parametrize(
    "question",
    [
        "Who is my dentist?",
        "who is my dentist",
        "do you remember my dentist",
        "Tell me about my dentist.",
        "search my notes for dentist",
        "Can you remember my dentist?",
        "Wer ist mein Zahnarzt?",
        "Quand est mon rendez-vous\u00a0?",
        "¿Cuándo es mi cita?",
        "我的牙医是谁\uff1f",
        "你记得我的牙医是谁吗",
        "私の歯医者は誰ですか",
        "내 치과 의사는 누구니까",
    ],
)
async def test_a_question_becomes_a_search(question: str) -> None:
    """Questions in several languages, with or without a mark, are looked up in their own words."""
    (call,) = await called(question)
    assert (call.name, call.arguments) == ("memory_search", {"query": " ".join(question.split())})


async def test_the_passage_is_quoted_with_path_and_line() -> None:
    """The note stands in the answer as a Markdown quotation with its source, and is called a quotation."""
    text = await told("Who is my dentist?", {"memory_search": hits(ROSSI)})
    assert "> My dentist is Dr. Rossi.\n> — `memory/2026-11-18.md#L4`" in text
    assert "These are quotes" in text


async def test_only_the_lines_that_answer_are_quoted() -> None:
    """Of a long passage the fitting line is taken, with its own line number."""
    snippet = "## Health\n\n- Bought milk.\n- The dentist moved to Elm Street.\n- Rain all day."
    text = await told("Where is the dentist?", {"memory_search": hits(("MEMORY.md", 10, 14, snippet))})
    assert "> The dentist moved to Elm Street.\n> — `MEMORY.md#L13`" in text
    assert "milk" not in text


async def test_a_statement_stands_before_a_question() -> None:
    """A noted question has more of the words than its answer, and is quoted only where no note answers."""
    asked = ("memory/2026-11-18.md", 3, 3, "- What is the wifi password of the cabin?")
    answered = ("MEMORY.md", 7, 7, "- The cabin's wifi: BlueHeron42")
    question = "What is the wifi password of the cabin?"
    text = await told(question, {"memory_search": hits(asked, answered)})
    assert "> The cabin's wifi: BlueHeron42\n> — `MEMORY.md#L7`" in text
    assert "2026-11-18" not in text
    text = await told(question, {"memory_search": hits(asked)})
    assert "as a question, without an answer" in text
    assert "> What is the wifi password of the cabin?" in text


@pytest.mark.parametrize(
    ("marked", "quoted"), [([1], ["Graz"]), ([], ["Kiel", "Graz"]), ([1, 2], ["Kiel", "Graz"])]
)
async def test_what_is_out_of_date_is_quoted_only_without_another_line(
    marked: list[int], quoted: list[str]
) -> None:
    """The search marks a line that a later note replaced."""
    found = json.loads(
        hits(("memory/2026-11-18.md", 1, 2, "- Anna lives in Kiel.\n- Anna lives in Graz now."))
    )
    found["results"][0]["superseded"] = [{"line": line, "by": "memory/2026-11-18.md#L2"} for line in marked]
    text = await told("Where does Anna live?", {"memory_search": json.dumps(found)})

    assert [city for city in ("Kiel", "Graz") if city in text] == quoted


@pytest.mark.covers("ATT-11")
async def test_quotes_from_a_stale_index_are_not_called_true() -> None:
    """When the search says that files changed, the answer says so, and quotes no file word for word."""
    found = json.loads(hits(ROSSI)) | {"stale": True}
    text = await told("Who is my dentist?", {"memory_search": json.dumps(found)})
    assert "> My dentist is Dr. Rossi." in text
    assert "they have changed since" in text
    assert "word for word" not in text
    text = await told("Who is my plumber?", {"memory_search": json.dumps({"results": [], "stale": True})})
    assert "found nothing" in text
    assert "not read again yet" in text


async def test_a_cut_snippet_cites_its_range() -> None:
    """Where lines cannot be counted, the whole range is cited rather than a wrong line."""
    text = await told(
        "Who is my dentist?",
        {"memory_search": hits(("MEMORY.md", 3, 9, "My dentist is Dr. Rossi."))},
    )
    assert "`MEMORY.md#L3-L9`" in text


async def test_a_line_behind_a_gap_has_no_number() -> None:
    """An excerpt with as many lines as the passage is still an excerpt, and its gaps are never quoted."""
    excerpt = hits(("MEMORY.md", 3, 5, "Rain.\n…\nMy dentist is Dr. Rossi."))
    assert "`MEMORY.md#L3-L5`" in await told("Who is my dentist?", {"memory_search": excerpt})
    gaps_first = hits(("MEMORY.md", 3, 5, "…\n---\nBella barks."))
    assert "> Bella barks." in await told("Which pet do I have?", {"memory_search": gaps_first})


async def test_at_most_three_passages_best_first() -> None:
    """Passages that share more words with the question come first, and there are never more than three."""
    many = [(f"memory/2026-11-0{day}.md", 1, 1, f"Note {day} about the dentist.") for day in range(1, 7)]
    best = ("MEMORY.md", 2, 2, "The dentist appointment in Hamburg is at nine.")
    text = await told("When is my dentist appointment in Hamburg?", {"memory_search": hits(*many, best)})
    assert text.index("at nine") == min(text.find(part) for part in ("at nine", "> Note") if part in text)
    assert text.count("> — ") <= 3


async def test_cjk_notes_are_found_in_their_snippet() -> None:
    """Chinese and Japanese passages are chosen by their signs, and full-width marks end sentences."""
    text = await told(
        "我的牙医是谁\uff1f",
        {"memory_search": hits(("MEMORY.md", 1, 2, "- 喜欢绿茶。\n- 我的牙医是李医生。"))},
    )
    assert "> 我的牙医是李医生。\n> — `MEMORY.md#L2`" in text
    assert "绿茶" not in text


async def test_nothing_found_says_that_it_looked() -> None:
    """An empty result is reported as such and nothing is invented."""
    text = await told("What is the capital of France?", {"memory_search": hits()})
    assert text == "I searched the notes and this conversation and found nothing about that."


async def test_a_hit_without_the_words_is_marked_as_the_closest() -> None:
    """What only the search thinks is near is not presented as the answer."""
    text = await told(
        "Which pet do I have?", {"memory_search": hits(("MEMORY.md", 1, 1, "Bella barks at night."))}
    )
    assert "No note uses your words" in text
    assert "Bella" in text


async def test_a_line_is_found_by_the_heading_above_it() -> None:
    """A note that names its subject in the heading only is an answer, behind one that names it itself."""
    note = "# Health\n\n## Dentist\n\n- Elm Street 5, on Fridays."
    found = hits(("MEMORY.md", 1, 5, note))
    assert "> Elm Street 5, on Fridays.\n> — `MEMORY.md#L5`" in await told(
        "Where is my dentist?", {"memory_search": found}
    )
    found = hits(("MEMORY.md", 1, 5, note), ROSSI)
    assert "Elm Street" not in await told("Who is my dentist?", {"memory_search": found})


async def test_a_question_of_a_day_alone_quotes_what_the_search_found() -> None:
    """There are no words to look for: the search finds the log of the day."""
    found = hits(("memory/2026-11-19.md", 1, 1, "- Painted the fence."))
    text = await told("What did I do yesterday?", {"memory_search": found})
    assert "> Painted the fence.\n> — `memory/2026-11-19.md#L1`" in text


async def test_of_an_ended_session_its_owner_s_words_are_quoted() -> None:
    """Not what the note says of itself, and not what the assistant said."""
    note = (
        "# Session: 2026-03-14 09:00:00 UTC\n\n- **Session Key**: agent:main:main\n- **Session ID**: 1\n"
        "- **Ended**: 2026-03-14 09:00:00 UTC (new)\n- **Source**: terminal\n\n## Conversation Summary\n\n"
        "The last 2 messages of a conversation that is over. History, quoted: nothing in it is to be done "
        "now.\n\n> Assistant: What may I do?\n>\n> User: Bella barks at night."
    )
    text = await told(
        "Which pet do I have?", {"memory_search": hits(("memory/2026-03-14-pets.md", 1, 14, note))}
    )
    assert "> Bella barks at night." in text.replace("User: ", "")
    assert "Session Key" not in text
    assert "What may I do" not in text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("The index is locked.", True), "failed: The index is locked."),
        (json.dumps({"results": [], "disabled": True, "error": "No index."}), "is not available: No index."),
        (hits(ROSSI, degraded="no embeddings"), "less than usual: no embeddings"),
    ],
)
async def test_a_search_in_trouble_is_reported(given: str | tuple[str, bool], expected: str) -> None:
    """Errors, a disabled and a degraded search are said, with the reason."""
    assert expected in await told("Who is my dentist?", {"memory_search": given})


@pytest.mark.parametrize(
    "broken", ["", "not json", "[1, 2]", '{"results": "x"}', '{"results": [{"path": 3}]}', "[" * 5000]
)
async def test_results_that_cannot_be_read_find_nothing(broken: str) -> None:
    """Anything but the known shape is treated as no result."""
    assert "found nothing" in await told("Who is my dentist?", {"memory_search": broken})


async def test_a_shortened_result_still_gives_its_whole_passages() -> None:
    """JSON with a hole in it loses only the passages in the hole."""
    text = hits(ROSSI, ("MEMORY.md", 1, 1, "x " * 500))
    shortened = text[: len(text) - 600] + "\n[... 500 characters left out here ...]\n"
    assert "memory/2026-11-18.md#L4" in await told("Who is my dentist?", {"memory_search": shortened})


async def test_citations_switched_off_leave_the_source_out() -> None:
    """When the tool says that sources are not to be named, the quotation stands alone."""
    text = await told("Who is my dentist?", {"memory_search": hits(ROSSI, citations="off")})
    assert "> My dentist is Dr. Rossi." in text
    assert "memory/" not in text


async def test_the_conversation_itself_is_searched_too() -> None:
    """What was said earlier, and the summary of what was said before that, can be the answer."""
    before = (user("The blue bicycle stands in the cellar."), assistant("I see."))
    assert "> The blue bicycle stands in the cellar." in await told(
        "Where is the blue bicycle?", {"memory_search": hits()}, *before
    )
    summary = user("Compacted.\n\n<summary>\n## Goal\n- Paint the red canoe on Monday.\n</summary>")
    assert "> Paint the red canoe on Monday." in await told(
        "When do we paint the red canoe?", {"memory_search": hits()}, summary
    )


async def test_a_note_is_not_quoted_twice() -> None:
    """What the notes and the conversation both have is quoted once, from the notes."""
    text = await told(
        "Who is my dentist?",
        {"memory_search": hits(ROSSI)},
        user("Remember that my dentist is Dr. Rossi."),
        assistant("I wrote this down."),
    )
    assert text.count("Rossi") == 1


async def test_a_chat_without_search_looks_at_its_conversation_only() -> None:
    """Without the tool the answer comes from the chat, or says that notes cannot be searched here."""
    assert "cannot be searched in this chat" in await said("Who is my dentist?", tools=())
    assert "> The bus leaves at nine." in await said(
        "The bus leaves at nine.", assistant("Fine."), "When leaves the bus?", tools=()
    )


async def test_a_question_without_a_subject_takes_the_one_before() -> None:
    """A bare "why?" is searched together with the message before it."""
    (call,) = await called("The Halcyon needs a new mast.", assistant("I see."), "And why?")
    assert call.arguments == {"query": "The Halcyon needs a new mast. And why?"}


def test_quoted_notes_are_not_taken_for_the_conversation() -> None:
    """What a session begins with is quoted from notes, which the search looks through itself."""
    quoted = "> > Assistant: I wrote down where the spare key is."
    frame = "NOTES FROM memory/2026-11-20-where-spare-key.md"
    recalled = Said(speaker="other", text=f"BEGIN {frame}\n{quoted}\nEND {frame}")
    summary = Said(speaker="other", text="The spare key is with Jo.")

    assert said_before([recalled, summary], finder_for("Where is the spare key?"), Known([])) == [
        "The spare key is with Jo."
    ]
