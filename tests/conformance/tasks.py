"""Work on both devices, in pieces that processes share out: one function for each kind.

Each gives a list of findings, plain dictionaries with at least `name`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

import weft
from conformance import catalogue, functions, mixes, tiles, whole
from conformance.assemble import Assembled, assemble, find_ptxas
from conformance.compare import compare, digest
from conformance.devices import Real, Simulated
from conformance.forms import HEAD, Form, grouped, together
from conformance.operands import COUNT, columns, draw, width

Finding = dict[str, Any]
ARCH = "sm_90"
TOP = HEAD.format(version="9.0", target=ARCH)
BLOCK = 256
SAMPLE = np.sort((draw(7, 24) % np.uint64(COUNT)).astype(np.int64))
"""Operands whose results are recorded one by one."""


def _assembled(kernels: Mapping[str, str]) -> Assembled:
    ptxas = find_ptxas()
    assert ptxas is not None, "no ptxas on this machine"
    return assemble(ptxas, TOP, kernels, ARCH)


def inputs(form: Form) -> list[np.ndarray]:
    """The operands of a form, in the width that its kernel loads."""
    sizes = [4 if width(kind) == 1 else width(kind) // 8 for kind in form.sources]
    return [x.astype(f"u{size}") for x, size in zip(columns(form.sources), sizes, strict=True)]


def outputs(form: Form) -> list[np.ndarray]:
    return [np.zeros(COUNT, f"u{bits // 8}") for bits in form.results]


@cache
def by_name() -> Mapping[str, Form]:
    return {form.name: form for form in catalogue.forms()}


def run_forms(names: Sequence[str]) -> list[Finding]:
    """Full opcodes on COUNT operand tuples each."""
    chosen = {f"k{i}": by_name()[name] for i, name in enumerate(names)}
    alone = _assembled({k: form.kernel(k) for k, form in chosen.items()})
    found: list[Finding] = [
        {"name": chosen[k].name, "refused": reason} for k, reason in alone.refused.items()
    ]
    left = [form for k, form in chosen.items() if k not in alone.refused]
    groups = {f"g{i}": group for i, group in enumerate(grouped(left))}
    if not groups:
        return found
    made = _assembled({k: together(group).kernel(k) for k, group in groups.items()})
    real, simulated = Real(made.cubin), Simulated(made.text)
    for k, group in groups.items():
        found += _group(real, simulated, k, group)
    return found


def _group(real: Real, simulated: Simulated, entry: str, group: Sequence[Form]) -> list[Finding]:
    whole_group = together(group)
    sources, shape = inputs(whole_group), ((COUNT // BLOCK, 1, 1), (BLOCK, 1, 1))
    theirs, ours = outputs(whole_group), outputs(whole_group)
    real.run(entry, *shape, [*sources, *theirs])
    refusal = None
    try:
        simulated.run(entry, *shape, [*sources, *ours])
    except weft.Error as error:
        refusal = str(error).splitlines()[0]
    if refusal is not None and len(group) > 1:  # one of them is not covered: which?
        return [x for form in group for x in run_forms([form.name])]
    found, at = list[Finding](), 0
    for form in group:
        part = slice(at, at := at + len(form.results))
        found.append(_form(form, sources, theirs[part], ours[part], refusal))
    return found


def _form(
    form: Form,
    sources: Sequence[np.ndarray],
    theirs: Sequence[np.ndarray],
    ours: Sequence[np.ndarray],
    refusal: str | None,
) -> Finding:
    finding: Finding = {"name": form.name, "operands": COUNT, "sum": digest(theirs)}
    if not form.row.warp:
        finding |= {"lanewise": True, "sample": b"".join(x[SAMPLE].tobytes() for x in theirs).hex()}
    if refusal is not None:
        return finding | {"simulator": refusal}
    kind = form.opcode.split(".")[-2 if form.row.base == "cvt" else -1]
    return finding | compare(sources, theirs, ours, kind)


def run_functions(pieces: Sequence[tuple[str, int]]) -> list[Finding]:
    """A sixteenth of all inputs of an approximate function."""
    names = sorted({opcode for opcode, _ in pieces})
    made = _assembled({f"f{i}": functions.kernel(f"f{i}", x) for i, x in enumerate(names)})
    real, simulated, found = Real(made.cubin), Simulated(made.text), list[Finding]()
    shape = (functions.THREADS // functions.BLOCK, 1, 1), (functions.BLOCK, 1, 1)
    for opcode, piece in pieces:
        first = np.uint32(piece * functions.THREADS * functions.EACH % (1 << 32))
        both = [np.zeros(functions.THREADS, np.uint32) for _ in range(2)]
        for device, out in zip((real, simulated), both, strict=True):
            device.run(f"f{names.index(opcode)}", *shape, [out, first])
        where = np.arange(functions.THREADS, dtype=np.uint32) + first
        found.append({"name": opcode, "piece": piece, "sum": digest(both[:1]),
                      "operands": functions.THREADS * functions.EACH,
                      **compare([where], both[:1], both[1:])})  # fmt: skip
    return found


def run_tiles(opcodes: Sequence[str]) -> list[Finding]:
    """A million tiles of every distribution for each opcode."""
    made = _assembled({f"t{i}": tiles.kernel(f"t{i}", x) for i, x in enumerate(opcodes)})
    found: list[Finding] = []
    loaded = (Real(made.cubin), Simulated(made.text)) if made.text else None
    for i, opcode in enumerate(opcodes):
        if f"t{i}" in made.refused:
            found.append({"name": opcode, "refused": made.refused[f"t{i}"]})
            continue
        assert loaded is not None
        found.append(_tiles(*loaded, f"t{i}", opcode))
    return found


def _tiles(real: Real, simulated: Simulated, entry: str, opcode: str) -> Finding:
    sums, wrong = list[str](), dict[str, int]()
    for d in tiles.DISTRIBUTIONS:
        how = tiles.parameters(opcode, d)
        shape = (tiles.blocks(opcode, d), 1, 1), (tiles.BLOCK, 1, 1)
        both = [np.zeros(shape[0][0] * tiles.BLOCK, np.uint32) for _ in range(2)]
        real.run(entry, *shape, [both[0], how, np.uint32(0)])
        sums.append(digest(both[:1]))
        try:
            simulated.run(entry, *shape, [both[1], how, np.uint32(0)])
        except weft.Error as error:
            return {"name": opcode, "simulator": str(error).splitlines()[0]}
        if different := int((both[0] != both[1]).sum()):
            wrong[d.name] = different
    finding: Finding = {"name": opcode, "tiles": tiles.count(opcode), "sums": sums}
    return finding | {"differing": sum(wrong.values())} | ({"where": wrong} if wrong else {})


def run_programs(given: tuple[mixes.Opcodes, Sequence[str]]) -> list[Finding]:
    """Random programs; the opcodes are those that chains may use."""
    opcodes, names = given
    chosen = {f"k{i}": (name, mixes.make(name, opcodes, f"k{i}")) for i, name in enumerate(names)}
    made = _assembled({k: program.text for k, (_, program) in chosen.items()})
    found: list[Finding] = [
        {"name": chosen[k][0], "refused": reason} for k, reason in made.refused.items()
    ]
    if not made.text:
        return found
    real, simulated = Real(made.cubin), Simulated(made.text)
    for k, (name, program) in chosen.items():
        if k not in made.refused:
            found.append(_program(real, simulated, k, name, program))
    return found


def code(program: mixes.Program) -> int:
    """A checksum of a program's text, whatever its entry is called."""
    return zlib.crc32(program.text.partition("(")[2].encode())


