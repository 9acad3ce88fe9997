"""When a write to SGLang's storage tier can be read, and what it holds until then.

Question
    Is a page that was handed over for writing already there to be read? What may the host tier give up meanwhile, and
    what does a reader find of a write that was cut off?
Watched
    SGLang's own `HiRadixCache`, its backup thread and its file backend: files in the folder, host memory given up, and
    what a second server fetches.
Can mislead
    The backend is a folder of files, one token a page; others publish in ways of their own. The write is held back in
    the probe, and cut off at the rename that publishes one page.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/mem_cache/hiradix_cache.py` (`write_backup_storage`),
    `srt/managers/cache_controller.py` (`_page_backup`), `srt/mem_cache/hicache_storage.py` (`HiCacheFile.set`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from inferproof.probes import hicache, hicache_folder
from inferproof.probes.core import Inconclusive, Observations, Run, probe

_CACHE = "sglang.srt.mem_cache.hiradix_cache:HiRadixCache"
_FILE = "sglang.srt.mem_cache.hicache_storage:HiCacheFile"
_BROKEN = 10
"""The page that is never published: ten before it are."""


@probe(
    engine="sglang",
    levels=("component",),
    observes={
        "visible_while_writing": "pages in the storage while the write has been submitted and is held back",
        "host_evicted_while_writing": "tokens that the host tier gives up at that time when all are asked for",
        "visible_after": "pages in the storage when the write has ended",
        "unfinished_files": "files there that are no page",
        "host_evicted_after": "tokens that the host tier gives up then",
        "fetched_tokens": "tokens that a second server then fetches of the prompt of 40",
        "intact": "whether their KV is the writer's",
    },
    covers=(f"{_CACHE}.write_backup_storage", f"{_CACHE}._drain_storage_control_queues_impl", f"{_FILE}.set"),
)
def sglang_written_pages(run: Run, *, cut_off: bool = False) -> Observations:
    """Hold the write to the storage back, then let it end; with `cut_off` its eleventh page cannot be published."""
    run.modifications.append(hicache.STOOD_IN)
    seen: Observations = {}
    with hicache_folder.folder() as place:
        with hicache_folder.server(folder=place) as writer:
            path = hicache_folder.page_file(writer, place, _BROKEN)
            with hicache_folder.held(writer, "batch_set") as (asked, go_on), _unpublished(path if cut_off else None):
                writer.insert(hicache_folder.PROMPT)
                if not writer.settle_until(asked.is_set):
                    raise Inconclusive("nothing was written to the storage")
                writer.evict(len(hicache_folder.PROMPT))
                seen["visible_while_writing"] = len(list(Path(place).iterdir()))
                seen["host_evicted_while_writing"] = _given_up(writer)
                go_on.set()
                hicache_folder.settled(writer)
            pages = [path.suffix == ".bin" for path in Path(place).iterdir()]
            seen["visible_after"], seen["unfinished_files"] = sum(pages), len(pages) - sum(pages)
            seen["host_evicted_after"] = _given_up(writer)
        with hicache_folder.server(folder=place) as reader:
            reader.prefetch(hicache_folder.PROMPT)
            reader.settle_until(reader.released)
            seen["fetched_tokens"] = reader.cache.pop_prefetch_loaded_tokens("request")
            reader.load(hicache_folder.PROMPT)
            seen["intact"] = reader.intact(hicache_folder.PROMPT)
    return seen


def _given_up(server: hicache.Instance) -> int:
    """Ask the host tier for all it has; the tokens that it gives up."""
    before = server.host_tokens()
    server.cache.evict_host(before)
    return before - server.host_tokens()


@contextlib.contextmanager
def _unpublished(path: Path | None) -> Iterator[None]:
    """Let the file at `path` never come to be: the rename that publishes it fails."""
    rename = os.replace

    def replace(source: Any, target: Any) -> None:
        if path is not None and Path(target) == path:
            raise OSError("the probe cut this write off")
        rename(source, target)

    with mock.patch.object(os, "replace", replace):
        yield
