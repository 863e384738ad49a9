"""What lines of IRC say, without a server: text, people, mentions, lengths, and what is no line at all."""

from __future__ import annotations

import pytest
from ircstates import Server
from irctokens import tokenise

from nacre.extensions.irc.bridge import LINE_BYTES, message_lines, read_message
from nacre.extensions.irc.client import BURST_LINES, Pacer
from nacre.runtime.contracts.inbound import Inbound
from tests.bridges.channels.contract.malformed import message_or_reason
from tests.extensions.irc.loopback import WELCOME

GOOD = [
    b"@account=ann;msgid=m1;time=2026-03-14T10:00:00.000Z :ann!~a@host PRIVMSG Nacre :hello\r\n",
    b":ann!~a@host PRIVMSG #room :Nacre: \x02bold\x02 \x0304,02red\x03\r\n",
    b":irc.test 005 Nacre CASEMAPPING=rfc1459 CHANTYPES=#& STATUSMSG=@+ :are supported\r\n",
    b":irc.test 353 Nacre = #room :@ann Nacre\r\n",
    b":irc.test 311 Nacre ann ~a host * :Ann\r\n",
    b":ann!~a@host JOIN #room ann :Ann\r\n",
    b":ann!~a@host NICK :anna\r\n",
    b":irc.test MODE #room +o ann\r\n",
    b"PING :irc.test\r\n",
    b":irc.test CAP * LS * :sasl=PLAIN account-tag\r\n",
]


def _server() -> Server:
    server = Server("test")
    for line in WELCOME:
        server.parse_tokens(tokenise(line))
    return server


def _message(raw: str, *, knows_accounts: bool = True) -> Inbound:
    return read_message(tokenise(raw), _server(), "default", knows_accounts=knows_accounts).inbound


def _reason(raw: str) -> str:
    return str(message_or_reason(_message, raw))


def test_who_speaks_is_what_the_server_vouches_for() -> None:
    """The account where the server tells it, else the mask, in the letters that the network compares."""
    raw = "@account=Ann :Ann[1]!~a@HOST PRIVMSG nacre :hi"

    assert _message(raw).sender_id == "ann"
    assert _message(raw, knows_accounts=False).sender_id == "ann{1}!~a@host"
    assert _message("@account=* :ann!~a@host PRIVMSG nacre :hi").sender_id == "ann!~a@host"
    assert _message("@+account=boss :ann!~a@host PRIVMSG nacre :hi").sender_id == "ann!~a@host"
    assert _message("@account=bob!b@home :ann!~a@host PRIVMSG nacre :hi").sender_id == "ann!~a@host"


def test_a_chat_is_private_only_when_it_went_to_the_nick() -> None:
    """Channels are groups; what goes to a part of a channel or to a whole server is not answered."""
    assert _message(":ann!~a@host PRIVMSG NACRE :hi").chat_kind == "direct"
    room = _message(":ann!~a@host PRIVMSG #Room[x] :hi")
    assert (room.chat_kind, room.chat_id) == ("group", "#room{x}")
    assert _reason(":ann!~a@host PRIVMSG @#room :hi")
    assert _reason(":oper!o@host PRIVMSG $$*.net :hi")
    assert _reason(":irc.test PRIVMSG nacre :hi")


@pytest.mark.parametrize(
    ("text", "bare", "is_mentioned"),
    [
        ("Nacre: hi", "hi", True),
        ("@nacre, hi", "hi", True),
        ("hi NACRE!", "hi NACRE!", True),
        ("nacre", "nacre", True),
        ("nacreous", "nacreous", False),
        ("my-nacre", "my-nacre", False),
        ("hi all", "hi all", False),
    ],
)
def test_a_mention_is_the_nick_as_a_word(text: str, bare: str, is_mentioned: bool) -> None:
    """In any case of letters; in front of a message it is taken off."""
    found = _message(f":ann!~a@host PRIVMSG #room :{text}")

    assert (found.text, found.is_mentioned) == (bare, is_mentioned)


def test_colours_go_and_requests_of_programs_are_not_answered() -> None:
    """`/me` is told in stars."""
    assert _message(":a!b@c PRIVMSG nacre :\x02b\x02 \x0304,02r\x0f").text == "b r"
    assert _message(":a!b@c PRIVMSG nacre :\x01ACTION waves\x01").text == "*waves*"
    assert _reason(":a!b@c PRIVMSG nacre :\x01VERSION\x01")
    assert _reason("@bot :a!b@c PRIVMSG nacre :beep")


def test_lines_are_cut_by_bytes_between_characters() -> None:
    """Nothing is lost, nothing is longer than a line may be, and no line is empty."""
    text = "ž🐝" * 200 + "\n\n \nend\0"
    lines = message_lines(text)

    assert "".join(lines) == "ž🐝" * 200 + "end"
    assert max(len(line.encode()) for line in lines) <= LINE_BYTES


def test_five_lines_go_at_once_and_then_one_a_second() -> None:
    """And the bucket fills again."""
    pacer = Pacer(1.0)

    assert [pacer.wait_seconds(100.0) for _ in range(BURST_LINES + 2)] == [0, 0, 0, 0, 0, 1, 2]
    assert [pacer.wait_seconds(200.0) for _ in range(BURST_LINES + 1)][-2:] == [0, 1]
