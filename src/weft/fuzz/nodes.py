"""A random program as data: what the generator makes, the renderer writes and the minimiser cuts.

Every expression is total: divisors, shift counts and array indices are guarded where they are
rendered, loops are bounded, variables are initialised. So any part of a program may be replaced by
another of the same type, and the result is again a program without undefined behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("f32", "f64")
NUMBERS = INTEGERS + FLOATS
BOOL = "bool"
STRUCT = "Parts"
BITS = {name: int(name[1:]) for name in NUMBERS}

Path = tuple[int, ...]
"""A place inside a tree: the child of the child ..."""


@dataclass(frozen=True)
class Node:
    """An expression (`type` is its C++ type) or a statement (`type` is empty)."""

    op: str
    type: str = ""
    kids: tuple[Node, ...] = ()
    value: Any = None

    def walk(self, at: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Every node below, with its place; outer nodes come first."""
        yield at, self
        for i, kid in enumerate(self.kids):
            yield from kid.walk((*at, i))

    def put(self, at: Path, node: Node) -> Node:
        """A copy with another node at a place."""
        if not at:
            return node
        i = at[0]
        kids = (*self.kids[:i], self.kids[i].put(at[1:], node), *self.kids[i + 1 :])
        return replace(self, kids=kids)

    @property
    def size(self) -> int:
        return 1 + sum(kid.size for kid in self.kids)


def const(type: str, value: int | float) -> Node:
    return Node("const", type, value=value)


def block(*statements: Node) -> Node:
    return Node("block", kids=statements)


@dataclass(frozen=True)
class Decl:
    """A variable with its initial value; `length` elements of it where it is an array.

    shown  whether threads leave it as a result
    """

    name: str
    type: str
    init: Node
    length: int = 0
    shown: bool = True


@dataclass(frozen=True)
class Field:
    """A member of the program's struct; `bits` is the width of a bit-field, 0 for a plain one."""

    name: str
    type: str
    bits: int = 0


@dataclass(frozen=True)
class Function:
    """A device function: parameters by value or by reference, locals, statements, a result.

    kind  "plain", "noinline", "template" (instantiated with its result type and an integer),
          "recursive" (its first parameter is the depth that is left) or "table" (calls one of
          `members` by a pointer; its first parameter says which)
    """

    name: str
    kind: str
    params: tuple[tuple[str, str], ...]
    decls: tuple[Decl, ...]
    body: Node
    result: Node
    members: tuple[str, ...] = ()

    @property
    def by_reference(self) -> bool:
        return any(type.endswith("&") for _, type in self.params)


@dataclass(frozen=True)
class Program:
    """A kernel body for one block shape; `rows` is how `layout.py` has its inputs and results."""

    name: str
    shape: tuple[int, int]
    fields: tuple[Field, ...] = ()
    functions: tuple[Function, ...] = ()
    inputs: tuple[Decl, ...] = ()
    decls: tuple[Decl, ...] = ()
    body: Node = field(default_factory=block)
    rows: bool = False

    @property
    def threads(self) -> int:
        return self.shape[0] * self.shape[1]

    def roots(self) -> Mapping[tuple[str, int], Node]:
        """All trees of the program by what they are."""
        found = {("body", 0): self.body}
        found |= {("init", i): decl.init for i, decl in enumerate(self.decls)}
        found |= {("function", i): f.body for i, f in enumerate(self.functions)}
        found |= {("result", i): f.result for i, f in enumerate(self.functions)}
        return found

    def put(self, root: tuple[str, int], node: Node) -> Program:
        """A copy with another tree."""
        what, i = root
        if what == "body":
            return replace(self, body=node)
        if what == "init":
            changed = replace(self.decls[i], init=node)
            return replace(self, decls=(*self.decls[:i], changed, *self.decls[i + 1 :]))
        before = self.functions[i]
        function = (
            replace(before, body=node) if what == "function" else replace(before, result=node)
        )
        return replace(self, functions=(*self.functions[:i], function, *self.functions[i + 1 :]))

    @property
    def size(self) -> int:
        return sum(tree.size for tree in self.roots().values())
