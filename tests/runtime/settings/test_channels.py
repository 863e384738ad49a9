"""Which direct chats have a limit on what is sent, and that the transcript keeps the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.open_sessions.routing import Route, history_turns_of
from nacre.runtime.settings.sections.channels import ChannelSettings
from nacre.runtime.settings.settings import Settings
from nacre.sessions.contracts.messages import message_text
from nacre.sessions.index.record import Origin
from tests.runtime.agents import opened, said, transcript_file, write_settings

CHANNELS = {
    name: ChannelSettings.model_validate(raw)
    for name, raw in {
        "telegram": {
            "dmHistoryLimit": 5,
            "dms": {
                "Eve": {"historyLimit": 2},
                "bob": {"historyLimit": 0},
                "carl": {},
                "a:b": {"historyLimit": 3},
            },
        },
        "discord": {},
    }.items()
}


def turns_of(key: str, channel: str, sender: str, *, folds: bool = False) -> int | None:
    """How many turns a model is sent of a session with these channels in the settings."""
    policy = ChatPolicy(chat_kind="direct", is_owner=False, session_key_is_private=False)
    origin = Origin(chat_kind="direct", channel=channel, sender_id=sender)
    route = Route(key=key, policy=policy, origin=origin, ids_fold_case=folds)
    return history_turns_of(route, Settings.model_construct(channels=CHANNELS))


@pytest.mark.parametrize(
    ("key", "channel", "sender", "turns"),
    [
        ("agent:main:telegram:dm:anna", "telegram", "anna", 5),
        ("agent:main:telegram:dm:anna:thread:7", "telegram", "anna", 5),
        ("agent:main:telegram:work:dm:anna", "Telegram", "anna", 5),
        ("agent:main:telegram:dm:Eve", "telegram", "Eve", 2),
        ("agent:main:telegram:dm:eve", "telegram", "eve", 5),
        ("agent:main:telegram:dm:bob", "telegram", "bob", 0),
        ("agent:main:telegram:dm:carl", "telegram", "carl", 5),
        ("agent:main:telegram:dm:a%3ab", "telegram", "a:b", 3),
        ("agent:main:discord:dm:anna", "discord", "anna", None),
        ("agent:main:signal:dm:anna", "signal", "anna", None),
        ("agent:main:telegram:group:7", "telegram", "anna", None),
        ("agent:main:main", "telegram", "anna", None),
        ("", "telegram", "anna", None),
    ],
)
@pytest.mark.covers("A8-2")
def test_only_direct_chats_of_their_own_have_a_limit(
    key: str, channel: str, sender: str, turns: int | None
) -> None:
    """The person's limit goes before the channel's; groups and the main session have none."""
    assert turns_of(key, channel, sender) == turns


@pytest.mark.parametrize(("folds", "turns"), [(True, 2), (False, 5)])
def test_letters_count_unless_the_channel_folds_them(folds: bool, turns: int) -> None:
    """`eve` is not `Eve`, but on a channel such as e-mail."""
    assert turns_of("agent:main:telegram:dm:eve", "telegram", "eve", folds=folds) == turns


async def test_what_a_bridge_says_of_letters_reaches_the_limit(tmp_path: Path) -> None:
    """On a channel that folds them, the settings may spell an id as people do."""
    write_settings(tmp_path, {"channels": {"mail": {"dms": {"Eve@X.org": {"historyLimit": 1}}}}})
    model = ScriptedModel(*(says("yes") for _ in range(4)))
    async with opened(tmp_path, model) as agent:
        for folds in (False, True):
            sender = {"channel": "mail", "chat_id": "eve@x.org", "sender_id": "eve@x.org", "is_owner": False}
            for text in ("first", "second"):
                await agent.respond(said(text, ids_fold_case=folds, **sender))
            counts = [len(request.messages) for request in model.requests]
    assert counts == [1, 3, 1, 1]


@pytest.mark.covers("A8-2")
async def test_the_limit_is_on_what_is_sent_not_on_what_is_kept(tmp_path: Path) -> None:
    """With a limit of one turn the model sees the newest words alone; the file has everything."""
    write_settings(tmp_path, {"channels": {"chat": {"dmHistoryLimit": 1}}})
    model = ScriptedModel(says("one"), says("two"))
    stranger = {"channel": "chat", "chat_id": "eve", "sender_id": "eve", "is_owner": False}
    async with opened(tmp_path, model) as agent:
        assert agent.notices == ()
        await agent.respond(said("first", **stranger))
        await agent.respond(said("second", **stranger))
    assert [message_text(message) for message in model.requests[-1].messages] == ["second"]
    assert b"first" in transcript_file(tmp_path).read_bytes()
