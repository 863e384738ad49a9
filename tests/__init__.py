"""The tests. Whatever is imported first, pytest never sees the environment of the person who started it."""

import os

if (
    "PYTEST_VERSION" in os.environ
):  # set by pytest; the programs that tests start get an environment from their test
    from tests.isolation import isolate

    isolate()
