"""`torch.library` for scripts whose GPU is simulated: implementations for CUDA serve the CPU.

All tensors of a script are on the CPU, so that what it registers for the dispatch key "CUDA" is
registered for "CPU". It goes before what the script registers for "CPU" itself.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._library.custom_ops import CustomOpDef
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from weft.frontends.pytorch.operations import Operations

Function = Callable[..., Any]

_own: dict[str, Function] = {}
"""torch's own functions, which the replacements call."""


class _Implementation(NamedTuple):
    """A function of a script for one operation. It ends with its library."""

    library: weakref.ref[Any]
    function: Function
    with_keyset: bool
    cuda: bool

    @property
    def live(self) -> bool:
        library = self.library()
        return library is not None and library.m is not None

    def call(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        return self.function(*((keys,) if self.with_keyset else ()), *args, **kwargs)


def replacements(redirect: Any, operations: Operations) -> dict[Any, dict[str, Any]]:
    """Owner -> name -> replacement. Implementations run with both modes."""
    library = torch.library.Library
    _own.update(init=library.__init__, impl=library.impl)
    known = _Implementations(redirect, operations)
    names = [n for n in ("get_kernel", "register_autocast") if hasattr(torch.library, n)]
    return {
        # Plain functions: these become methods.
        library: {"__init__": _init, "impl": lambda *args, **options: known.add(*args, **options)},
        torch.library: {name: _for_cpu(getattr(torch.library, name)) for name in names},
        CustomOpDef: {"register_autocast": _for_cpu(CustomOpDef.register_autocast)},
    }


def _init(library: Any, ns: str, kind: str, dispatch_key: str = "") -> None:
    _own["init"](library, ns, kind, _cpu(dispatch_key))
    library.dispatch_key = dispatch_key  # of implementations without a key, which `add` maps


def _cpu(key: Any) -> Any:
    """The dispatch key, or the device type, of the CPU for that of CUDA."""
    if isinstance(key, torch._C.DispatchKey):
        return torch._C.DispatchKey.__members__[_cpu(key.name)]
    return str(key).replace("CUDA", "CPU").replace("cuda", "cpu")


def _for_cpu(function: Function) -> Function:
    """torch's function, whose second argument is a dispatch key or a device type."""

    @functools.wraps(function)
    def called(subject: Any, key: Any, *args: Any, **options: Any) -> Any:
        return function(subject, _cpu(key), *args, **options)

    return called


class _Implementations:
    """The implementations of a script by operation and key."""

    def __init__(self, redirect: Any, operations: Operations) -> None:
        self._redirect, self._operations = redirect, operations
        self._known: dict[str, list[_Implementation]] = {}

    def add(
        self, library: Any, op_name: Any, fn: Function, dispatch_key: str = "", **options: Any
    ) -> None:
        """`Library.impl`."""
        given = dispatch_key or library.dispatch_key
        key = _cpu(given)
        # weft has implementations for both; torch knows `fallthrough_kernel` by its identity.
        ours = (getattr(fn, "__module__", None) or "").startswith("weft.")
        runs = "CPU" in key or key == "CompositeExplicitAutograd"  # others are for tracing too
        if not callable(fn) or ours or not runs or fn is torch.library.fallthrough_kernel:
            _own["impl"](library, op_name, fn, given, **options)
            return
        name = f"{library.ns}/{_plain(op_name)}/{key}"
        made = _Implementation(
            weakref.ref(library), fn, options.pop("with_keyset", False), key != given
        )
        alive = [other for other in self._known.get(name, ()) if other.live]
        with self._beside(name, any(other.cuda != made.cuda for other in alive)):
            _own["impl"](
                library, op_name, self._chosen(name, made), key, with_keyset=True, **options
            )
        self._known[name] = [*alive, made]

    @contextmanager
    def _beside(self, name: str, other: bool) -> Iterator[None]:
        """Let torch register an implementation for a GPU beside one for the CPU."""
        if not other:
            yield
            return
        torch.library._impls.discard(name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Warning only once for all operators")
            yield

    def _chosen(self, name: str, made: _Implementation) -> Function:
        """Call the implementation that was made, or the last one for CUDA that is alive."""

        @functools.wraps(made.function)
        def call(keys: Any, *args: Any, **kwargs: Any) -> Any:
            chosen = made
            if not made.cuda:
                chosen = next((i for i in self._known[name][::-1] if i.cuda and i.live), made)
            with self._modes(), self._operations.by_the_script(), _without_autocast(name):
                return chosen.call(keys, *args, **kwargs)

        return call

    @contextmanager
    def _modes(self) -> Iterator[None]:
        """Enter the modes again, which torch leaves while one of them handles a call."""
        left = [self._redirect] if self._redirect not in _get_current_function_mode_stack() else []
        if self._operations not in _get_current_dispatch_mode_stack():
            left.append(self._operations)
        for mode in left:
            mode.__enter__()
        try:
            yield
        finally:
            for mode in left[::-1]:
                mode.__exit__(None, None, None)


@contextmanager
def _without_autocast(name: str) -> Iterator[None]:
    """Exclude the CPU's key inside of an implementation for autocast, which excludes CUDA's."""
    if not name.endswith("/AutocastCPU"):
        yield
        return
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        yield


def _plain(op_name: Any) -> str:
    """The name of an operation with its overload, without its namespace."""
    if isinstance(op_name, str):
        return op_name.rpartition("::")[2]
    schema = op_name._schema
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    return str(schema.name).rpartition("::")[2] + overload
