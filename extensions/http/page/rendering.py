"""Templates become pages: the only file that knows the template library."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from nacre.extensions.http.page.access import HEADERS
from nacre.extensions.http.page.diff_lines import diff_lines
from nacre.extensions.http.page.picture import short
from nacre.extensions.http.page.safe_markdown import safe_html

STATIC = Path(__file__).parent / "static"


class Pages:
    """The templates of the page. All that is put into one is escaped but for what `safe_html` made."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(markdown=safe_html, moment=_moment, tokens=short, diff=diff_lines)

    def text(self, template: str, **values: Any) -> str:
        """A template filled in."""
        return str(self._templates.get_template(template).render(values))

    def macro(self, name: str, *values: Any) -> str:
        """One part of pages, `name` in `parts.html`, filled in."""
        return str(getattr(self._templates.get_template("parts.html").module, name)(*values))

    def response(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """A page, with the headers of all pages."""
        return HTMLResponse(self.text(template, **values), status_code=status, headers=HEADERS)


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")
