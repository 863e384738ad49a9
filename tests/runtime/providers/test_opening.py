"""An extension of another package reaches models; one that cannot be loaded costs its model alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings
from tests.runtime.extensions.packages import install, listed

ACME = """
from nacre.memory.contracts.embedder import EmbedderFacts
from nacre.runtime.models.scripted import ScriptedModel, says

class Letters:
    facts = EmbedderFacts(provider="acme", model="letters", fingerprint="acme", batch_texts=8)

    async def embed_query(self, text):
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts):
        return [[1.0 + text.lower().count(letter) for letter in "aeiou"] for text in texts]

    async def close(self):
        pass

def open_model(config, name, now):
    return ScriptedModel(says(f"I am {name}."), name=name)

def open_embedder(config, settings, now):
    return Letters()
"""


def _homes(tmp_path: Path) -> tuple[Path, Path]:
    home = tmp_path / "home"
    home.mkdir()
    return home, tmp_path / "site"


def _install(site: Path, name: str = "acme", code: str = ACME) -> None:
    """The package `name`, whose entry point is its module."""
    install(site, name, code, manifest={"kind": "provider"})
    (site / f"nacre_{name}-0.3.dist-info" / "entry_points.txt").write_text(
        f"[nacre.extensions]\n{name} = nacre_{name}\n"
    )


def test_a_model_and_an_embedder_of_another_package(tmp_path: Path) -> None:
    """Their names are the extension's id; the model answers, and the notes have the embedder's vectors."""
    home, site = _homes(tmp_path)
    _install(site)
    write_settings(home / ".nacre", {"agents": {"defaults": {"memorySearch": {"provider": "acme"}}}})

    said = run_nacre(home, "send", "Hello.", PYTHONPATH=str(site), NACRE_MODEL="acme/tiny")
    run_nacre(home, "send", "Remember that my boat is called Halcyon.", PYTHONPATH=str(site))
    found = run_nacre(home, "memory", "search", "boat", "--json", PYTHONPATH=str(site))
    status = run_nacre(home, "memory", "status", "--json", PYTHONPATH=str(site))

    assert "I am acme/tiny." in said.stdout, said.stderr
    assert "Halcyon" in found.stdout, found.stderr
    assert '"acme"' in status.stdout
    assert "acme/MODEL" in listed(home, site)["acme"]["reason"]


def test_an_embedder_of_another_package_is_a_fallback(tmp_path: Path) -> None:
    """It makes the vectors when the first has no key, and the status says so."""
    home, site = _homes(tmp_path)
    _install(site)
    search = {"provider": "openai", "fallback": "acme"}
    write_settings(home / ".nacre", {"agents": {"defaults": {"memorySearch": search}}})

    run_nacre(home, "send", "Remember that my boat is called Halcyon.", PYTHONPATH=str(site))
    found = run_nacre(home, "memory", "search", "boat", "--json", PYTHONPATH=str(site))
    status = run_nacre(home, "memory", "status", "--json", PYTHONPATH=str(site))

    assert "Halcyon" in found.stdout, found.stderr
    assert json.loads(status.stdout)[0]["status"]["fallback"]["from"] == "openai"


@pytest.mark.parametrize(
    ("code", "plugins", "sentence"),
    [
        (
            "raise ImportError('no acme')",
            {},
            "cannot be used: ImportError: no acme",
        ),
        ("", {}, "has no attribute 'open_model'"),
        (ACME, {"deny": ["acme"]}, "is an extension that the setting plugins disables"),
        (ACME, {"enabled": False}, "is an extension that the setting plugins disables"),
    ],
)
def test_one_that_cannot_be_used_fails_the_turn_alone(
    tmp_path: Path, code: str, plugins: dict[str, Any], sentence: str
) -> None:
    """One sentence where the model is needed; sessions, notes and doctor work."""
    home, site = _homes(tmp_path)
    _install(site, code=code)
    write_settings(home / ".nacre", {"plugins": plugins})

    said = run_nacre(home, "send", "Hello.", PYTHONPATH=str(site), NACRE_MODEL="acme/tiny")
    sessions = run_nacre(home, "sessions", "list", "--json", PYTHONPATH=str(site), NACRE_MODEL="acme/tiny")

    assert sentence in said.stdout + said.stderr
    assert "Traceback" not in said.stderr
    assert len(json.loads(sessions.stdout)["sessions"]) == 1, sessions.stderr


def test_an_installation_without_the_built_in_one_still_answers_offline(tmp_path: Path) -> None:
    """A model of a provider fails with one sentence; the offline responder and the search need nothing."""
    home, site = _homes(tmp_path)
    info = site / "nacre-0.0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nacre\nVersion: 0.0.1\n")
    (info / "entry_points.txt").write_text("[nacre.extensions]\nproviders = nacre_gone.extension\n")

    named = run_nacre(home, "send", "Hello.", PYTHONPATH=str(site), NACRE_MODEL="openai/gpt-5-mini")
    offline = run_nacre(home, "send", "Remember that my boat is called Halcyon.", PYTHONPATH=str(site))
    found = run_nacre(home, "memory", "search", "boat", "--json", PYTHONPATH=str(site))
    status = run_nacre(home, "status", PYTHONPATH=str(site), NACRE_MODEL="openai/gpt-5-mini")

    sentence = "Models of providers need the extension 'providers'."
    assert sentence in named.stdout + named.stderr
    assert (offline.returncode, found.returncode) == (0, 0), offline.stderr + found.stderr
    assert "Halcyon" in found.stdout
    assert sentence in status.stdout + status.stderr


def test_a_third_party_never_takes_the_name_of_a_known_provider(tmp_path: Path) -> None:
    """`openai/…` goes to the built-in extension, whatever else is installed."""
    home, site = _homes(tmp_path)
    _install(site, "openai")

    said = run_nacre(home, "send", "Hello.", PYTHONPATH=str(site), NACRE_MODEL="openai/gpt-4o")

    assert "I am" not in said.stdout
    assert "OPENAI_API_KEY" in said.stdout + said.stderr
