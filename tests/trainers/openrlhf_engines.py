"""OpenRLHF without a GPU: stand-ins for the packages that only its engines call.

``vllm``, ``deepspeed`` and ``flash_attn`` do not install here, and OpenRLHF imports them with the modules
whose arithmetic the tests run. Whatever is called of them does nothing.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from unittest.mock import MagicMock

GPU_ONLY = frozenset({"vllm", "deepspeed", "flash_attn", "bitsandbytes"})


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = MagicMock(name=spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] not in GPU_ONLY:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)


def stand_in() -> None:
    """Let the imports of OpenRLHF succeed. The real packages that look for these come first."""
    import peft  # noqa: F401
    import transformers  # noqa: F401

    sys.meta_path.append(_Finder())
