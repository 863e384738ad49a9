"""How a server of the tests ends without leaving a connection behind."""

from nacre.runtime.models.scripted_provider import hear_nobody as hear_nobody
