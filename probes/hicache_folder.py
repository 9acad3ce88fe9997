"""SGLang's file storage under one or two servers of `hicache`: what the storage probes share."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from inferproof.probes import hicache
from inferproof.probes.core import Inconclusive

PROMPT = list(range(100, 140))


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A folder for storage, and the process groups that servers over it need."""
    with hicache.process_groups(), tempfile.TemporaryDirectory() as place:
        yield place


@contextlib.contextmanager
def server(**settings: Any) -> Iterator[hicache.Instance]:
    """One server's cache, its storage threads stopped in the end."""
    instance = hicache.Instance(hicache.Settings(**settings))
    try:
        yield instance
    finally:
        instance.close()


def write(place: str) -> None:
    """Let a server write the prompt to the folder, and end."""
    with server(folder=place) as writer:
        writer.insert(PROMPT)
        settled(writer)


def settled(writer: hicache.Instance) -> None:
    """Wait until every write of this server has been acknowledged."""
    tree = writer.cache
    if not writer.settle_until(lambda: not tree.ongoing_write_through and not tree.ongoing_backup):
        raise Inconclusive("a write was not acknowledged within 20 s")


def page_file(instance: hicache.Instance, place: str, index: int) -> Path:
    """The file that holds, or will hold, the page of that index of the prompt."""
    from sglang.srt.mem_cache.utils import get_hash_str

    name = get_hash_str(PROMPT, None, page_size=1)[index]
    return Path(place, instance.cache.cache_controller.storage_backend._get_suffixed_key(name) + ".bin")


def nothing() -> None:
    """Do nothing before a held call goes on."""


@contextlib.contextmanager
def held(
    instance: hicache.Instance, method: str, first: Callable[[], None] = nothing
) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Hold calls of this method of the storage back, until the second event is set or the block is left.

    The first event says that there was a call; `first` is done when a call goes on.
    """
    backend = instance.cache.cache_controller.storage_backend
    asked, go_on, original = threading.Event(), threading.Event(), getattr(backend, method)

    def wait(*args: Any, **kwargs: Any) -> Any:
        asked.set()
        go_on.wait()
        first()
        return original(*args, **kwargs)

    with mock.patch.object(backend, method, wait):
        try:
            yield asked, go_on
        finally:
            go_on.set()
