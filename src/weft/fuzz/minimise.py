"""`minimise(finding)`: the smallest program found that still goes wrong in the same way.

Programs are cut as trees: statements go, branches and loops become their bodies, expressions become
constants or parts of themselves. Every result is a valid program again, see `nodes.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from weft.fuzz.execute import Finding, execute
from weft.fuzz.nodes import BOOL, NUMBERS, Node, Program, block, const
from weft.fuzz.render import called

_AT_ONCE = 8
"""Candidates that are compiled together."""
_LOOPS = ("for", "repeat", "uniform_for")


def minimise(finding: Finding, tries: int = 400) -> Finding:
    """Cuts until no candidate goes wrong any more, or `tries` of them have been run."""
    best = finding
    while tries > 0:
        left = candidates(best.program)
        while some := tuple(itertools.islice(left, min(_AT_ONCE, tries))):
            tries -= len(some)
            if (smaller := _first(best, some)) is not None:
                best = smaller
                break
        else:
            break
    return _plainer(best)


def _first(best: Finding, programs: tuple[Program, ...]) -> Finding | None:
    """The finding of the first of these programs that goes wrong as before."""
    found = execute([best.pack.alone(program) for program in programs])
    same = {finding.program: finding for finding in found if finding.kind == best.kind}
    return next((same[program] for program in programs if program in same), None)


def _plainer(best: Finding) -> Finding:
    """Without the tool and the draft, where they do not matter."""
    pack = best.pack.alone(best.program)
    for plain in (replace(pack, draft=False, tool=""), replace(pack, tool="")):
        found = execute([plain]) if plain != pack else []
        if found and found[0].kind == best.kind:
            return found[0]
    return replace(best, pack=pack)


def candidates(program: Program) -> Iterator[Program]:
    """Smaller programs, those that lose most first."""
    yield from _without_unused(program)
    places = [(root, at, n) for root, tree in program.roots().items() for at, n in tree.walk()]
    for root, at, node in sorted(places, key=lambda place: -place[2].size):
        tree = program.roots()[root]
        for smaller in _smaller(node):
            yield program.put(root, tree.put(at, smaller))
    if program.shape != (32, 1):
        yield replace(program, shape=(32, 1))


def _without_unused(program: Program) -> Iterator[Program]:
    used = called(program)
    functions = tuple(f for f in program.functions if f.name in used)
    least = replace(program, functions=functions)
    names = _names(least)
    decls = tuple(d for d in program.decls if d.name in names)
    inputs = tuple(d for d in program.inputs if d.name in names)
    least = replace(least, inputs=inputs)
    for smaller in (replace(least, decls=decls), least):
        if smaller != program and smaller.decls:
            yield smaller
    for i in range(len(program.decls)):
        if program.decls[i].name not in names and len(program.decls) > 1:
            yield replace(program, decls=program.decls[:i] + program.decls[i + 1 :])


def _names(program: Program) -> set[str]:
    """Variables that are mentioned; `s0.m1` mentions `s0`."""
    found: set[str] = set()
    for tree in program.roots().values():
        for _, node in tree.walk():
            values = node.value if isinstance(node.value, tuple) else (node.value,)
            found |= {value.split(".")[0] for value in values if isinstance(value, str)}
    return found


def _smaller(node: Node) -> Iterator[Node]:
    """Nodes that can take the place of this one."""
    if node.op == "block":
        yield from _shorter(node)
    elif not node.type:
        yield from _simpler_statement(node)
    elif node.type in (*NUMBERS, BOOL):
        yield from _simpler_expression(node)


def _shorter(node: Node) -> Iterator[Node]:
    half = len(node.kids) // 2
    if half > 1:
        yield block(*node.kids[half:])
        yield block(*node.kids[:half])
    for i in range(len(node.kids)):
        yield block(*node.kids[:i], *node.kids[i + 1 :])


def _simpler_statement(node: Node) -> Iterator[Node]:
    for kid in node.kids:
        if kid.op == "block" and kid.kids:
            yield kid
    if node.op in _LOOPS and node.value[1] > 1:
        yield replace(node, value=(node.value[0], 1))


def _simpler_expression(node: Node) -> Iterator[Node]:
    if node.op != "const":
        yield const(node.type, 0)
        yield const(node.type, 1)
    elif node.value not in (0, 1):
        yield const(node.type, 1)
    inner = [kid for at, kid in node.walk() if at and kid.type == node.type]
    yield from sorted(inner, key=lambda kid: kid.size)[:6]
