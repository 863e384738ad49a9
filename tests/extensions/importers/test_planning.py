"""What becomes of a note and of a setting, given what is here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nacre.extensions.importers.plan import fallback_path, plan_note, plan_setting
from nacre.extensions.importers.sources.pieces import Note, Setting
from nacre.runtime.contracts.errors import ConfigError

KEY = b"- openai sk-proj-abcdEFGH1234567890abcd\n"


def _note(path: str, data: bytes) -> Note:
    return Note(path=path, data=data, file=path)


def test_a_note_with_a_key_is_left_out_where_the_settings_refuse_it() -> None:
    """With `memory.secrets: "refuse"` it is skipped, and with "redact" it is known again without its key."""
    note = _note("MEMORY.md", KEY)
    there = {"MEMORY.md": None, fallback_path("openclaw", note): None}
    refused = plan_note(note, "openclaw", there, template=None, is_known=False, secrets="refuse")
    assert refused.outcome == "skipped"
    assert "memory.secrets" in refused.reason
    there["MEMORY.md"] = b"- openai [redacted]\n"
    assert (
        plan_note(note, "openclaw", there, template=None, is_known=False, secrets="redact").outcome == "here"
    )


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("MEMORY.md", "memory/imports/openclaw/MEMORY.md"),
        ("memory/boat.md", "memory/imports/openclaw/boat.md"),
        ("SOUL.md", "imports/openclaw/SOUL.md"),
    ],
)
def test_what_is_no_memory_stays_out_of_the_memory(path: str, place: str) -> None:
    """A persona that does not fit beside the present one is kept where no search finds it."""
    assert fallback_path("openclaw", _note(path, b"x")) == place


def test_notes_at_both_places_stay() -> None:
    """Where other words stand at the note's place and beside it, the note is skipped and says so."""
    note = _note("MEMORY.md", b"- new\n")
    there: Mapping[str, bytes | None] = {"MEMORY.md": b"- a\n", fallback_path("openclaw", note): b"- b\n"}
    step = plan_note(note, "openclaw", there, template=b"- t\n", is_known=False, secrets="redact")
    assert (step.outcome, "other notes exist at" in step.reason) == ("skipped", True)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (("agents", "defaults", "nonesuch"), 1, "Nacre has no such setting"),
        (("agents", "defaults", "contextTokens"), "many", "Nacre rejects this value"),
        (("agents", "defaults", "model", "primary"), "a/b", "a parent setting has another type here"),
        (("messages", "queue", "mode"), "postgresql://me:secret@host/db", "it contains a password"),
    ],
)
def test_a_setting_that_does_not_fit_says_why(key: tuple[str, ...], value: object, reason: str) -> None:
    """What Nacre does not know, does not take, or has otherwise, is skipped with the reason."""

    def check(text: str, _environment: Mapping[str, str]) -> None:
        if "many" in text:
            raise ConfigError("no number")

    text, written = '{agents: {defaults: {model: "c/d"}}}', {"agents": {"defaults": {"model": "c/d"}}}
    setting = Setting(key=key, value=value, file="openclaw.json")
    assert plan_setting(setting, text, written, environment={}, check=check).reason == reason
