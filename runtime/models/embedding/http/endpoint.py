"""Where an embedding model is asked, and what of that changes its vectors. Pure."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_SECRET_HEADER = ("authorization", "cookie", "key", "token", "secret", "password", "credential")


@dataclass(frozen=True, kw_only=True)
class EmbeddingEndpoint:
    """Where a model is asked and how.

    `key_variables` are looked at when there is no `api_key`; `needs_key` is false for servers that answer
    without one. `dimensions` asks for shorter vectors than the model's own, for models made for it.
    `compact` says that the server is known to send numbers in base64, a quarter of their length in digits.
    """

    provider: str
    model: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_input_tokens: int = 8_192
    dimensions: int | None = None
    compact: bool = False

    @property
    def name(self) -> str:
        """`provider/model`, for sentences."""
        return f"{self.provider}/{self.model}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Header values that must never be told."""
        return tuple(value for name, value in self.headers.items() if is_secret_header(name))


def fingerprint_of(endpoint: EmbeddingEndpoint) -> str:
    """A hash of what changes the vectors: address, model, length, and the headers that are no secret."""
    headers = sorted(
        [name.lower(), value] for name, value in endpoint.headers.items() if not is_secret_header(name)
    )
    facts: list[object] = [without_credentials(endpoint.base_url), endpoint.model, headers]
    if endpoint.dimensions is not None:
        facts.append(endpoint.dimensions)
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def is_secret_header(name: str) -> bool:
    """Whether a header of this name is likely to hold a key."""
    return any(part in name.lower() for part in _SECRET_HEADER)


def without_credentials(url: str) -> str:
    """An address without user name, password, query and slash at its end."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")


def without_user(url: str) -> str:
    """An address without user name and password, which httpx would write into its log."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def user_of(url: str) -> tuple[str, str] | None:
    """The user name and password of an address, if it has any."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")


def is_loopback(url: str) -> bool:
    """Whether an address is this very machine's."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
