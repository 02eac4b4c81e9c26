"""What a launch must know of a PTX module, kept on disk so that a later process need not parse it.

Parameters, launch bounds and shared memory of each kernel, and the module's variables: everything
but the code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from weft import cache
from weft.device.sim.version import weft_version

if TYPE_CHECKING:
    from weft.ptx.model import Function, Module, Variable


class Argument(NamedTuple):
    """A kernel parameter; `offset` is inside the parameter block, `count` 1 for no array."""

    name: str
    type: str
    size: int
    offset: int
    count: int


class Entry(NamedTuple):
    """A kernel without its code."""

    params: tuple[Argument, ...]
    param_bytes: int
    directives: Mapping[str, tuple[int, ...]]
    static_shared: int


class Stored(NamedTuple):
    """A `.global` or `.const` variable; relocations are (byte, symbol, addend)."""

    space: str
    align: int
    size: int
    init: bytes
    relocations: tuple[tuple[int, str, int], ...]


class Outline(NamedTuple):
    """A module without its code; `functions` numbers those whose address is taken."""

    entries: Mapping[str, Entry]
    variables: Mapping[str, Stored]
    functions: Mapping[str, int]
    allocates: bool


def outline(text: str, parsed: Callable[[], Module]) -> Outline:
    """The outline of a PTX text; `parsed` is asked only when the cache does not know it."""
    key = cache.key("outline", weft_version(), text)
    data = cache.get("outline", key)
    if data is None:
        data = json.dumps(_describe(parsed())).encode()
        cache.put("outline", key, data)
    return _restore(json.loads(data))


def _describe(module: Module) -> dict[str, Any]:
    from weft.ptx.callgraph import function_ids  # a cached outline needs nothing of the parser

    return {
        "entries": {
            name: (
                [(p.name, p.type, p.size, p.offset, p.count) for p in f.params],
                f.param_bytes,
                f.directives,
                _static_shared(module, f),
            )
            for name, f in module.functions.items()
            if f.is_entry
        },
        "variables": {
            v.name: (v.space, v.align, v.size, v.init.hex(), [r[:3] for r in v.relocations])
            for v in module.variables.values()
            if v.space in ("global", "const")
        },
        "functions": function_ids(module),
        "allocates": "malloc" in module.functions,
    }


def _static_shared(module: Module, function: Function) -> int:
    """Bytes of shared memory that a kernel declares."""
    end = 0
    for v in _shared(module, function):
        end = -(-end // v.align) * v.align + v.size
    return end


def _shared(module: Module, function: Function) -> Iterator[Variable]:
    for v in (*module.variables.values(), *function.variables.values()):
        if v.space == "shared" and not v.unsized:
            yield v


def _restore(data: Mapping[str, Any]) -> Outline:
    return Outline(
        {
            name: Entry(
                tuple(Argument(*p) for p in params),
                size,
                {word: tuple(numbers) for word, numbers in directives.items()},
                shared,
            )
            for name, (params, size, directives, shared) in data["entries"].items()
        },
        {
            name: Stored(space, align, size, bytes.fromhex(init), tuple(map(tuple, relocations)))
            for name, (space, align, size, init, relocations) in data["variables"].items()
        },
        data["functions"],
        data["allocates"],
    )
