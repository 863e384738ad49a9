"""What is guessed of a settings file before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.settings.disk.settings_file import may_name_an_embedder


@pytest.mark.parametrize(
    ("written", "may"),
    [
        ("", False),
        ('{session: {reset: {mode: "idle"}}, models: {providers: {}}}', False),
        ("{agents: {defaults: {memorySearch: {query: {maxResults: 3}}}}}", False),
        ('{agents: {defaults: {memorySearch: {provider: "openai"}}}}', True),
        ("{agents: {defaults: {memorySearch: {enabled: false}}}}", True),
    ],
)
def test_the_question_is_embedded_early_unless_settings_may_forbid_it(
    tmp_path: Path, written: str, may: bool
) -> None:
    """A settings file that says nothing about the embedder keeps nobody waiting for the settings."""
    file = tmp_path / "nacre.json5"
    assert not may_name_an_embedder(file)
    file.write_text(written, encoding="utf-8")
    assert may_name_an_embedder(file) is may
