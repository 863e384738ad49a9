"""Changes of a JSON5 text: the value is there, and nothing else is another."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pyjson5
import pytest
from hypothesis import given, strategies as st

from nacre.runtime.settings.disk.json5_edits import with_value, without

MINE = """// mine
{
  agents: { // who
    defaults: {
      model: "a/b", // fast
      /* kept */ tools: {deny: ['x']},
      'models': {},
    },
  },
  /* the
     end */
}
"""

NAMES = st.sampled_from(["a", "b", "model", "openai/gpt-4.1", "ünï", "it's", 'q"', "//no comment", "x y"])
SINGLE = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6)
VALUES = st.recursive(
    SINGLE,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=8,
)
TREES = st.dictionaries(NAMES, VALUES, max_size=4)
BLANKS = st.sampled_from(["", " ", "\n", "\n\t ", ' // it\'s "so"\n', "/* }], */", "\n  // {\n  "])


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, Any]:
    """A text as an owner may write it, with comments anywhere, and what it says."""

    def written(value: Any) -> str:
        if isinstance(value, dict):
            members = [
                f"{blank()}{json.dumps(key)}{blank()}:{blank()}{written(item)}" for key, item in value.items()
            ]
            return "{" + (blank() + ",").join(members) + end(members) + "}"
        if isinstance(value, list):
            items = [blank() + written(item) for item in value]
            return "[" + (blank() + ",").join(items) + end(items) + "]"
        return json.dumps(value, ensure_ascii=False)

    def blank() -> str:
        return draw(BLANKS)

    def end(parts: list[str]) -> str:
        return blank() + ("," if parts and draw(st.booleans()) else "") + blank()

    tree = draw(TREES)
    return blank() + written(tree) + blank(), tree


def _comments(text: str) -> list[str]:
    strings = r'"(?:[^"\\]|\\.)*"'
    return re.findall(r"//[^\n]*|/\*.*?\*/", re.sub(strings, '""', text), re.DOTALL)


@given(texts(), st.lists(NAMES, min_size=1, max_size=3), VALUES)
def test_a_value_is_put_into_any_text(written: tuple[str, Any], path: list[str], value: Any) -> None:
    """What the text says is changed at that place alone, and every comment of what stays is still there."""
    text, tree = written
    holder: Any = tree
    for step in path[:-1]:
        holder = holder.setdefault(step, {})
        if not isinstance(holder, dict):
            with pytest.raises(ValueError, match=r"the parent of|in this form|cannot be made|not an object"):
                with_value(text, path, value)
            return
    is_new = path[-1] not in holder
    holder[path[-1]] = value

    made = with_value(text, path, value)

    assert pyjson5.decode(made) == tree
    if is_new:
        assert Counter(_comments(text)) <= Counter(_comments(made))


@given(texts())
def test_any_member_is_taken_out(written: tuple[str, Any]) -> None:
    """Each member at the top can go; the others stay as they are."""
    text, tree = written
    for name in tree:
        rest = {key: item for key, item in tree.items() if key != name}
        assert pyjson5.decode(without(text, [name])) == rest


def test_an_owners_text_keeps_its_form() -> None:
    """The new value stands where the old one did; a new member is written as its neighbours are."""
    changed = with_value(MINE, ["agents", "defaults", "model"], "c/d")
    assert changed == MINE.replace('"a/b"', '"c/d"')

    added = with_value(MINE, ["session", "dmScope"], "main")
    assert added == MINE.replace("  },\n  /* the", '  },\n  session: {\n    dmScope: "main",\n  },\n  /* the')

    listed = with_value(MINE, ["agents", "defaults", "tools", "deny", 1], "y")
    assert listed == MINE.replace("['x']", "['x', \"y\"]")


def test_a_line_of_its_own_goes_with_its_value() -> None:
    """A comment behind a value that is taken out stays: it is the owner's."""
    assert without(MINE, ["agents", "defaults", "models"]) == MINE.replace("      'models': {},\n", "")
    assert "// fast" in without(MINE, ["agents", "defaults", "model"])


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", "{\n  a: {\n    b: 1,\n  },\n}\n"),
        ("a: {}", "a: {\n  b: 1,\n}"),
        ("a: {c: 2} // all", "a: {c: 2, b: 1} // all"),
        ('{"a": {"c": 2}}', '{"a": {"c": 2, "b": 1}}'),
        ("\ufeff{a: {}}", "\ufeff{a: {\n  b: 1,\n}}"),
    ],
)
def test_other_forms_of_a_file(text: str, made: str) -> None:
    """An empty file, one without braces, plain JSON, one that begins with a mark of its encoding."""
    assert with_value(text, ["a", "b"], 1) == made


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        ("{a: 1}", ["a", "b"], "not an object"),
        ("{a: {}}", ["a", 0], "not a list"),
        ("{a: []}", ["a", 1], "not a list of that length"),
        ("{}", ["a", 1], "begins with the item 0"),
        ("{a: ", ["a"], "."),
    ],
)
def test_what_cannot_be_changed_is_refused(text: str, path: list[str | int], told: str) -> None:
    """A path through a single value, an item far behind the end, a text that is no JSON5."""
    with pytest.raises((ValueError, pyjson5.Json5Exception), match=told):
        with_value(text, path, 1)
    with pytest.raises((ValueError, pyjson5.Json5Exception)):
        without(text, [*path, "x"])
