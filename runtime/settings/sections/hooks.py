"""`hooks` and `tools`: hooks, rules and approvals of tools, and the transcription of voice notes.

The keys are OpenClaw's where it has them.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from nacre.runtime.settings.sections.section import SettingsSection


class SessionMemorySettings(SettingsSection):
    """`hooks.internal.entries.session-memory`: a note with the last messages of an ended session."""

    enabled: bool = True
    """Whether the last messages of an ended private session are saved as a note, `memory/DATE-slug.md`."""
    messages: Annotated[int, Field(ge=1, le=1_000)] = 15
    """The number of messages in such a note."""


class HookEntries(SettingsSection):
    """`hooks.internal.entries`: the built-in hooks."""

    session_memory: SessionMemorySettings = Field(
        default_factory=SessionMemorySettings.unwritten, alias="session-memory"
    )


class InternalHooks(SettingsSection):
    """`hooks.internal`: the built-in hooks together."""

    enabled: bool = True
    """Whether the built-in hooks run."""
    entries: HookEntries = Field(default_factory=HookEntries.unwritten)


class HooksSettings(SettingsSection):
    """`hooks`: functions that run on events."""

    timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    """The time limit of one [hook](extending.md#add-a-hook) handler."""
    internal: InternalHooks = Field(default_factory=InternalHooks.unwritten)


class ToolRule(SettingsSection):
    """`tools.rules.<name>`: the rule for one tool."""

    chats: tuple[Literal["private", "direct", "group"], ...] | None = None
    """The chats in which the tool is available: `"private"` (the owner alone), `"direct"` (a direct chat with
    somebody else), `"group"` (every other chat). Default: decided by the tool's author. A rule can only
    restrict Nacre's own tools."""
    confirm: bool | None = None
    """Whether the owner must approve each call. Default: decided by the tool's author. Hooks can require
    approval regardless."""


class ApprovalSettings(SettingsSection):
    """`tools.approvals`: how long approvals stay open."""

    wait_seconds: Annotated[float, Field(ge=0)] = 300.0
    """How long a turn waits for the owner's answer. The call can also be approved later. 0 means no
    waiting."""
    expire_hours: Annotated[float, Field(gt=0)] = 72.0
    """How long a call can still be approved."""


class AudioModel(SettingsSection):
    """`tools.media.audio.models[]`: one transcription model."""

    provider: str = ""
    """The provider of a transcription model, by litellm's name. Its address and key come from
    `models.providers`. If a model fails, the next one is tried. Entries without a provider or a model are
    ignored."""
    model: str = ""
    """The model, such as `whisper-1`."""


class AudioSettings(SettingsSection):
    """`tools.media.audio`: the transcription of voice notes."""

    enabled: bool = True
    """Whether [voice notes](bridges.md#files) are transcribed."""
    models: tuple[AudioModel, ...] = ()
    """The transcription models, in the order in which they are tried."""
    language: str = ""
    """The language code of the recordings, such as `de`. Default: the model detects it."""
    max_bytes: Annotated[int, Field(gt=0)] = 20_971_520
    """The maximum size of a recording."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """The time limit of one transcription."""

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models in order, as `provider/model`, by litellm's names."""
        pairs = [(each.provider.strip().lower(), each.model.strip()) for each in self.models]
        return tuple(f"{name}/{model.removeprefix(f'{name}/')}" for name, model in pairs if name and model)


class MediaSettings(SettingsSection):
    """`tools.media`: media that are converted to text."""

    audio: AudioSettings = Field(default_factory=AudioSettings.unwritten)


class ToolsSettings(SettingsSection):
    """`tools`: rules, approvals and media."""

    rules: Mapping[str, ToolRule] = Field(default_factory=dict)
    """Rules for single tools, by name."""
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings.unwritten)
    media: MediaSettings = Field(default_factory=MediaSettings.unwritten)


class ToolNames(SettingsSection):
    """A selection of tools by name. `*` matches anything; case is ignored."""

    allow: tuple[str, ...] = ()
    """The only tools that are selected. Default: all. `*` matches anything; case is ignored."""
    deny: tuple[str, ...] = ()
    """Tools that are excluded, even if `allow` names them."""

    def admits(self, name: str) -> bool:
        return (not self.allow or is_named(name, self.allow)) and not is_named(name, self.deny)


class AgentTools(ToolNames):
    """`agents.defaults.tools`: the tools of an agent, and its rules for single tools."""

    rules: Mapping[str, ToolRule] = Field(default_factory=dict)
    """Rules that replace those in `tools.rules` for the same tool; in an entry of `agents.list`, for that
    agent only."""


def is_named(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns is a tool's name. `*` matches anything; case is ignored."""
    expressions = (".*".join(map(re.escape, each.strip().casefold().split("*"))) for each in patterns)
    return any(re.fullmatch(each, name.casefold(), re.DOTALL) for each in expressions)
