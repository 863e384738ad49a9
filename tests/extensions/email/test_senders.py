"""Who a mail is by: forged forms are strangers, the forms of honest servers are the owner."""

from __future__ import annotations

import itertools
import random
from email import message_from_bytes
from email.policy import default

import pytest

from nacre.extensions.email.messages import Identity, UnverifiedSender, read_message, verified_sender
from nacre.runtime.contracts.inbound import Inbound
from tests.bridges.channels.contract.malformed import message_or_reason

OWNER, SERVER, GENERATED = "ann@home.org", "mx.home.org", 600
ME = Identity(address="nacre@home.org", auth_server=SERVER)
PASS = f"{SERVER}; dmarc=pass header.from=home.org"
EVIL_PASS = f"{SERVER}; dmarc=pass header.from=evil.com"
FROM = f"Ann <{OWNER}>"
SAID = "To: nacre@home.org\r\nSubject: Tea\r\nMessage-ID: <1@x>\r\n\r\nWhat is the gate code?\r\n"


def mail(*results: str, sender: str = FROM, more: str = "") -> bytes:
    """A message with these results of servers, this `From`, and further lines in front of it."""
    lines = "".join(f"Authentication-Results: {each}\r\n" for each in results)
    return f"{lines}{more}From: {sender}\r\n{SAID}".encode()


