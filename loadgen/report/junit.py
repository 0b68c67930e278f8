"""``junit.xml``: what CI systems show as tests.  A case a target, and one a compared measure.

Valid against both schemas in use, that of Ant's JUnit task (attributes and empty elements it wants
are there) and that of Jenkins.  A case's ``time`` is the figure it is about, in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as xml

from loadgen.analysis import numerals
from loadgen.analysis.gate import REFUSED
from loadgen.analysis.measure import FAILURES, Change
from loadgen.analysis.verdict import Verdict

FILE = "junit.xml"

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, escaped or not."""


@dataclass(frozen=True, slots=True)
class Case:
    """``kind`` is ``failure``, ``error``, ``skipped`` or None: it passed."""

    name: str
    classname: str
    seconds: float | None = None
    kind: str | None = None
    type: str = ""
    message: str = ""


def render(
    summary: Mapping[str, Any],
    comparison: Mapping[str, Any] | None = None,
    decision: Mapping[str, Any] | None = None,
    pass_inconclusive: bool = False,
) -> bytes:
    """The file; ``decision`` is `gate.decide`, which knows why a comparison was refused."""
    unsettled = "skipped" if pass_inconclusive else "failure"
    suites = {
        "validity": list(_validity(summary)),
        "slo": list(_targets(summary, unsettled)),
        "comparison": list(_measures(comparison, decision, unsettled)),
    }
    root = xml.Element("testsuites")
    stamp = re.sub(r"(\.\d+)?Z?$", "", summary["started_at"] or "1970-01-01T00:00:00")
    for number, (name, cases) in enumerate(suites.items()):
        if cases:
            _add_suite(root, f"{number}", name, stamp, summary, cases)
    xml.indent(root)
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _validity(summary: Mapping[str, Any]) -> Iterator[Case]:
    name, classname = "the run is evidence", "loadgen.validity"
    if summary["verdict"] != Verdict.INVALID:
        yield Case(name, classname)
        return
    reasons = "; ".join(summary["reasons"])
    yield Case(name, classname, kind="error", type=Verdict.INVALID.value, message=reasons)


def _targets(summary: Mapping[str, Any], unsettled: str) -> Iterator[Case]:
    for slo in summary["slo"]:
        name = (
            f"{slo['title']} within {numerals.seconds(slo['within_s'])} for "
            f"{numerals.share(slo['share'])}"
        )
        seconds = None if slo["measured_ms"] is None else slo["measured_ms"] / 1000
        yield _judged(summary, slo, name, f"loadgen.slo.{slo['clock']}", unsettled, seconds)
    whole = summary["failure_budget"]
    for budget in [*([whole] if whole else []), *summary["cause_budgets"]]:
        name = f"{budget['title']} at most {numerals.share(budget['budget'])}"
        yield _judged(summary, budget, name, "loadgen.slo.failures", unsettled, None)


def _judged(
    summary: Mapping[str, Any],
    result: Mapping[str, Any],
    name: str,
    classname: str,
    unsettled: str,
    seconds: float | None,
) -> Case:
    verdict, reason = result["verdict"], result["reason"]
    if summary["verdict"] == Verdict.INVALID:
        kind: str | None = "skipped"
        reason = f"the run is INVALID; {reason}"
    else:
        kind = {Verdict.PASS: None, Verdict.FAIL: "failure"}.get(verdict, unsettled)
    return Case(name, classname, seconds, kind, verdict, reason)


def _measures(
    comparison: Mapping[str, Any] | None, decision: Mapping[str, Any] | None, unsettled: str
) -> Iterator[Case]:
    if comparison is None:
        if decision is not None and decision["verdict"] == REFUSED:
            message = "; ".join(decision["reasons"])
            yield Case("the runs can be compared", "loadgen.comparison", kind="error",
                       type=REFUSED, message=message)  # fmt: skip
        return
    for m in comparison["measures"]:
        if m["change"] is None:
            continue
        kind = {
            Change.REGRESSION: "failure",
            Change.INCONCLUSIVE: unsettled if m["decides"] else "skipped",
        }.get(m["change"])
        seconds = None if m["metric"] == FAILURES or m["new"] is None else m["new"] / 1000
        classname = f"loadgen.comparison.{m['metric']}"
        yield Case(m["title"], classname, seconds, kind, m["change"], m["reason"])


def _add_suite(
    root: xml.Element,
    number: str,
    name: str,
    stamp: str,
    summary: Mapping[str, Any],
    cases: list[Case],
) -> None:
    kinds = [case.kind for case in cases]
    suite = xml.SubElement(
        root, "testsuite", package="loadgen", id=number, name=name, timestamp=stamp,
        hostname="localhost", tests=str(len(cases)), failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")), skipped=str(kinds.count("skipped")),
        time=_decimal(summary["window_s"]),
    )  # fmt: skip
    properties = xml.SubElement(suite, "properties")
    for key in ("run", "plan_hash", "verdict"):
        xml.SubElement(properties, "property", name=key, value=_text(str(summary[key])))
    for case in cases:
        node = xml.SubElement(
            suite, "testcase", name=_token(case.name), classname=_token(case.classname),
            time=_decimal(case.seconds),
        )  # fmt: skip
        if case.kind == "skipped":
            xml.SubElement(node, "skipped").text = _text(case.message)
        elif case.kind is not None:
            message = _text(case.message)
            xml.SubElement(node, case.kind, message=message, type=case.type).text = message
    xml.SubElement(suite, "system-out")
    xml.SubElement(suite, "system-err")


def _decimal(value: float | None) -> str:
    return f"{value or 0.0:.3f}"


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)


def _token(text: str) -> str:
    """An ``xs:token``: no line ends, no two spaces in a row."""
    return " ".join(_text(text).split())
