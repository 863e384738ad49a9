"""Nacre: an agent runtime whose memory is plain Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nacre.runtime.agent import Agent
    from nacre.runtime.inbound import Attachment, Inbound, Reply

__version__ = "0.1.0"

__all__ = ["Agent", "Attachment", "Inbound", "Reply", "__version__"]


def names_on_first_use(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__` (PEP 562): imports a public name's module when the name is asked for.

    So importing one module of a package costs that module and not all of them. `homes` has the names of each
    module of `package`.
    """
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(modules[name]), name)

    return load


__getattr__ = names_on_first_use(
    __name__, {"runtime.agent": ("Agent",), "runtime.inbound": ("Attachment", "Inbound", "Reply")}
)
