"""`generate(name, shape)`: a random program, the same one for the same name and block shape."""

from __future__ import annotations

import random
from dataclasses import replace

from weft.fuzz.collectives import COLLECTIVES
from weft.fuzz.nodes import (
    BOOL,
    NUMBERS,
    STRUCT,
    Decl,
    Field,
    Function,
    Node,
    Program,
    block,
    const,
)
from weft.fuzz.values import Scope, Values

_LOOPS = (3, 7)
_DEPTHS = (1, 1, 2, 2, 3)


def generate(name: str, shape: tuple[int, int]) -> Program:
    """Draw a program by its name."""
    return _Generator(name, shape).program()


class _Generator:
    def __init__(self, name: str, shape: tuple[int, int]) -> None:
        self.rng, self.name, self.shape = random.Random(f"{name} {shape}"), name, shape
        self.counters: list[str] = []
        self.fields: tuple[Field, ...] = ()
        self.functions: list[Function] = []

    # ---- the parts of a program -------------------------------------------------------------
    def program(self) -> Program:
        rng = self.rng
        types = [*rng.choices(NUMBERS, k=rng.randrange(1, 4)), "u32"]
        if rng.random() < 0.4:
            self.fields = self._fields()
        for i in range(rng.choice((0, 0, 0, 1, 1, 2))):
            self._add_function(i, rng.choice(types))
        inputs = tuple(
            Decl(f"x{i}", kind, const(kind, 0))
            for i, kind in enumerate([*types, rng.choice(types)])
        )
        scope = Scope({d.name: d.type for d in inputs}, functions=self.functions)
        decls = self._locals(scope, types, rng.randrange(2, 4), "v")
        body = self._sequence(scope, rng.randrange(2, 5), top=True)
        counters = tuple(Decl(c, "i32", const("i32", 0), shown=False) for c in self.counters)
        return Program(
            self.name,
            self.shape,
            self.fields,
            tuple(self.functions),
            inputs,
            decls + counters,
            body,
            rows=rng.random() < 0.15,
        )

    def _fields(self) -> tuple[Field, ...]:
        rng = self.rng
        fields = []
        for i in range(rng.randrange(2, 5)):
            bits = rng.randrange(1, 31) if rng.random() < 0.4 else 0
            kind = rng.choice(("u32", "i32")) if bits else rng.choice(NUMBERS)
            fields.append(Field(f"m{i}", kind, bits))
        return tuple(fields)

    def _locals(self, scope: Scope, types: list[str], count: int, stem: str) -> tuple[Decl, ...]:
        """New variables, an array and structs among them; all are in scope afterwards."""
        rng = self.rng
        values, found = Values(rng, scope), []
        for i in range(count):
            kind = rng.choice(types)
            found.append(Decl(f"{stem}{i}", kind, values.any(kind, rng.choice((0, 0, 1)))))
        if rng.random() < 0.35:
            kind, length = rng.choice(types), rng.choice((2, 4, 4, 8))
            found.append(Decl(f"{stem}a", kind, values.any(kind, 1), length))
            scope.arrays[f"{stem}a"] = (kind, length)
        if self.fields and stem == "v":
            for name in ("s0", "s1")[: rng.randrange(1, 3)]:
                found.append(Decl(name, STRUCT, const("i32", 0)))
                self._add_struct(scope, name)
        scope.variables |= {d.name: d.type for d in found if not d.length and d.type != STRUCT}
        return tuple(found)

    def _add_struct(self, scope: Scope, name: str) -> None:
        scope.structs.append(name)
        scope.variables |= {f"{name}.{f.name}": f.type for f in self.fields}

    def _add_function(self, number: int, type: str) -> None:
        """A function, or a family of two of one signature that is called by a pointer."""
        rng = self.rng
        kind = rng.choice(("plain", "noinline", "template", "recursive", "table", "reference"))
        params = [(f"p{i}", rng.choice((type, rng.choice(NUMBERS)))) for i in range(2)]
        if self.fields and rng.random() < 0.5 and kind in ("plain", "noinline", "reference"):
            params[0] = ("p0", STRUCT)
        if kind == "reference":
            params[0] = ("p0", params[0][1] + "&")
            kind = rng.choice(("plain", "noinline"))
        names = [f"f{number}"] if kind != "table" else [f"f{number}{which}" for which in "ab"]
        for name in names:
            member = "plain" if kind == "table" else kind
            self.functions.append(self._function(name, member, type, params))
        if kind == "table":
            result, first = const(type, 0), ("which", "u32")
            members = tuple(names)
            self.functions.append(
                Function(f"f{number}", kind, (first, *params), (), block(), result, members)
            )

    def _function(self, name: str, kind: str, type: str, params: list[tuple[str, str]]) -> Function:
        rng, outer = self.rng, self.counters
        self.counters = []
        scope = Scope(functions=list(self.functions), in_kernel=False, template=kind == "template")
        for param, given in params:
            if given.rstrip("&") == STRUCT:
                self._add_struct(scope, param)
            else:
                scope.variables[param] = given.rstrip("&")
        decls = self._locals(scope, [type, "i32"], rng.randrange(0, 2), "l")
        body = self._sequence(scope, rng.randrange(0, 3), depth=1)
        result = Values(rng, scope).any(type, 2)
        if kind == "recursive":
            values = Values(rng, scope)
            args = tuple(values.any(given, 1) for _, given in params)
            again = Node("self", type, (values.leaf(type), *args), name)
            other = "add" if type not in ("f32", "f64") else "fadd"
            result = Node(other, type, (again, result))
            params = [("depth", "i32"), *params]
        counters = tuple(Decl(c, "i32", const("i32", 0), shown=False) for c in self.counters)
        self.counters = outer
        return Function(name, kind, tuple(params), decls + counters, body, result)

    # ---- statements -------------------------------------------------------------------------
    def _sequence(
        self, scope: Scope, count: int, *, depth: int = 0, loop: bool = False, top: bool = False
    ) -> Node:
        found = [self._statement(scope, depth, loop) for _ in range(count)]
        if top:
            for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
                extra = (
                    self._uniform(scope) if self.rng.random() < 0.25 else self._collective(scope)
                )
                found.insert(self.rng.randrange(len(found) + 1), extra)
        return block(*found)

    def _statement(self, scope: Scope, depth: int, loop: bool) -> Node:
        rng = self.rng
        makers = {self._assign: 6.0}
        if scope.arrays:
            makers[self._store] = 3.0
        if any(f.by_reference for f in scope.functions):
            makers[self._by_reference] = 2.0
        if len(scope.structs) > 1:
            makers[self._copy] = 0.5
        if loop:
            makers[self._leave] = 1.5
        if depth < 2:
            makers |= {self._if: 2.0, self._for: 1.2, self._repeat: 0.5, self._switch: 0.7}
        return rng.choices(list(makers), list(makers.values()))[0](scope, depth, loop)

    def _assign(self, scope: Scope, depth: int, loop: bool) -> Node:
        names = [name for name in scope.variables if name[0] != "x" or self.rng.random() < 0.1]
        name = self.rng.choice(names or list(scope.variables))
        value = Values(self.rng, scope).any(scope.variables[name], self.rng.choice(_DEPTHS))
        return Node("assign", kids=(value,), value=name)

    def _store(self, scope: Scope, depth: int, loop: bool) -> Node:
        name = self.rng.choice(list(scope.arrays))
        kind, length = scope.arrays[name]
        values = Values(self.rng, scope)
        return Node("store", kids=(values.any("u32", 1), values.any(kind, 2)), value=(name, length))

    def _copy(self, scope: Scope, depth: int, loop: bool) -> Node:
        to, other = self.rng.sample(scope.structs, 2)
        return Node("assign", kids=(Node("var", STRUCT, value=other),), value=to)

    def _by_reference(self, scope: Scope, depth: int, loop: bool) -> Node:
        rng = self.rng
        f = rng.choice([f for f in scope.functions if f.by_reference])
        wanted = f.params[0][1].rstrip("&")
        plain = [n for n, kind in scope.variables.items() if kind == wanted and "." not in n]
        targets = scope.structs if wanted == STRUCT else plain
        if not targets:
            return self._assign(scope, depth, loop)
        target, values = rng.choice(targets), Values(rng, scope)
        results = [n for n, k in scope.variables.items() if k == f.result.type and n != target]
        result = rng.choice(results) if results else ""
        args = tuple(values.any(kind, 1) for _, kind in f.params[1:])
        return Node("call_by_reference", kids=args, value=(f.name, target, result))

    def _leave(self, scope: Scope, depth: int, loop: bool) -> Node:
        kids = (Values(self.rng, scope).any(BOOL, 1),)
        return Node("leave", kids=kids, value=self.rng.choice(("break", "continue")))

    def _if(self, scope: Scope, depth: int, loop: bool) -> Node:
        rng = self.rng
        cond = Values(rng, scope).any(BOOL, rng.choice((1, 2)))
        other = block()
        then = self._sequence(scope, rng.randrange(1, 3), depth=depth + 1, loop=loop)
        if rng.random() < 0.5:
            other = self._sequence(scope, rng.randrange(1, 3), depth=depth + 1, loop=loop)
        return Node("if", kids=(cond, then, other))

    def _counter(self) -> str:
        self.counters.append(f"c{len(self.counters)}")
        return self.counters[-1]

    def _looped(self, scope: Scope, counter: str) -> Scope:
        return replace(scope, counters=[*scope.counters, counter])

    def _for(self, scope: Scope, depth: int, loop: bool) -> Node:
        counter, values = self._counter(), Values(self.rng, scope)
        bound = values.any("u32", 1) if self.rng.random() < 0.6 else values.constant("u32")
        inner = self._looped(scope, counter)
        body = self._sequence(inner, self.rng.randrange(1, 3), depth=depth + 1, loop=True)
        return Node("for", kids=(bound, body), value=(counter, self.rng.choice(_LOOPS)))

    def _repeat(self, scope: Scope, depth: int, loop: bool) -> Node:
        counter = self._counter()
        cond = Values(self.rng, scope).any(BOOL, 1)
        inner = self._looped(scope, counter)
        body = self._sequence(inner, self.rng.randrange(1, 3), depth=depth + 1, loop=True)
        return Node("repeat", kids=(cond, body), value=(counter, self.rng.choice(_LOOPS)))

    def _switch(self, scope: Scope, depth: int, loop: bool) -> Node:
        rng, count = self.rng, self.rng.randrange(2, 5)
        kids = [Values(rng, scope).any("u32", 1)]
        kids += [self._sequence(scope, rng.randrange(0, 2), depth=depth + 1) for _ in range(count)]
        falls = tuple(rng.random() < 0.25 for _ in range(count))
        return Node("switch", kids=tuple(kids), value=falls)

    # ---- operations of the warp and the block ------------------------------------------------
    def _uniform(self, scope: Scope) -> Node:
        """A loop of all threads together, with an operation of the warp or block inside."""
        counter = self._counter()
        inner = self._looped(scope, counter)
        body = [self._statement(inner, 2, False), self._collective(inner)]
        body += [self._statement(inner, 2, False)] * (self.rng.random() < 0.5)
        return Node("uniform_for", kids=(block(*body),), value=(counter, self.rng.randrange(1, 4)))

    def _collective(self, scope: Scope) -> Node:
        rng, values = self.rng, Values(self.rng, scope)
        full = self.shape[0] * self.shape[1] % 32 == 0
        row = rng.choice([row for row in COLLECTIVES.values() if full or not row.whole])
        kind = rng.choice(row.types)
        result = kind if row.result == "T" else row.result
        targets = [name for name, own in scope.variables.items() if own == result]
        if not targets:
            return self._assign(scope, 0, False)
        everyone = not row.masked or rng.random() < 0.4
        cond = const(BOOL, 1) if everyone else values.any(BOOL, 1)
        kids = (cond, values.any(kind, 1), values.any("u32", 1))
        width = rng.choice((32, 32, 16, 8)) if full else 32
        return Node("collective", kids=kids, value=(row.name, kind, rng.choice(targets), width))
