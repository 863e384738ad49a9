"""What an address says: whether it is this machine, and the user name in it. Pure."""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote, urlsplit


def without_credentials(url: str) -> str:
    """An address without user name, password, query and slash at its end."""
    return urlsplit(without_user(url))._replace(query="", fragment="").geturl().rstrip("/")


def without_user(url: str) -> str:
    """An address without user name and password, which httpx would write into its log."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def user_of(url: str) -> tuple[str, str] | None:
    """The user name and password of an address, if it has any."""
    parts = urlsplit(url)
    return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))


def is_loopback(url: str) -> bool:
    """Whether an address is this very machine's."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
