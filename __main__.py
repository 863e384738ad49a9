"""The program `nacre`, also as `python -m nacre`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs one command and ends the process with its code. A search begins with its model."""
    from nacre.cli.memory.opening.model_ahead import begin_model_of_search

    begin_model_of_search(sys.argv[1:])
    from nacre.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
