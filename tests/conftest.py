"""What holds for every test: a slow example of a property is no failure."""

from __future__ import annotations

from hypothesis import settings

# A busy machine makes a single example slow; that says nothing about the code.
settings.register_profile("nacre", deadline=None)
settings.load_profile("nacre")