FORGED = {
    # dmarc=pass where it is no result
    "in a quoted string": mail(f'{SERVER}; spf=pass smtp.mailfrom="x; dmarc=pass header.from=home.org"'),
    "in a reason": mail(
        f'{SERVER}; dmarc=fail reason="dmarc=pass header.from=home.org" header.from=home.org'
    ),
    "in a reason with a semicolon": mail(f'{SERVER}; spf=none reason="; dmarc=pass header.from=home.org"'),
    "in a comment": mail(f"{SERVER}; dmarc=fail (dmarc=pass header.from=home.org) header.from=home.org"),
    "in a comment with a semicolon": mail(f"{SERVER}; spf=none (; dmarc=pass header.from=home.org)"),
    "in a nested comment": mail(f"{SERVER}; spf=none ((a) ; dmarc=pass header.from=home.org)"),
    "behind a quoted bracket": mail(f'{SERVER}; spf=none (") ; dmarc=pass header.from=home.org'),
    "behind an escaped bracket": mail(f"{SERVER}; spf=none (\\) ; dmarc=pass header.from=home.org)"),
    "in an open comment": mail(f"{SERVER}; dmarc=pass header.from=home.org (open"),
    "in an open string": mail(f'{SERVER}; dmarc=pass header.from="home.org'),
    "as another method": mail(f"{SERVER}; x-dmarc=pass header.from=home.org"),
    "as a property": mail(f"{SERVER}; spf=pass dmarc=pass header.from=home.org"),
    "as the beginning of another result": mail(f"{SERVER}; dmarc=passing header.from=home.org"),
    "with words behind it": mail(f"{SERVER}; dmarc=pass header.from=home.org and more"),
    # alignment
    "for another domain": mail(EVIL_PASS),
    "for a domain below": mail(f"{SERVER}; dmarc=pass header.from=x.home.org"),
    "for a domain above": mail(PASS, sender="ann@x.home.org"),
    "for a domain that ends so": mail(f"{SERVER}; dmarc=pass header.from=evilhome.org"),
    "without a domain": mail(f"{SERVER}; dmarc=pass"),
    "with the domain of something else": mail(f"{SERVER}; dmarc=pass smtp.from=home.org header.d=home.org"),
    "with two domains": mail(f"{SERVER}; dmarc=pass header.from=evil.com header.from=home.org"),
    "with a domain in another result": mail(f"{SERVER}; dkim=pass header.from=home.org; dmarc=pass"),
    # contradictions, order, servers, versions
    "twice, differently": mail(f"{SERVER}; dmarc=fail header.from=home.org; dmarc=pass header.from=home.org"),
    "twice, equally": mail(f"{PASS}; dmarc=pass header.from=home.org"),
    "below a fail": mail(f"{SERVER}; dmarc=fail header.from=home.org", PASS),
    "above a fail": mail(PASS, f"{SERVER}; dmarc=fail header.from=home.org"),
    "below results that say nothing": mail(f"{SERVER}; spf=pass smtp.mailfrom=evil.com", PASS),
    "by another server": mail(f"mx.evil.com; {PASS}"),
    "by a server that begins so": mail(f"{SERVER}.evil.com; dmarc=pass header.from=home.org"),
    "by a server in a comment": mail(f"mx.evil.com ({SERVER}); dmarc=pass header.from=home.org"),
    "of version 2": mail(f"{SERVER} 2; dmarc=pass header.from=home.org"),
    "by nobody": mail(),
    "in a header of another name": mail(more=f"X-Authentication-Results: {PASS}\r\n"),
    # From
    "odd address first": mail(EVIL_PASS, sender=f'"x y"@evil.com, {OWNER}'),
    "odd address first, own pass": mail(PASS, sender=f'"x y"@evil.com, {OWNER}'),
    "two addresses": mail(PASS, sender=f"{OWNER}, eve@evil.com"),
    "two fields": mail(PASS, more="From: eve@evil.com\r\n"),
    "two fields, in another order": mail(PASS, sender="eve@evil.com", more=f"From: {FROM}\r\n"),
    "a field with a blank": mail(PASS, sender="eve@evil.com", more=f"From : {FROM}\r\n"),
    "a group": mail(PASS, sender=f"friends: {OWNER};"),
    "a route": mail(PASS, sender=f"<@evil.com:{OWNER}>"),
    "a comment in the address": mail(PASS, sender="ann(x)@home.org"),
    "a comment behind it": mail(PASS, sender=f"{OWNER} (<eve@evil.com>)"),
    "a quoted local part": mail(PASS, sender='"ann"@home.org'),
    "the owner as a name": mail(EVIL_PASS, sender=f'"{OWNER}" <eve@evil.com>'),
    "the owner as a name, unquoted": mail(EVIL_PASS, sender=f"{OWNER} <eve@evil.com>"),
    "two pairs of brackets": mail(PASS, sender=f"<eve@evil.com> <{OWNER}>"),
    "a folded address": mail(PASS, sender="ann@\r\n home.org"),
    "an empty fold": mail(PASS, sender=f"Ann\r\n \r\n <{OWNER}>"),
    "a NUL": mail(PASS, sender="ann@home.org\0.evil.com"),
    "a bare CR": mail(PASS, sender=f"eve@evil.com\rFrom: {OWNER}"),
    "a dot at its end": mail(PASS, sender="ann@home.org."),
    "a domain in brackets": mail(PASS, sender="ann@[home.org]"),
    "letters that look alike": mail(PASS, sender="ann@h\u043eme.org"),
    "letters that fold": mail(PASS, sender="ann@hom\uff45.org"),
    "a sign like @": mail(PASS, sender="ann@home.org\ufe6bevil.com"),
    "encoded words in the address": mail(PASS, sender="=?utf-8?q?ann=40home.org?= <eve@evil.com>"),
    "obsolete dots": mail(PASS, sender="ann . x@home.org"),
    "a line that is no field": mail(PASS, more="no field\r\n"),
}
HONEST = {
    "plain": (SERVER, mail(PASS)),
    "version 1, end of list": (
        SERVER,
        mail(f"{SERVER} 1; dmarc=pass (p=none dis=none) header.from=home.org;"),
    ),
    "upper case": ("MX.home.org", mail("Mx.Home.org; DMARC=Pass Header.From=HOME.org")),
    "below others": (SERVER, mail("filter.home.org; x-spam=none", PASS)),
    "OpenDMARC above OpenDKIM": (
        SERVER,
        mail(
            f"{SERVER};\r\n\tdmarc=pass (p=none dis=none) header.from=home.org",
            f"{SERVER};\r\n\tdkim=pass (2048-bit key; unprotected) header.d=home.org header.i=@home.org"
            " header.a=rsa-sha256 header.s=mail header.b=RkLJ6gIs",
        ),
    ),
    "rspamd": (
        SERVER,
        mail(
            f"{SERVER};\r\n\tdkim=pass header.d=home.org header.s=mail header.b=g3z1;\r\n"
            "\tspf=pass (mx.home.org: domain of ann@home.org designates 1.2.3.4 as permitted sender)"
            " smtp.mailfrom=ann@home.org;\r\n\tdmarc=pass (policy=quarantine) header.from=home.org"
        ),
    ),
    "Gmail": (
        "mx.google.com",
        mail(
            "mx.google.com;\r\n       dkim=pass header.i=@home.org header.s=20230601 header.b=abc/d+=;\r\n"
            "       arc=pass (i=1 spf=pass spfdomain=home.org dkim=pass dkdomain=home.org);\r\n"
            "       spf=pass (google.com: domain of ann@home.org designates 1.2.3.4 as permitted sender)"
            ' smtp.mailfrom="ann+x y"@home.org;\r\n'
            "       dmarc=pass (p=NONE sp=QUARANTINE dis=NONE) header.from=home.org;\r\n"
            "       dara=pass header.i=@gmail.com"
        ),
    ),
    "Microsoft 365": (
        "-",
        mail(
            "spf=pass (sender IP is 40.107.1.2)\r\n smtp.mailfrom=home.org;"
            " dkim=pass (signature was verified)\r\n header.d=home.org;dmarc=pass action=none"
            "\r\n header.from=home.org;compauth=pass reason=100",
            "mx.elsewhere.org; dmarc=fail header.from=home.org",
        ),
    ),
    "Fastmail": (
        "*.messagingengine.com",
        mail(
            "phl-mx-05.messagingengine.com;\r\n    arc=none (no signatures found);\r\n"
            "    dkim=pass (2048-bit rsa key sha256) header.d=home.org\r\n    header.i=@home.org header.b=XyZ"
            " header.a=rsa-sha256\r\n    header.s=s1 x-bits=2048;\r\n"
            "    dmarc=pass policy.published-domain-policy=none\r\n    policy.applied-disposition=none"
            " (p=none,sp=quarantine,has-list-id=no,d=none,d.eval=none)\r\n    policy.policy-from=p"
            " header.from=home.org;\r\n    iprev=pass smtp.remote-ip=209.85.219.41 (mail-qv1.google.com);\r\n"
            "    spf=pass smtp.mailfrom=ann@home.org\r\n    smtp.helo=mail-qv1.google.com",
            "phl-mx-05.messagingengine.com;\r\n    bimi=skipped (DMARC Policy is not at enforcement)",
        ),
    ),
    "Yahoo": (
        "atlas.mail.yahoo.com",
        mail(
            "atlas.mail.yahoo.com;\r\n dkim=pass header.i=@home.org header.s=s2048;\r\n"
            " spf=pass smtp.mailfrom=home.org;\r\n dmarc=pass(p=REJECT) header.from=home.org;"
        ),
    ),
    "a folded name in encoded words": (SERVER, mail(PASS, sender=f"=?utf-8?q?Ann_M=C3=BC?=\r\n <{OWNER}>")),
    "a quoted name": (SERVER, mail(PASS, sender=f'"Moss, Ann \\"A\\"" <{OWNER}>')),
    "a name with a dot": (SERVER, mail(PASS, sender=f"Ann M. Moss <{OWNER}>")),
    "a bare address in upper case": (SERVER, mail(PASS, sender="Ann@Home.ORG")),
    "raw letters in other fields": (SERVER, mail(PASS, more="X-Note: Grüße\r\n")),
}


