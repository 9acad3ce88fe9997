"""The targets of fuzz.py without atheris: good inputs, and those that once broke a promise."""

from __future__ import annotations

import json

import pytest
from fuzz_targets import SMALL, TARGETS, deck
from test_attestation import record

LEDGER = TARGETS["ledger"].seeds()[0]
BODY = record().body()
PROMPT = f"A prompt of {'9' * 400} tokens hits 2064 tokens in vLLM with block size 16"
PROMPT += " " * ((list(deck()).index("prefix-cache-ttft") - len(PROMPT)) % len(deck()))
FOUND = {
    "hundreds of digits": ("numbers", b"9" * 400),
    "hundreds of digits of a whole": ("numbers", b"3 of " + b"9" * 400),
    "a spoken number beyond every float": ("numbers", ("一" + "亿" * 45).encode()),
    "the same in an answer": ("answers", ("vLLM 命中 一" + "亿" * 45 + " 个 token").encode()),
    "a prompt of hundreds of digits": ("answers", PROMPT.encode()),
    "a card that cites an unknown figure": ("cards", SMALL.encode()),
    "a schema that is no text": ("ledger", LEDGER.replace(b"CREATE TABLE record", b"CREATE T\xff\xff\xffE record")),
    "a run of endless seconds": ("evidence", json.dumps(BODY | {"seconds": 10**400}).encode()),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_good_inputs_and_pieces_of_them(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds()[:3]:
        for data in (seed, seed[: len(seed) // 2], seed[1:], seed + seed, b""):
            target.check(data)


@pytest.mark.parametrize("found", FOUND)
def test_what_fuzzing_found_stays_mended(found: str) -> None:
    name, data = FOUND[found]
    TARGETS[name].check(data)
