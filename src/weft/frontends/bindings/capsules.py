"""C functions that the compiled modules of `cuda.bindings` give each other, exchanged.

Such a module has a table of capsules, `__pyx_capi__`, from which another one takes the address of
each function when it is imported. An address that is exchanged before serves all importers.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_RUNTIME = "cuda.bindings._internal.runtime"
_NVRTC = "cuda.bindings._internal.nvrtc"

_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetPointer.argtypes = [ctypes.py_object, ctypes.c_void_p]


def runtime(gpu: str) -> None:
    """Replace the functions of the CUDA runtime by those of weft's runtime library.

    The module links NVIDIA's, which needs tables of the real driver.
    """
    # Numba has a front end of its own, and imports the bindings for their types.
    if "numba" in sys.modules:
        return
    from weft.frontends.bindings import stand_in  # compilers and the simulator

    if not stand_in.load(gpu):
        return
    ours = ctypes.CDLL(None)
    for name, capsule in _table(_RUNTIME).items():
        if hasattr(ours, name[1:]):
            function = getattr(ours, name[1:])
            _api.PyCapsule_SetPointer(capsule, ctypes.cast(function, ctypes.c_void_p))


def nvrtc(gpu: str) -> None:
    """Make NVRTC return PTX in place of machine code: the simulated GPU loads PTX."""
    table = _table(_NVRTC)
    for asked, given in {"CUBIN": "PTX", "CUBINSize": "PTXSize"}.items():
        capsule = table[f"_nvrtcGet{given}"]
        address = _api.PyCapsule_GetPointer(capsule, _api.PyCapsule_GetName(capsule))
        _api.PyCapsule_SetPointer(table[f"_nvrtcGet{asked}"], address)


def _table(module: str) -> dict[str, Any]:
    table: dict[str, Any] = vars(sys.modules[module])["__pyx_capi__"]
    return table
