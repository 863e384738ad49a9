"""What an extension adds is checked when it is added."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.runtime.extensions.host import ExtensionHost


@pytest.mark.parametrize("method", ["on_open", "tool_source", "http_mount", "service"])
def test_a_value_of_a_wrong_kind_is_refused(method: str) -> None:
    """A number in the place of a function or a service is named in the error."""
    host: Any = ExtensionHost(extension_id="tides", settings={}, may_be_memory=False)

    with pytest.raises(TypeError, match=r"42, which is not callable|must be a Service, not int"):
        getattr(host, method)(42)
