"""Takes the text out of a PDF: bytes on stdin, UTF-8 on stdout, as many characters as the argument says.

A program of its own, so that a bomb takes down only this: its memory and its time are limited first.
"""

from __future__ import annotations

import resource
import sys

MAX_MEMORY_BYTES = 1_000_000_000
MAX_CPU_SECONDS = 20
NO_LIBRARY = 3


def main() -> int:
    """Runs it; the exit code, `NO_LIBRARY` when pypdf is not installed."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    try:
        from pypdf import PdfReader
    except ModuleNotFoundError:
        return NO_LIBRARY
    from io import BytesIO

    left = int(sys.argv[1]) + 1
    for page in PdfReader(BytesIO(sys.stdin.buffer.read())).pages:
        text = f"{page.extract_text()}\n\n"[:left]
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        left -= len(text)
        if left <= 0:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
