"""Replays what an H200 answered, without one: a part by default, the rest with `-m slow`.

Rows are run by themselves on the recorded sample; `slow` runs every form as a kernel on all of its
operands, all inputs of functions, all tiles and all programs, and compares checksums.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pytest

import reference
from conformance import causes, functions, golden, mistakes, mixes, replay, tasks, tiles
from conformance.compare import digest
from conformance.devices import Simulated
from conformance.forms import LUTS, Form
from lanewise import run as run_row
from weft.ptx.isa import lookup
from weft.ptx.parse import parse

pytestmark = pytest.mark.sim
EVERY = 30
"""By default one recorded form in so many is replayed, and at least one of each row."""
QUICK_TILES = (
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
)


def recorded(kind: str) -> list[dict[str, Any]]:
    """The programs that both devices ran with equal results."""
    found: list[dict[str, Any]] = golden.read()["findings"][kind]
    return [x for x in found if x.get("differing") == 0]


def _lanewise() -> list[Any]:
    """The recorded forms of each base opcode, few and all."""
    known = tasks.by_name()
    names = sorted(x["name"] for x in recorded("forms") if "lanewise" in x and x["name"] in known)
    out = []
    for base, group in groupby(names, lambda name: name.split(".")[0]):
        found = list(group)
        rows = {id(known[n].row): n for n in found}
        few = sorted({*found[::EVERY], *rows.values()})
        out.append(pytest.param(few, id=base))
    return out


def stored(form: Form, outputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a row as the form's kernel stores them."""
    decoded = lookup(form.opcode.split("."))
    assert decoded is not None
    dest = decoded.row.operands[0]
    kind = decoded.types[dest.name]
    results = [x.astype(np.int8) if kind == "s8" and not i else x for i, x in enumerate(outputs)]
    if dest.pair == "cc" and form.opcode.startswith("sub"):  # read by subc: minus the borrow
        results[1] = results[1].astype(np.int32) - 1
    return results


def replayed(form: Form, sources: list[np.ndarray]) -> bytes:
    """The form's results on operands, as recorded: array after array."""
    decoded = lookup(form.opcode.split("."))
    assert decoded is not None
    specs = [s.name for s in decoded.row.operands if not s.is_dest]
    out, luts = list[np.ndarray](), LUTS if "table" in specs else (0,)
    for lut in luts:
        left = iter(sources)
        table = np.full(len(sources[0]), lut, np.uint32)
        given = [table if name == "table" else next(left) for name in specs]
        if "cc" in specs and form.opcode.startswith("sub"):  # the operand is a borrow
            given[specs.index("cc")] = given[specs.index("cc")] == 0
        out += stored(form, run_row(form.opcode, given))
    pairs = zip(out, form.results, strict=False)
    return b"".join(x.astype(f"i{bits // 8}").tobytes() for x, bits in pairs)


@pytest.mark.parametrize("names", _lanewise())
def test_rows(names: list[str]) -> None:
    wrong = []
    for name in names:
        form = tasks.by_name()[name]
        sample = [x[tasks.SAMPLE] for x in tasks.inputs(form)]
        if replayed(form, sample) != golden.answers()[name][1]:
            wrong.append(name)
    assert not wrong


def batches(items: Sequence[Any], few: Sequence[Any], size: int) -> list[Any]:
    """A few items one by one, then all, slow, in batches: to list them singly takes long."""
    some = [
        pytest.param([item], id=str(item["name"] if isinstance(item, dict) else item))
        for item in few
    ]
    return some + [
        pytest.param(items[i : i + size], id=f"all-{i // size}", marks=pytest.mark.slow)
        for i in range(0, len(items), size)
    ]


