"""Modules of weft that stand in for packages which are not installed: `weft.cupy` for CuPy."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec


def install(modules: Mapping[str, str]) -> None:
    """Let modules of weft stand in for packages that no other finder finds: name -> module."""
    sys.meta_path.append(_StandIns(modules))


class _StandIns(MetaPathFinder, Loader):
    """The last finder."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        known = name in self._modules or self._part(name) is not None
        return ModuleSpec(name, self, is_package=True) if known else None

    def _part(self, name: str) -> types.ModuleType | None:
        """Return a module inside a stand-in: the attribute of that name."""
        parent, _, last = name.rpartition(".")
        if parent.partition(".")[0] not in self._modules:
            return None
        found = getattr(sys.modules.get(parent), last, None)
        return found if isinstance(found, types.ModuleType) else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        part = self._part(spec.name)
        if part is not None:
            return part
        module = self._modules[spec.name]
        print(f"weft: {spec.name} is not installed; {module} stands in", file=sys.stderr)
        return importlib.import_module(module)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: the module is complete."""
