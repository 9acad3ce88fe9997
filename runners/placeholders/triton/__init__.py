"""Stands in for Triton in SGLang's environment, where no GPU kernel is ever launched.

SGLang defines Triton kernels while its modules are imported, also on a CPU (0.5.15.post1 and 0.5.16), so `@triton.jit`
and `tl.constexpr` must exist. The real wheel weighs a gigabyte. Here a decorator hands its function back unchanged:
defining a kernel works, launching one (`kernel[grid](...)`) is a TypeError. That is why a page size above 1, whose
allocator launches kernels on the CPU too, needs the real Triton.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

__version__ = "0.0.0+placeholder"
INFERPROOF_PLACEHOLDER = True


class _Name(type):
    """A class that serves as a type, as a decorator, and as a decorator with arguments."""

    def __getattr__(cls, name: str) -> "_Name":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return lambda function: function


class _Module(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - this is what makes a module a package

    def __getattr__(self, name: str) -> _Name:
        return __getattr__(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("triton."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def __getattr__(name: str) -> _Name:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Name(name, (), {})


def cdiv(x: int, y: int) -> int:
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()


sys.meta_path.insert(0, _Finder())
