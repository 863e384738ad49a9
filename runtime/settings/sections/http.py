"""`http`: the server of `nacre serve` for programs and browsers."""

from typing import Annotated

from pydantic import Field

from nacre.runtime.settings.sections.section import SettingsSection


class HttpSettings(SettingsSection):
    """`http`: doors over HTTP. They need the extra `serve` and a token
    (`nacre admin access token add NAME`)."""

    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port at which `nacre serve` answers programs and browsers; `null` is none."""
    host: str = "127.0.0.1"
    """The address at which it listens. Another one than this machine's own needs a token that was made."""
    hosts: tuple[str, ...] = ()
    """Further names under which it is asked, such as that of a reverse proxy."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed, such as
    `"127.0.0.1"`. Of everybody else these headers are passed over."""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 32
    """Largest request in MiB. A token that is not the owner's may send 4 MiB at most."""
