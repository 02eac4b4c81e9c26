"""Writes programs as CUDA C++ and as C++ for the host.

Expressions and the statements of one thread are the same text on both sides. The host runs a block
as segments: every thread runs up to the next operation of the warp or block, then all values are
exchanged, then every thread goes on. So all variables of a program are members of a `State` there.
"""

from __future__ import annotations

from weft.fuzz.expressions import text
from weft.fuzz.layout import place
from weft.fuzz.nodes import STRUCT, Decl, Function, Node, Program
from weft.fuzz.statements import DeviceBody, HostBody

Output = tuple[str, str]
"""The C++ of a value that a thread leaves, and its type."""


def device_code(program: Program, index: str) -> str:
    """Functions of one program; `program{index}(in, out, n, w)` runs a thread."""
    body = "\n".join(DeviceBody().lines(program.body, 1))
    starts = zip(program.inputs, _loads(program), strict=True)
    inputs = "".join(f"    {_declared(d, load)}\n" for d, load in starts)
    decls = "".join(f"    {_declared(d, text(d.init))}\n" for d in program.decls)
    mask = "    const u32 full = WARP_MASK; (void)full;\n"
    body = body.replace("THREAD_COUNT", str(program.threads))
    return (
        f"namespace p{index} {{\n{_helpers(program)}"
        "FUNCTION void program(const u64* in, u64* out, i32 n, u64 w) {\n"
        f"{inputs}{decls}{mask}{body}\n{_stores(program)}}}\n}}\n"
    )


def host_code(program: Program, index: str) -> str:
    """The same for the host; `program` runs a whole block."""
    state = "".join(f"    {_member(d)}\n" for d in (*program.inputs, *program.decls))
    names = [d.name for d in (*program.inputs, *program.decls)]
    references = " ".join(f"auto& {name} = all[t].{name};" for name in names)
    shape = f"const u32 TX = t % {program.shape[0]}, TY = t / {program.shape[0]}, THREAD = t;"
    each = f"for (u32 t = 0; t < threads; t++) {{ {shape} {references}"
    loads = zip(program.inputs, _loads(program), strict=True)
    starts = [_assigned(d, load) for d, load in loads]
    starts += [_assigned(d, text(d.init)) for d in program.decls]
    lines = [each, *starts, "}", *HostBody(each).lines(program.body, 0)]
    body = "\n".join([*lines, each, _stores(program), "}"])
    return (
        f"namespace p{index} {{\n{_helpers(program)}struct State {{\n{state}}};\n"
        "static void program(const u64* in, u64* out, i32 n, u64 w) {\n"
        f"const u32 threads = {program.threads}; static State all[threads];\n{body}\n}}\n}}\n"
    )


def outputs(program: Program) -> list[Output]:
    """The variables that every thread stores at the end: all but inputs and counters."""
    found: list[Output] = []
    for d in (d for d in program.decls if d.shown):
        if d.type == STRUCT:
            found += [(f"{d.name}.{f.name}", f.type) for f in program.fields]
        elif d.length:
            found += [(f"{d.name}[{i}]", d.type) for i in range(d.length)]
        else:
            found.append((d.name, d.type))
    return found


def _loads(program: Program) -> list[str]:
    kinds = [f"const {decl.type}" for decl in program.inputs]
    return [place(program, "in", kind, i, len(kinds)) for i, kind in enumerate(kinds)]


def _declared(decl: Decl, value: str) -> str:
    if decl.length:
        return f"{decl.type} {decl.name}[{decl.length}]; {_filled(decl, value)}"
    return f"{decl.type} {decl.name} = {'{}' if decl.type == STRUCT else value};"


def _assigned(decl: Decl, value: str) -> str:
    if decl.length:
        return _filled(decl, value)
    return f"{decl.name} = {f'{STRUCT}{{}}' if decl.type == STRUCT else value};"


def _filled(decl: Decl, value: str) -> str:
    return f"for (int i = 0; i < {decl.length}; i++) {decl.name}[i] = {value};"


def _member(decl: Decl) -> str:
    return f"{decl.type} {decl.name}{f'[{decl.length}]' if decl.length else ''};"


def _stores(program: Program) -> str:
    left = outputs(program)
    places = [place(program, "out", kind, i, len(left)) for i, (_, kind) in enumerate(left)]
    pairs = zip(places, left, strict=True)
    return "".join(f"    {to} = {value};\n" for to, (value, _) in pairs)


def _helpers(program: Program) -> str:
    """The struct, and the functions that are called, in the order in which they call each other."""
    bits = [f"    {f.type} {f.name}{f' : {f.bits}' if f.bits else ''};\n" for f in program.fields]
    struct = f"struct {STRUCT} {{\n{''.join(bits)}}};\n" if bits else ""
    used = called(program)
    return struct + "".join(_function(f) for f in program.functions if f.name in used)


def called(program: Program) -> set[str]:
    """The functions that a program reaches."""
    trees = [program.body, *(decl.init for decl in program.decls)]
    found: set[str] = set()
    while trees:
        names = {n.value[0] for _, n in trees.pop().walk() if n.op in ("call", "call_by_reference")}
        for function in program.functions:
            if function.name in names - found:
                found.add(function.name)
                trees += [function.body, function.result, *(d.init for d in function.decls)]
                trees += [Node("call", value=(name,)) for name in function.members]
    return found


def _function(f: Function) -> str:
    params = ", ".join(f"{type} {name}" for name, type in f.params)
    if f.kind == "table":
        types, names = ", ".join(t for _, t in f.params[1:]), ", ".join(n for n, _ in f.params[1:])
        count = len(f.members)
        return (
            f"NOINLINE {f.result.type} {f.name}({params}) {{\n"
            f"    {f.result.type} (*const table[{count}])({types}) = {{{', '.join(f.members)}}};\n"
            f"    return table[which % {count}]({names});\n}}\n"
        )
    head = {"template": "template <class T, int N> FUNCTION"}
    head |= {"noinline": "NOINLINE", "recursive": "NOINLINE"}
    kind = f.result.type
    if f.kind == "template":
        kind = "T"
        params = ", ".join(f"{'T' if t == f.result.type else t} {name}" for name, t in f.params)
    decls = "".join(f"    {_declared(d, text(d.init))}\n" for d in f.decls)
    body = "\n".join(DeviceBody().lines(f.body, 1))
    start = f"{head.get(f.kind, 'FUNCTION')} {kind} {f.name}({params})"
    return f"{start} {{\n{decls}{body}\n    return {text(f.result)};\n}}\n"
