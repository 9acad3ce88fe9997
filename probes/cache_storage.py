"""What SGLang's storage tier hands to a second server, and what it does when a page is slow, missing or broken.

Question
    What must two servers have in common to share KV through a storage backend? How long does a request wait for pages
    from there? What becomes of a page that is missing or half written, and of a write or a read that is cut off?
Watched
    SGLang's own `HiRadixCache`, its storage threads and its file backend, two instances over one folder: tokens
    fetched, whether their KV is the writer's, when the scheduler may go on with the request, and what it holds then.
Can mislead
    The backend is a folder of files, one token a page; Mooncake and others store and fail in ways of their own. A slow
    backend is made by holding its reads or writes back in the probe, so that order, not time, decides.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/hiradix_cache.py`, `srt/managers/cache_controller.py`,
    `srt/mem_cache/hicache_storage.py` (`HiCacheFile`).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest import mock

from inferproof.probes import hicache, hicache_folder
from inferproof.probes.core import Inconclusive, Observations, Run, probe

_CACHE = "sglang.srt.mem_cache.hiradix_cache:HiRadixCache"
_FILE = "sglang.srt.mem_cache.hicache_storage:HiCacheFile"
_THREADS = "sglang.srt.managers.cache_controller:HiCacheController"
_BROKEN = 10
"""The page that is made missing or short: the first ten tokens before it are whole."""
_TIMEOUT_S = 0.2
_WAIT_S = 1.0
"""Seconds after which a request is taken to wait for good."""


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "stored_pages": "pages (of one token) that the first server has written for its prompt of 40 tokens",
        "fetched_tokens": "tokens that a second server fetches of the same prompt",
        "host_hit_tokens": "tokens that a lookup (with the same salt, if any) then finds on its host tier",
        "unsalted_hit_tokens": "tokens that a lookup without a salt finds there",
        "intact": "whether their KV, loaded to its GPU, is the first server's",
    },
    covers=(f"{_CACHE}.prefetch_from_storage", f"{_CACHE}.check_prefetch_progress", f"{_FILE}._get_suffixed_key"),
)
def sglang_shared_prefix(
    run: Run, *, backend: bool = True, same_model: bool = True, salted: bool = False, threshold: int = 4
) -> Observations:
    """Serve a prompt on one server, ask a second one over the same folder for it; `salted`: each for its own tenant."""
    run.modifications.append(hicache.STOOD_IN)
    first, second = ("tenant-a", "tenant-b") if salted else (None, None)
    with hicache_folder.folder() as place:
        shared = place if backend else None
        with hicache_folder.server(folder=shared) as writer:
            writer.insert(hicache_folder.PROMPT, first)
            hicache_folder.settled(writer)
            seen: Observations = {"stored_pages": len(list(Path(place).iterdir()))}
        model = "model-a" if same_model else "model-b"
        with hicache_folder.server(folder=shared, model=model, prefetch_threshold=threshold) as reader:
            reader.prefetch(hicache_folder.PROMPT, salt=second)
            if not reader.settle_until(reader.released):
                raise Inconclusive("the second server was still waiting for the storage after 20 s")
            seen["fetched_tokens"] = reader.cache.pop_prefetch_loaded_tokens("request")
            seen["host_hit_tokens"] = reader.hit(hicache_folder.PROMPT, second)[1]
            seen["unsalted_hit_tokens"] = reader.hit(hicache_folder.PROMPT)[1]
            reader.load(hicache_folder.PROMPT)
            seen["intact"] = reader.intact(hicache_folder.PROMPT)
    return seen


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "released_at_once": "whether the scheduler may go on while not one page has been read",
        "released_in_time": "whether it may within 1 s (the time-out is 0.2 s), a slow read still held back",
        "fetched_tokens": "tokens fetched for the request when it was released, or until the end of the probe",
        "host_hit_tokens": "tokens that a lookup finds on the host at the end, of a prompt of 40",
        "intact": "whether their KV, loaded to the GPU, is the one that was stored",
        "read_failed": "whether the read ended in an exception, and with it the thread that reads",
    },
    covers=(f"{_CACHE}.can_terminate_prefetch", f"{_THREADS}._page_transfer", f"{_FILE}.get"),
)
def sglang_awaited_pages(run: Run, *, policy: str = "timeout", page: str = "slow") -> Observations:
    """Fetch a prompt whose read is held back (`slow`), or one page of which is `missing`, `short` or `vanishing`."""
    run.modifications.append(hicache.STOOD_IN)
    failures: list[Any] = []
    with hicache_folder.folder() as place, mock.patch.object(threading, "excepthook", failures.append):
        hicache_folder.write(place)
        with hicache_folder.server(folder=place, prefetch_policy=policy, timeout_s=_TIMEOUT_S) as reader:
            path = hicache_folder.page_file(reader, place, _BROKEN)
            if page in ("missing", "short"):
                path.write_bytes(path.read_bytes()[:-4]) if page == "short" else path.unlink()
            meanwhile = path.unlink if page == "vanishing" else hicache_folder.nothing
            with hicache_folder.held(reader, "batch_get", meanwhile) as (asked, go_on):
                reader.prefetch(hicache_folder.PROMPT)
                if not reader.settle_until(asked.is_set):
                    raise Inconclusive("the storage was not asked for a page")
                at_once = reader.released()
                if page != "slow":
                    go_on.set()
                in_time = reader.settle_until(reader.released, limit_s=_WAIT_S if page in ("slow", "short") else 20)
            if page == "slow":
                reader.settle_until(reader.released)
            fetched, found = reader.cache.pop_prefetch_loaded_tokens("request"), reader.hit(hicache_folder.PROMPT)[1]
            reader.load(hicache_folder.PROMPT)
            intact = reader.intact(hicache_folder.PROMPT)
    return {
        "released_at_once": at_once, "released_in_time": in_time, "fetched_tokens": fetched,
        "host_hit_tokens": found, "intact": intact, "read_failed": bool(failures),
    }  # fmt: skip


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "held_while_reading": "host slots held for a prompt of 40 tokens while its pages are read",
        "held_after_cancel": "host slots still held when its request has been cancelled and the read goes on",
        "held_after_read": "host slots held when the read has come to its end",
        "host_hit_tokens": "tokens of it that a lookup finds on the host then",
    },
    covers=(f"{_CACHE}.release_aborted_request", f"{_THREADS}.prefetch_io_aux_func"),
)
def sglang_cancelled_read(run: Run) -> Observations:
    """Cancel a request while its pages are on their way from the storage, then let the read end."""
    run.modifications.append(hicache.STOOD_IN)
    with hicache_folder.folder() as place:
        hicache_folder.write(place)
        with hicache_folder.server(folder=place) as reader:
            with hicache_folder.held(reader, "batch_get") as (asked, _):
                reader.prefetch(hicache_folder.PROMPT)
                if not reader.settle_until(asked.is_set):
                    raise Inconclusive("the storage was not asked for a page")
                reading = reader.host_tokens()
                reader.cache.release_aborted_request("request")
                reader.settle()
                cancelled = reader.host_tokens()
            reader.settle_until(lambda: reader.host_tokens() == 0, limit_s=5)
            left, found = reader.host_tokens(), reader.hit(hicache_folder.PROMPT)[1]
    return {
        "held_while_reading": reading, "held_after_cancel": cancelled, "held_after_read": left,
        "host_hit_tokens": found,
    }  # fmt: skip
