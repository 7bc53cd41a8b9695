"""JUnit XML and SARIF of verdicts: fields that readers of the formats rely on."""

from __future__ import annotations

import dataclasses
import json
from xml.etree import ElementTree

import pytest
from verdicts import ALL, RIGHT, UNJUDGED, WRONG

from tileiras.check.junit import junit
from tileiras.check.sarif import sarif
from tileiras.check.verdict import Finding, Verdict


@pytest.mark.parametrize("verdict", ALL, ids=lambda verdict: verdict.status)
def test_verdicts_are_read_back_as_they_were(verdict):
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


@pytest.mark.parametrize("change", [{"format": 0}, {"status": "fine"}, {"launches": [{"no": 1}]}, {"coverage": 3}])
def test_other_json_is_no_verdict(change):
    with pytest.raises(ValueError, match="verdict"):
        Verdict.from_json({**json.loads(json.dumps(RIGHT.to_json())), **change})


def test_a_suite_is_a_kernel_and_a_case_a_launch():
    top = ElementTree.fromstring(junit(ALL))
    assert [suite.get("name") for suite in top] == ["scale on sm_90", "k on sm_100", "none on sm_80"]
    counts = [tuple(int(suite.get(kind)) for kind in ("tests", "failures", "errors", "skipped")) for suite in top]
    assert counts == [(2, 0, 0, 1), (2, 1, 0, 0), (1, 0, 1, 0)]
    assert tuple(int(top.get(kind)) for kind in ("tests", "failures", "errors", "skipped")) == (5, 1, 1, 1)
    failure = top.find(".//failure")
    assert failure.get("type") == "value" and failure.get("message").startswith("k.mlir:4:5: 1 < 2 & ? ")
    assert "race" in failure.text
    case = top[0].find("testcase")
    assert (case.get("file"), case.get("line")) == ("kernels/a b.mlir", "2")


def test_launches_that_were_not_run_are_skipped():
    """Those that the program does not allow have no report of their own."""
    excluded = Finding("excluded", "2 launches are not allowed by the program: no view", "k.mlir:7:3")
    verdict = dataclasses.replace(RIGHT, launches=RIGHT.launches[:1], findings=(excluded,), excluded=2)
    (suite,) = ElementTree.fromstring(junit([verdict]))
    assert (suite.get("tests"), suite.get("skipped")) == ("2", "1")
    assert suite.find(".//skipped").get("message") == f"k.mlir:7:3: {excluded.message}"


def test_sarif_has_the_fields_that_the_schema_requires():
    """sarifLog, run, tool, toolComponent, reportingDescriptor, result, message: their required properties, and the
    values that the schema lists."""
    log = json.loads(sarif(ALL, "1.2"))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and all(rule["id"] and rule["shortDescription"]["text"] for rule in driver["rules"])
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    for result in run["results"]:
        assert result["message"]["text"] and result["level"] in ("none", "note", "warning", "error")
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        for location in result["locations"]:
            region = location["physicalLocation"].get("region", {"startLine": 1})
            assert region["startLine"] >= 1 and region.get("startColumn", 1) >= 1


def test_sarif_levels_and_places_are_those_of_findings():
    (run,) = json.loads(sarif([RIGHT, WRONG, UNJUDGED], "1"))["runs"]
    rows = [(each["ruleId"], each["level"]) for each in run["results"]]
    assert rows == [("program", "warning"), ("unjudged", "note"), ("value", "error"), ("emulation", "error"),
                    ("no-launch", "warning")]  # fmt: skip
    first, general, *_, race, unplaced = [each["locations"][0]["physicalLocation"] for each in run["results"]]
    assert first["artifactLocation"]["uri"] == "kernels/a%20b.mlir"
    assert first["region"] == {"startLine": 7, "startColumn": 3}
    # Findings without a location have that of the entry.
    assert general["region"]["startLine"] == 2 and race["region"] == {"startLine": 1, "startColumn": 1}
    assert unplaced["region"] == {"startLine": 3}
