"""The tab "Milestones" of Locust's web UI, and a page of its own at ``/milestones``.

Locust's page takes further tabs by name but no contents for them, so a script of ours shows the
page in a frame while the tab is chosen.  Everything is served by Locust's own server, behind its
login where it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from loadgen.journal import read_verdict

_HERE = Path(__file__).parent / "web"
_PLACE = "/milestones"
_KEY = "milestones"
_SCRIPT = f'<script src=".{_PLACE}/tab.js" defer></script></body>'

_FILES = {"page.css": "text/css", "page.js": "text/javascript", "tab.js": "text/javascript"}

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
)
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
"""A report carries words of a server.  They are escaped; if one were not, it still could not reach
the controls of this run.
"""


def add_tab(web_ui: Any, base_path: str, figures: Callable[[], dict[str, Any] | None],
            report: Callable[[], Path | None]) -> None:  # fmt: skip
    """Add the tab and its routes to ``web_ui`` before it answers its first request.

    ``figures`` gives what is shown, None before the first run; ``report`` the report of the last
    run, once it is written.
    """
    root = (base_path or "").rstrip("/")
    guarded, app = web_ui.auth_required_if_enabled, web_ui.app
    own_tabs = web_ui.template_args.get("extended_tabs", [])
    web_ui.template_args["extended_tabs"] = [*own_tabs, {"title": "Milestones", "key": _KEY}]

    def add(path: str, view: Callable[[], Any]) -> None:
        name = f"loadgen{path.replace('/', '_').replace('.', '_')}"
        app.add_url_rule(f"{root}{_PLACE}{path}", name, guarded(view))

    def tell() -> Any:
        told = orjson.dumps({"figures": figures(), "report": _facts(report())})
        return told, {"Content-Type": "application/json", "Cache-Control": "no-store"}

    add("", lambda: _answer("page.html", "text/html", _PAGE_POLICY))
    add("/figures", tell)
    add("/report", lambda: _report(report(), attachment=False))
    add("/report.html", lambda: _report(report(), attachment=True))
    for name, kind in _FILES.items():
        add(f"/{name}", lambda name=name, kind=kind: _answer(name, kind))  # type: ignore[misc]

    def with_script(response: Any) -> Any:
        """Locust's page, with our script at its end."""
        if response.mimetype == "text/html" and not response.is_streamed:
            body = response.get_data(as_text=True)
            if "window.templateArgs" in body and f'"{_KEY}"' in body:
                response.set_data(body.replace("</body>", _SCRIPT))
        return response

    app.after_request(with_script)


def _answer(name: str, kind: str, policy: str | None = None) -> Any:
    headers = {"Content-Type": f"{kind}; charset=utf-8", "Cache-Control": "no-cache"}
    if policy:
        headers["Content-Security-Policy"] = policy
    return (_HERE / name).read_bytes(), headers


def _facts(report: Path | None) -> dict[str, Any] | None:
    """What became of the last run; None until its report is there."""
    if report is None or not report.exists():
        return None
    return {"run": report.parent.name, **read_verdict(report.parent)}


def _report(report: Path | None, *, attachment: bool) -> Any:
    if report is None or not report.exists():
        return "no run of this Locust process has been reported yet", 404
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": _REPORT_POLICY,
    }
    if attachment:
        headers["Content-Disposition"] = f'attachment; filename="{report.parent.name}.html"'
    return report.read_bytes(), headers
