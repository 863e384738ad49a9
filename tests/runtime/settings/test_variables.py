"""Environment variables in the settings file."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.disk.settings_file import with_variables


def test_a_key_can_stay_in_the_environment(tmp_path: Path) -> None:
    """`${NAME}` is filled in wherever a text stands, also inside it."""
    (tmp_path / "nacre.json5").write_text(
        '{models: {providers: {openai: {apiKey: "${BEES_KEY}", baseUrl: "https://${BEES_HOST}/v1"}}}}'
    )
    environment = {"HOME": str(tmp_path), "BEES_KEY": "sk-bees", "BEES_HOST": "bees.example"}
    openai = load_config(environment, state_dir=tmp_path).settings.models.providers["openai"]

    assert (openai.api_key, openai.base_url) == ("sk-bees", "https://bees.example/v1")


@pytest.mark.parametrize("environment", [{}, {"BEES_KEY": " "}])
def test_a_variable_that_is_not_set_is_named(environment: dict[str, str]) -> None:
    """With the setting that wants it."""
    with pytest.raises(
        ConfigError, match=r"models\.providers\.openai\.apiKey names .* BEES_KEY, which is not"
    ):
        with_variables({"models": {"providers": {"openai": {"apiKey": "${BEES_KEY}"}}}}, environment)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$${BEES_KEY}", "${BEES_KEY}"),
        ("${bees}", "${bees}"),
        ("$BEES_KEY", "$BEES_KEY"),
        (12, 12),
        (None, None),
    ],
)
def test_other_texts_stay_as_they_are(written: object, meant: object) -> None:
    """Two dollars mean one; names not in capitals and other values are no variables."""
    assert with_variables({"a": [written]}, {"BEES_KEY": "k"}) == {"a": [meant]}


@pytest.mark.parametrize(
    "settings",
    [
        "session: {mainKey: '${BEES_KEY}'}",
        "agents: {defaults: {workspace: '~${BEES_KEY}'}}",
    ],
)
def test_what_a_variable_holds_is_never_told(tmp_path: Path, settings: str) -> None:
    """A refusal names the variable; its value, which may be a key, stands neither there nor in the trace."""
    (tmp_path / "nacre.json5").write_text(f"{{{settings}}}")
    environment = {"HOME": str(tmp_path), "BEES_KEY": "sk secret"}
    with pytest.raises(ConfigError, match=r"\$\{BEES_KEY\}") as refused:
        load_config(environment, state_dir=tmp_path)
    assert "sk secret" not in "".join(traceback.format_exception(refused.value))
