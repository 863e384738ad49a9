"""Who is answered, and who the owner is: by chat, sender, settings and what the owner did in a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from nacre.bridges.access.gate import Role, judge
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.settings.settings import Settings


def _settings(owners: tuple[str, ...] = (), **line: Any) -> Settings:
    return Settings.model_validate({"channels": {"Line": line}, "commands": {"ownerAllowFrom": list(owners)}})


def _judged(settings: Settings, role: Role = "", **inbound: Any) -> tuple[str, bool]:
    fields = {"text": "hi", "chat_kind": "direct", "channel": "line", "sender_id": "ann", **inbound}
    verdict = judge(Inbound(**fields), settings, role)
    return verdict.outcome, verdict.is_owner


@pytest.mark.parametrize(
    ("policy", "unknown", "listed", "guest"),
    [
        ("pairing", "pair", "answer", "answer"),
        ("allowlist", "ignore", "answer", "answer"),
        ("open", "answer", "answer", "answer"),
        ("disabled", "ignore", "ignore", "ignore"),
    ],
)
def test_private_chats(policy: str, unknown: str, listed: str, guest: str) -> None:
    """Unknown people may ask by default; the owner is always answered; nobody else is the owner."""
    settings = _settings(("line:nora",), dmPolicy=policy, allowFrom=["bob"])
    assert _judged(settings) == (unknown, False)
    assert _judged(settings, sender_id="bob") == (listed, False)
    assert _judged(settings, "guest") == (guest, False)
    assert _judged(settings, sender_id="nora") == ("answer", True)
    assert _judged(settings, "owner") == ("answer", True)
    assert _judged(settings, sender_id="") != ("answer", True)


def test_without_settings_nobody_is_let_in() -> None:
    """Private chats ask for a code, and groups hear nothing."""
    assert _judged(Settings()) == ("pair", False)
    group = Inbound(text="hi", chat_kind="group", channel="line", chat_id="-100", is_mentioned=True)
    assert judge(group, Settings(), "").outcome == "ignore"
    assert "-100" in judge(group, Settings(), "").why  # nothing else tells the id to write in the settings


def test_groups() -> None:
    """Those that are listed, by mention unless it says otherwise, and by sender where that is wished."""
    settings = _settings(("line:nora",), groups={"g": {}, "all": {"requireMention": False}})
    group = {"chat_kind": "group", "chat_id": "g"}
    assert _judged(settings, **group) == ("ignore", False)
    assert _judged(settings, **group, is_mentioned=True) == ("answer", False)
    assert _judged(settings, **group, is_mentioned=True, sender_id="nora") == ("answer", True)
    assert _judged(settings, chat_kind="group", chat_id="all") == ("answer", False)
    assert _judged(settings, chat_kind="group", chat_id="other", is_mentioned=True) == ("ignore", False)
    chosen = _settings(("line:nora",), groupPolicy="open", groupAllowFrom=["bob"])
    for sender, outcome in (("ann", "ignore"), ("bob", "answer"), ("nora", "answer")):
        assert _judged(chosen, **group, is_mentioned=True, sender_id=sender)[0] == outcome
    assert _judged(_settings(groupPolicy="disabled", groups={"g": {}}), **group)[0] == "ignore"


def test_an_id_is_its_channels() -> None:
    """Somebody who has the owner's id on another channel is somebody else, and so is another case of it."""
    settings = _settings(("line:nora", "telegram:ann", "nora", "line:", "line:*"))
    assert _judged(settings, sender_id="nora")[1] is True
    for other in ({"sender_id": "ann"}, {"sender_id": "Nora"}, {"sender_id": "*"}, {"channel": "irc"}):
        assert _judged(settings, **{"sender_id": "nora", **other})[1] is False, other
    assert _judged(settings, sender_id="NORA", ids_fold_case=True)[1] is True


_ANN_AND_GROUPS = _settings(("line:ann",), groups={"*": {}})


@given(st.text(max_size=10), st.booleans(), st.sampled_from(["", "guest", "owner"]))
def test_an_unknown_kind_is_a_group(kind: str, is_mentioned: bool, role: Role) -> None:
    """Whatever a bridge says that is not `direct` gets what a group gets."""
    if kind == "direct":
        return
    same = _judged(_ANN_AND_GROUPS, role, chat_kind="group", is_mentioned=is_mentioned)
    assert _judged(_ANN_AND_GROUPS, role, chat_kind=kind, is_mentioned=is_mentioned) == same
