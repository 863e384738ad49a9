"""`http`: the server of `nacre serve` for programs and browsers."""

from typing import Annotated

from pydantic import Field

from nacre.runtime.settings.sections.section import SettingsSection


class HttpSettings(SettingsSection):
    """`http`: doors over HTTP. They need the extra `serve` and a token (`nacre token add NAME`)."""

    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The port at which `nacre serve` answers programs and browsers; `null` is none."""
    host: str = "127.0.0.1"
    """The address at which it listens. Another one than this machine's own needs a token that was made."""
    hosts: tuple[str, ...] = ()
    """Further names under which it is asked, such as that of a reverse proxy."""
