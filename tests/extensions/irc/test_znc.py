"""IRC over a real ZNC before a real ngircd: what was said while the assistant was away is played back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import pytest

from nacre.bridges.contracts.bridge_contract import RecordingInbox, started
from nacre.extensions.irc.bridge import IrcBridge
from nacre.extensions.irc.settings import IrcSettings
from nacre.runtime.contracts.clock import system_clock
from tests.bridges.channels.contract.servers import ServerProcess, free_port, program
from tests.bridges.channels.contract.world import until
from tests.extensions.irc.ngircd import ROOM, Person, ngircd

pytestmark = pytest.mark.channels

CONFIG = """
Version = 1.8.0
ConnectDelay = 0
ServerThrottle = 0
LoadModule = adminlog file
<Listener l>
    Host = 127.0.0.1
    Port = {port}
    IPv4 = true
    IPv6 = false
    SSL = false
</Listener>
<User nacre>
    Nick = Nacre
    AltNick = Nacre
    Ident = Nacre
    RealName = Nacre
    JoinTries = 10
    <Pass password>
        Method = Plain
        Hash = sesame
    </Pass>
    <Network net>
        Server = 127.0.0.1 {server_port}
        <Chan {room}>
        </Chan>
    </Network>
</User>
"""


@asynccontextmanager
async def znc(folder: Path, server: ServerProcess) -> AsyncIterator[ServerProcess]:
    """A ZNC that is on the server as the assistant, whether the assistant is there or not."""
    port = free_port()
    (folder / "znc/configs").mkdir(parents=True)
    config = CONFIG.format(port=port, server_port=server.port, room=ROOM)
    (folder / "znc/configs/znc.conf").write_text(config)
    command = [program("znc", "znc"), "--foreground", "--allow-root", "--datadir", str(folder / "znc")]
    bouncer = ServerProcess(command, port, folder / "znc")
    await bouncer.start()
    try:
        yield bouncer
    finally:
        await bouncer.stop()


def bridge(port: int) -> IrcBridge:
    """A bridge to the bouncer."""
    known = {
        "host": "127.0.0.1",
        "port": port,
        "tls": False,
        "nick": "Nacre",
        "serverPassword": "nacre/net:sesame",
        "join": [ROOM],
    }
    return IrcBridge(IrcSettings.model_validate(known), now=system_clock(UTC))


async def test_what_zncs_buffers_play_is_taken_once_and_as_it_was_said(tmp_path: Path) -> None:
    """In private and in the room, in order; the words of ZNC about its buffers are nobody's."""
    async with ngircd(tmp_path) as server, znc(tmp_path, server) as bouncer:
        ann, inbox = Person(server.port, "ann"), RecordingInbox()
        await ann.join()
        await until(lambda: "Nacre" in ann.here, lambda: ann.here)
        async with started(bridge(bouncer.port), inbox):
            ann.send("PRIVMSG Nacre :live")
            await inbox.holds(1)
        log = tmp_path / "znc/moddata/adminlog/znc.log"
        await until(lambda: "disconnected from ZNC" in log.read_text(), log.read_text)
        ann.send(f"PRIVMSG {ROOM} :missed 1", f"PRIVMSG {ROOM} :missed 2", "PRIVMSG Nacre :missed 3")
        async with started(bridge(bouncer.port), inbox):
            await inbox.holds(4)
            ann.send(f"PRIVMSG {ROOM} :live again")
            await inbox.holds(5)
        await ann.leave()
    texts = [inbound.text for inbound in inbox.inbound]
    assert sorted(texts) == ["live", "live again", "missed 1", "missed 2", "missed 3"]
    assert texts.index("missed 1") < texts.index("missed 2")
    assert texts[-1] == "live again"
    assert {each.sender_id for each in inbox.inbound} == {"ann!~ann@127.0.0.1"}
