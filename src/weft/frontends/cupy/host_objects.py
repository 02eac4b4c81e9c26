"""Objects of the device that NumPy or SciPy keeps: their methods take and return such objects.

A class for a host class is a subclass of `HostObject`. `to_host` and `to_device` convert values,
and `forwarded` makes a function of the device from one of the host.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from weft.frontends import activity
from weft.values.time import timeline

_KINDS: dict[type, type[HostObject]] = {}
_UNARY = "neg pos abs invert"
_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor"
_COMPARE = "lt le eq ne gt ge"
_OTHER = "len contains getitem setitem delitem call"
_OPERATORS = tuple(
    f"__{prefix}{name}__"
    for prefixes, names in (
        (("",), _UNARY), (("", "r", "i"), _BINARY), (("",), _COMPARE), (("",), _OTHER),
    )
    for name in names.split()
    for prefix in prefixes
)  # fmt: skip


class HostObject:
    """An object on the host that stands for one on the device."""

    __slots__ = ("__weakref__", "_host")
    _class: ClassVar[type]

    def __init_subclass__(cls, holds: type | None = None) -> None:
        if holds is not None:
            cls._class = holds
            _KINDS[holds] = cls
            forward(cls, holds, _OPERATORS)

    def __init__(self, *args: Any, **options: Any) -> None:
        self._host: Any = self._class(*to_host(args), **to_host(options))

    @classmethod
    def of(cls, host: Any) -> Any:
        """Return the object of the device for one of the host."""
        made = cls.__new__(cls)
        made._host = host
        return made

    def get(self, stream: object = None) -> Any:
        """Return the object of NumPy or SciPy."""
        return self._host

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise self._missing(name)
        try:
            return to_device(getattr(self._host, name))
        except AttributeError:
            raise self._missing(name) from None

    def _missing(self, name: str) -> AttributeError:
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)

    def __iter__(self) -> Any:
        return map(to_device, iter(self._host))

    def __repr__(self) -> str:
        return repr(self._host)


def forward(cls: type, host: type, names: Iterable[str]) -> None:
    """Define methods that call those of a host class, unless the class has its own."""
    for name in names:
        found = getattr(host, name, None)
        if name not in vars(cls) and callable(found) and found is not getattr(object, name, None):
            setattr(cls, name, forwarded(found))


def device_class(host: type) -> type[HostObject]:
    """Return the class of the device for a class of the host."""
    if host not in _KINDS:
        # A class that the host derives from another one is derived here as well.
        bases = tuple(device_class(b) for b in host.__bases__ if b is not object)
        made = types.new_class(host.__name__, bases or (HostObject,), {"holds": host})
        made.__module__ = f"cupyx.{host.__module__}" if _is_scipy(host) else "cupy"
    return _KINDS[host]


def _is_scipy(host: type) -> bool:
    return host.__module__.partition(".")[0] == "scipy"


def to_host(value: Any) -> Any:
    """Replace objects of the device by those of the host, also in tuples, lists and dicts."""
    if isinstance(value, HostObject):
        return value._host
    if isinstance(value, list):
        return [to_host(each) for each in value]
    if isinstance(value, tuple):
        return _like(value, map(to_host, value))
    if isinstance(value, dict):
        return {key: to_host(each) for key, each in value.items()}
    return value


def to_device(value: Any) -> Any:
    """Replace arrays, scalars of NumPy and other objects of the host by those of the device."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind.of(value)
    if isinstance(value, np.generic):
        return _KINDS[np.ndarray].of(np.asarray(value))
    if isinstance(value, list):
        return [to_device(each) for each in value]
    if isinstance(value, tuple):
        return _like(value, map(to_device, value))
    if isinstance(value, types.MethodType | types.BuiltinFunctionType | types.FunctionType):
        return forwarded(value)
    return device_class(type(value)).of(value) if _is_scipy(type(value)) else value


def _like(value: tuple[Any, ...], items: Iterable[Any]) -> tuple[Any, ...]:
    """Make a tuple of the same type; named tuples take their items one by one."""
    make = getattr(type(value), "_make", tuple)
    made: tuple[Any, ...] = make(items)
    return made


def forwarded(function: Callable[..., Any], check: bool = True) -> Callable[..., Any]:
    """Make a function of the device; it refuses arrays of NumPy unless `check` is False."""

    def call(*args: Any, **options: Any) -> Any:
        given = (*args, *options.values())
        if check:
            refuse_numpy(given)
        result = function(*to_host(args), **to_host(options))
        if activity.current is not None:
            _record(function, given, result)
        return _given_back(result, given)

    # A method descriptor of C has no dictionary that `functools.wraps` could copy.
    return functools.update_wrapper(call, function, updated=())


def _record(function: Callable[..., Any], given: Iterable[Any], result: Any) -> None:
    """Record an operation for a timeline; those that take arrays of NumPy copy."""
    name = f"cupy_{getattr(function, '__name__', 'operation').strip('_')}"
    if not isinstance(result, np.ndarray) or any(isinstance(v, np.ndarray) for v in given):
        return
    hosts = [each._host for each in given if isinstance(each, HostObject)]
    arrays = [host for host in hosts if isinstance(host, np.ndarray)]
    if any(result.base is a or (a.base is not None and result.base is a.base) for a in arrays):
        return  # a view moves nothing
    moved = [*arrays, *(r for r in [result] if all(r is not a for a in arrays))]
    with activity.call(name):
        activity.note(
            timeline.COMPUTE, name, activity.stream(), bytes=sum(a.nbytes for a in moved),
            memory=sorted({(int(a.ctypes.data), a.nbytes) for a in moved}),
        )  # fmt: skip


def _given_back(result: Any, given: Iterable[Any]) -> Any:
    """Convert a result to the device; an array that was given, such as `out`, is the same one."""
    if isinstance(result, np.ndarray):
        for value in given:
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, HostObject) and each._host is result:
                    return each
    elif isinstance(result, tuple):
        return _like(result, (_given_back(each, given) for each in result))
    return to_device(result)


def refuse_numpy(values: Iterable[Any]) -> None:
    """Raise TypeError for an array of NumPy: CuPy copies none to the GPU by itself."""
    for value in values:
        if isinstance(value, np.ndarray):
            raise TypeError(
                f"Unsupported type {type(value)}: cupy functions take cupy arrays; "
                "convert it with cupy.asarray(x)"
            )
        if isinstance(value, tuple | list):
            # Long lists of numbers are looked at by their first item alone.
            refuse_numpy(value if isinstance(value, tuple) else value[:64])