@pytest.mark.parametrize("raw", FORGED.values(), ids=FORGED.keys())
def test_a_forged_form_is_not_the_owner(raw: bytes) -> None:
    """Neither is it answered as the owner's, nor does it name a sender that anybody vouches for."""
    found = message_or_reason(read_message, raw, ME)
    assert isinstance(found, str) or found.sender_id == "eve@evil.com"


@pytest.mark.parametrize(("server", "raw"), HONEST.values(), ids=HONEST.keys())
def test_an_honest_form_is_the_owner(server: str, raw: bytes) -> None:
    """As the large providers and the common programs of mail servers write it."""
    found = message_or_reason(read_message, raw, Identity(address="nacre@home.org", auth_server=server))
    assert isinstance(found, Inbound), found
    assert (found.sender_id, found.chat_kind) == (OWNER, "direct")


_HIDDEN = (
    "spf=none ({})", 'spf=none reason="{}"', 'spf=pass smtp.mailfrom="{}"', "spf=none (x ({}) y)",
    "dmarc=fail ({}) header.from=home.org", 'dmarc=fail reason="{}" header.from=home.org',
    "dmarc=none (a) ({}) (b)", 'x-a=pass x.y="; {}"', "spf=fail ( ; {})", "spf=fail (\\) ; {}",
    'spf=fail (" ) ; {}', "{} header.from=evil.com", "{}; {}", "dmarc=fail; {}", "{}; dmarc=temperror",
    "{} \\", '{} "', "{} (", "{} )", "{} =", "{}/2", "dmarc/2=pass header.from=home.org",
)  # fmt: skip
_RESULTS = (
    "dmarc=pass header.from=home.org",
    "DMARC=PASS Header.From=Home.Org",
    "dmarc=pass  header.from=home.org",
)
_SERVERS = (SERVER, f"{SERVER} 1", SERVER.upper(), f"(c) {SERVER}", f"{SERVER} (c)")
_SENDERS = (
    "{o}, eve@evil.com", "eve@evil.com, {o}", '"x y"@evil.com, {o}', "<eve@evil.com>, <{o}>", "a: {o};",
    "{o} (a)", "(a) {o}", "ann(a)@home.org", "ann@(a)home.org", '"ann"@home.org', "<@evil.com:{o}>",
    "{o} <eve@evil.com>", '"{o}" <eve@evil.com>', "<{o}> <eve@evil.com>", "<<{o}>>", "<{o}", "{o}>",
    "<{o}>,",
    ",{o}", "{o};", "{o}\0", "\0{o}", "ann\0@home.org", "{o}\r\n\t\r\n",
    "ann @home.org", "ann@ home.org",
    "ann\r\n @home.org", "ann..x@home.org", ".ann@home.org", "ann.@home.org", "ann@home..org",
    "ann@-home.org",
    "ann@home.org.", "ann@[1.2.3.4]", "ann@h\u043eme.org", "ânn@home.org", "ann@home.org\u3002evil.com",
    "ann@home\u2024org", "\u200bann@home.org", "=?utf-8?q?{o}?=", "<=?utf-8?q?ann?=@evil.com> {o}",
    "ann%home.org@evil.com", "ann@home.org@evil.com", "", "<>", "Ann", 'A"b"c <{o}>', 'Ann "<{o}>',
    "\\ann@home.org", "ann@home.org\\", "Ann [x] <{o}>", "Ann: <{o}>", "Ann, Moss <{o}>", "{o}\rTo: x",
)  # fmt: skip
_BREAKS = (
    "From: eve@evil.com\r\n", "from: {f}\r\n", "FROM:eve@evil.com\r\n", "From : {f}\r\n",
    "From\t: {f}\r\n",
    " folded\r\n", "no field\r\n", "X: \0\r\n", "X: a\rFrom: {f}\r\n", ": x\r\n", "Fr\u043em: x\r\n",
    "X: y\r\n \r\n", "X\0: y\r\n", "From ann@home.org Mon Jan 1 00:00:00 2024\r\n",
)  # fmt: skip


