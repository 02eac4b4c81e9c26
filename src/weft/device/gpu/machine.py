"""Functions of Python that are machine code, compiled from LLVM's language when they are needed."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

from weft import cache

_FASTCALL = 0x80
"""METH_FASTCALL: a function that gets its arguments as a C array."""


class Method(ctypes.Structure):
    """PyMethodDef of Python's C interface."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_COMPILED: dict[str, tuple[Method, object]] = {}
"""Functions that have been made. They stay: functions of Python point into them."""
_compiling = threading.Lock()


def compiled(kind: str, name: bytes, text: str) -> tuple[Method, object]:
    """A function as Python's C interface describes one, and what keeps it loaded.

    Threads that ask for the first time at once get the same one: nothing would keep the others.
    """
    from weft.device import jit  # takes long to import, and only GPUs need it here

    key = cache.key(kind, jit.identity(), text)
    with _compiling:
        if key not in _COMPILED:
            _COMPILED[key] = _made(key, name, text)
        return _COMPILED[key]


def _made(key: str, name: bytes, text: str) -> tuple[Method, object]:
    from weft.device import jit

    try:
        loaded = jit.load_object(cache.get("native", key) or b"")
    except jit.BadObject:  # not in the cache, or not to be used
        data = jit.compile_object(text)
        cache.put("native", key, data)
        loaded = jit.load_object(data)
    at = ctypes.cast(loaded.run, ctypes.c_void_p).value  # type: ignore[arg-type]
    return Method(name, at, _FASTCALL, None), loaded


def function(method: Method, record: bytes) -> Callable[..., int]:
    """A function of Python that gets a record as its `self`."""
    # It keeps a reference to the record, but not to the method: callers keep that one.
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.POINTER(Method), ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., int] = new(ctypes.byref(method), record, None)
    return made


def is_known_python() -> bool:
    """Return whether this is CPython with its lock: the function relies on its object layout."""
    return sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


def address(function: Any) -> int:
    """The address of a function of a C library."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
