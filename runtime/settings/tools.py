"""`tools`: where single tools may be called, and what the owner has to approve. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from nacre.runtime.settings.section import SettingsSection


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


class ToolsSettings(SettingsSection):
    """`tools`."""

    rules: Mapping[str, ToolRule] = Field(default_factory=dict)
    """What holds for single tools."""
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings.model_construct)
