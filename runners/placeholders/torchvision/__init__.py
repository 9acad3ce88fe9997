"""Stands in for torchvision in SGLang's environment, where nothing looks at an image.

SGLang imports `torchvision.io.decode_jpeg` when it starts, and transformers, seeing that the package exists, imports
names from several of its submodules (SGLang 0.5.15.post1 and 0.5.16, transformers 5.12.1). The real wheel pins one
torch version and is of no use to a text model, so here every submodule imports and every name in it is an empty class.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

__version__ = "0.0.0+placeholder"
INFERPROOF_PLACEHOLDER = True


class _Name(type):
    """A class whose every attribute is that attribute's name, as an enumeration's members would be."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Module(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - this is what makes a module a package

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("torchvision."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, _Finder())
