"""Names that CuPy and NumPy do not have in common, and modules made of others."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.frontends.cupy import callbacks
from weft.frontends.cupy.arrays import asnumpy
from weft.frontends.cupy.host_objects import HostObject
from weft.frontends.cupy.modules import HostModule

NUMPY_ONLY = frozenset({
    "asmatrix", "bmat", "busday_count", "busday_offset", "busdaycalendar", "bytes_", "char",
    "character", "clongdouble", "complex256", "core", "ctypeslib", "datetime64",
    "datetime_as_string", "datetime_data", "emath", "f2py", "flexible", "float128", "frompyfunc",
    "fromregex", "get_include", "getbufsize", "geterrcall", "info", "is_busday", "isnat", "lib",
    "longdouble", "ma", "matrix", "memmap", "nditer", "nested_iters", "object_", "random", "rec",
    "recarray", "record", "sctypeDict", "setbufsize", "seterrcall", "show_runtime", "str_",
    "strings", "test", "timedelta64", "typing", "void",
})  # fmt: skip
"""Names of NumPy that CuPy does not have."""

ALIASES = {"in1d": "isin", "trapz": "trapezoid", "product": "prod", "cumproduct": "cumprod",
           "alltrue": "all", "sometrue": "any", "round_": "round", "float_": "float64",
           "complex_": "complex128"}  # fmt: skip
"""Names of CuPy -> NumPy's present names."""


class _Testing(HostModule):
    """`cupy.testing`: NumPy's assertions, for arrays of either library."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np.testing, name, None) if name.startswith("assert_") else None
        if found is None:
            raise AttributeError(f"module 'cupy.testing' has no attribute {name!r}", name=name)
        return _on_host(found)


def _on_host(check: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        return check(*map(_fetched, args), **options)

    return call


def _fetched(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_fetched, value))
    return asnumpy(value) if isinstance(value, HostObject) else value


testing = _Testing("cupy.testing", "numpy.testing")


# ---- cupy.fft ----------------------------------------------------------------------------------
class _Fft(HostModule):
    """`cupy.fft`: NumPy's transforms, with the callbacks of `cupy.fft.config`."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name in callbacks.TRANSFORMS:
            found = callbacks.around(name, found)
            setattr(self, name, found)
        return found


class _PlanCache:
    """`get_plan_cache()`: NumPy's transforms have no plans."""

    def show_info(self) -> None:
        print("cuFFT plan cache: NumPy transforms, there are no plans")

    def clear(self) -> None:
        """Do nothing: it is empty."""


_config = types.ModuleType("cupy.fft.config")
vars(_config).update(
    use_multi_gpus=False,
    enable_nd_planning=True,
    set_cufft_callbacks=callbacks.set_cufft_callbacks,
    get_plan_cache=_PlanCache,
)
fft = _Fft("cupy.fft", "numpy.fft", {"config": _config})


# ---- cupyx -------------------------------------------------------------------------------------
scipy = HostModule("cupyx.scipy", "scipy")


def _get_array_module(*args: Any) -> Any:
    """Return `cupyx.scipy` if an argument is of the device, else SciPy."""
    import importlib

    held = any(isinstance(a, HostObject) for a in args)
    return scipy if held else importlib.import_module("scipy")


vars(scipy)["get_array_module"] = _get_array_module
for _name in ("sparse", "sparse.linalg", "linalg", "special", "ndimage", "fft", "fftpack", "stats",
              "signal", "interpolate", "spatial", "sparse.csgraph", "cluster", "optimize",
              "integrate"):  # fmt: skip
    _parent, _, _last = f".{_name}".rpartition(".")
    _home: Any = scipy if not _parent else vars(scipy)[_parent[1:]]
    vars(_home)[_last] = HostModule(f"cupyx.scipy.{_name}", f"scipy.{_name}")

optimizing = types.ModuleType("cupyx.optimizing")


@contextlib.contextmanager
def _optimize(*_: Any, **__: Any) -> Iterator[None]:
    """Do nothing more: there are no parameters of launches to search."""
    yield


vars(optimizing)["optimize"] = _optimize
