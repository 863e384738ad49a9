"""What counts as calling a chat command."""

from __future__ import annotations

from nacre.runtime.contracts.inbound import called_word, slash_word


def test_only_who_is_addressed_first_is_passed_over() -> None:
    """A name later in the message belongs to it."""
    assert called_word("@nacre: /label call @bob /tmp", ["/label"]) == ("/label", "call @bob /tmp")
    assert called_word("<@!7> /new", ["/new"]) == ("/new", "")
    assert called_word("/new@nacre_bot now", ["/new"]) == ("/new", "now")
    assert called_word("/label: a", ["/label"]) == ("/label", "a")
    assert called_word("/labels", ["/label"]) is None
    assert slash_word("tell @bob /new") is None
