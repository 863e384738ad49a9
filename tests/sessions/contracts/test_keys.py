"""Session keys: who shares a conversation, and who never does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from nacre.sessions.contracts.errors import SessionKeyInvalid
from nacre.sessions.contracts.keys import (
    SessionRoute,
    canonical_key,
    is_private_key,
    key_kind,
    normalize_agent_id,
    route_key,
)

LINKS = {"Anna": ["telegram:42", "anna@example.org"], "Ben": ["telegram:7", "discord:99"]}


def key(**changes: Any) -> str:
    route: dict[str, Any] = {
        "agent_id": "main",
        "chat_kind": "direct",
        "channel": "telegram",
        "account": "default",
        "chat_id": "7",
        "thread_id": "",
        "sender_id": "42",
        "is_owner": True,
    }
    return route_key(SessionRoute(**{**route, **changes}))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "agent:main:main"),
        ({"sender_id": ""}, "agent:main:main"),
        ({"main_key": "Home"}, "agent:main:home"),
        ({"agent_id": "Work Bot!"}, "agent:work-bot:main"),
        ({"dm_scope": "per-peer"}, "agent:main:dm:42"),
        ({"dm_scope": "per-peer", "sender_id": ""}, "agent:main:main"),
        ({"dm_scope": "per-channel-peer"}, "agent:main:telegram:dm:42"),
        ({"dm_scope": "per-account-channel-peer", "account": ""}, "agent:main:telegram:default:dm:42"),
        ({"dm_scope": "per-peer", "identity_links": LINKS}, "agent:main:dm:anna"),
        (
            {
                "dm_scope": "per-peer",
                "channel": "mail",
                "sender_id": "Anna@Example.org",
                "ids_fold_case": True,
                "identity_links": LINKS,
            },
            "agent:main:dm:anna",
        ),
        ({"identity_links": LINKS}, "agent:main:main"),
        ({"thread_id": "9"}, "agent:main:main:thread:9"),
        (
            {"dm_scope": "per-account-channel-peer", "account": "Work", "identity_links": LINKS},
            "agent:main:telegram:work:dm:anna",
        ),
        (
            {"dm_scope": "per-peer", "sender_id": "7", "is_owner": False, "identity_links": LINKS},
            "agent:main:dm:ben",
        ),
        (
            {
                "dm_scope": "per-channel-peer",
                "channel": "discord",
                "sender_id": "99",
                "is_owner": False,
                "identity_links": LINKS,
            },
            "agent:main:discord:dm:ben",
        ),
        ({"scope": "global"}, "global"),
        ({"scope": "global", "chat_kind": "group", "thread_id": "1"}, "global"),
        ({"scope": "global", "chat_kind": "group", "is_owner": False}, "agent:main:telegram:group:7"),
        ({"scope": "global", "is_owner": False}, "agent:main:telegram:dm:42"),
        ({"is_owner": False}, "agent:main:telegram:dm:42"),
        ({"is_owner": False, "dm_scope": "per-peer"}, "agent:main:telegram:dm:42"),
        ({"is_owner": False, "sender_id": "Al"}, "agent:main:telegram:dm:%41l"),
        ({"is_owner": False, "sender_id": " Al", "ids_fold_case": True}, "agent:main:telegram:dm:al"),
        ({"chat_kind": "group"}, "agent:main:telegram:group:7"),
        ({"chat_kind": "group", "main_key": "home"}, "agent:main:telegram:group:7"),
        ({"chat_kind": "channel", "thread_id": "T1"}, "agent:main:telegram:channel:7:thread:%541"),
        ({"chat_kind": "nonsense"}, "agent:main:telegram:group:7"),
        ({"chat_kind": "group", "chat_id": ""}, "agent:main:telegram:group:unknown"),
        ({"channel": "whatsapp", "chat_id": "12-3@g.us"}, "agent:main:whatsapp:group:12-3@g.us"),
        (
            {"channel": "whatsapp", "chat_id": "", "sender_id": "12-3@G.us"},
            "agent:main:whatsapp:group:12-3@%47.us",
        ),
        ({"chat_id": "", "sender_id": "signal:group:x"}, "agent:main:telegram:group:signal%3agroup%3ax"),
    ],
)
@pytest.mark.covers("A3-1", "A3-2", "A3-3", "A3-4", "A3-5", "A3-6", "A5-14")
def test_a_route_has_its_key(changes: dict[str, Any], expected: str) -> None:
    """Each chat has the key of OpenClaw's scheme."""
    assert key(**changes) == expected


