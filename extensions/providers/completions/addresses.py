"""Addresses: whether they are on this machine or the same server, and the credentials in them."""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote, urlsplit

from nacre.runtime.contracts.errors import BadModelReply


def without_credentials(url: str) -> str:
    """An address without user name, password, query and trailing slash."""
    return urlsplit(without_user(url))._replace(query="", fragment="").geturl().rstrip("/")


def without_user(url: str) -> str:
    """An address without user name and password, which httpx would write into its log."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def user_of(url: str) -> tuple[str, str] | None:
    parts = urlsplit(url)
    return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_same_server(url: str, other: str) -> bool:
    """Whether two addresses have the same scheme, host and port."""
    return _origin(url) == _origin(other)


class SentElsewhere(BadModelReply):
    """A server redirects requests to another one, `onward`."""

    def __init__(self, url: str, onward: str) -> None:
        super().__init__(
            f"The address {without_credentials(url)} sends requests on to {without_credentials(onward)}. The "
            "conversation was not sent there: it goes only to the address in the settings. If the other one "
            "is right, set models.providers.<name>.baseUrl to it."
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
