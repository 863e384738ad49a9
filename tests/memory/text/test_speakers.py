"""Who speaks in a transcript is told in each form in which people write transcripts."""

from __future__ import annotations

import pytest

from nacre.memory.text.speakers import is_chat, label_of, lines_of_assistants, may_name_an_assistant

FORMS = [
    ("User: {}", "Assistant: {}"),
    ("**User:** {}", "**Assistant:** {}"),
    ("**You**: {}", "**ChatGPT**: {}"),
    ("- **You**: {}", "- **Claude**: {}"),
    ("> User: {}", "> Assistant: {}"),
    ("### User\n\n{}", "### Assistant\n\n{}"),
    ("## User (10:31)\n\n{}", "## GPT-4 (10:32)\n\n{}"),
    ("[10:31] User: {}", "[10:32] Assistant: {}"),
    ("2026-02-03 10:31 - Human: {}", "2026-02-03 10:32 - AI: {}"),
    ("Human: {}", "AI: {}"),
    ("You said:\n{}", "ChatGPT said:\n{}"),
    ("<user>\n{}", "<assistant>\n{}"),
    ("[USER] {}", "[ASSISTANT] {}"),
    ("🧑 User: {}", "🤖 Assistant: {}"),
    ("Benutzer: {}", "Assistent: {}"),
    ("Utilisateur : {}", "Assistant : {}"),
    ("Usuario: {}", "Asistente: {}"),
    ("Пользователь: {}", "Ассистент: {}"),
    ("用户：{}", "助手：{}"),
    ("ユーザー: {}", "アシスタント: {}"),
    ("[10:31] Ann: {}", "[10:32] Claude: {}"),
]


def answered(*texts: str) -> list[list[str]]:
    """The lines of each text that an assistant says, without empty ones; all texts are of one file."""
    found = lines_of_assistants(dict(enumerate(texts)), lambda: dict.fromkeys(range(len(texts)), "talk.md"))
    lines = [text.split("\n") for text in texts]
    return [
        [lines[at][line] for line in sorted(found.get(at, ())) if lines[at][line]] for at in range(len(texts))
    ]


@pytest.mark.parametrize(("person", "assistant"), FORMS, ids=[form[1].split("\n")[0] for form in FORMS])
def test_an_answer_is_told_from_what_the_person_says(person: str, assistant: str) -> None:
    """Also the paragraphs that go on without a label."""
    said, answer = person.format("I moved to Kiel."), assistant.format("How is it?\n\nBy the sea, I guess.")
    text = f"{said}\n\n{answer}\n\n{person.format('Windy.')}"

    assert may_name_an_assistant(text)
    assert answered(text) == [[line for line in answer.split("\n") if line]]


def test_a_part_of_a_transcript_without_labels_is_a_long_answer() -> None:
    """And what stands before the first label is said by whoever does not speak next."""
    begins, goes_on, ends = "User: Plan?\nAssistant: First …", "Then …\n\nAnd …", "Last.\nUser: Thanks."

    assert answered(begins, goes_on, ends) == [["Assistant: First …"], ["Then …", "And …"], ["Last."]]


@pytest.mark.parametrize(
    "text",
    [
        "Note: buy milk\nTodo: call Ann\nNote: the key is under the mat",
        "Ann: I moved.\nBo: Where to?\nAnn: To Kiel.",
        "Assistant: Maria Lopez, room 4\nDentist: Dr. Blum\nPhone: 555 01 32",
        "| user | asks |\n| assistant | answers |",
        "The AI: a history of it\nUser manual: in the drawer",
    ],
)
def test_notes_that_look_alike_have_no_speakers(text: str) -> None:
    """Nobody answers there."""
    assert answered(text) == [[]]


def test_a_name_is_no_word_alone_on_a_line() -> None:
    """Unless it is a heading or in bold type."""
    assert label_of("Ann") is None
    assert label_of("### Ann") is not None
    assert label_of("**Ann**") is not None


def test_a_chat_has_somebody_who_speaks_again() -> None:
    """A label that stands once is the name of a thing."""
    assert is_chat("Ann: I moved.\nBo: Where to?\nAnn: To Kiel.", 2)
    assert not is_chat("locker: 42\ndentist: Dr. Blum", 0)
