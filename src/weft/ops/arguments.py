"""The arguments of an op's schema, as Python text for its generated functions and as values."""

from __future__ import annotations

from typing import Any


def parameter(argument: Any) -> str:
    """The parameter of the generated function."""
    if not argument.has_default_value():
        return str(argument.name)
    return f"{argument.name}={argument.default_value!r}"


def _optional(argument: Any) -> bool:
    return str(argument.type).startswith("Optional")


def wants_grad(argument: Any) -> str:
    """Whether a tensor requires a gradient."""
    n = argument.name
    test = f"{n}.requires_grad"
    return f"({n} is not None and {test})" if _optional(argument) else test


def plain(argument: Any) -> str:
    """Whether a tensor is of a type of the fast path."""
    n = argument.name
    return f"({n} is None or type({n}) in PLAIN)" if _optional(argument) else f"type({n}) in PLAIN"


def key(argument: Any) -> str:
    """What a plan depends on."""
    n = argument.name
    if "Tensor" in str(argument.type):
        parts = f"{n}.dtype, {n}.device, {n}.shape, {n}.stride(), {n}.data_ptr() & 15"
        return f"None if {n} is None else ({parts})" if _optional(argument) else parts
    if str(argument.type) == "number":  # 2 == 2.0, but result dtypes differ
        return f"(type({n}), {n})"
    if "List" in str(argument.type):  # torch turns a number into a list; lists are not hashable
        each = f"({n},) * {argument.N or 1}"
        return f"{each} if type({n}) is int else tuple({n}) if type({n}) is list else {n}"
    return str(n)


def as_torch_passes(argument: Any, value: Any) -> Any:
    """Converts an option as torch does, so that equivalent calls give equal requests."""
    kind = str(argument.type)
    if value is None or "Tensor" in kind:
        return value
    if "List" in kind:
        return [value] if isinstance(value, int) else list(value)
    return float(value) if "float" in kind else value


def option(argument: Any, value: Any) -> Any:
    """The part of the key for a non-tensor argument."""
    if str(argument.type) == "number":
        return type(value), value
    if "List" in str(argument.type) and type(value) is int:
        return (value,) * (argument.N or 1)
    return tuple(value) if isinstance(value, list) else value