@given(
    sender=st.text(max_size=40).filter(str.strip),
    scope=st.sampled_from(["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]),
    channel=st.text(max_size=20),
    thread=st.sampled_from(["", "1"]),
)
@pytest.mark.covers("A3-3")
def test_a_stranger_never_lands_in_the_main_session(
    sender: str, scope: str, channel: str, thread: str
) -> None:
    """Whatever a stranger calls itself, its direct chat is a session of its own."""
    stranger = key(is_owner=False, sender_id=sender, dm_scope=scope, channel=channel, thread_id=thread)
    kind = key_kind(stranger.removesuffix(":thread:1"))

    assert kind in ("direct", "group")
    assert stranger != key(sender_id=sender, dm_scope="main", channel=channel, thread_id=thread)


@given(
    kind=st.sampled_from(["group", "channel", "supergroup", ""]),
    chat=st.text(max_size=40),
    channel=st.sampled_from(["telegram", "dm", "direct", "main", "agent", "subagent", "x:dm", ""]),
    thread=st.sampled_from(["", "dm:1", "main"]),
)
@pytest.mark.covers("A3-2")
def test_no_group_has_a_private_key(kind: str, chat: str, channel: str, thread: str) -> None:
    """No name of a group, its channel or its thread makes its key read as private."""
    assert not is_private_key(key(chat_kind=kind, chat_id=chat, channel=channel, thread_id=thread))


@pytest.mark.covers("A3-6")
def test_an_id_cannot_pass_for_a_linked_name() -> None:
    """A stranger whose id equals the owner's canonical name has another key than the owner."""
    owner = key(dm_scope="per-channel-peer", identity_links=LINKS)
    stranger = key(dm_scope="per-channel-peer", identity_links=LINKS, is_owner=False, sender_id="anna")

    assert owner == "agent:main:telegram:dm:anna"
    assert stranger == "agent:main:telegram:dm:%61nna"


@pytest.mark.covers("A3-6")
def test_a_bare_link_is_the_owners_alone() -> None:
    """An id without a channel names the owner; a stranger who has it elsewhere is not taken for them."""
    route = {
        "dm_scope": "per-peer",
        "channel": "mail",
        "sender_id": "anna@example.org",
        "identity_links": LINKS,
    }

    assert key(**route) == "agent:main:dm:anna"
    assert key(**route, is_owner=False) == "agent:main:mail:dm:anna@example.org"


@pytest.mark.parametrize("agent_id", ["main", "work"])
@pytest.mark.covers("W4-1")
def test_no_alias_of_the_main_session_makes_an_orphan(agent_id: str) -> None:
    """`main`, the main key, and both behind the agent, are the key that a direct chat has."""
    derived = key(agent_id=agent_id, main_key="home")

    assert derived == f"agent:{agent_id}:home"
    for alias in ("main", "home", f"agent:{agent_id}:main", f"agent:{agent_id}:home"):
        assert canonical_key(alias, agent_id=agent_id, main_key="home") == derived


def test_a_blank_at_the_end_of_a_channel_or_an_account_is_another_one() -> None:
    """Two senders of one id on channels, or accounts, that differ in a blank have two sessions."""

    def key(channel: str, account: str) -> str:
        return route_key(
            SessionRoute(
                agent_id="main",
                chat_kind="direct",
                channel=channel,
                account=account,
                chat_id="",
                thread_id="",
                sender_id="7",
                is_owner=False,
                dm_scope="per-account-channel-peer",
            )
        )

    keys = {key(channel, account) for channel in ("tg", "tg ", " tg") for account in ("a", "a ")}
    assert len(keys) == 6
    assert {canonical_key(each, agent_id="main") for each in keys} == keys


def test_long_ids_stay_apart() -> None:
    """Ids that differ only after hundreds of characters have different keys of bounded length."""
    keys = {key(chat_kind="group", chat_id="x" * 5000 + end) for end in ("a", "b")}

    assert len(keys) == 2
    assert max(map(len, keys)) < 200


@pytest.mark.parametrize(
    "text", ["main", " MAIN ", "home", "agent:main:main", "agent:main:home", "Agent:Main:Home"]
)
@pytest.mark.covers("A3-8")
def test_aliases_of_the_main_session_are_one_key(text: str) -> None:
    """Every name of the main session gives one key."""
    assert canonical_key(text, agent_id="main", main_key="home") == "agent:main:home"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("telegram:group:7", "agent:main:telegram:group:7"),
        ("agent:Work:telegram:group:7", "agent:work:telegram:group:7"),
        ("agent:other:main", "agent:other:main"),
        ("global", "global"),
        ("recovered:abc", "recovered:abc"),
        ("cron:nightly", "agent:main:cron:nightly"),
    ],
)
@pytest.mark.covers("A3-8")
def test_bare_keys_get_their_agent(text: str, expected: str) -> None:
    """A key without an agent belongs to the given one."""
    assert canonical_key(text, agent_id="main") == expected
    assert canonical_key(expected, agent_id="main") == expected


