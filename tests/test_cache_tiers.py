"""The helpers of the cache-tier probes that have logic of their own; the engine's part is observed by the probes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from inferproof.probes import cache_arguments, cache_backends, hicache, hicache_folder
from inferproof.probes.core import find_probe


def names(tokens: list[int], before: bytes | None = None, page_size: int | None = 1) -> Any:
    return hicache._Hash.get_hash(tokens, len(tokens), 1, False, before, page_size)


def test_pages_get_the_names_that_sglangs_own_hash_gives_them() -> None:
    # name of the eleventh token's page, as SGLang 0.5.15.post1's compiled hash wrote it
    assert names(hicache_folder.PROMPT)[10] == "5fa8a455ed76d0a8955a8b2c5b0bf56372ffe1bcf3c3b5ff1a349b195c0cf5fd"


def test_a_pages_name_depends_on_all_tokens_before_it() -> None:
    assert names([1, 2, 3])[:2] == names([1, 2])
    assert names([9, 2])[1] != names([1, 2])[1]
    assert names([3], before=bytes.fromhex(names([1, 2])[-1])) == names([1, 2, 3])[2:]


def test_a_short_last_page_is_hashed_too_and_no_page_size_means_one_name() -> None:
    assert len(names([1, 2, 3], page_size=2)) == 2
    assert names([1, 2, 3], page_size=None) == names([1, 2, 3], page_size=3)[0]


def test_pairs_of_tokens_are_refused() -> None:
    with pytest.raises(NotImplementedError):
        hicache._Hash.get_hash([1, 2], 1, 2, True, None, 1)


def test_what_is_imported_from_mooncake_and_used_of_an_owned_object_is_found() -> None:
    code = """
from os import path
class Backend:
    def start(self):
        from mooncake.store import Store, Config
        self.store = Store()
        self.store.setup()
        return self.other.get(), self.store.get("k")
"""
    assert cache_backends.used(code, "store") == (["mooncake.store.Config", "mooncake.store.Store"], ["get", "setup"])
    assert cache_backends.used(code, "engine")[1] == []


def test_a_refusal_has_every_observation_of_the_probe() -> None:
    seen = cache_arguments._refused(ValueError("no"))
    assert set(seen) == set(find_probe("cache_arguments.accepted", "sglang").observes)
    assert (seen["refused"], seen["kind"]) == ("no", "ValueError")


def test_a_held_call_goes_on_only_when_it_is_let_go() -> None:
    done: list[str] = []
    backend = SimpleNamespace(batch_get=lambda: done.append("read"))
    instance: Any = SimpleNamespace(cache=SimpleNamespace(cache_controller=SimpleNamespace(storage_backend=backend)))
    with hicache_folder.held(instance, "batch_get", lambda: done.append("meanwhile")) as (asked, go_on):
        reader = threading.Thread(target=backend.batch_get)
        reader.start()
        assert asked.wait(10) and done == []
        go_on.set()
        reader.join(10)
    assert done == ["meanwhile", "read"]
