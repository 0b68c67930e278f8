"""The one design of every page we make: a template that extends ``base.html.j2``, as one file.

A page opens without a network.  Server text is escaped by Jinja's autoescape in the page and by
`charts.safe` in the charts; a content security policy lets only the two scripts of the page run,
and nothing be fetched.  A page without charts has no script at all.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from loadgen.analysis import numerals
from loadgen.report.charts import Chart

_TEMPLATES = Path(__file__).parent / "templates"
_SECTION = re.compile(r'<section id="([\w-]+)" data-name="([^"]+)"')


def render(template: str, charts: Iterable[Chart], **facts: Any) -> str:
    """The page that ``template`` makes of ``facts``, which may place each of ``charts`` by its
    name (the macro ``chart`` of ``blocks.html.j2``; a name without a chart makes nothing).
    """
    drawn = {chart.name: chart for chart in charts}
    scripts = [get_plotlyjs(), _own("page.js")] if drawn else []
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "count": numerals.count, "duration": numerals.duration, "share": numerals.share,
        "seconds": numerals.seconds, "plain": numerals.plain, "unbroken": unbroken,
        "contents": _contents, "sentence": sentence,
    }  # fmt: skip
    environment.globals |= {
        "charts": {
            name: {
                "title": chart.title, "height": chart.figure.layout.height,
                "data": _data(chart.figure),
            }
            for name, chart in drawn.items()
        },
        "css": Markup(_own("page.css")),
        "scripts": [Markup(script) for script in scripts],
        "policy": _policy(scripts),
    }  # fmt: skip
    return environment.get_template(template).render(facts)


def unbroken(text: str) -> str:
    """A number and its unit stay on one line; what was escaped stays so."""
    return type(text)(re.sub(r"(?<=\d) (?=(?:m?s|%)(?:\W|$))", "\u00a0", text))


def sentence(text: str) -> str:
    """``text`` with a capital at its begin."""
    return text[:1].upper() + text[1:]


def _contents(body: str) -> list[tuple[str, Markup]]:
    """Id and name of each section, in order; server text cannot make one, it is escaped."""
    return [(found[1], Markup(found[2])) for found in _SECTION.finditer(body)]


def _policy(scripts: Sequence[str]) -> str:
    """Nothing may be fetched, and only scripts with these hashes run."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    ]
    return (
        f"default-src 'none'; script-src {' '.join(hashes) or chr(39) + 'none' + chr(39)}; "
        "style-src 'unsafe-inline'; img-src data: blob:"
    )


def _data(figure: go.Figure) -> Markup:
    """JSON that can stand inside a script element: no ``<`` in it can end the element."""
    text = plotly.io.to_json(figure, validate=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _own(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
