"""Each rule for a file fails for one that breaks it, and passes one that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.house.rules import files as rules
from tests.house.rules.source import Source


def source(text: str, path: str = "memory/x.py") -> Source:
    module = "nacre." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return Source(path=path, module=module, text=text)


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (rules.clock_reads, "x = datetime.now()", "x = now()"),
        (
            rules.clock_reads,
            "import datetime\nx = datetime.datetime.now(tz)",
            "x = datetime.fromisoformat(s)",
        ),
        (rules.clock_reads, "from time import time", "import time"),
        (rules.environment_reads, "os.environ['A']", "environment['A']"),
        (rules.environment_reads, "f = os.getenv", "import os"),
        (rules.environment_reads, "from os import environ", "from os import path"),
        (rules.id_sources, "from uuid import uuid4", "new_id()"),
        (rules.id_sources, "def f():\n    import random", "import math"),
        (rules.file_openings, "open('x')", "store.open('memory.sqlite')"),
        (rules.file_openings, "p.open('rb')", "Agent.open()"),
        (rules.file_openings, "p.open(mode='w')", "p.exists()"),
        (rules.file_openings, "p.read_text()", "p.stat()"),
        (rules.file_openings, "os.open(p, 0)", "os.close(3)"),
        (rules.file_openings, "aiofiles.open(p)", "engine.open(p)"),
        (rules.forbidden_in_tests, "from unittest.mock import Mock", "import unittest"),
        (rules.forbidden_in_tests, "from unittest import mock", "import mockito_free"),
        (rules.forbidden_in_tests, "monkeypatch.setattr(a, 'b', 1)", "monkeypatch.chdir(p)"),
        (rules.forbidden_in_tests, "time.sleep(1)", "await event.wait()"),
        (rules.missing_docstrings, "x = 1", '"""Why."""\nx = 1'),
        (rules.missing_docstrings, '"""Why."""\nasync def test_x(): pass', '"""Why."""\ndef f(): pass'),
        (rules.bare_suppressions, "x = 1  # noqa", "x = 1  # noqa: E501 - a table"),
        (rules.bare_suppressions, "x = 1  # noqa: E501", "x = 1  # type: ignore[arg-type]"),
        (rules.bare_suppressions, "x = 1  # type: ignore", "x = 1  # a note"),
        (rules.over_budget, "x = 1\n" * 701, "x = 1\n" * 700),
        (rules.over_budget, "def f():\n" + "    x = 1\n" * 60, "def f():\n" + "    x = 1\n" * 59),
    ],
)
def test_rule_tells_bad_from_good(rule: Callable[[Source], list[str]], bad: str, good: str) -> None:
    """The rule complains about the one snippet and not about the other."""
    assert rule(source(bad)) != []
    assert rule(source(good)) == []


def test_foreign_libraries_are_the_top_names_of_strangers() -> None:
    """Neither Python's own modules nor ours are foreign, and lazy imports count."""
    text = "import os\nfrom nacre.memory import x\nimport litellm.main\ndef f():\n    from apsw import Error"
    by_name = "from importlib import import_module\nimport_module('tiktoken.core')"

    assert rules.foreign_libraries(source(text)) == {"litellm", "apsw"}
    assert rules.foreign_libraries(source(by_name)) == {"tiktoken"}


def test_exceptions_that_nothing_needs_are_stale() -> None:
    """A list of exceptions can only shrink."""
    assert rules.stale({"a.py": "long", "b.py": "long"}, ["a.py has 301 lines"]) == ["b.py"]
