"""The skills as a section of the system prompt, within its budget. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.memory.files.skills.skill import Skill
from nacre.prompts import render
from nacre.records.record import Record

SECTION = "Skills"
"""The section's name; it stands behind the files of the workspace, so that a change is told as theirs are."""


class SkillList(Record):
    """The section's text, empty where there is no skill, and sentences for the owner."""

    text: str = ""
    notices: tuple[str, ...] = ()


def skill_list(skills: Sequence[Skill], *, most_chars: int) -> SkillList:
    """Tells of skills in so many characters: with descriptions as long as there is room, then by name."""
    lines: list[str] = []
    left_chars, shortened, unnamed = most_chars, 0, 0
    for skill in skills:
        whole = f"- `{skill.name}` ({skill.path}): {skill.description}"
        short = f"- `{skill.name}` ({skill.path})"
        line = whole if len(whole) <= left_chars and not shortened else short
        if len(line) > left_chars:
            unnamed += 1
            continue
        shortened += line is short
        lines.append(line)
        left_chars -= len(line) + 1
    notices = []
    if shortened or unnamed:
        notices.append(
            f"There is no room to describe all skills: {shortened} are told by name alone, {unnamed} not at "
            "all. Raise skills.limits.maxSkillsPromptChars, or switch some off in skills.entries."
        )
    text = render("system/skills", skills="\n".join(lines)) if lines else ""
    return SkillList(text=text, notices=tuple(notices))
