"""How a connection begins: capabilities, the login, the nick. What the server refuses becomes a sentence."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

from ircstates import Server
from irctokens import Line

from nacre.bridges.channels.secure_connection import check_password_is_safe
from nacre.bridges.contracts.errors import CannotConnect
from nacre.extensions.irc.connection import IrcConnection
from nacre.extensions.irc.history import history_capabilities
from nacre.extensions.irc.settings import IrcSettings

WANTED = ("account-tag", "account-notify", "extended-join", "message-tags")
MOST_NICKS = 4
_SASL_CHUNK = 400
_NICK_TAKEN = ("433", "436", "437")
_LOGIN_REFUSED = ("902", "904", "905", "906", "908")


def may_be_free(line: Line, server: Server, nick: str) -> bool:
    """Whether a line is a reason to ask for a nick that somebody else had at the beginning.

    After a crash that somebody is the last connection, which the server drops a moment later. It tells of it
    only where both are in a channel, so its PINGs are reasons as well. What it refuses changes nothing.
    """
    if server.casefold_equals(server.nickname, nick):
        return False
    if line.command not in ("QUIT", "NICK") or line.source is None:
        return bool(line.command == "PING")
    return bool(server.casefold_equals(line.hostmask.nickname, nick))


async def register(connection: IrcConnection, settings: IrcSettings, lines: AsyncIterator[Line]) -> None:
    """Goes through the handshake; afterwards the server takes messages.

    Raises:
        CannotConnect: the server refuses the password, the nick or the connection.
        OSError: the connection broke.
    """
    password, server_password = (
        settings.sasl_password.get_secret_value(),
        settings.server_password.get_secret_value(),
    )
    if password or server_password:
        check_password_is_safe(settings.address)
    nick, tries = settings.nick, 1
    await connection.send("CAP", ["LS", "302"])
    if server_password:
        await connection.send("PASS", [server_password])
    await connection.send("NICK", [nick])
    await connection.send("USER", [settings.nick, "0", "*", settings.real_name])
    async for line in lines:
        if line.command == "CAP":
            await _capabilities(connection, settings, line)
        elif line.command == "AUTHENTICATE" and line.params == ["+"]:
            await _log_in(connection, settings)
        elif line.command == "903":
            await connection.send("CAP", ["END"])
        elif line.command in _NICK_TAKEN and tries < MOST_NICKS:
            nick, tries = f"{nick}_", tries + 1
            await connection.send("NICK", [nick])
        elif line.command in ("376", "422"):  # the end of the greeting: all that the network can do was told
            return
        elif problem := refusal(line, settings):
            raise CannotConnect(problem)
    raise CannotConnect(f"{settings.host} hung up before the connection was made.")


def refusal(line: Line, settings: IrcSettings) -> str:
    """A sentence about what a line refuses; empty when it refuses nothing. Pure."""
    words = line.params[-1] if line.params else ""
    if line.command in _LOGIN_REFUSED:
        account = settings.sasl_account or settings.nick
        return f"{settings.host} refuses the password of {account!r} (channels.irc.saslPassword): {words}"
    if line.command == "464":
        return f"{settings.host} refuses the password in channels.irc.serverPassword: {words}"
    if line.command in ("432", *_NICK_TAKEN):
        return f"{settings.host} does not give the nick {settings.nick!r}: {words}"
    if line.command in ("465", "466", "ERROR"):
        return f"{settings.host} refuses the connection: {words}"
    return ""


async def _capabilities(connection: IrcConnection, settings: IrcSettings, line: Line) -> None:
    subcommand = line.params[1] if len(line.params) > 1 else ""
    if subcommand == "LS" and "*" in line.params[2:-1]:
        return  # more of the list follows
    available = connection.server.available_caps
    if subcommand == "LS":
        wanted = [name for name in WANTED if name in available]
        wanted += history_capabilities(available)
        if settings.sasl_password.get_secret_value():
            if "sasl" not in available:
                raise CannotConnect(
                    f"{settings.host} offers no login (SASL), and channels.irc.saslPassword wants one. "
                    "Leave it out, or name a server that does."
                )
            wanted.append("sasl")
        await connection.send(*(("CAP", ["REQ", " ".join(wanted)]) if wanted else ("CAP", ["END"])))
    elif subcommand == "ACK" and settings.sasl_password.get_secret_value():
        await connection.send("AUTHENTICATE", ["PLAIN"])
    elif subcommand in ("ACK", "NAK"):
        await connection.send("CAP", ["END"])


async def _log_in(connection: IrcConnection, settings: IrcSettings) -> None:
    """SASL PLAIN (RFC 4616), in pieces of 400 bytes; a last piece of just 400 is followed by `+`."""
    account = settings.sasl_account or settings.nick
    secret = base64.b64encode(f"\0{account}\0{settings.sasl_password.get_secret_value()}".encode()).decode()
    for start in range(0, len(secret) + 1, _SASL_CHUNK):
        await connection.send("AUTHENTICATE", [secret[start : start + _SASL_CHUNK] or "+"])
