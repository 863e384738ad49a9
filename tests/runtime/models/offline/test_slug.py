"""How the offline responder names a conversation: by the words that its person used most."""

from __future__ import annotations

import pytest

from nacre.prompts import render
from nacre.runtime.session_lifecycle.session_memory import slug_of
from nacre.sessions.contracts.messages import message_text
from tests.runtime.models.offline.requests import answer, request, user


@pytest.mark.parametrize(
    ("conversation", "slug"),
    [
        (
            "User: My boat lies in Lisbon.\n\nAssistant: Yes, yes, yes.\n\nUser: The boat leaks.",
            "boat-lisbon",
        ),
        ("User: Wann müssen die Bienen gefüttert werden? Die Bienen haben Hunger.", "bienen-gefuttert"),
        ("User: 我的船在里斯本。", ""),
        ("User: And so it is.", ""),
        ("User: 17 42 99", ""),
        ("Assistant: Hello, hello, welcome.", ""),
        ("", ""),
    ],
)
async def test_a_conversation_is_named_by_its_persons_words(conversation: str, slug: str) -> None:
    """One or two plain words that say something, or none: the note is named by its time then."""
    asked = request(user(render("session/slug", conversation=conversation)), purpose="slug")

    name = message_text(await answer(asked))

    assert name == slug
    assert slug_of(name) == slug
