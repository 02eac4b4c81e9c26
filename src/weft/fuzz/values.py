"""Draws random expressions from what is in scope."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from weft.fuzz.nodes import (
    BITS,
    BOOL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    STRUCT,
    Function,
    Node,
    const,
)
from weft.fuzz.operations import BY_TYPE, OPS, WEIGHTS

_SPECIAL = {"u32": ("TX", "THREAD", "LANE", "TY", "TX"), "i32": ("n",), "u64": ("w",)}
_FLOAT_EDGES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 0.1, 1e-3, 100.0, 255.0, 65536.0, 16777216.0, 4294967296.0,
    1e30, -1e30, 1e-40, 1.17549435e-38, float("inf"), float("-inf"),
)  # fmt: skip


@dataclass
class Scope:
    """The names that an expression may read, and a statement may write."""

    variables: dict[str, str] = field(default_factory=dict)
    """Type by name; members of structs by `name.member`."""
    counters: list[str] = field(default_factory=list)
    arrays: dict[str, tuple[str, int]] = field(default_factory=dict)
    structs: list[str] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    in_kernel: bool = True
    template: bool = False


def integer(rng: random.Random, type: str) -> int:
    """An integer of a type: small, at an edge, near a power of two, or any."""
    bits, signed = BITS[type], type in SIGNED
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    roll = rng.random()
    if roll < 0.4:
        value = rng.randrange(-4 if signed else 0, 17)
    elif roll < 0.55:
        value = rng.choice((low, high, low + 1, high - 1, 0xF0 << bits - 8, 0x5555555555555555))
    elif roll < 0.8:
        value = rng.choice((1, -1)) * (1 << rng.randrange(bits)) + rng.randrange(-1, 2)
    else:
        value = rng.randrange(1 << bits) >> rng.randrange(bits)
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value > high else value


def number(rng: random.Random, type: str) -> float:
    """A float that is exact in its type: an edge, a small integer, or any exponent."""
    roll = rng.random()
    if roll < 0.5:
        return rng.choice(_FLOAT_EDGES)
    if roll < 0.8:
        return float(rng.randrange(-300, 300))
    return rng.choice((1, -1)) * rng.random() * 2.0 ** rng.randrange(-40, 41)


class Values:
    """Draws expressions."""

    def __init__(self, rng: random.Random, scope: Scope) -> None:
        self.rng, self.scope = rng, scope

    def any(self, type: str, depth: int) -> Node:
        """An expression of a type, at most `depth` operations deep."""
        rng = self.rng
        if type == STRUCT:
            return Node("var", STRUCT, value=rng.choice(self.scope.structs))
        roll = rng.random()
        if depth <= 0 or roll < 0.12:
            return self.leaf(type)
        if roll < 0.20 and (call := self.call(type, depth - 1)) is not None:
            return call
        if roll < 0.28 and (element := self.element(type, depth - 1)) is not None:
            return element
        if roll < 0.34 and type in OPS_FROM:
            return self.punned(type, depth - 1)
        op = rng.choices(BY_TYPE[type], WEIGHTS[type])[0]
        kids = tuple(self.any(kind, depth - 1) for kind in op.operands)
        return Node(op.name, type, kids)

    def leaf(self, type: str) -> Node:
        """A variable, a thread's number or a constant; of another type where there is no own."""
        rng, scope = self.rng, self.scope
        if type == BOOL:
            kind = rng.choice(NUMBERS)
            name = rng.choice(("lt", "le", "eq", "ne"))
            return Node(f"{name}_{kind}", BOOL, (self.leaf(kind), self.leaf(kind)))
        roll = rng.random()
        if roll < 0.2:
            return self.constant(type)
        if roll < 0.4 and (special := self.special(type)) is not None:
            return special
        own = [name for name, kind in scope.variables.items() if kind == type]
        if own and roll < 0.9:
            return Node("var", type, value=rng.choice(own))
        others = [name for name, kind in scope.variables.items() if kind != type]
        if not others:
            return self.constant(type)
        name = rng.choice(others)
        kind = scope.variables[name]
        return Node(f"from_{kind}", type, (Node("var", kind, value=name),))

    def special(self, type: str) -> Node | None:
        names = list(_SPECIAL.get(type, ())) if self.scope.in_kernel else []
        if type == "i32":
            names += self.scope.counters * 2 + ["N"] * self.scope.template
        return Node("special", type, value=self.rng.choice(names)) if names else None

    def constant(self, type: str) -> Node:
        if type in FLOATS:
            return const(type, number(self.rng, type))
        return const(type, integer(self.rng, type))

    def element(self, type: str, depth: int) -> Node | None:
        arrays = [(n, length) for n, (kind, length) in self.scope.arrays.items() if kind == type]
        if not arrays:
            return None
        return Node("index", type, (self.any("u32", depth),), self.rng.choice(arrays))

    def punned(self, type: str, depth: int) -> Node:
        """Bits of a number in another type: a float made from an integer, read as an integer."""
        name, through = OPS_FROM[type]
        kind = self.rng.choice(("i32", "u32", "u32", "u8", "i16", "u16", "i64"))
        inner = self.any(kind, depth) if self.rng.random() < 0.5 else self.leaf(kind)
        if through not in FLOATS:
            return Node(name, type, (self.any(through, depth),))
        bits = Node(name, type, (Node(f"from_{kind}", through, (inner,)),))
        if self.rng.random() < 0.5:
            return bits
        return Node("shr", type, (bits, const("u32", self.rng.choice((16, 23, 31, 52)))))

    def call(self, type: str, depth: int) -> Node | None:
        """A call of a function that gives this type, its arguments by value."""
        fitting = [f for f in self.scope.functions if f.result.type == type and not f.by_reference]
        if any(kind == STRUCT for f in fitting for _, kind in f.params) and not self.scope.structs:
            return None
        if not fitting:
            return None
        f = self.rng.choice(fitting)
        args = tuple(self.any(kind, depth) for _, kind in f.params)
        return Node("call", type, args, (f.name, f.kind, self.rng.randrange(1, 9)))


OPS_FROM = {
    type: (name, op.operands[0])
    for (name, type), op in OPS.items()
    if name in ("float_bits", "double_bits", "bits_float", "bits_double")
}
assert all(f"from_{a}" in {o.name for o in BY_TYPE[b]} for a in INTEGERS for b in FLOATS)
