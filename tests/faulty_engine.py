"""A stand-in adapter for tests of the worker: starts, or fails to, as its config says."""

from __future__ import annotations

import os
import time
from typing import Any

_started = 0


class FaultyEngine:
    name, level = "faulty", "engine"
    modifications = ("is not an engine at all",)

    def __init__(self, number: int, mode: str) -> None:
        self.number, self.mode = number, mode
        self.flags = {"number": number}

    def flush(self) -> None:
        if self.mode == "floods-log":
            flood()

    def close(self) -> None:
        time.sleep(600 if self.mode == "close-hangs" else 0)


def flood() -> None:
    while True:
        os.write(1, b"x" * (1 << 20))


def start(config: dict[str, Any], **_: object) -> FaultyEngine:
    global _started
    if config["mode"] == "no-start":
        raise RuntimeError("no room for the KV cache")
    if config["mode"] == "floods-start":
        flood()
    if config["mode"] == "start-hangs":
        time.sleep(600)
    if config["mode"] == "start-dies":
        os._exit(3)
    _started += 1
    return FaultyEngine(_started, config["mode"])
