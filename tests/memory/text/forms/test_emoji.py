"""Emoji as words."""

from __future__ import annotations

from nacre.memory.text.forms.spelling import emoji_in, emoji_words


def test_an_emoji_is_found_without_what_only_changes_its_look() -> None:
    """Skin tones, joiners and selectors are no emoji."""
    assert emoji_in("👍🏽 ok ❤️ 👩\u200d🌾") == ["👍", "❤", "👩", "🌾"]
    assert emoji_in("plain text, naïve → 記") == []


def test_an_emoji_says_what_it_shows() -> None:
    """Its name, without words that many have."""
    assert list(emoji_words("🦜")) == ["parrot"]
    assert list(emoji_words("🐶")) == ["dog"]
