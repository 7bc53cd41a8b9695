"""Verdicts as JUnit XML, which every CI reads: a suite a kernel, a case a launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from .verdict import FAULT, INCONCLUSIVE, RIGHT, WRONG, Finding, LaunchReport, Verdict

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write."""


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """The document.  It holds no time and no name of a machine."""
    top = ElementTree.Element("testsuites", name="tileiras-check")
    for verdict in verdicts:
        top.append(_suite(verdict))
    for kind in ("tests", "failures", "errors", "skipped"):
        top.set(kind, str(sum(int(suite.get(kind, "0")) for suite in top)))
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(verdict: Verdict) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_plain(f"{verdict.entry} on {verdict.gpu_name}"))
    for launch in verdict.launches:
        _case(suite, verdict, f"launch {launch.number}: {_describe(launch)}", launch)
    for finding in verdict.findings:
        if finding.kind == "excluded":
            case = _test_case(suite, verdict, f"not run: {finding.message}")
            ElementTree.SubElement(case, "skipped", message=_plain(_message(verdict, finding)))
    if not verdict.launches or verdict.status == INCONCLUSIVE:
        _case(suite, verdict, "verdict", None)
    general = [str(each) for each in verdict.findings if each.launch is None]
    ElementTree.SubElement(suite, "system-out").text = _plain("\n".join([*general, verdict.summary()]))
    suite.set("tests", str(len(suite.findall("testcase"))))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _describe(launch: LaunchReport) -> str:
    return f"grid {'x'.join(map(str, launch.grid))}, {launch.values} values, {', '.join(launch.arguments)}"


def _test_case(suite: ElementTree.Element, verdict: Verdict, name: str) -> ElementTree.Element:
    """A case at the entry's place."""
    case = ElementTree.SubElement(
        suite, "testcase", classname=_plain(f"{verdict.gpu_name}.{verdict.entry}"), name=_plain(name)
    )
    place = verdict.location.rsplit(":", 2)
    if len(place) == 3:
        case.set("file", _plain(place[0]))
        case.set("line", place[1])
    return case


def _case(suite: ElementTree.Element, verdict: Verdict, name: str, launch: LaunchReport | None) -> None:
    case = _test_case(suite, verdict, name)
    tag = _outcome(verdict, launch)
    if tag is None:
        return
    number = launch.number if launch is not None else None
    result = [each for each in verdict.findings if each.launch == number]
    first = next((each for each in result if each.is_wrong or each.kind == "program"), result[0] if result else None)
    outcome = ElementTree.SubElement(case, tag, message=_plain(_message(verdict, first)))
    if tag != "skipped":
        outcome.set("type", first.kind if first is not None else verdict.status)
        outcome.text = _plain("\n".join(map(str, result)))


def _outcome(verdict: Verdict, launch: LaunchReport | None) -> str | None:
    """The element that tells how a launch ended; None for one that is right.

    A launch that was drawn and that the program does not allow is no failure while others are right.
    """
    if launch is None:
        return "error"
    if launch.status == WRONG or (launch.status == FAULT and verdict.status == FAULT):
        return "failure"
    return None if launch.status == RIGHT else "skipped"


def _message(verdict: Verdict, first: Finding | None) -> str:
    if first is None:
        return verdict.status
    return f"{first.location}: {first.message}" if first.location else first.message


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
