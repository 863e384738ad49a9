"""What qmd's answers mean, and in which chats it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nacre.extensions.qmd.home import wanted_collections
from nacre.extensions.qmd.program import (
    Output,
    Place,
    QmdFailed,
    as_argument,
    listed_collections,
    places,
    refuses_option,
)
from nacre.extensions.qmd.qmd_memory import may_search
from nacre.runtime.settings.sections.memory import QmdPath, QmdScope
from nacre.runtime.settings.settings import Settings

REAL = {
    "docid": "#dd06ae",
    "score": 0.37,
    "file": "qmd://memory-dir-main/Sub Dir/Ünder_Score & x.md",
    "line": 3,
    "title": "2026-03-14",
    "snippet": "@@ -2,4 @@ (1 before, 0 after)\n\n- Router: Omada ER605\n- VLAN 10 for IoT\n",
}
PLACE = Place(
    collection="memory-dir-main", path="Sub Dir/Ünder_Score & x.md", start_line=2, end_line=5, score=0.37
)


def output(out: str, err: str = "", code: int = 0) -> Output:
    return Output(code=code, out=out, err=err)


@pytest.mark.parametrize("before", ["", "[warn] [1] a model is loaded\n", "Expanding query...\n"])
@pytest.mark.covers("QMD-47")
def test_the_array_is_found_among_noise(before: str) -> None:
    """An answer of the real program, alone or with what it prints beside."""
    assert places(output(f"{before}{json.dumps([REAL])}\ndone"), "search") == [PLACE]


@pytest.mark.parametrize(
    ("out", "err"),
    [
        ("[]", ""),
        ("No results found.\n", ""),
        ("warning: no results found", ""),
        ("[qmd] error: No Results Found.", ""),
        ("", "qmd: no results found\n"),
    ],
)
@pytest.mark.covers("QMD-43", "QMD-47")
def test_nothing_found_is_no_error(out: str, err: str) -> None:
    """Builds say it in several ways."""
    assert places(output(out, err), "search") == []


@pytest.mark.parametrize("out", ["", "{}", "null", "no results found here, alas", "[" * 50_000, '["warn"] x'])
@pytest.mark.covers("QMD-44", "QMD-47")
def test_what_is_no_answer_is_an_error(out: str) -> None:
    """With the mode and the beginning of what was said."""
    with pytest.raises(QmdFailed, match="qmd vsearch returned invalid JSON"):
        places(output(out, "no model"), "vsearch")


@pytest.mark.parametrize(
    "changes",
    [{"file": 7}, {"file": "/etc/passwd"}, {"score": "high"}, {"score": float("nan")}, {"file": "qmd://x"}],
)
def test_an_item_that_names_no_document_is_left_out(changes: dict[str, Any]) -> None:
    """The others of the same answer stay."""
    assert places(output(json.dumps([REAL | changes, "odd", REAL])), "search") == [PLACE]


def test_refusals_and_lists_are_recognised() -> None:
    """As text of the real program, and as JSON of others."""
    assert refuses_option(output("", "Unknown command: vsearch\nRun 'qmd --help' for usage.", 1))
    assert not refuses_option(output("", "Collection not found: x", 1))
    listed = "Collections (2):\n\nmemory-root-main (qmd://memory-root-main/)\n  Pattern:  MEMORY.md\n"
    assert listed_collections(output(listed)) == {"memory-root-main"}
    assert listed_collections(output('[{"name": "a"}, "b", 7]')) == {"a", "b"}


def test_a_question_is_never_an_option() -> None:
    """Nor several lines, nor what a system does not pass on."""
    assert as_argument("--help\n -x \0y \ud800") == "help -x y"
    assert len(as_argument("word " * 20_000)) <= 2_000


DIRECT = {"key": "agent:main:main", "channel": "terminal", "chat_type": "direct"}
GROUP = {"key": "agent:main:discord:channel:7", "channel": "discord", "chat_type": "channel"}
PEER = {"key": "agent:main:discord:direct:ada", "channel": "discord", "chat_type": "dm"}


@pytest.mark.parametrize(
    ("rules", "default", "allowed"),
    [
        (None, "deny", [True, False, True]),
        ([], "allow", [True, True, True]),
        ([{"action": "allow", "match": {"keyPrefix": "Discord:channel:"}}], "deny", [False, True, False]),
        (
            [{"action": "deny", "match": {"rawKeyPrefix": "agent:main:discord:"}}],
            "allow",
            [True, False, False],
        ),
        ([{"action": "deny", "match": {"keyPrefix": "agent:main:discord:"}}], "allow", [True, False, False]),
        ([{"action": "deny", "match": {"rawKeyPrefix": "discord:"}}], "allow", [True, True, True]),
        (
            [{"action": "allow", "match": {"channel": "discord", "chatType": "channel"}}],
            "deny",
            [False, True, False],
        ),
        (
            [{"action": "allow"}, {"action": "deny", "match": {"chatType": "channel"}}],
            "deny",
            [True, True, True],
        ),
    ],
)
@pytest.mark.covers("QMD-33", "QMD-46")
def test_the_first_rule_that_fits_decides(
    rules: list[dict[str, Any]] | None, default: str, allowed: list[bool]
) -> None:
    """`keyPrefix` is without `agent:<id>:` unless it is written in the former way."""
    qmd = {} if rules is None else {"scope": {"default": default, "rules": rules}}
    scope: QmdScope = Settings.model_validate({"memory": {"qmd": qmd}}).memory.qmd.scope
    assert [may_search(scope, **chat) for chat in (DIRECT, GROUP, PEER)] == allowed


@pytest.mark.covers("QMD-5", "QMD-15", "QMD-16")
def test_collections_have_names_of_their_own(tmp_path: Path) -> None:
    """Plain, with the agent behind, never twice; a relative path lies in the workspace."""
    paths = [
        QmdPath(path="docs", name="My Docs!"),
        QmdPath(path="~/x", name="my docs"),
        QmdPath(path="/srv/notes", pattern="**/{a,b}?.md"),
    ]
    found = wanted_collections(
        agent_id="main",
        workspace=tmp_path,
        user_folder=Path("/home/ada"),
        includes_default=False,
        paths=paths,
        sessions=None,
    )
    assert [(each.name, str(each.root)) for each in found] == [
        ("my-docs-main", str(tmp_path / "docs")),
        ("my-docs-main-2", "/home/ada/x"),
        ("custom-3-main", "/srv/notes"),
    ]
    assert found[0].shown("sub/x.md") == "docs/sub/x.md"
    assert [found[2].holds(name) for name in ("x/a1.md", "b2.md", "c1.md", "a.md", "../a1.md")] == [
        *(True, True, False, False, False)
    ]


@pytest.mark.parametrize("pattern", ["../**/*.md", "/etc/*.md", "--config", "[ab].md"])
def test_a_pattern_stays_in_its_folder(pattern: str) -> None:
    """What could lead out, or be an option, is refused with the settings."""
    with pytest.raises(ValidationError, match="not a pattern"):
        QmdPath(path="docs", pattern=pattern)
