"""The skills of a workspace and of folders that its owner trusts, and what is wrong with unusable ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nacre.memory.contracts.workspace import FileBytes, Fingerprint, PathOutsideRoot, ReadFailed, Workspace
from nacre.record import Record

SKILLS_FOLDER = "skills"
MOST_SKILLS = 200
"""Further folders are ignored."""


class FoundSkills(Record):
    """The skills by name, and a sentence for each that cannot be used."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


class Skills:
    """The skills of a workspace and of `trusted` folders, which are given by the paths shown for them.

    If two skills have the same name, the workspace comes before the trusted folders, in their order.
    """

    def __init__(self, workspace: Workspace, trusted: Mapping[str, Workspace] | None = None) -> None:
        self._trusted = dict(trusted or {})
        folders = [(workspace, SKILLS_FOLDER, SKILLS_FOLDER)]
        folders += [(folder, ".", shown) for shown, folder in self._trusted.items()]
        self._folders = [_SkillFolder(*each) for each in folders]

    async def found(self) -> FoundSkills:
        """The skills that exist now; none if the folders do not exist."""
        found = [await folder.found() for folder in self._folders]
        named = {skill.name: skill for each in reversed(found) for skill in each.skills}
        problems = tuple(problem for each in found for problem in each.problems)
        return FoundSkills(skills=tuple(named[name] for name in sorted(named)), problems=problems)

    async def read(self, path: str) -> FileBytes | None:
        """A file of a skill in a trusted folder, by the path shown for it; `None` for any other path.

        Raises:
            PathOutsideRoot: a link leads out of the folder.
            OSError: the file cannot be read.
        """
        for shown, folder in self._trusted.items():
            inside = path.removeprefix(f"{shown}/").split("/")
            if not path.startswith(f"{shown}/") or {"", ".", ".."} & {*inside} or len(inside) < 2:
                continue
            of_skill = f"{inside[0]}/{SKILL_FILE}"
            if (await folder.fingerprints((of_skill,)))[of_skill] is not None:
                return await folder.read("/".join(inside))
        return None


class _SkillFolder:
    """A folder with skills, whose files are read again when their fingerprints change.

    `inside` is its name in the workspace, `shown` the path shown for it.
    """

    def __init__(self, workspace: Workspace, inside: str, shown: str) -> None:
        self._workspace = workspace
        self._inside = inside
        self._shown = shown
        self._seen: dict[str, Fingerprint | None] = {}
        self._read: dict[str, Skill | str] = {}

    async def found(self) -> FoundSkills:
        # Each turn looks, and most workspaces have no skills: looking at a local folder needs no thread.
        is_here = self._workspace.folder is not None
        if is_here and (await self._workspace.fingerprints((self._inside,)))[self._inside] is None:
            return FoundSkills()
        try:
            entries = await self._workspace.list_folder(self._inside)
        except FileNotFoundError:
            return FoundSkills()
        except (OSError, PathOutsideRoot) as error:
            return FoundSkills(problems=(f"The folder {self._shown}/ cannot be read: {error}",))
        # A link does not count as a folder; its target is only read inside of the workspace.
        names = [entry.name for entry in entries if entry.is_folder or "." not in entry.name]
        problems = [f"There are more than {MOST_SKILLS} skills."] if len(names) > MOST_SKILLS else []
        names = names[:MOST_SKILLS]
        await self._look([f"{self._inside}/{name}/{SKILL_FILE}" for name in names])
        skills = [item for item in self._read.values() if isinstance(item, Skill)]
        for path, item in self._read.items():
            if isinstance(item, str):
                folder = self._path(path).removesuffix(f"/{SKILL_FILE}")
                problems.append(f"The skill {folder} is left out. {item}")
        return FoundSkills(skills=tuple(skills), problems=tuple(problems))

    def _path(self, path: str) -> str:
        return self._shown + path.removeprefix(self._inside)

    async def _look(self, paths: Sequence[str]) -> None:
        seen = dict(await self._workspace.fingerprints(paths)) if paths else {}
        kept = {path: self._read[path] for path in paths if path in self._read}
        changed = [path for path in paths if path not in kept or seen[path] != self._seen.get(path)]
        read = await self._workspace.read_many(changed, max_bytes=MOST_HEAD_BYTES) if changed else {}
        for path, found in read.items():
            if isinstance(found, NotADirectoryError):
                kept[path] = "It is not a folder."
                continue
            if isinstance(found, Exception):
                kept[path] = _unreadable(found)
                continue
            try:
                kept[path] = parsed_skill(found.text, folder=path.split("/")[-2], path=self._path(path))
            except SkillBroken as broken:
                kept[path] = str(broken)
        self._seen, self._read = seen, {path: kept[path] for path in paths}


def _unreadable(error: ReadFailed) -> str:
    if isinstance(error, FileNotFoundError):
        return f"It has no {SKILL_FILE}."
    return f"Its {SKILL_FILE} cannot be read: {str(error).rstrip('.')}."


SKILL_FILE = "SKILL.md"
MOST_NAME_CHARS = 64
MOST_DESCRIPTION_CHARS = 1_024
MOST_HEAD_BYTES = 64_000
"""How much of a file is read for its front matter."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


class SkillBroken(Exception):
    """A file is not a skill. The message is a sentence."""


class Skill(Record):
    """A skill: its name, when to use it, and the path of its file in the workspace."""

    name: str
    description: str
    path: str


def parsed_skill(text: str, *, folder: str, path: str) -> Skill:
    """The skill in a file's text; `folder` is the name of its folder.

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
            f"Its name {name[:80]!r} is not 1 to {MOST_NAME_CHARS} of a-z, 0-9 and single hyphens inside."
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
    import yaml  # only workspaces with skills need it

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        line = f" in line {place.line + 2}" if place is not None else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise SkillBroken(
            f"Its front matter is not YAML{line}: {problem}. Put a text with a colon into quotes."
        ) from error
    if not isinstance(found, dict):
        raise SkillBroken("Its front matter has no keys such as `name: …`.")
    return found
