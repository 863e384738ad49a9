"""What stanzas say, without a server: people, rooms, ids, and what is no message."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from slixmpp import Message

from nacre.bridges.channels.messages import Ignored
from nacre.extensions.xmpp.bridge import Identity, XmppMessage, read_message, sendable, verified_address
from tests.bridges.channels.contract.malformed import MALFORMED, SAMPLE, malformed

ROOM = "room@conference.localhost"
ME = Identity(
    jid="nacre@localhost",
    nick="Nacre",
    rooms=frozenset({ROOM}),
    people={(ROOM, "ann"): "ann@localhost"},
)
PRIVATE = (
    b"<message xmlns='jabber:client' type='chat' from='ann@localhost/x' to='nacre@localhost' id='m1'>"
    b"<body>hello</body><stanza-id xmlns='urn:xmpp:sid:0' by='nacre@localhost' id='a1'/></message>"
)
GROUP = (
    b"<message xmlns='jabber:client' type='groupchat' from='room@conference.localhost/ann' id='m2'>"
    b"<body>Nacre: hi</body><stanza-id xmlns='urn:xmpp:sid:0' by='room@conference.localhost' id='a2'/>"
    b"</message>"
)


def _read(raw: bytes) -> XmppMessage:
    return read_message(Message(xml=ElementTree.fromstring(raw)), ME)


def test_a_private_message_and_one_in_a_room() -> None:
    """The bare address is the person."""
    private, group = _read(PRIVATE).inbound, _read(GROUP).inbound

    assert _read(PRIVATE).archive_id == "a1"
    assert (private.chat_kind, private.chat_id, private.sender_id, private.text) == (
        "direct",
        "ann@localhost",
        "ann@localhost",
        "hello",
    )
    assert (group.chat_kind, group.chat_id, group.sender_id, group.is_mentioned) == (
        "group",
        ROOM,
        "ann@localhost",
        True,
    )


def test_a_reply_to_the_assistant_speaks_to_it() -> None:
    """In a room; one to somebody else does not (XEP-0461)."""
    raw = GROUP.replace(b"Nacre: hi</body>", b"why?</body><reply xmlns='urn:xmpp:reply:0' id='9' to='%s'/>")
    assert _read(raw % f"{ROOM}/Nacre".encode()).inbound.is_mentioned
    assert not _read(raw % f"{ROOM}/eve".encode()).inbound.is_mentioned


@pytest.mark.parametrize(
    "form",
    [
        b"<encryption xmlns='urn:xmpp:eme:0' namespace='urn:xmpp:otr:0'/>",
        b"<encrypted xmlns='eu.siacs.conversations.axolotl'><header/><payload>x</payload></encrypted>",
        b"<encrypted xmlns='urn:xmpp:omemo:2'><header/><payload>x</payload></encrypted>",
        b"<x xmlns='jabber:x:encrypted'>x</x>",
    ],
)
def test_the_text_beside_an_encrypted_message_is_not_the_message(form: bytes) -> None:
    """Neither the words for clients that cannot decrypt nor an exchange of keys is what somebody said."""
    found = _read(PRIVATE.replace(b"<stanza-id", form + b"<stanza-id"))
    assert (found.is_encrypted, found.inbound.text) == (True, "")

    keys = b"<encrypted xmlns='urn:xmpp:omemo:2'><header/></encrypted><stanza-id"
    with pytest.raises(Ignored, match="no readable content"):
        _read(PRIVATE.replace(b"<body>hello</body>", b"").replace(b"<stanza-id", keys))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"ann@localhost/x", ROOM.encode() + b"/ann", "private message"),
        (
            b"</message>",
            b"<x xmlns='http://jabber.org/protocol/muc#user'/></message>",
            "private message",
        ),
        (b"ann@localhost/x", b"nacre@localhost/phone", "own"),
        (b"type='chat'", b"type='headline'", "type"),
        (b"</message>", b"<result xmlns='urn:xmpp:mam:2'/></message>", "somebody else's"),
        (b"</message>", b"<sent xmlns='urn:xmpp:carbons:2'/></message>", "somebody else's"),
        (b"</message>", b"<replace xmlns='urn:xmpp:message-correct:0' id='m0'/></message>", "corrects"),
        (b"hello", b" ", "no readable content"),
    ],
)
def test_what_is_not_answered(old: bytes, new: bytes, why: str) -> None:
    """Whispers, copies, what the assistant said itself, and what says nothing."""
    with pytest.raises(Ignored, match=why):
        _read(PRIVATE.replace(old, new))


def test_an_id_that_somebody_else_gave_does_not_count() -> None:
    """Only the archive's own id names a message."""
    assert _read(PRIVATE.replace(b"by='nacre@localhost'", b"by='mallory@example.org'")).archive_id == ""


