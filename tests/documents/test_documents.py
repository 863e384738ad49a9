"""What the documents claim is so: code runs, commands answer as shown, links resolve, settings exist.

`python -m tests.documents.test_documents FOLDER` writes all programs of the user documents for `make editor`,
which checks their types.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args

import pytest

from nacre.runtime.contracts.events import Event
from nacre.runtime.contracts.inbound import Inbound
from tests.documents import command_table, session_picture
from tests.documents.console import FENCE, commands, matches
from tests.documents.test_first_bot import write_files
from tests.servers.warm_python import run_warm

ROOT = Path(__file__).parents[2]
REQUIRED = ("README.md", "AGENTS.md", "CHANGELOG.md", "docs/architecture.md", "docs/settings.md")
DOCUMENTS = sorted(
    {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.md", "docs/**/*.md", "**/README.md")
        for path in ROOT.glob(pattern)
        if not path.relative_to(ROOT).parts[0].startswith((".", "build"))
    }
)
FOR_USERS = ("README.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")))
"""What contributors alone need lies in `docs/engineering/` and `docs/decisions/`."""
MOST_USER_WORDS = 46_000
MOST_README_WORDS = 900
HISTORY = ("CHANGELOG.md", "docs/decisions/")
"""These say what was, and name files as they were called then."""
ONE_STORY = ("docs/walkthrough.md", "docs/moving.md")
"""The blocks of these follow one another in one home; another test runs them."""
RUN_SECONDS = 60
_HONK = """from nacre import Bridge


def HonkBridge(account: str, server: str, password: str) -> Bridge:
    raise NotImplementedError
"""

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(
    r"`((?:\.ci|cli|runtime|sessions|memory|prompts|workspace_template|tests|docs|examples|benchmarks)"
    r"/(?!YYYY|DATE|\d)[\w./-]*\w/?)(?:::\w+)?`"
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Fence:
    document: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}-{self.number}"


def _fences(*languages: str) -> list[Fence]:
    return [
        Fence(document, number, match[1], match[2])
        for document in DOCUMENTS
        for number, match in enumerate(FENCE.finditer(_text(document)), start=1)
        if match[1] in languages
    ]


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def _prose(document: str) -> str:
    return FENCE.sub("", _text(document))


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A clean environment whose home folder is empty: nothing of this machine's owner is touched."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {
        "PATH": path,
        "HOME": str(tmp_path),
        "NACRE_STATE_DIR": str(tmp_path / ".nacre"),
        "TZ": "UTC",
        "COLUMNS": "100",
        # The program must be the one of this tree, also where another copy is installed.
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }


@pytest.mark.parametrize("document", REQUIRED)
def test_the_main_documents_exist(document: str) -> None:
    """A newcomer finds the documents that others point to."""
    assert document in DOCUMENTS


@pytest.mark.parametrize("fence", _fences("python"), ids=str)
def test_python_in_documents_runs(fence: Fence, tmp_path: Path, home: dict[str, str]) -> None:
    """Each Python block runs as it stands in an empty folder, without key and network."""
    script = tmp_path / "block.py"
    script.write_text(fence.text, encoding="utf-8")

    run = run_warm(str(script), cwd=tmp_path, env=home, timeout_seconds=RUN_SECONDS)

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "fence", [fence for fence in _fences("console") if fence.document not in ONE_STORY], ids=str
)
def test_commands_in_documents_answer_as_shown(fence: Fence, tmp_path: Path, home: dict[str, str]) -> None:
    """The commands of a block run one after the other; what they print is what the block shows."""
    for command, shown in commands(fence.text):
        words = shlex.split(command, comments=True)
        if words[0] == "make":
            assert _unknown_verbs(shlex.join(words)) == []
            continue
        program = next(word for word in words if "=" not in word)
        assert program == "nacre", f"{command!r} is neither make nor nacre"
        if program != words[0]:
            continue  # With variables before it, it asks a real provider; no test does.
        run = run_warm("-m", *words, cwd=tmp_path, env=home, timeout_seconds=RUN_SECONDS)
        assert run.returncode == 0, run.stderr
        assert matches(shown, run.stdout), f"{command} printed:\n{run.stdout}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_resolve(document: str) -> None:
    """A link to a file or a heading of this repository leads there."""
    broken = []
    for target in _LINK.findall(_prose(document)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / document).parent / name if name else ROOT / document
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)

    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_verbs_exist(document: str) -> None:
    """Every `make x` in a document is a verb of the Makefile."""
    assert _unknown_verbs(*re.findall(r"`(make [a-z]+[^`]*)`", _prose(document))) == []


def test_documents_for_users_are_short() -> None:
    """What a user may have to read keeps within its limit, and so does what a stranger reads first."""
    words = {document: len(re.findall(r"\S*\w\S*", _text(document))) for document in FOR_USERS}
    longest = sorted(words.items(), key=lambda item: -item[1])[:5]

    assert sum(words.values()) <= MOST_USER_WORDS, f"shorten, or move what contributors need: {longest}"
    assert words["README.md"] <= MOST_README_WORDS


def test_every_page_for_users_is_on_the_front_page() -> None:
    """Whoever looks for a task finds each page from docs/README.md."""
    linked = {target.partition("#")[0] for target in _LINK.findall(_text("docs/README.md"))}

    assert {Path(name).name for name in FOR_USERS if name != "README.md"} - linked == {"README.md"}


def test_every_command_is_in_the_table() -> None:
    """The table of docs/cli.md has the commands that there are, with the words of their help."""
    text = command_table.PAGE.read_text(encoding="utf-8")

    assert command_table.with_table(text, command_table.current_table()) == text, "draw it anew: make fix"


def test_the_reference_for_bot_authors_is_whole() -> None:
    """docs/bots.md names each field of a message and each event, and nothing that is not there."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", _text("docs/bots.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert named == {
        *(field.name for field in fields(Inbound)),
        *(kind.__name__ for kind in get_args(Event)),
    }