def _program(
    real: Real, simulated: Simulated, entry: str, name: str, program: mixes.Program
) -> Finding:
    sides = []
    finding: Finding = {"name": name, "code": code(program)}
    for device in (real, simulated):
        arguments = [x.copy() for x in program.arguments]
        try:
            device.run(entry, program.grid, program.block, arguments)
        except weft.Error as error:
            if device is real:
                raise
            return finding | {"simulator": str(error).splitlines()[0]}
        sides.append([x for x in arguments if isinstance(x, np.ndarray)])
    wrong = sum(int((a != b).sum()) for a, b in zip(*sides, strict=True))
    finding |= {"sum": digest(sides[0]), "differing": wrong}
    if wrong:
        at = next((j, np.flatnonzero(a != b)) for j, (a, b) in enumerate(zip(*sides, strict=True))
                  if (a != b).any())  # fmt: skip
        j, places = at[0], at[1]
        finding["example"] = {
            "array": j,
            "places": [int(x) for x in places[:8]],
            "gpu": [hex(int(x)) for x in sides[0][j][places[:8]]],
            "simulator": [hex(int(x)) for x in sides[1][j][places[:8]]],
        }
        finding["text"] = program.text
    return finding


RUN: dict[str, Callable[[Any], list[Finding]]] = {
    "forms": run_forms, "functions": run_functions, "tiles": run_tiles, "programs": run_programs,
    "kernels": whole.run,
}  # fmt: skip


def run(task: str) -> list[Finding]:
    """One task as JSON: [kind, what it takes]."""
    kind, given = json.loads(task)
    return RUN[kind](given)
