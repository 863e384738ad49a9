"""A conversation is cut into requests: in order, whole, and a call stays with its results."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from nacre.runtime.turn.window.summaries.summariser import digests, end_of_part, pieces_of
from nacre.sessions.contracts.messages import Message, serialise_for_summary
from tests.sessions.talk import answer, result, user, words


def texts(messages: list[Message], most_tokens: int) -> list[str]:
    return [piece.text for piece in pieces_of(messages, most_tokens=most_tokens, count_tokens=words)]


def test_a_call_and_its_results_are_one_piece() -> None:
    """Also when somebody spoke in between, and with other messages around them."""
    messages: list[Message] = [
        user("go"),
        answer("", "c1", "c2"),
        result("c1", "one"),
        user("hm"),
        result("c2", "two"),
        answer("done"),
    ]
    assert [text.count("[") for text in texts(messages, 100)] == [1, 4, 1]


def test_what_was_said_is_counted_as_the_window_counted_it() -> None:
    """A counter that remembers texts is asked for the words again, and for no other long text."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return words(text)

    pieces_of([user("so many words"), answer("and an answer")], most_tokens=100, count_tokens=count)
    assert counted == ["[User]: ", "so many words", "[Assistant]: ", "and an answer"]


def test_calls_without_results_hold_nothing_back() -> None:
    """A call that was aborted or never answered does not tie what follows to it."""
    messages: list[Message] = [answer("hm", "c1", stop_reason="aborted"), user("again"), answer("ok")]
    assert len(texts(messages, 100)) == 3
    assert len(texts([result("lost", "x"), user("a")], 100)) == 2


def test_a_group_that_is_too_long_is_taken_apart_at_messages_first() -> None:
    """Only what does not fit a request by itself is cut inside."""
    messages: list[Message] = [answer("", "c1"), result("c1", "w " * 30), user("next")]
    pieces = texts(messages, 20)
    assert pieces[0].startswith("[Assistant tool calls]")
    assert all(words(piece) <= 20 for piece in pieces)
    assert "".join(pieces).count("w ") == 30


MESSAGE = st.tuples(st.sampled_from(["user", "answer", "tools", "late"]), st.integers(1, 40))


@settings(max_examples=150, deadline=None)
@given(talk=st.lists(MESSAGE, max_size=12), most_tokens=st.integers(1, 60), other_tokens=st.integers(1, 60))
def test_pieces_keep_every_word_in_order(
    talk: list[tuple[str, int]], most_tokens: int, other_tokens: int
) -> None:
    """Whatever the limit: no word lost or moved, no piece too long, the same name for the whole."""
    messages: list[Message] = []
    for number, (kind, size) in enumerate(talk):
        text = f"#{number} " + "w " * size
        if kind in ("tools", "late"):
            messages.append(answer("", f"c{number}"))
            if kind == "late":
                messages.append(user("wait"))
            messages.append(result(f"c{number}", text))
        else:
            messages.append(user(text) if kind == "user" else answer(text))

    pieces = pieces_of(messages, most_tokens=most_tokens, count_tokens=words)
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(
        serialise_for_summary(messages).split()
    )
    assert all(piece.tokens <= most_tokens for piece in pieces if len(piece.text.split()) > 1)

    start, parts = 0, 0
    while start < len(pieces):
        end = end_of_part(pieces, start, most_tokens=most_tokens)
        assert end > start
        start, parts = end, parts + 1
    assert parts <= len(pieces)

    others = pieces_of(messages, most_tokens=other_tokens, count_tokens=words)
    assert digests("x", pieces)[-1] == digests("x", others)[-1]
    assert digests("x", pieces)[-1] != digests("y", pieces)[-1]