@pytest.mark.slow
def test_the_picture_is_of_the_present_program(tmp_path: Path) -> None:
    """The session of the README, had again, looks the same but for numbers; `make picture` draws it anew."""
    drawn = session_picture.picture(session_picture.had_session(tmp_path))

    assert _words_of(drawn) == _words_of(session_picture.PICTURE.read_text(encoding="utf-8"))
    assert re.findall(r"url\((?!#)", drawn) == []


def test_every_decision_has_a_number_of_its_own() -> None:
    """No two records have the same number, and the list of decisions names each once."""
    pages = [*(ROOT / "docs/decisions").glob("*.md"), *(ROOT / "extensions").glob("*/decisions.md")]
    numbers = [
        int(number)
        for page in pages
        for number in re.findall(r"^## (\d+)\. ", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    listed = [int(number) for number in re.findall(r"\[(\d+)\]\(", _text("docs/decisions/README.md"))]

    assert len(set(numbers)) == len(numbers)
    assert sorted(listed) == sorted(numbers)


def test_agents_guide_is_short() -> None:
    """The guide for coding agents fits in 120 lines, because it is read every time."""
    assert len(_text("AGENTS.md").splitlines()) <= 120


@pytest.mark.parametrize("file", ["Makefile", ".ci/run"])
def test_named_tests_exist(file: str) -> None:
    """A path of tests that a verb runs is there; a verb that runs nothing would say that all is well."""
    names = re.findall(r"(?<![\w/])tests/[\w./-]*\w", _text(file))

    assert [name for name in names if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if not name.startswith(HISTORY)])
def test_named_files_exist(document: str) -> None:
    """A path in backticks, from the root of the repository, is a file or a folder of this checkout."""
    missing = [name for name in _PATH.findall(_prose(document)) if not (ROOT / name).exists()]

    assert missing == []


def test_a_shown_answer_is_compared() -> None:
    """A wrong line fails, and the sign for any text matches within and over lines."""
    assert matches("a\nb …\nd\n", "a\nb 17 c\nd\n")
    assert matches("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not matches("a\nb\n", "a\nc\n")
    assert list(commands("$ nacre a\nx\n$ nacre b \\\n  c\ny\n")) == [
        ("nacre a", "x\n"),
        ("nacre b   c", "y\n"),
    ]


def _words_of(svg: str) -> list[str]:
    texts = re.findall(r"<text [^>]*>(.*?)</text>", svg)
    words = " ".join(html.unescape(text).replace("\xa0", " ") for text in texts)
    return re.sub(r"[\d.]+|[█░]+", "#", re.sub(r" · [\d.]+ s\b", "", words)).split()


def _unknown_verbs(*commands: str) -> list[str]:
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    return [command for command in commands if not set(_verbs(command)) <= known]


def _verbs(command: str) -> list[str]:
    return [word for word in command.split()[1:] if "=" not in word]


def _anchors(file: Path) -> set[str]:
    headings = _HEADING.findall(FENCE.sub("", file.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _write_programs(folder: Path) -> None:
    """Each Python block of the user documents as a file, and the files of docs/first-bot.md."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "nacre_honk").mkdir(parents=True)  # the package of an author, of which the page shows one file
    (folder / "nacre_honk/bridge.py").write_text(_HONK, encoding="utf-8")
    write_files(folder)
    for fence in _fences("python"):
        if fence.document in FOR_USERS:
            name = f"{Path(fence.document).stem}_{fence.number}.py".lower().replace("-", "_")
            (folder / name).write_text(fence.text, encoding="utf-8")


if __name__ == "__main__":
    _write_programs(Path(sys.argv[1]))
