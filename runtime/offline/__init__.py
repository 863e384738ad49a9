"""The built-in offline responder: what it says and does, as pure functions of a request."""

from nacre.runtime.offline.answer import Answer, Call
from nacre.runtime.offline.responder import respond

__all__ = ["Answer", "Call", "respond"]
