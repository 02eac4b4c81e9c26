"""The arguments of an op's schema, as Python text for its generated functions and as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def parameter(argument: Any) -> str:
    """The parameter of the generated function."""
    if not argument.has_default_value():
        return str(argument.name)
    return f"{argument.name}={argument.default_value!r}"


def _optional(argument: Any) -> bool:
    return str(argument.type).startswith("Optional")


def wants_grad(argument: Any) -> str:
    """An expression that is true if a tensor requires a gradient."""
    n = argument.name
    test = f"{n}.requires_grad"
    return f"({n} is not None and {test})" if _optional(argument) else test


def plain(argument: Any) -> str:
    """An expression that is true if a tensor is of a type of the fast path."""
    n = argument.name
    return f"({n} is None or type({n}) in PLAIN)" if _optional(argument) else f"type({n}) in PLAIN"


def key(argument: Any) -> str:
    """An expression of the properties that a plan depends on."""
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
    """Convert an option as torch does, so that equivalent calls give equal requests."""
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


# ---- the generated functions -------------------------------------------------------------------
_MODES = (
    "functorch() or dispatch_modes() or function_modes() or autocast() or profiled() or traced()"
    " or ad._current_level >= 0"
)
"""An expression that is true if a mode of torch must see the op."""
CALL = """
def {name}({signature}):
    if not compiling():
        result = native.call({given})
        if result is not NotImplemented:
            return result
        if not ({planless}):
            entry = last
            if {same_options}entry.guard({tensors}) and not ({modes}):
                if {learnable}:
                    teach(entry, {given})
                if not (({wants_grad}) and grad()):
                    return entry.run({inputs})
                result = entry.record[0]({inputs})
                return recorded({given}) if result is NotImplemented else result
            if {plain} and not ({modes}):
                if ({wants_grad}) and grad():
                    return recorded({given})
                entry = known({given})
                if entry is not None:
                    if {learnable}:
                        teach(entry, {given})
                    return entry.run({inputs})
    return dispatch({given})


def known({given}):
    global last
    try:
        entry = plans.get(({key},))
    except (TypeError, RuntimeError):
        return None
    if entry is not None:
        last = entry
    return entry


def find({given}):
    global last
    entry = last
    if {same_options}entry.guard({tensors}):
        return entry
    try:
        plan_key = ({key},)
        entry = plans.get(plan_key)
    except (TypeError, RuntimeError):
        plan_key = entry = None
    if entry is None:
        entry = make(plan_key, {given})
    last = entry
    return entry


def compute({signature}):
    entry = last
    if not ({same_options}entry.guard({tensors})):
        entry = find({given})
    return entry.run({inputs})
"""
"""The functions of an op: the call, the lookups of its plan, and what torch's dispatcher calls."""

RECORD = """
def record_{results}({given}):
    entry = last
    if not ({same_options}entry.guard({tensors})):
        entry = find({given})
    if {learnable} and not {results}:
        teach(entry, {given})
    result = entry.record[{results}]({inputs})
    return learn_{results}(entry, {given}) if result is NotImplemented else result
"""
"""The function for calls with a gradient that return the first so many results."""


def words(
    arguments: Sequence[Any], name: str, varying: Sequence[str], planless: str
) -> dict[str, str]:
    """The words for the placeholders of the texts; see `function.Definition`."""
    tensors = [a for a in arguments if "Tensor" in str(a.type)]
    names = [a.name for a in tensors]
    keyed = [a for a in arguments if a.name not in varying]
    options = [key(a) for a in keyed if a.name not in names]
    return {
        "name": name,
        "signature": ", ".join(map(parameter, arguments)),
        "given": ", ".join(a.name for a in arguments),
        "tensors": ", ".join(names),
        "inputs": ", ".join((*names, *varying)),
        "plain": " and ".join(map(plain, tensors)),
        "modes": _MODES,
        # The caller of an op with varying arguments knows how the C++ code gets those.
        "learnable": "False" if varying else "entry.record.open",
        "planless": planless,
        "wants_grad": " or ".join(map(wants_grad, tensors)),
        "same_options": f"entry.options == ({', '.join(options)},) and " if options else "",
        "key": ", ".join(map(key, keyed)),
    }
