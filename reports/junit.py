"""Verdicts as JUnit XML, for CI systems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from inferproof.grading.verdict import Verdict


def junit(verdicts: Sequence[Verdict]) -> str:
    """One test case a row; contradicted is a failure, error and inconclusive are errors, not run is skipped."""
    suite = ET.Element("testsuite", name="inferproof", tests=str(len(verdicts)))
    counts = dict.fromkeys(("failures", "errors", "skipped"), 0)
    for v in verdicts:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=_legal(v.card),
            name=_legal(f"{v.claim} [{v.build or '-'}]"),
            time=f"{v.seconds or 0:.3f}",
        )
        kind, tag = {
            "contradicted": ("failures", "failure"), "error": ("errors", "error"),
            "inconclusive": ("errors", "error"), "not run": ("skipped", "skipped"),
        }.get(v.verdict, ("", ""))  # fmt: skip
        if tag:
            counts[kind] += 1
            ET.SubElement(case, tag, message=_legal(f"{v.verdict}: {v.reason}")).text = _legal(
                f"expected {v.expect}; observed {dict(v.observed)}"
            )
    suite.attrib |= {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    xml: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml.decode() + "\n"


def _legal(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold: controls, lone surrogates, U+FFFE and U+FFFF."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
