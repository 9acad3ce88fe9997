"""What a server's log tells: lines as the engines print them."""

from __future__ import annotations

from inferproof.probes.server_log import batches, captures, longest_prefill, retraction

SGLANG = """\
[2026-11-29 20:40:01] Decode batch, #running-req: 1, #token: 84, token usage: 0.02, cuda graph: False, gen throughput (token/s): 90.0, #queue-req: 0
[2026-11-29 20:40:01] Prefill batch, #new-seq: 1, #new-token: 512, #cached-token: 0, token usage: 0.02, #running-req: 1, #queue-req: 0,
[2026-11-29 20:40:02] Prefill batch, #new-seq: 1, #new-token: 512, #cached-token: 0, token usage: 0.15, #running-req: 1, #queue-req: 0,
[2026-11-29 20:40:02] Decode batch, #running-req: 2, #token: 84, token usage: 0.99, cuda graph: False, #queue-req: 0
[2026-11-29 20:40:03] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 2079, token usage: 0.5, #running-req: 0, #queue-req: 0,
[2026-11-29 20:40:04] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 338, #new_token_ratio: 0.0980 -> 0.7063
[2026-11-29 20:39:01] Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs=[1, 2, 4, 8, 12, 16, 24, 32], avail mem=30.1 GB
[2026-11-29 20:39:03] Capture target decode CUDA graph end. elapsed=1.37 s, mem usage=0.07 GB, avail mem=30.0 GB.
[2026-11-29 20:39:03] Capture target prefill CUDA graph begin. backend=breakable, num_tokens=[4, 8, 12], avail mem=30.0 GB
[2026-11-29 20:39:13] Capture target prefill CUDA graph end. elapsed=10.14 s, mem usage=0.66 GB, avail mem=29.4 GB.
"""  # noqa: E501
VLLM = """\
INFO [monitor.py:48] torch.compile took 31.02 s in total
INFO [gpu_model_runner.py:6914] Graph capturing finished in 1 secs, took 0.12 GiB
"""


def test_the_order_of_batches_is_read() -> None:
    order = batches(SGLANG)

    assert [b["kind"] for b in order] == ["decode", "prefill", "prefill", "decode", "prefill"]
    assert [b["new_tokens"] for b in order] == [0, 512, 512, 0, 1]
    assert (max(b["running"] for b in order), max(b["kv_usage"] for b in order)) == (2, 0.99)
    assert longest_prefill(order) == 2  # the last token of a prompt that hit is no chunk


def test_a_retraction_is_read_and_none_is_none() -> None:
    assert retraction(SGLANG) == {"tokens_gained": 338, "ratio_before": 0.098, "ratio_after": 0.7063}
    assert retraction("") == {"tokens_gained": None, "ratio_before": None, "ratio_after": None}


def test_what_graphs_cost_is_read_of_either_engine() -> None:
    sglang, vllm, nothing = captures(SGLANG), captures(VLLM), captures("")

    assert (sglang["decode_buckets"], sglang["decode_capture_s"], sglang["decode_capture_gb"]) == (8, 1.37, 0.07)
    assert (sglang["prefill_buckets"], sglang["prefill_capture_s"], sglang["prefill_capture_gb"]) == (3, 10.14, 0.66)
    assert (vllm["compile_s"], vllm["capture_s"], vllm["capture_gib"]) == (31.02, 1.0, 0.12)
    assert set(nothing.values()) == {None}
