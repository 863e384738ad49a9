"""Routing: whose session a message belongs to under each setting, and what is never widened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.errors import ConfigError, PrivacyError
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.open_sessions.routing import Route, route
from nacre.runtime.settings.config import load_config
from nacre.runtime.settings.sections.session import SessionSettings
from tests.runtime.agents import opened, said, write_settings

LINKS = {"anna": ["telegram:42", "discord:99"]}


def routed(settings: dict[str, Any] | None = None, **inbound: Any) -> Route:
    """The route of a message from telegram under some settings."""
    message = said("hi", **{"channel": "telegram", "sender_id": "42", "chat_id": "42", **inbound})
    return route(message, agent_id="main", settings=SessionSettings.model_validate(settings or {}))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "agent:main:main"),
        ({"mainKey": "home"}, "agent:main:home"),
        ({"dmScope": "per-peer"}, "agent:main:dm:42"),
        ({"dmScope": "per-peer", "identityLinks": LINKS}, "agent:main:dm:anna"),
        ({"dmScope": "per-channel-peer"}, "agent:main:telegram:dm:42"),
        ({"dmScope": "per-account-channel-peer"}, "agent:main:telegram:default:dm:42"),
        ({"scope": "global", "dmScope": "per-peer"}, "global"),
    ],
)
@pytest.mark.covers("A3-4", "A3-5")
def test_the_settings_decide_the_key(settings: dict[str, Any], key: str) -> None:
    """Each setting of `session` has its effect on the owner's direct chat."""
    assert routed(settings).key == key


@pytest.mark.parametrize("scope", ["main", "per-peer", "per-channel-peer", "per-account-channel-peer"])
@pytest.mark.covers("A3-6")
def test_links_and_scopes_make_nobody_private(scope: str) -> None:
    """A stranger under the owner's name is as little private as under their own, in every scope."""
    settings = {"dmScope": scope, "identityLinks": LINKS}

    assert routed(settings).policy.is_private
    assert not routed(settings, is_owner=False).policy.is_private
    assert not routed(settings, chat_kind="group").policy.is_private


def test_a_plain_name_is_a_private_conversation_of_the_owners() -> None:
    """A key keeps the audience that it names, and nobody else makes a private session by a name."""
    assert routed({}, session_key="Project").key == "agent:main:direct:project"
    assert routed({}, session_key="Project").policy.is_private
    shared = routed({}, session_key="agent:main:project")
    assert (shared.key, shared.policy.is_private) == ("agent:main:project", False)
    assert routed({}, session_key="main").key == "agent:main:main"
    assert routed({}, session_key="global").key == "global"
    assert routed({}, session_key="group").key == "agent:main:direct:%67roup"
    assert routed({}, session_key="project", is_owner=False).key == "agent:main:project"
    assert routed({}, session_key="project", chat_kind="group").key == "agent:main:project"


@pytest.mark.covers("A3-1")
def test_the_global_session_shows_no_private_memory() -> None:
    """Groups read its answers, so the owner's own direct chat is not private there either."""
    settings = {"scope": "global"}

    assert not routed(settings).policy.is_private
    assert routed(settings, chat_kind="group").key == "global"
    assert routed(settings, is_owner=False).key == "agent:main:telegram:dm:42"
    with pytest.raises(PrivacyError, match="named the private session 'global'"):
        routed(settings, is_owner=False, session_key="global")


@pytest.mark.covers("A3-1")
async def test_what_others_say_stays_out_of_the_global_session(tmp_path: Path) -> None:
    """The owner's words in a terminal and in a group are one conversation; a stranger's are not in it."""
    write_settings(tmp_path, {"session": {"scope": "global"}})
    group = {"chat_kind": "group", "channel": "chat", "chat_id": "g"}
    model = ScriptedModel(says("a"), says("b"), says("c"))
    async with opened(tmp_path, model) as agent:
        mine = await agent.respond(said("from the terminal"))
        also_mine = await agent.respond(said("from the group", **group))
        theirs = await agent.respond(said("from somebody", **group, is_owner=False, sender_id="joe"))

    assert mine is not None
    assert also_mine is not None
    assert theirs is not None
    assert mine.session_id == also_mine.session_id != theirs.session_id
    assert theirs.session_key == "agent:main:chat:group:g"


def test_a_route_tells_where_the_message_came_from() -> None:
    """The place of the message is handed on for the index, with the chat's name."""
    origin = routed(chat_kind="nonsense", thread_id="9", chat_name="Family").origin

    assert (origin.chat_kind, origin.channel, origin.sender_id) == ("group", "telegram", "42")
    assert (origin.thread_id, origin.chat_name, origin.reply_to) == ("9", "Family", "42")


@pytest.mark.covers("A4-9")
def test_sessions_are_kept_where_the_owner_says(tmp_path: Path) -> None:
    """`session.store` names the index; the home folder and the agent's id are filled in."""
    environment = {"HOME": str(tmp_path), "NACRE_STATE_DIR": str(tmp_path / "state")}
    (tmp_path / "state").mkdir()
    usual = tmp_path / "state" / "agents" / "main" / "sessions" / "sessions.json"
    assert load_config(environment).folders.sessions_file == usual

    write_settings(tmp_path / "state", {"session": {"store": "~/chats/{agentId}/index.json"}})
    assert load_config(environment).folders.sessions_file == tmp_path / "chats" / "main" / "index.json"

    write_settings(tmp_path / "state", {"session": {"store": "~/chats"}})
    with pytest.raises(ConfigError, match=r"session\.store: .*'~/chats'.*ends in \.json"):
        load_config(environment)


@pytest.mark.covers("A4-9")
async def test_transcripts_lie_beside_the_index(tmp_path: Path) -> None:
    """A turn writes the index and the transcript into the folder that `session.store` names."""
    state = tmp_path / "state"
    write_settings(state, {"session": {"store": str(tmp_path / "chats" / "index.json")}})
    async with opened(state, ScriptedModel(says("hello"))) as agent:
        reply = await agent.respond(said("hi"))

    assert reply is not None
    names = {path.name for path in (tmp_path / "chats").iterdir()}
    assert {"index.json", f"{reply.session_id}.jsonl"} <= names
    assert not (state / "agents").exists()
