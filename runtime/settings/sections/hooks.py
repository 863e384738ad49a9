"""`hooks`: what is done when something happens; `tools`: where they may be called, which wait, what hears.

Values only; OpenClaw's keys where it has them.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from nacre.runtime.settings.sections.section import SettingsSection


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


class ToolRule(SettingsSection):
    """`tools.rules.<name>`."""

    chats: tuple[Literal["private", "direct", "group"], ...] | None = None
    """Where the tool is offered, in place of what its author says; Nacre's own can only be taken away."""
    confirm: bool | None = None
    """Whether the owner approves each call, in place of what the tool's author says."""


class ApprovalSettings(SettingsSection):
    """`tools.approvals`."""

    wait_seconds: Annotated[float, Field(ge=0)] = 300.0
    """How long a turn waits for the owner's answer; the call may be approved later, too."""
    expire_hours: Annotated[float, Field(gt=0)] = 72.0
    """How long a call may be approved."""


class AudioModel(SettingsSection):
    """`tools.media.audio.models[]`; address and key are those of `models.providers`."""

    provider: str = ""
    """As litellm names it; an entry without one, such as OpenClaw's for programs, is passed over."""
    model: str = ""
    """A model of that provider which writes recordings down."""


class AudioSettings(SettingsSection):
    """`tools.media.audio`."""

    enabled: bool = True
    """`false` writes no recording down."""
    models: tuple[AudioModel, ...] = ()
    """Who is asked, the next when one fails."""
    language: str = ""
    """What is spoken, as a code such as `de`; blank lets the model find out."""
    max_bytes: Annotated[int, Field(gt=0)] = 20_971_520
    """Largest recording that is sent."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Longest that one model may take."""

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models as litellm names them, `provider/model`, in their order."""
        pairs = [(each.provider.strip().lower(), each.model.strip()) for each in self.models]
        return tuple(f"{name}/{model.removeprefix(f'{name}/')}" for name, model in pairs if name and model)


class MediaSettings(SettingsSection):
    """`tools.media`."""

    audio: AudioSettings = Field(default_factory=AudioSettings.model_construct)


class ToolsSettings(SettingsSection):
    """`tools`."""

    rules: Mapping[str, ToolRule] = Field(default_factory=dict)
    """What holds for single tools."""
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings.model_construct)
    media: MediaSettings = Field(default_factory=MediaSettings.model_construct)


class ToolNames(SettingsSection):
    """Which tools are meant; `*` stands for anything, upper and lower case are one."""

    allow: tuple[str, ...] = ()
    """Only these; empty is all."""
    deny: tuple[str, ...] = ()
    """Never these, also where `allow` names them."""

    def admits(self, name: str) -> bool:
        """Whether the tool of this name is meant."""
        return (not self.allow or _is_named(name, self.allow)) and not _is_named(name, self.deny)


class AgentTools(ToolNames):
    """`agents.defaults.tools`: an agent's own tools, and its rules for single ones."""

    rules: Mapping[str, ToolRule] = Field(default_factory=dict)
    """As `tools.rules`, whose rule for the same tool it replaces."""


def _is_named(name: str, patterns: tuple[str, ...]) -> bool:
    return any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    parts = map(re.escape, pattern.strip().casefold().split("*"))
    return re.fullmatch(".*".join(parts), name.casefold(), re.DOTALL) is not None
