"""As much of XML Schema as ``junit.xsd`` uses: content models, attributes, simple types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as xml

XS = "{http://www.w3.org/2001/XMLSchema}"
BUILT_IN = {
    "xs:string": r"(?s:.*)",
    "xs:token": r"(\S+( \S+)*)?",
    "xs:int": r"[+-]?\d+",
    "xs:decimal": r"[+-]?(\d+(\.\d*)?|\.\d+)",
}


class Schema:
    """A schema of named complex types; `errors` says what a document breaks."""

    def __init__(self, path: Path) -> None:
        root = xml.parse(path).getroot()
        self._roots = {node.get("name"): node.get("type") for node in root.findall(f"{XS}element")}
        self._types = {node.get("name"): node for node in root if node.tag != f"{XS}element"}

    def errors(self, content: bytes) -> list[str]:
        document = xml.fromstring(content)
        if document.tag not in self._roots:
            return [f"{document.tag} is no root"]
        return list(self._check(document, str(self._roots[document.tag])))

    def _check(self, node: xml.Element, type_name: str) -> Iterator[str]:
        kind = self._types[type_name]
        attributes = {item.get("name"): item for item in kind.findall(f"{XS}attribute")}
        for name in node.attrib.keys() - attributes.keys():
            yield f"{node.tag} may not have {name}"
        for name, item in attributes.items():
            value = node.get(str(name))
            if value is None:
                if item.get("use") == "required":
                    yield f"{node.tag} needs {name}"
            elif not self._fits(str(item.get("type")), value):
                yield f"{node.tag} {name}={value!r} is no {item.get('type')}"
        model = next((part for part in kind if part.tag != f"{XS}attribute"), None)
        pattern = "" if model is None else _pattern(model)
        children = "".join(f"<{child.tag}>" for child in node)
        if not re.fullmatch(pattern, children):
            yield f"{node.tag} has {children or 'nothing'}, not {pattern}"
        if kind.get("mixed") != "true" and (node.text or "").strip():
            yield f"{node.tag} may not have text"
        known = {item.get("name"): str(item.get("type")) for item in kind.iter(f"{XS}element")}
        for child in node:
            if child.tag in known:
                yield from self._check(child, known[child.tag])

    def _fits(self, name: str, value: str) -> bool:
        if name in BUILT_IN:
            return re.fullmatch(BUILT_IN[name], value) is not None
        (restriction,) = self._types[name]
        if not self._fits(str(restriction.get("base")), value):
            return False
        for facet in restriction:
            wanted = str(facet.get("value"))
            if facet.tag == f"{XS}pattern" and not re.fullmatch(wanted, value):
                return False
            if facet.tag == f"{XS}minLength" and len(value) < int(wanted):
                return False
        return True


def _pattern(model: xml.Element) -> str:
    if model.tag == f"{XS}element":
        inner = f"<{model.get('name')}>"
    else:
        joint = "|" if model.tag == f"{XS}choice" else ""
        inner = joint.join(map(_pattern, model))
    most = str(model.get("maxOccurs", "1"))
    return f"({inner}){{{model.get('minOccurs', '1')},{'' if most == 'unbounded' else most}}}"
