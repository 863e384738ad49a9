"""A settings file with a slip in it: where it is, and what."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{ agents: ", "The object {…} that begins in line 1, column 1 is never closed."),
        ("{\n  a: [1, 2\n", "The array […] that begins in line 2, column 6 is never closed."),
        ('{\n  a: "x\n"}', "The string that begins in line 2, column 6 is never closed."),
        ("{a: 1, /* x }", "The comment that begins in line 1, column 8 is never closed."),
        ("{\n  a: 1\n  b: 2\n}", "In line 3, column 3, a comma or '}' is expected instead of 'b'."),
        ("{\n  'ä': 1,\n  b 2}", "In line 3, column 5, a colon is expected instead of '2'."),
        ("// c\n{a: }", "In line 2, column 5, a value is expected instead of '}'."),
        ("{a: tru}", "In line 1, column 8, 'e' is expected instead of '}'."),
        ("{a: 1,, b: 2}", "In line 1, column 7, there is a comma too many."),
        ("{a: 1}\n}", "In line 2, column 1, '}' is after the end."),
    ],
)
def test_a_slip_is_told_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    """The sentence names file, line and column, and quotes what stands there."""
    file = tmp_path / "nacre.json5"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as refused:
        load_config({"NACRE_STATE_DIR": str(tmp_path)})

    assert str(refused.value) == f"The settings file {file} is not JSON5. {problem} Repair or move it."
