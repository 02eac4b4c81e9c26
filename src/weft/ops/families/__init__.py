"""The ops of the library: one module per family with its `DEFINITIONS`, found by name."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from weft.ops.function import Definition


@functools.cache
def definitions() -> Mapping[str, Definition]:
    """Every op of the library by its name."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__))
    families = (importlib.import_module(f"{__name__}.{name}") for name in modules)
    return {d.name: d for module in families for d in module.DEFINITIONS}