def _kernels() -> list[Any]:
    """Forms as kernels; by default some that look beyond their lane."""
    known = tasks.by_name()
    names = sorted(x["name"] for x in recorded("forms") if x["name"] in known)
    warp = [n for n in names if known[n].row.warp]
    return batches(names, warp[:: len(warp) // 8], 64)


@pytest.mark.parametrize("names", _kernels())
def test_kernels(names: list[str]) -> None:
    wrong = []
    for name in names:
        form = tasks.by_name()[name]
        out = tasks.outputs(form)
        device = Simulated(tasks.TOP + form.kernel("k"))
        grid, block = (tasks.COUNT // tasks.BLOCK, 1, 1), (tasks.BLOCK, 1, 1)
        device.run("k", grid, block, [*tasks.inputs(form), *out])
        if int(digest(out), 16) != golden.answers()[name][0]:
            wrong.append(name)
    assert not wrong


@pytest.mark.parametrize("found", batches(recorded("functions"), recorded("functions")[:1], 16))
def test_functions(found: list[dict[str, Any]]) -> None:
    wrong = []
    for x in found:
        out = np.zeros(functions.THREADS, np.uint32)
        first = np.uint32(x["piece"] * functions.THREADS * functions.EACH)
        grid, block = (functions.THREADS // functions.BLOCK, 1, 1), (functions.BLOCK, 1, 1)
        device = Simulated(tasks.TOP + functions.kernel("k", x["name"]))
        device.run("k", grid, block, [out, first])
        if digest([out]) != x["sum"]:
            wrong.append((x["name"], x["piece"]))
    assert not wrong


def wrong_tiles(opcode: str, sums: Mapping[tiles.Distribution, str]) -> Iterator[tuple[str, str]]:
    device = Simulated(tasks.TOP + tiles.kernel("k", opcode))
    for d, total in sums.items():
        blocks = tiles.blocks(opcode, d)
        out, how = np.zeros(blocks * tiles.BLOCK, np.uint32), tiles.parameters(opcode, d)
        device.run("k", (blocks, 1, 1), (tiles.BLOCK, 1, 1), [out, how, np.uint32(0)])
        if digest([out]) != total:
            yield opcode, d.name


@pytest.mark.parametrize("opcode", QUICK_TILES)
def test_some_tiles(opcode: str) -> None:
    sums = next(x["sums"] for x in recorded("tiles") if x["name"] == opcode)
    large = next(i for i, d in enumerate(tiles.DISTRIBUTIONS) if d.name == "large C")
    assert not list(wrong_tiles(opcode, {tiles.DISTRIBUTIONS[large]: sums[large]}))


@pytest.mark.slow
@pytest.mark.parametrize("found", batches(recorded("tiles"), [], 8))
def test_tiles(found: list[dict[str, Any]]) -> None:
    wrong = []
    for x in found:
        sums = dict(zip(tiles.DISTRIBUTIONS, x["sums"], strict=True))
        wrong += wrong_tiles(x["name"], sums)
    assert not wrong


@pytest.mark.parametrize(
    "found",
    batches(recorded("programs"), recorded("programs")[:: len(recorded("programs")) // 6], 50),
)
def test_programs(found: list[dict[str, Any]]) -> None:
    wrong, changed = [], 0
    opcodes = golden.opcodes(golden.read()["findings"]["forms"])
    for x in found:
        program = mixes.make(x["name"], opcodes, "k")
        if tasks.code(program) != x["code"]:
            changed += 1
            continue
        Simulated(tasks.TOP + program.text).run("k", program.grid, program.block, program.arguments)
        arrays = [a for a in program.arguments if isinstance(a, np.ndarray)]
        if digest(arrays) != x["sum"]:
            wrong.append(x["name"])
    assert not wrong
    if changed == len(found):
        pytest.skip("the generator draws other programs now: record again")


def _shown() -> list[Any]:
    """Programs whose cause is shown: one of each cause, the rest with `-m slow`."""
    known, out = set[str](), []
    for x in golden.read()["findings"]["programs"]:
        if x.get("shown"):
            why = causes.cause("programs", x)
            marks = [pytest.mark.slow] if why in known else []
            out.append(pytest.param(x, id=x["name"], marks=marks))
            known.add(why)
    return out


@pytest.mark.parametrize("found", _shown())
def test_programs_as_ptxas_understood_them(found: dict[str, Any]) -> None:
    program = mixes.make(found["name"], golden.opcodes(golden.read()["findings"]["forms"]), "k")
    if tasks.code(program) != found["code"]:
        pytest.skip("the generator draws other programs now: record again")
    assert digest(replay.program(found["name"])) != found["sum"]
    assert digest(replay.program(found["name"], mistakes.rewritten(found))) == found["sum"]


@pytest.mark.slow
def test_the_assembler_is_to_blame() -> None:
    """A thread-by-thread interpreter agrees with the simulator on differing control flow."""
    found = golden.read()["findings"]["programs"]
    for x in found:
        if x.get("differing") and x["name"].startswith(("straight", "graph", "tree")):
            program = mixes.make(x["name"], {}, "k")
            out, table, n, wide = program.arguments
            assert isinstance(out, np.ndarray) and isinstance(table, np.ndarray)
            buffers = [(int(a.ctypes.data), bytearray(a.tobytes())) for a in (out, table)]
            params = struct.pack("<QQIxxxxQ", buffers[0][0], buffers[1][0], int(n), int(wide))
            text = tasks.TOP.partition(".const")[0] + program.text
            reference.run(parse(text), "k", program.grid, program.block, params, buffers)
            Simulated(text).run("k", program.grid, program.block, program.arguments)
            assert out.tobytes() == bytes(buffers[0][1]), x["name"]
