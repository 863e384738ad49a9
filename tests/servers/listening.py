"""How a server of the tests ends without leaving a connection behind."""

from nacre.runtime.models.scripted_provider import stop_accepting as stop_accepting
