"""Measurements: `python -m benchmarks.<name>` from the checkout. They never see the owner's environment."""

from tests.isolation import isolate

isolate()
