"""`skills`: which skills the assistant is told of. Values only; OpenClaw's keys."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from nacre.runtime.settings.sections.section import SettingsSection


class SkillEntry(SettingsSection):
    """`skills.entries.<name>`."""

    enabled: bool = True
    """`false` leaves the skill of this name out."""


class SkillLimits(SettingsSection):
    """`skills.limits`."""

    max_skills_prompt_chars: Annotated[int, Field(ge=0)] = 12_000
    """Most characters of the system prompt that names and descriptions of skills may take; those that come
    later in the alphabet are told by name alone, or not at all. 0 tells of none."""


class SkillsSettings(SettingsSection):
    """`skills`."""

    entries: Mapping[str, SkillEntry] = Field(default_factory=dict)
    limits: SkillLimits = Field(default_factory=SkillLimits.unwritten)
