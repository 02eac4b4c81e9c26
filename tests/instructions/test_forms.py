"""Every transfer function of the lattice, re-proved by drawing: operands that have some form give
a result that has the derived form, for every lane-wise row and every combination of forms.

Rows come from the instruction table, so that a new one is covered as soon as it exists.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import weft
from drawn_forms import ALL_KINDS, KINDS, Drawn, broken, draw, signed
from lanewise import run
from weft.device.sim.analyse import lattice
from weft.device.sim.analyse.form import AFFINE, UNIFORM, Form, meet
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.special import special_form
from weft.ptx.isa import Decoded, InstructionRow, lookup, rows
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import SIZES, Imm, Instruction, Operand, PtxFunction, PtxModule, Reg

KEEPS_STRUCTURE = {*lattice.TABLE, ResultForm.CONVERSION}
"""Results with a rule of their own: their integer types are all tried in every run."""


def spelled(row: InstructionRow) -> list[str]:
    """Every opcode of a row that the table resolves to it."""
    choices = []
    for name, optional in row.parts:
        words = sorted(row.modifiers.get(name, ())) or [name]
        choices.append([*([""] if optional else []), *words])
    names = [".".join(x for x in (row.base, *words) if x) for words in itertools.product(*choices)]
    found = [(n, lookup(n.split("."))) for n in names]
    return [n for n, d in found if d is not None and d.row is row]


def cases() -> list[object]:
    """One case a row, and one in the slow set that tries all of its opcodes."""
    out: list[object] = []
    for row in (r for r in rows() if not r.warp):
        out.append(pytest.param(row, False, id=row.syntax))
        out.append(pytest.param(row, True, id=f"{row.syntax} all", marks=pytest.mark.slow))
    return out


def tried(row: InstructionRow, rng: random.Random) -> list[str]:
    """The opcodes of a row for a short run: those that may have a rule, and two of the others."""
    names = spelled(row)
    ruled = [n for n in names if row.form in KEEPS_STRUCTURE and _integers(n)]
    return [
        *ruled,
        *rng.sample(others := [n for n in names if n not in ruled], min(2, len(others))),
    ]


def _integers(name: str) -> bool:
    d = lookup(name.split("."))
    return d is not None and all(
        kind in SIZES and kind[0] in "usbp" and not kind.startswith("bf")
        for kind in d.types.values()
    )


def bits_of(kind: str) -> int:
    return 1 if kind == "pred" else 8 * SIZES[kind]


def names_of(d: Decoded) -> list[str]:
    return [s.name for s in d.row.operands if not s.is_dest]


def sources(rng: random.Random, d: Decoded, kinds: tuple[int, ...]) -> list[Drawn]:
    """A register for each source, of the width of its type; those of `cvt` may be wider."""
    out = []
    for name, kind in zip(names_of(d), kinds, strict=True):
        bits = max(bits_of(d.types[name]), 16) if d.types[name] != "pred" else 1
        if d.row.base == "cvt":
            bits = rng.choice([w for w in (16, 32, 64) if w >= bits])
        if kind not in KINDS.get(bits, KINDS[64][:3]):
            kind = UNIFORM
        out.append(draw(rng, bits, kind))
    return out


def derived(opcode: str, d: Decoded, drawn: list[Drawn], wide: int) -> tuple[Form | None, str]:
    """The form that the analysis gives the result, and the operands it saw, for a message."""
    forms, operands, carry = {}, [Reg("%d")], None
    for i, (name, x) in enumerate(zip(names_of(d), drawn, strict=True)):
        if name == "cc":
            carry = x.form
            continue
        register = f"%s{i}"
        forms[register] = x.form
        operand: Operand = Reg(register)
        if x.form.const is not None and d.types[name][0] in "usb" and i % 2:
            operand = Imm(x.form.const % (1 << 64) if x.form.const < 0 else x.form.const)
        operands.append(operand)
    function = PtxFunction("k", True, registers={r: "b64" for r in forms} | {"%d": f"b{wide}"})
    program = KernelProgram(
        PtxModule("8.0", "sm_80", 64), function, (64, 1, 1), {0: d}, forms=forms
    )
    if carry is not None:
        program.forms["%cc"] = carry
    ins = Instruction(
        opcode, tuple(opcode.split(".")), tuple(operands), None, False, 1, "", None, 0
    )
    return program.result(ins), ", ".join(str(x.form) for x in drawn)


def evaluate(opcode: str, d: Decoded, columns: list[np.ndarray], wide: int) -> list[int] | None:
    """The result of the row in a register of `wide` bits; None for words that exclude each
    other.
    """
    try:
        out = run(opcode, columns)[0]
    except weft.UnsupportedInstruction:
        return None
    kind = d.types[d.row.operands[0].name]
    values = [int(v) for v in out]
    if kind[0] == "s" and bits_of(kind) < wide:
        values = [signed(v, bits_of(kind)) % (1 << wide) for v in values]
    return values


def check(opcode: str, rng: random.Random, rounds: int) -> None:
    """All combinations of forms, `rounds` times."""
    d = lookup(opcode.split("."))
    assert d is not None
    count = len(names_of(d))
    combinations = list(itertools.product(ALL_KINDS, repeat=count))
    combinations = rng.sample(combinations, min(len(combinations), 25)) * rounds
    kind = d.types[d.row.operands[0].name]
    least = bits_of(kind) if kind == "pred" else max(16, bits_of(kind))
    for kinds in combinations:
        wide = least
        if d.row.base == "cvt" and kind[0] in "us":
            wide = rng.choice([w for w in (16, 32, 64) if w >= least])
        drawn = sources(rng, d, kinds)
        columns = [x.column(bits_of(d.types[n])) for n, x in zip(names_of(d), drawn, strict=True)]
        values = evaluate(opcode, d, columns, wide)
        if values is None:
            return
        form, seen = derived(opcode, d, drawn, wide)
        assert form is not None
        wrong = broken(form, values, wide)
        assert not wrong, f"{opcode}: {wrong} does not hold for {values[:4]}... from {seen}"
        if form.kind == AFFINE and all(x.form.is_scalar for x in drawn):
            _by_bases(opcode, d, drawn, form, values, wide)


def _by_bases(
    opcode: str, d: Decoded, drawn: list[Drawn], form: Form, values: list[int], wide: int
) -> None:
    """Code for an affine result computes its base from the operands' bases, by the row itself."""
    widths = [bits_of(d.types[n]) for n in names_of(d)]
    bases = [np.full(32, x.base % (1 << w), np.uint64) for x, w in zip(drawn, widths, strict=True)]
    known = [x.form for x in drawn]
    if (
        opcode.split(".")[0] in ("or", "xor")
        and all(f.const is None for f in known)
        and (lattice.adds_bits(known))
    ):
        base = sum(int(b[0]) for b in bases) % (1 << wide)
    else:
        got = evaluate(opcode, d, bases, wide)
        assert got is not None
        base = got[0]
    lanes = [(base + x) % (1 << wide) for x in form.off]
    assert lanes == values, f"{opcode}: of bases of {known} comes {lanes[:4]}, not {values[:4]}"


