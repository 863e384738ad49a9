"""`skills`: the skills that the assistant knows. The keys are OpenClaw's."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from nacre.runtime.settings.sections.section import SettingsSection


class SkillEntry(SettingsSection):
    """`skills.entries.<name>`: one skill."""

    enabled: bool = True
    """Whether the skill is available."""


class SkillLimits(SettingsSection):
    """`skills.limits`: limits for the prompt."""

    max_skills_prompt_chars: Annotated[int, Field(ge=0)] = 12_000
    """The maximum length of the list of skills in the system prompt. Skills later in the alphabet are listed
    by name only, or not at all. 0 means no list."""


def _owners_path(text: str) -> str:
    path = text.strip().rstrip("/")
    if not path.startswith(("/", "~/")):
        raise ValueError(f"{text!r} depends on the current folder; begin it with / or ~/")
    return path


class SkillSources(SettingsSection):
    """`skills.load`: further folders with skills."""

    extra_dirs: tuple[Annotated[str, AfterValidator(_owners_path)], ...] = ()
    """Folders outside the workspace whose skills you trust. Each of their subfolders with a `SKILL.md` is a
    skill. Skills of the workspace with the same name take precedence."""


class SkillsSettings(SettingsSection):
    """`skills`: the skills."""

    load: SkillSources = Field(default_factory=SkillSources.unwritten)
    entries: Mapping[str, SkillEntry] = Field(default_factory=dict)
    limits: SkillLimits = Field(default_factory=SkillLimits.unwritten)
