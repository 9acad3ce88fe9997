"""A stand-in that speaks vLLM's HTTP, for tests of everything around it; what it says of itself is up to the test."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any

CONFIG: dict[str, dict[str, Any]] = {
    "model_config": {"enforce_eager": True, "max_model_len": 8192},
    "cache_config": {"block_size": 16},
    "scheduler_config": {"max_num_batched_tokens": 8192},
    "parallel_config": {},
    "compilation_config": {},
    "device_config": {"device_type": "cpu"},
}


class FakeVllm:
    """A server's state: how many prompt tokens it ran, and the prompts that it knows."""

    def __init__(self, model: str = "tiny", tells: bool = True, token_s: float = 0.002) -> None:
        self.model, self.tells, self.token_s = model, tells, token_s
        self.known: set[tuple[int, ...]] = set()
        self.requests = 0
        self.prefill_s = 0.0

    def get(self, path: str) -> Any:
        """JSON of a page, text of the metrics, None for what is not there."""
        if path == "/metrics":
            return (
                f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="512"}} 1.0\n'
                f"vllm:request_prefill_time_seconds_sum {self.prefill_s}\n"
                f"vllm:request_prefill_time_seconds_count {self.requests}\n"
            )
        pages = {"/health": "", "/version": {"version": "0.27.1"}, "/v1/models": {"data": [{"id": self.model}]}}
        if self.tells:
            pages["/server_info?config_format=json"] = {"vllm_config": CONFIG}
        return pages.get(path)

    def events(self, ask: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of a completion, its tokens a little apart."""
        prompt = tuple(ask["prompt"])
        cached = len(prompt) // 16 * 16 if prompt in self.known else 0
        seconds = (len(prompt) - cached) * 1e-5
        time.sleep(seconds)
        self.known.add(prompt)
        self.requests, self.prefill_s = self.requests + 1, self.prefill_s + seconds
        for i in range(ask["max_tokens"]):
            time.sleep(self.token_s)
            usage = {"prompt_tokens": len(prompt), "completion_tokens": i + 1}
            yield {"choices": [{"text": "t", "token_ids": [5]}], "usage": usage}
        yield {"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": cached}}}


@contextlib.contextmanager
def serving(fake: FakeVllm) -> Iterator[str]:
    """Its URL, while it runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            page = fake.get(self.path)
            content = (page if isinstance(page, str) else json.dumps(page)).encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path != "/v1/completions":
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in chain(map(json.dumps, fake.events(json.loads(asked))), ["[DONE]"]):
                data = f"data: {event}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
