"""A program that extracts the text of a PDF. It runs in a process of its own, with little memory and time.

python -m nacre.runtime.turn.pdf_text CHARS < file.pdf
"""

from __future__ import annotations

import resource
import sys
from io import BytesIO

MAX_MEMORY_BYTES = 1_000_000_000
MAX_CPU_SECONDS = 20


def main() -> None:
    """Writes at most one character more than CHARS, so that its caller sees whether text is left."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    from pypdf import PdfReader

    left = int(sys.argv[1]) + 1
    for page in PdfReader(BytesIO(sys.stdin.buffer.read())).pages:
        text = f"{page.extract_text()}\n\n"[:left]
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        left -= len(text)
        if left <= 0:
            break


if __name__ == "__main__":
    main()
