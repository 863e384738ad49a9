"""A model in front of the words behind `/new`: when it is one, whom it answers, and how long it stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.commands.conversation.chosen_models import KnownModels, NamedModel, named_model
from nacre.runtime.contracts.events import Warned
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.sessions.index.record import SessionRecord, model_override, with_model_override
from tests.runtime.agents import events_of, opened, said, transcript_file, user_texts, write_settings
from tests.servers.provider_server import ProviderServer

KNOWN = KnownModels(
    names=["openai/gpt-5-mini", "openai/gpt-5", "anthropic/claude-opus-4-5", "offline/extractive"],
    aliases={"Opus": "anthropic/claude-opus-4-5"},
    providers=["openai", "anthropic", "local"],
)
QUIET: dict[str, Any] = {
    "agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}},
    "hooks": {"internal": {"enabled": False}},
}


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        ("openai/gpt-5-mini plan it", "openai/gpt-5-mini", "plan it"),
        ("OpenAI/GPT-5 Plan It", "openai/gpt-5", "Plan It"),
        ("opus plan", "anthropic/claude-opus-4-5", "plan"),
        ("gpt-5", "openai/gpt-5", ""),
        ("openai gpt-5-mini plan", "openai/gpt-5-mini", "plan"),
        ("anthropic opus plan", "anthropic/claude-opus-4-5", "plan"),
        ("claude-opus plan", "anthropic/claude-opus-4-5", "plan"),
        ("local/llama plan", "local/llama", "plan"),
        ("default", "", ""),
    ],
)
def test_a_model_is_known_by_its_name(text: str, name: str, rest: str) -> None:
    """By name, alias, provider and part, or a telling part; what follows keeps its case."""
    assert named_model(text, KNOWN) == NamedModel(name=name, rest=rest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plan the week",
        "default settings of the router",
        "extractive summaries, please",
        "offline sync is broken",
        "openai released something",
        "claude is a name",
        "gpt- what?",
        "/etc/hosts is broken",
    ],
)
@pytest.mark.covers("A5-15")
def test_words_stay_words(text: str) -> None:
    """Nothing that a person may want to say is taken for a model."""
    assert named_model(text, KNOWN) is None


def test_a_word_with_a_slash_is_not_sure_to_be_a_model() -> None:
    """Of a provider that the settings do not know; whoever can look it up decides."""
    assert named_model("and/or is short", KNOWN) == NamedModel(name="and/or", rest="is short", is_sure=False)


@pytest.mark.covers("A5-15")
def test_a_choice_is_kept_under_the_names_of_others() -> None:
    """OpenClaw's fields; the key profile of the model before goes with it, other fields stay."""
    record = SessionRecord(
        session_id="1", updated_at_ms=1, extra={"authProfileOverride": "spare", "thinkingLevel": "high"}
    )
    chosen = with_model_override(record, "openai/gpt-5/high")

    assert chosen.extra == {
        "thinkingLevel": "high",
        "providerOverride": "openai",
        "modelOverride": "gpt-5/high",
        "modelOverrideSource": "user",
    }
    assert model_override(chosen) == "openai/gpt-5/high"
    assert model_override(with_model_override(chosen, "")) == ""
    assert model_override(SessionRecord(session_id="1", updated_at_ms=1, extra={"modelOverride": 5})) == ""


@pytest.mark.covers("A5-15", "A15-3", "W12-3")
async def test_a_chosen_model_answers_this_chat_until_it_is_taken_back(tmp_path: Path) -> None:
    """Also after a later reset and in another process; other chats keep theirs."""
    write_settings(tmp_path, QUIET)
    model = ScriptedModel(says("one"), says("Hello, group."))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hello"))
        words = "Remember that the boat is called Halcyon."
        answer = await agent.respond(said(f"/new offline/extractive {words}"))
        await agent.respond(said("hello", chat_kind="group", channel="chat", chat_id="club"))
    model.assert_complete()
    later = ScriptedModel(says("back"))
    async with opened(tmp_path, later, ids="b") as agent:
        fresh = await agent.respond(said("/reset"))
        offline = await agent.respond(said("help"))
        status = await agent.respond(said("/status"))
        default = await agent.respond(said("/new default"))
        back = await agent.respond(said("hello"))
    later.assert_complete()

    assert answer is not None
    assert fresh is not None
    assert offline is not None
    assert status is not None
    assert default is not None
    assert back is not None
    assert "Halcyon" in answer.text
    assert [words] in [user_texts(transcript_file(tmp_path, number)) for number in range(3)]
    assert fresh.text == "✅ New session started · model: offline/extractive (default: scripted/model)"
    assert "offline" in offline.text.lower()
    assert "🧠 Model: offline/extractive" in status.text
    assert default.text == "✅ New session started · model: scripted/model"
    assert back.text == "back"


@pytest.mark.parametrize("words", ["offline/online sync is broken", "and/or is short", "plan/do/check"])
async def test_words_with_a_slash_are_looked_up(tmp_path: Path, words: str) -> None:
    """What neither the settings nor litellm's price map know is said to the assistant."""
    async with opened(tmp_path, ScriptedModel(says("Yes."))) as agent:
        await agent.respond(said(f"/new {words}"))

    assert user_texts(transcript_file(tmp_path)) == [words]


async def test_a_model_of_the_price_map_can_be_chosen(tmp_path: Path) -> None:
    """Also of a provider that the settings do not name."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        reply = await agent.respond(said("/new anthropic/claude-sonnet-4-5"))

    assert reply is not None
    assert "model: anthropic/claude-sonnet-4-5 (default: scripted/model)" in reply.text


async def test_a_model_can_be_chosen_before_anything_was_said(tmp_path: Path) -> None:
    """The first message of a chat may name it, too."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        reply = await agent.respond(said("/new offline/extractive"))

    assert reply is not None
    assert "model: offline/extractive" in reply.text


async def test_a_choice_that_cannot_be_used_is_told_and_passed_over(tmp_path: Path) -> None:
    """Its provider is not one that is known; the settings' own model answers."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(says("one"))) as agent:
        await agent.respond(said("hello"))
    path = tmp_path / "agents/main/sessions/sessions.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    index["agent:main:main"] |= {"providerOverride": "nowhere", "modelOverride": "gpt-4"}
    path.write_text(json.dumps(index), encoding="utf-8")

    async with opened(tmp_path, ScriptedModel(says("two")), ids="b") as agent:
        events = await events_of(agent, said("again"))

    told = [event.message for event in events if isinstance(event, Warned)]
    assert any("nowhere/gpt-4 was chosen for this chat and cannot be used" in text for text in told)


async def test_the_provider_is_asked_for_the_model_that_was_chosen(tmp_path: Path) -> None:
    """Over HTTP: the request names it, by an alias of the settings."""
    async with ProviderServer() as server:
        server.reply("Here I am.")
        settings = {
            **QUIET,
            "models": {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-secret-key"}}},
        }
        settings["agents"] = {
            "defaults": {"model": "openai/test-model", "models": {"openai/other-model": {"alias": "spare"}}}
        }
        write_settings(tmp_path, settings)
        async with opened(tmp_path) as agent:
            answer = await agent.respond(said("/new spare Are you there?"))

    assert answer is not None
    assert answer.text == "Here I am."
    assert [request["model"] for request in server.requests] == ["other-model"]