@pytest.mark.parametrize("raw", [PRIVATE, GROUP])
def test_a_message_that_its_sender_sends_again_is_the_same_one(raw: bytes) -> None:
    """Neither another archive id nor another connection makes another message; other words, another id or
    another sender do."""

    def message_id(*changes: tuple[bytes, bytes]) -> str:
        changed = raw
        for old, new in changes:
            changed = changed.replace(old, new)
        return _read(changed).inbound.message_id

    origin = (b"</message>", b"<origin-id xmlns='urn:xmpp:sid:0' id='o1'/></message>")
    same = message_id()
    assert message_id((b"id='a", b"id='b")) == same
    assert message_id((b"ann@localhost/x", b"ann@localhost/y")) == same
    assert message_id(origin) == message_id(origin, (b"id='m", b"id='n"))
    assert message_id((b"id='m", b"id='n")) != same
    assert message_id((b"</body>", b"!</body>")) != same
    assert message_id((b"ann@", b"bob@"), (b"/ann", b"/bob")) != same


def test_a_strangers_room_vouches_for_nobody() -> None:
    """It could show the owner's address beside any name."""
    assert verified_address("ann@localhost/x", ROOM, "localhost") == "ann@localhost"
    assert verified_address("ann@localhost/x", "room@conference.evil.org", "localhost") == ""
    assert verified_address("ann@localhost/x", "room@evillocalhost", "localhost") == ""


def test_a_text_is_cleaned_of_what_xml_cannot_hold() -> None:
    """Letters and line ends stay."""
    assert sendable("a\0b\x1b\ud800\n🐝") == "ab?\n🐝"


@pytest.mark.parametrize(
    "count", [SAMPLE, pytest.param(MALFORMED, marks=[pytest.mark.slow, pytest.mark.channels])]
)
def test_nonsense_gets_a_reason(count: int) -> None:
    """What is no XML ends a stream by the rules of XMPP; what is XML is read, or refused with a reason."""
    read = refused = 0
    for raw in malformed([PRIVATE, GROUP], count):
        try:
            stanza = Message(xml=ElementTree.fromstring(raw))
        except ElementTree.ParseError:
            continue
        try:
            read_message(stanza, ME)
            read += 1
        except (Ignored, ValueError) as why:
            refused += bool(str(why))
    assert read > count / 100
    assert refused > count / 100


@pytest.mark.parametrize(
    ("body", "more", "text", "quoted"),
    [
        ("&gt; tea?\n&gt; now?\nyes", "", "yes", ("tea?\nnow?", "quote", "")),
        (
            "&gt; tea?\nyes",
            "<reply xmlns='urn:xmpp:reply:0' to='eve@x.org/p' id='9'/>"
            "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'>"
            "<body start='0' end='7'/></fallback>",
            "yes",
            ("tea?", "quote", "eve@x.org/p"),
        ),
        (
            "Eve: tea?\nyes",
            "<reply xmlns='urn:xmpp:reply:0' to='eve@x.org' id='9'/>"
            "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'>"
            "<body start='0' end='10'/></fallback>",
            "yes",
            ("Eve: tea?", "quote", "eve@x.org"),
        ),
        ("tea?", "<forwarded xmlns='urn:xmpp:forward:0'/>", "", ("tea?", "forward", "")),
        ("yes &gt; no", "", "yes > no", None),
    ],
)
def test_quoted_and_forwarded_words_are_not_the_senders(
    body: str, more: str, text: str, quoted: tuple[str, str, str] | None
) -> None:
    """Answers with a fallback (XEP-0461), quotations (XEP-0393) and forwarded stanzas (XEP-0297)."""
    raw = PRIVATE.replace(b"<body>hello</body>", f"<body>{body}</body>{more}".encode())
    found = _read(raw).inbound
    assert found.text == text
    assert [(each.text, each.kind, each.said_by) for each in found.quoted] == ([quoted] if quoted else [])
