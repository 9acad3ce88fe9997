"""A KV connector that announces KV from elsewhere and moves none: either side of a disaggregated vLLM, alone.

It fills vLLM's own extension point (`kv_connector_module_path`). As a consumer it says of every request with a cache
salt that all its prompt's KV is on the way; as a producer it says of every such request, once it has finished, that its
blocks are still to be fetched. The arrival itself is reported by the probe, in the model runner's output, as vLLM's
workers do. The same class runs on vLLM 0.25.1, 0.26.0 and 0.27.1.

`AnnouncingConnector` is joined with the engine's base classes on first access, so that this module can be imported
where there is no vLLM.
"""

from __future__ import annotations

import functools
from typing import Any


class Announcer:
    """The scheduler's side of a connector; there is no worker's side."""

    _kv_transfer_config: Any

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        """(tokens that come from elsewhere, whether they come while the engine goes on)."""
        if request.cache_salt is None or self._kv_transfer_config.kv_role != "kv_consumer":
            return 0, False
        return request.num_tokens - num_computed_tokens, True

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Nothing is fetched into the blocks."""

    def build_connector_meta(self, scheduler_output: Any) -> Any:  # noqa: ARG002 - the engine's signature
        """Nothing is to be said to the workers."""
        from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata

        return KVConnectorMetadata()

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, None]:  # noqa: ARG002
        """Whether the blocks must outlive the request."""
        return request.cache_salt is not None and self._kv_transfer_config.kv_role == "kv_producer", None

    request_finished_all_groups = request_finished

    def start_load_kv(self, forward_context: Any, **_: Any) -> None:
        """There is no worker's side."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """There is no worker's side."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **_: Any) -> None:
        """There is no worker's side."""

    def wait_for_save(self) -> None:
        """There is no worker's side."""


@functools.cache
def announcing_connector() -> type:
    """The class for `kv_connector`. Needs vLLM."""
    from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorBase_V1, SupportsHMA

    bases = (Announcer, KVConnectorBase_V1, SupportsHMA)
    return type("AnnouncingConnector", bases, {"__module__": __name__, "__doc__": __doc__})


def __getattr__(name: str) -> Any:
    if name == "AnnouncingConnector":
        return announcing_connector()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