def generated(count: int) -> list[bytes]:
    """Forged messages: honest ones in which one part makes them a stranger's."""
    dice = random.Random(31)
    found: list[bytes] = []
    for _ in itertools.repeat(None):
        good = f"{dice.choice(_SERVERS)}; {dice.choice(_RESULTS)}"
        match dice.randrange(4):
            case 0:
                piece = dice.choice(_HIDDEN).format(*[dice.choice(_RESULTS)] * 2)
                raw = mail(f"{dice.choice(_SERVERS)}; {piece}")
            case 1:
                raw = mail(good, sender=dice.choice(_SENDERS).format(o=OWNER))
            case 2:
                others = (
                    f"{SERVER}; dmarc=fail",
                    f"{SERVER}; spf=pass",
                    EVIL_PASS,
                    f"{SERVER}; dmarc=(",
                    "(",
                )
                raw = mail(dice.choice(others), good)
            case _:
                raw = mail(good, more=dice.choice(_BREAKS).format(f=FROM))
        if raw not in found:
            found.append(raw)
        if len(found) == count:
            return found
    raise AssertionError


@pytest.fixture(scope="module")
def forgeries() -> list[bytes]:
    """So many that differ."""
    return generated(GENERATED)


def test_no_generated_form_is_the_owner(forgeries: list[bytes]) -> None:
    """Of 600 forged messages none is the owner's."""
    taken = [
        raw
        for raw in forgeries
        if isinstance(found := message_or_reason(read_message, raw, ME), Inbound) and found.sender_id == OWNER
    ]
    assert taken == []


def test_what_is_accepted_is_what_the_standard_library_reads(forgeries: list[bytes]) -> None:
    """Also with `trust_from`: whatever sender is found, the library finds the same one, without a defect."""
    checked = 0
    for raw in (*FORGED.values(), *forgeries, *(raw for _, raw in HONEST.values())):
        try:
            sender = verified_sender(raw, "", trust_from=True)
        except UnverifiedSender:
            continue
        header = message_from_bytes(raw, policy=default)["From"]
        kinds = {type(each).__name__ for each in header.defects} - {"ObsoleteHeaderDefect"}
        assert [each.addr_spec.lower() for each in header.addresses] == [sender]
        assert not kinds
        checked += 1
    assert checked > len(HONEST)
