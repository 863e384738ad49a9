"""Which words a session's note keeps, and how a model's answer becomes a file's name."""

from __future__ import annotations

import pytest

from nacre.runtime.session_lifecycle.session_memory import Quote, last_quotes, slug_of
from nacre.sessions.contracts.messages import Text, ToolCall, ToolResultMessage
from tests.runtime.session_lifecycle.spoken import assistant, entry, user


@pytest.mark.covers("A19-1", "W14-1")
def test_commands_and_tools_are_left_out_before_the_last_ones_are_counted() -> None:
    """Fifteen messages are fifteen things that somebody said."""
    call = ToolCall(id="1", name="read", arguments={})
    result = ToolResultMessage(
        tool_call_id="1",
        tool_name="read",
        content=(Text(text="secret file"),),
        is_error=False,
        timestamp_ms=1,
    )
    entries = [
        user("one"),
        assistant("two"),
        user("/status"),
        user("/new and go"),
        assistant("", call),
        entry(result),
        assistant("NO_REPLY"),
        user("/etc/hosts is broken"),
        user("the key is sk-abcdefgh12345678"),
    ]

    assert [quote.text for quote in last_quotes(entries, 3)] == [
        "two",
        "/etc/hosts is broken",
        "the key is [redacted]",
    ]
    assert last_quotes(entries, 15)[0].text == "one"
    assert last_quotes([assistant("Welcome!"), user("/status")], 15) == ()
    assert last_quotes([], 15) == ()


def test_a_long_message_keeps_its_beginning() -> None:
    """A pasted file does not fill the notes."""
    [quote] = last_quotes([user("word " * 10_000)], 15)

    assert quote == Quote(speaker="User", text="word " * 399 + "word […]", at_ms=1_773_525_600_000)


@pytest.mark.parametrize(
    ("answer", "slug"),
    [
        ("boat-trip", "boat-trip"),
        ("  `Boat  Insurance`. ", "boat-insurance"),
        ("Café Müller", "cafe-muller"),
        ("../../etc/passwd", "etc-passwd"),
        ("a-very-long-name-for-a-conversation", ""),
        ("internationalisation-considerations", "internationalisation"),
        ("x" * 40, ""),
        ("one\ntwo", ""),
        ("", ""),
    ],
)
def test_a_slug_is_a_plain_file_name(answer: str, slug: str) -> None:
    """Whatever the model answers, the name stays short and inside the folder."""
    assert slug_of(answer) == slug