@pytest.mark.parametrize(
    "text", ["", "  ", "a\nb", "a\x00b", "\ud800", "x" * 801, "agent:", "agent:main", "agent:main:"]
)
def test_what_cannot_be_a_key_is_refused(text: str) -> None:
    """An empty, endless or unprintable key is refused with a sentence."""
    with pytest.raises(SessionKeyInvalid, match=r"^The session key .*\.$"):
        canonical_key(text, agent_id="main")


@pytest.mark.parametrize(
    "changes", [{"main_key": "a:b"}, {"main_key": "dm"}, {"dm_scope": "everybody"}, {"scope": "all"}]
)
def test_unusable_settings_are_refused(changes: dict[str, str]) -> None:
    """A main key or a scope that would break the scheme is refused."""
    with pytest.raises(SessionKeyInvalid, match="session"):
        key(**changes)


@pytest.mark.parametrize(
    ("text", "kind", "private"),
    [
        ("agent:main:main", "main", True),
        ("agent:main:telegram:dm:42", "direct", True),
        ("agent:main:dm:42", "direct", True),
        ("agent:main:telegram:work:dm:42", "direct", True),
        ("agent:main:matrix:dm:@anna:example.org", "direct", True),
        ("agent:main:telegram:group:7", "group", False),
        ("agent:main:telegram:channel:7", "group", False),
        ("agent:main:telegram:group:dm:7", "group", False),
        ("agent:main:dm:group:7", "group", False),
        ("agent:main:whatsapp:dm:12-3@g.us", "group", False),
        ("agent:main:main:thread:1", "thread", True),
        ("agent:main:telegram:group:7:thread:1", "thread", False),
        ("agent:main:telegram:group:7:topic:1", "thread", False),
        ("agent:main:subagent:abc", "subagent", False),
        ("agent:main:cron:nightly", "cron", False),
        ("cron:nightly", "cron", False),
        ("recovered:abc", "other", False),
        ("global", "global", False),
        ("agent:main:hook:2f:thread:1", "hook", False),
        ("agent:main:cron:dm:42", "cron", False),
        ("node-kitchen", "other", False),
        ("main", "other", False),
        ("agent:main:", "other", False),
        ("agent:main:telegram:dm:", "other", False),
        ("", "other", False),
    ],
)
@pytest.mark.covers("A3-8")
def test_a_key_tells_its_kind(text: str, kind: str, private: bool) -> None:
    """Only what is surely a conversation of two is private."""
    assert (key_kind(text), is_private_key(text)) == (kind, private)


@pytest.mark.covers("A3-3")
def test_a_main_key_of_the_owners_choice_is_main() -> None:
    """With another main key that session is the private one."""
    assert is_private_key("agent:main:home", main_key="home")
    assert not is_private_key("agent:main:home")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Main", "main"),
        ("", "main"),
        ("--", "main"),
        ("Jörg's bot", "j-rg-s-bot"),
        ("_x", "x"),
        ("a" * 70, "a" * 64),
    ],
)
def test_agent_ids_are_normalized(text: str, expected: str) -> None:
    """Any text becomes an id that can be a folder's name."""
    assert normalize_agent_id(text) == expected
