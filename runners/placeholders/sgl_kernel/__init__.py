"""Stands in for sgl_kernel, SGLang's compiled kernels, in an environment that runs none of them.

SGLang 0.5.16 imports names from it on a CPU too (`kernels/ops/kvcache/cache_move.py`); 0.5.15.post1 starts without it.
Here every submodule imports and every name refuses to be called, so no kernel is ever imitated.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any, NoReturn

__version__ = "0.0.0+placeholder"
INFERPROOF_PLACEHOLDER = True


class _Name(type):
    """A kernel, or a table of constants; calling it is an error."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel's {cls.__name__} was called, but sgl_kernel is a placeholder here")


class _Module(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - this is what makes a module a package

    def __getattr__(self, name: str) -> _Name:
        return __getattr__(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("sgl_kernel."):
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


sys.meta_path.insert(0, _Finder())
