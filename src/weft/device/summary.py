"""The summary of a PTX module for launches, cached on disk: a later process need not parse it.

Parameters, launch bounds and shared memory of each kernel, and the module's variables: everything
but the code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from weft import cache
from weft.device.version import generator
from weft.errors import LaunchError, UnsupportedInstruction

if TYPE_CHECKING:
    from weft.ptx.model import PtxFunction, PtxModule


class ParameterSummary(NamedTuple):
    """A kernel parameter; `offset` is inside the parameter block, `elements` 1 if no array."""

    name: str
    type: str
    size: int
    offset: int
    elements: int


class KernelSummary(NamedTuple):
    """A kernel without its code."""

    params: tuple[ParameterSummary, ...]
    param_bytes: int
    directives: Mapping[str, tuple[int, ...]]
    static_shared: int


class VariableSummary(NamedTuple):
    """A `.global` or `.const` variable; relocations are (byte, symbol, addend)."""

    name: str
    space: str
    align: int
    size: int
    init: bytes
    relocations: tuple[tuple[int, str, int], ...]


class ModuleSummary(NamedTuple):
    """A module without its code; `functions` numbers those whose address is taken."""

    entries: Mapping[str, KernelSummary]
    variables: tuple[VariableSummary, ...]
    functions: Mapping[str, int]
    allocates: bool


def summarize(text: str, parsed: Callable[[], PtxModule]) -> ModuleSummary:
    """The summary of a PTX text; `parsed` is called only on a cache miss."""
    key = cache.key("summary", generator(), text)
    data = cache.get("summary", key)
    if data is None:
        data = json.dumps(_describe(parsed())).encode()
        cache.put("summary", key, data)
    return _restore(json.loads(data))


def matching(name: str, variables: Iterable[str]) -> list[str]:
    """The variables that a C++ name may mean: itself, or the last part of a mangled name."""
    candidates = list(variables)
    if name in candidates:
        return [name]
    # The Itanium ABI writes the length of a name before it. `\D` makes sure that the length is not
    # the end of a longer number.
    last = re.compile(rf"_Z.*\D{len(name)}{re.escape(name)}E?")
    return [x for x in candidates if last.fullmatch(x)]


def choose(name: str, variables: Iterable[str]) -> str:
    """The one variable that a C++ name means; LaunchError where there is not exactly one."""
    candidates = list(variables)
    matches = matching(name, candidates)
    if len(matches) == 1:
        return matches[0]
    raise LaunchError(
        f"'{name}' may be one of several variables" if matches else f"no variable '{name}'",
        got=name,
        allowed=", ".join(matches or candidates) or "none",
    )


def _describe(module: PtxModule) -> dict[str, Any]:
    from weft.ptx.callgraph import function_ids  # what is cached needs nothing of the parser
    from weft.ptx.services import DEVICE_RUNTIME

    return {
        "entries": {
            f.name: (
                [(p.name, p.type, p.size, p.offset, p.count) for p in f.params],
                f.param_bytes,
                f.directives,
                _static_shared(module, f),
            )
            for f in module.functions.values()
            if f.is_entry
        },
        "variables": [
            (v.name, v.space, v.align, v.size, v.init.hex(), [r[:3] for r in v.relocations])
            for v in module.variables.values()
            if v.space in ("global", "const")
        ],
        "functions": function_ids(module),
        "allocates": not {"malloc", *DEVICE_RUNTIME}.isdisjoint(module.functions),
    }


def _static_shared(module: PtxModule, kernel: PtxFunction) -> int:
    """Bytes of shared memory that a kernel and the functions that it calls declare."""
    from weft.ptx.shared_variables import shared_variables

    end = 0
    for v in shared_variables(module, _reached(module, kernel)):
        if not v.unsized:
            end = -(-end // v.align) * v.align + v.size
    return end


def _reached(module: PtxModule, kernel: PtxFunction) -> list[PtxFunction]:
    from weft.ptx.callgraph import call_graph, function_ids

    try:
        names = call_graph(module, kernel, function_ids(module)).callees
    except UnsupportedInstruction:  # a call of what nothing defines: its launch is refused
        return [kernel]
    return [module.functions[name] for name in names]


def _restore(data: Mapping[str, Any]) -> ModuleSummary:
    return ModuleSummary(
        {
            name: KernelSummary(
                tuple(ParameterSummary(*p) for p in params),
                param_bytes,
                {word: tuple(numbers) for word, numbers in directives.items()},
                static_shared,
            )
            for name, (params, param_bytes, directives, static_shared) in data["entries"].items()
        },
        tuple(
            VariableSummary(
                name, space, align, size, bytes.fromhex(init), tuple(map(tuple, relocations))
            )
            for name, space, align, size, init, relocations in data["variables"]
        ),
        data["functions"],
        data["allocates"],
    )
