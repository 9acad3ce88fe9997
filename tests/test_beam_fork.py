"""What the fork probe reads in an engine's source and log, told apart on small texts."""

from __future__ import annotations

import ast

from inferproof.probes import beam_fork

SOURCE = ast.parse(
    """
def alias(req_to_token, rows, leader, n):
    req_to_token[rows, :n] = req_to_token[leader, :n]

def copies(pool, src, dst):
    pool.k_buffer[dst] = pool.k_buffer[src]
    pool.move_kv_cache(dst, src)

def lookup(req_to_token, rows):
    return req_to_token[rows]

def refuse(page_size):
    if page_size > 1:
        return "needs pages of one token"
    return None
"""
)

LOG = """\
Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, token usage: 0.03, #running-req: 0
Decode batch, #running-req: 1, #token: 69, token usage: 0.03, gen throughput (token/s): 7.76
Decode batch, #running-req: 1, #token: 71, token usage: 0.03, gen throughput (token/s): 66.62
"""


def test_only_assignments_to_the_row_table_are_row_writes() -> None:
    assert beam_fork._row_writes("fork.py", SOURCE) == ["fork.py:3 alias"]


def test_a_call_that_moves_keys_and_values_is_found() -> None:
    assert beam_fork._kv_data_calls("fork.py", SOURCE) == ["fork.py:7 pool.move_kv_cache"]


def test_refusals_are_the_texts_that_are_returned() -> None:
    assert beam_fork._refusals(SOURCE) == ["needs pages of one token"]


def test_batches_are_read_from_the_log() -> None:
    assert beam_fork._PREFILL.findall(LOG) == ["64"]
    assert beam_fork._DECODE.findall(LOG) == [("1", "69"), ("1", "71")]