@pytest.mark.parametrize(("row", "whole"), cases())
def test_rows(row: InstructionRow, whole: bool, seed: str) -> None:
    rng = random.Random(f"{seed} {row.syntax}")
    rounds = 2 if row.form in KEEPS_STRUCTURE else 1
    for name in spelled(row) if whole else tried(row, rng):
        check(name, rng, 10 * rounds if whole else rounds)


def test_meet(seed: str) -> None:
    """The form of a register that is written with either of two forms is their meet."""
    rng = random.Random(f"{seed} meet")
    for bits, _ in itertools.product((16, 32, 64), range(300)):
        kinds = KINDS.get(bits, KINDS[64][:3])
        a, b = (draw(rng, bits, rng.choice(kinds)) for _ in range(2))
        if rng.random() < 0.5 and a.form.is_scalar:  # the same lanes on another base
            base = (a.base + (rng.getrandbits(bits) << min(a.form.align, bits))) % (1 << bits)
            lanes = [(base + x) % (1 << bits) for x in a.form.off]
            b = Drawn(Form(a.form.kind, a.form.off, a.form.align), lanes, base)
        both = meet(a.form, b.form)
        for x in (a, b):
            wrong = broken(both, x.values, bits)
            assert not wrong, f"{wrong} does not hold: {a.form} and {b.form} meet in {both}"


@pytest.mark.parametrize(
    "shape", [(32, 1, 1), (64, 2, 1), (7, 3, 1), (16, 6, 2), (8, 4, 4), (8, 3, 5), (40, 1, 1),
              (1, 1, 64), (1, 40, 1), (2, 16, 8), (1024, 1, 1), (3, 3, 3), (4, 1, 9)],
)  # fmt: skip
def test_threads(shape: tuple[int, int, int]) -> None:
    """%tid of every warp of a block has the form that the block's shape gives it."""
    x, y, z = shape
    for warp in range(-(-x * y * z // 32)):
        threads = [min(warp * 32 + i, x * y * z - 1) for i in range(32)]
        whole = threads[-1] == warp * 32 + 31
        for axis in "xyz":
            form = special_form(f"tid.{axis}", shape)
            values = [{"x": t % x, "y": t // x % y, "z": t // x // y}[axis] for t in threads]
            if whole:  # the lanes that the last warp lacks may hold anything
                assert not broken(form, values, 32), f"%tid.{axis} of warp {warp}: {form}"
