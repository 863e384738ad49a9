"""A skill's `SKILL.md`: YAML front matter with name and description, and instructions behind it.

The format and its limits are those of the open Agent Skills specification (agentskills.io).
"""

from __future__ import annotations

import re
from typing import Any

from nacre.record import Record

SKILL_FILE = "SKILL.md"
MOST_NAME_CHARS = 64
MOST_DESCRIPTION_CHARS = 1_024
MOST_HEAD_BYTES = 64_000
"""So much of a file is read for its front matter."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


class SkillBroken(Exception):
    """A file that is no skill; the text is a sentence about it."""


class Skill(Record):
    """One skill: its name, when to use it, and the path of its file in the workspace."""

    name: str
    description: str
    path: str


def parsed_skill(text: str, *, folder: str, path: str) -> Skill:
    """The skill in a file's text; `folder` is the name of the folder that it lies in.

    Raises:
        SkillBroken: the front matter is missing or breaks a rule of the format.
    """
    head = _HEAD.match(text)
    if head is None:
        raise SkillBroken("It does not begin with front matter between two lines of `---`.")
    values = _yaml(head[1])
    name, description = values.get("name"), values.get("description")
    if not isinstance(name, str) or not name:
        raise SkillBroken("Its front matter has no name.")
    if len(name) > MOST_NAME_CHARS or not _NAME.fullmatch(name):
        raise SkillBroken(
            f"Its name {name[:80]!r} is none: 1 to {MOST_NAME_CHARS} of a-z, 0-9 and single hyphens inside."
        )
    if name != folder:
        raise SkillBroken(f"Its name is {name!r} and its folder is {folder!r}; both must be the same.")
    if not isinstance(description, str) or not description.strip():
        raise SkillBroken("Its front matter has no description, which says when to use it.")
    if len(description) > MOST_DESCRIPTION_CHARS:
        raise SkillBroken(
            f"Its description has {len(description)} characters; the most are {MOST_DESCRIPTION_CHARS}."
        )
    return Skill(name=name, description=" ".join(description.split()), path=path)


def _yaml(text: str) -> dict[str, Any]:
    import yaml  # needed by those alone who have a skill

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        line = f" in line {place.line + 2}" if place is not None else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise SkillBroken(
            f"Its front matter is no YAML{line}: {problem}. Put a text with a colon into quotes."
        ) from error
    if not isinstance(found, dict):
        raise SkillBroken("Its front matter has no keys such as `name: …`.")
    return found
