"""`skills`: which skills the assistant is told of. Values only; OpenClaw's keys."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

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


def _owners_path(text: str) -> str:
    path = text.strip().rstrip("/")
    if not path.startswith(("/", "~/")):
        raise ValueError(f"{text!r} depends on the folder one stands in; begin it with / or ~/")
    return path


class SkillSources(SettingsSection):
    """`skills.load`."""

    extra_dirs: tuple[Annotated[str, AfterValidator(_owners_path)], ...] = ()
    """Folders outside of the workspace whose skills you trust: each folder in them with a `SKILL.md` is a
    skill, and is read as those of the workspace are, which go before others of the same name."""


class SkillsSettings(SettingsSection):
    """`skills`."""

    load: SkillSources = Field(default_factory=SkillSources.unwritten)
    entries: Mapping[str, SkillEntry] = Field(default_factory=dict)
    limits: SkillLimits = Field(default_factory=SkillLimits.unwritten)
