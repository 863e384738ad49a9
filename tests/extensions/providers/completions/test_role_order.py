"""Which order of roles goes out to whom, and that nothing a person said is lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from nacre.extensions.providers.completions.messages import Family, merge, provider_family, role_groups
from nacre.sessions.contracts.messages import (
    Image,
    Message,
    Text,
    ToolResultMessage,
    UserMessage,
    message_text,
)
from tests.sessions.talk import answer, result, user


def in_role_order(messages: Sequence[Message], *, family: Family) -> Sequence[Message]:
    """The messages as they go out; `messages` itself when each goes out alone and in its place."""
    groups = role_groups(messages, family=family)
    if [id(message) for group in groups for message in group] == [
        id(message) for message in messages
    ] and all(len(group) == 1 for group in groups):
        return messages
    return [group[0] if len(group) == 1 else merge(group) for group in groups]


STRICT: tuple[Family, ...] = ("anthropic", "google", "mistral", "other")
PNG = Image(data="aGk=", mime_type="image/png")


@pytest.mark.parametrize(
    ("model_name", "family"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic"),
        ("openrouter/anthropic/claude-sonnet-4", "anthropic"),
        ("vertex_ai/claude-3-5-sonnet", "anthropic"),
        ("gemini/gemini-2.5-pro", "google"),
        ("vertex_ai/gemini-2.5-flash", "google"),
        ("mistral/mistral-large-latest", "mistral"),
        ("openai/gpt-5-mini", "openai"),
        ("azure/my-deployment", "openai"),
        ("gpt-4o", "openai"),
        ("ollama/llama3", "other"),
        ("my-model", "other"),
    ],
)
def test_the_maker_of_a_model_says_its_rules(model_name: str, family: Family) -> None:
    """The maker counts, also where somebody else sells the model; unknown ones get the strict rules."""
    assert provider_family(model_name) == family


@pytest.mark.parametrize("family", ["openai", *STRICT])
@pytest.mark.covers("A8-5")
def test_a_sound_order_is_left_alone(family: Family) -> None:
    """What is in order goes out as the very object that came in, tool results and all."""
    for messages in ([], [user()], [user(), answer("", "c1"), result("c1"), answer("done"), user()]):
        assert in_role_order(messages, family=family) is messages


@pytest.mark.parametrize("family", STRICT)
@pytest.mark.covers("A8-5")
def test_consecutive_user_messages_are_merged(family: Family) -> None:
    """Two or three become one, with texts and images in order and the newest time; nothing is lost."""
    picture = UserMessage(content=(PNG, Text(text="two")), timestamp_ms=7)
    messages = [
        user("one"),
        picture,
        UserMessage(content=(Text(text="three"),), timestamp_ms=9),
        answer("ok"),
    ]
    merged, other = in_role_order(messages, family=family)
    assert merged == UserMessage(
        content=(Text(text="one"), PNG, Text(text="two"), Text(text="three")), timestamp_ms=9
    )
    assert other == messages[-1]
    assert in_role_order(messages, family="openai") is messages


@pytest.mark.covers("A8-5")
def test_a_steering_message_behind_a_result_stays_by_itself() -> None:
    """What was said while a tool ran is merged with nothing else."""
    messages = [user("go"), answer("", "c1"), result("c1"), user("stop"), answer("ok")]
    assert in_role_order(messages, family="anthropic") is messages


@pytest.mark.parametrize("family", STRICT)
@pytest.mark.covers("A8-7")
def test_an_answer_in_front_gets_a_user_message_before_it(family: Family) -> None:
    """A conversation that begins with an answer begins with a user message for those who insist."""
    messages = [answer("Good morning"), user("hi")]
    ordered = in_role_order(messages, family=family)
    assert message_text(ordered[0]) == "(session bootstrap)"
    assert list(ordered[1:]) == messages
    assert in_role_order(messages, family="openai") is messages


@pytest.mark.covers("A8-5", "A8-6")
def test_google_gets_answers_merged_and_the_others_do_not() -> None:
    """Two answers in a row are one for Google, with what the later one says of itself; results stay."""
    first, second = answer("one"), answer("two", "c1")
    messages = [user(), first, second, result("c1"), result("c2")]
    ordered = in_role_order(messages, family="google")
    assert [type(message).__name__ for message in ordered] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResultMessage",
        "ToolResultMessage",
    ]
    merged = ordered[1]
    assert merged.content == (*first.content, *second.content)
    assert merged.timestamp_ms == second.timestamp_ms
    assert in_role_order(messages, family="anthropic") is messages


@given(
    st.lists(st.sampled_from([user("q"), answer("a"), answer("", "c"), result("c")]), max_size=12),
    st.sampled_from(STRICT),
)
def test_every_block_goes_out_once_and_in_order(messages: list[Message], family: Family) -> None:
    """Whatever a transcript looks like, reordering adds at most the bootstrap and loses no block."""
    ordered = in_role_order(messages, family=family)
    blocks = [block for message in ordered for block in message.content]
    expected = [block for message in messages for block in message.content]
    assert blocks[len(blocks) - len(expected) :] == expected
    assert len(blocks) - len(expected) in (0, 1)
    assert not ordered or isinstance(ordered[0], UserMessage)
    pairs = pairwise(ordered)
    assert not any(isinstance(a, UserMessage) and isinstance(b, UserMessage) for a, b in pairs)
    results = [message for message in ordered if isinstance(message, ToolResultMessage)]
    assert results == [message for message in messages if isinstance(message, ToolResultMessage)]
