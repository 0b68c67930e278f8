"""What of a server's words is alike from run to run: ids, dates and places taken out."""

from __future__ import annotations

import re

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CHUNK_SIZE = re.compile(r"^[0-9a-f]+\r\n", re.MULTILINE)
_VARYING = (
    (re.compile(r'created(\\?)":\d+'), r'created\1":0'),
    (re.compile(r"datetime\.datetime\([\d, ]+, tzinfo"), "datetime.datetime(tzinfo"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?\+00:00"), "DATE"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?(\+00:00|Z)?"), "DATE"),
    (re.compile(r"(?i)date: [^\r]+ GMT"), "date: DATE"),
    (re.compile(r'event_timestamp\\":[\d.]+'), 'event_timestamp":0'),
    (re.compile(r'workflow_trace_id\\":\\"[0-9a-f]{32}'), 'workflow_trace_id":"TRACE'),
    (re.compile(r'(state":"|state=)[\w-]{22}'), r"\1STATE"),
    (re.compile(r"127\.0\.0\.1(:|%3A)\d+"), "HOST"),
    (re.compile(r"HOST(/_oauth)?/authorize"), "HOST/authorize"),
)


def normal(text: str) -> str:
    """``text`` with ids numbered in order of appearance, without dates, ports and chunk sizes (a
    step quotes dates, whose length varies).
    """
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    text = _CHUNK_SIZE.sub("", text)
    seen: dict[str, int] = {}
    return _UUID.sub(lambda match: f"ID{seen.setdefault(match[0], len(seen))}", text)


def normal_answer(text: str) -> str:
    """An HTTP answer, its headers sorted; how long it is depends on the dates in it."""
    head, blank, body = normal(text).partition("\r\n\r\n")
    status, *headers = re.sub(r"content-length: \d+", "content-length: N", head).split("\r\n")
    return "\n".join([status, *sorted(headers)]) + blank + body
