"""`hooks`: what Nacre itself does when something happens. Values only; OpenClaw's keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nacre.runtime.settings.section import SettingsSection


class SessionMemorySettings(SettingsSection):
    """`hooks.internal.entries.session-memory`: the last words of a session that is over, as a note."""

    enabled: bool = True
    """Whether such notes are written."""
    messages: Annotated[int, Field(ge=1, le=1_000)] = 15
    """How many messages of the conversation a note keeps."""


class HookEntries(SettingsSection):
    """`hooks.internal.entries`."""

    session_memory: SessionMemorySettings = Field(
        default_factory=SessionMemorySettings.model_construct, alias="session-memory"
    )


class InternalHooks(SettingsSection):
    """`hooks.internal`."""

    enabled: bool = True
    """`false` switches off everything below."""
    entries: HookEntries = Field(default_factory=HookEntries.model_construct)


class HooksSettings(SettingsSection):
    """`hooks`."""

    timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    """Longest that one handler of a hook may take."""
    internal: InternalHooks = Field(default_factory=InternalHooks.model_construct)
