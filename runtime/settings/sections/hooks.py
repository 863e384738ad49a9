"""`hooks`: what is done when something happens; `tools`: where they may be called, which wait, what hears.

Values only; OpenClaw's keys where it has them.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from nacre.runtime.settings.sections.section import SettingsSection


class SessionMemorySettings(SettingsSection):
    """`hooks.internal.entries.session-memory`: the last words of a session that has ended, as a note."""

    enabled: bool = True
    """Whether a private session that has ended leaves its last words as a note, `memory/DATE-slug.md`."""
    messages: Annotated[int, Field(ge=1, le=1_000)] = 15
    """How many messages of the conversation a note keeps."""


class HookEntries(SettingsSection):
    """`hooks.internal.entries`."""

    session_memory: SessionMemorySettings = Field(
        default_factory=SessionMemorySettings.unwritten, alias="session-memory"
    )


class InternalHooks(SettingsSection):
    """`hooks.internal`."""

    enabled: bool = True
    """`false` switches off everything below."""
    entries: HookEntries = Field(default_factory=HookEntries.unwritten)


class HooksSettings(SettingsSection):
    """`hooks`."""

    timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    """Longest that one handler of a hook may take; see [extending](extending.md#a-hook)."""
    internal: InternalHooks = Field(default_factory=InternalHooks.unwritten)


class ToolRule(SettingsSection):
    """`tools.rules.<name>`."""

    chats: tuple[Literal["private", "direct", "group"], ...] | None = None
    """Where a tool is offered: `["private"]` is the owner alone, `"direct"` a chat with somebody else,
    `"group"` every other chat. Unset leaves it to the tool's author. Nacre's own tools keep to what a chat
    may see, so a rule can only take them away."""
    confirm: bool | None = None
    """`true` asks the owner before each call, `false` never; unset leaves it to the tool's author. What a
    hook asks is asked all the same."""


class ApprovalSettings(SettingsSection):
    """`tools.approvals`."""

    wait_seconds: Annotated[float, Field(ge=0)] = 300.0
    """How long a turn waits for the owner's answer; the call can be approved later, too. 0 does not wait."""
    expire_hours: Annotated[float, Field(gt=0)] = 72.0
    """How long a call can be approved."""


class AudioModel(SettingsSection):
    """`tools.media.audio.models[]`; address and key are those of `models.providers`."""

    provider: str = ""
    """Provider of a model that writes voice notes down, as litellm names it. Address and key are those of
    `models.providers`; the first model is asked, and the next when it fails. An entry without a provider or
    model is passed over."""
    model: str = ""
    """The model, such as `whisper-1`."""


class AudioSettings(SettingsSection):
    """`tools.media.audio`."""

    enabled: bool = True
    """`false` writes no [voice note](bridges.md#files) down."""
    models: tuple[AudioModel, ...] = ()
    """Who is asked, the next when one fails."""
    language: str = ""
    """What is spoken, as a code such as `de`; blank lets the model find out."""
    max_bytes: Annotated[int, Field(gt=0)] = 20_971_520
    """Largest recording that is sent."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Longest that one model may take to write a recording down."""

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models as litellm names them, `provider/model`, in their order."""
        pairs = [(each.provider.strip().lower(), each.model.strip()) for each in self.models]
        return tuple(f"{name}/{model.removeprefix(f'{name}/')}" for name, model in pairs if name and model)


class MediaSettings(SettingsSection):
    """`tools.media`."""

    audio: AudioSettings = Field(default_factory=AudioSettings.unwritten)


class ToolsSettings(SettingsSection):
    """`tools`."""

    rules: Mapping[str, ToolRule] = Field(default_factory=dict)
    """What holds for single tools."""
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings.unwritten)
    media: MediaSettings = Field(default_factory=MediaSettings.unwritten)


class ToolNames(SettingsSection):
    """Which tools are meant; `*` stands for anything, upper and lower case are one."""

    allow: tuple[str, ...] = ()
    """Only these tools, Nacre's own and those of a bot author, or only their results; empty is all. `*`
    stands for anything, upper and lower case are one."""
    deny: tuple[str, ...] = ()
    """Never these, also where `allow` names them."""

    def admits(self, name: str) -> bool:
        """Whether the tool of this name is meant."""
        return (not self.allow or _is_named(name, self.allow)) and not _is_named(name, self.deny)


class AgentTools(ToolNames):
    """`agents.defaults.tools`: an agent's own tools, and its rules for single ones."""

    rules: Mapping[str, ToolRule] = Field(default_factory=dict)
    """A rule here replaces the one of `tools.rules` for the same tool; in an entry of `agents.list` it holds
    for that agent."""


def _is_named(name: str, patterns: tuple[str, ...]) -> bool:
    return any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    parts = map(re.escape, pattern.strip().casefold().split("*"))
    return re.fullmatch(".*".join(parts), name.casefold(), re.DOTALL) is not None
