"""The rules for rows that look at the warp as a whole (`result_form.WARP_FORMS`), by drawing.

All rows are in one kernel that loads its operands, so that it knows nothing of them; each block is
one drawing. What it computes must have the form that the rules give for the operands' forms.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import weft
from drawn_forms import KINDS, Drawn, broken, draw
from weft.device.sim.analyse.form import UNIFORM, VECTOR, Form, constant
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.result_form import WARP_FORMS
from weft.ptx.isa import decode, lookup
from weft.ptx.model import Instruction, PtxFunction, PtxModule, Reg
from weft.ptx.parse import parse

DRAWINGS = 64
WHOLE = 0xFFFFFFFF
GROUPS = (WHOLE, [0xFFFF] * 16 + [0xFFFF0000] * 16, [0xF << i // 4 * 4 for i in range(32)])
"""Member masks: of the warp, and of parts of it that do not wait for each other."""

Draw = Callable[[random.Random], Drawn]


def any_of(bits: int) -> Draw:
    kinds = KINDS.get(bits, KINDS[64][:3])
    return lambda rng: draw(rng, bits, rng.choice(kinds))


def one_of(*choices: int | list[int]) -> Draw:
    """A number that is known, one that is only known to be the same, or one for each lane."""

    def drawn(rng: random.Random) -> Drawn:
        choice = rng.choice(choices)
        if isinstance(choice, list):
            return Drawn(Form(VECTOR), choice, 0)
        return Drawn(rng.choice((constant(choice), Form(UNIFORM))), [choice] * 32, choice)

    return drawn


def index(rng: random.Random) -> Drawn:
    """Byte offsets of words inside an array of 256 bytes."""
    if rng.random() < 0.5:
        return one_of(4 * rng.randrange(64))(rng)
    return Drawn(Form(VECTOR), [4 * rng.randrange(64) for _ in range(32)], 0)


@dataclass(frozen=True)
class Row:
    """Instructions of which the last with `D` is looked at; {0}, {1}, ... are its operands."""

    text: str
    bits: int
    operands: tuple[tuple[int, Draw], ...]


_LANE, _CLAMP = (32, any_of(32)), (32, one_of(0x1F, 0, 0x1C1F, 0x181F, [0x1F] * 16 + [0] * 16))
_WORD, _WIDE, _FLAG = (32, any_of(32)), (64, any_of(64)), (1, any_of(1))
_MASK = (32, one_of(*GROUPS))
_AT = (64, index)
_SHUFFLED = (_WORD, _LANE, _CLAMP, _MASK)

ROWS: list[Row] = [
    *(
        Row(f"shfl.sync.{mode}.b32 D{pair}, {{0}}, {{1}}, {{2}}, {{3}};", 32, _SHUFFLED)
        for mode in ("up", "down", "bfly", "idx")
        for pair in ("", "|%q")
    ),
    *(Row(f"vote.sync.{op}.pred D, {{0}}, {{1}};", 1, (_FLAG, _MASK))
      for op in ("all", "any", "uni")),
    Row("vote.sync.ballot.b32 D, {0}, {1};", 32, (_FLAG, _MASK)),
    *(
        Row(f"redux.sync.{op} D, {{0}}, {{1}};", 32, (_WORD, _MASK))
        for op in ("add.u32", "min.s32", "max.u32", "and.b32", "xor.b32")
    ),
    Row("activemask.b32 D;", 32, ()),
    *(Row(f"mov.{kind}{bits} D, {{0}};", bits, ((bits, any_of(bits)),))
      for kind, bits in (("b", 16), ("u", 32), ("s", 64))),
    Row("mov.pred D, {0};", 1, (_FLAG,)),
    *(Row(f"cvta.{space}.u64 D, {{0}};", 64, (_WIDE,))
      for space in ("global", "to.global", "shared", "to.shared")),
    *(Row(f"mov.u64 %at, near; cvta.shared.u64 %at, %at; mul.lo.u64 %at, %at, {{0}};"
          f" isspacep.{space} D, %at;", 1, ((64, one_of(0, 1, [0, 1] * 16)),))
      for space in ("global", "shared", "local")),
    Row("createpolicy.fractional.L2::evict_last.b64 D, 0f3F800000;", 64, ()),
    Row("add.u64 %at, {0}, %data; ld.global.b32 D, [%at];", 32, (_AT,)),
    Row("add.u64 %at, {0}, %data; ldu.global.b32 D, [%at];", 32, (_AT,)),
    Row("cvt.u32.u64 %x, {0}; add.u32 %x, %x, near; ld.shared.b32 D, [%x];", 32, (_AT,)),
    Row("cvt.u32.u64 %x, {0}; add.u32 %x, %x, own; st.local.b32 [%x], %lane;"
        " ld.local.b32 D, [%x];", 32, (_AT,)),
    Row("mbarrier.test_wait.parity.shared::cta.b64 D, [phases], {0};", 1,
        ((32, one_of(0, 1, [0, 1] * 16)),)),
]  # fmt: skip

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 given, .param .u64 out, .param .u64 data)
{{ .reg .b64 %given, %out, %data, %at, %first; .reg .b32 %lane, %block, %x; .reg .pred %q;
  .shared .align 8 .b8 near[256]; .shared .align 8 .b64 phases; .local .align 4 .b8 own[256];
  {registers}
  ld.param.u64 %given, [given]; ld.param.u64 %out, [out]; ld.param.u64 %data, [data];
  mov.u32 %lane, %laneid; mov.u32 %block, %ctaid.x;
  mad.lo.u32 %x, %block, 32, %lane; mul.wide.u32 %first, %x, 8;
  add.u64 %given, %given, %first; add.u64 %out, %out, %first;
  mad.lo.u32 %x, %lane, 8, 0; add.u32 %x, %x, near; st.shared.b32 [%x], %lane;
  st.shared.b32 [%x+4], %block;
  setp.ne.u32 %q, %lane, 0; @!%q mbarrier.init.shared.b64 [phases], 1; bar.sync 0;
"""
STEP = DRAWINGS * 32 * 8
"""Bytes of an operand, or a result, of all drawings."""


def kernel() -> str:
    declared, body, operand = [], [], 0
    for i, row in enumerate(ROWS):
        names = [f"%s{i}_{j}" for j in range(len(row.operands))]
        for name, (bits, _) in zip(names, row.operands, strict=True):
            declared.append(f".reg .{'pred' if bits == 1 else f'b{bits}'} {name};")
            load = f"ld.global.b{max(bits, 32)} %s, [%given+{operand * STEP}];"
            if bits == 1:
                body += [load.replace("%s", "%x"), f"setp.ne.u32 {name}, %x, 0;"]
            elif bits == 16:
                body += [load.replace("%s", "%x"), f"cvt.u16.u32 {name}, %x;"]
            else:
                body.append(load.replace("%s", name))
            operand += 1
        declared.append(f".reg .{'pred' if row.bits == 1 else f'b{row.bits}'} %d{i};")
        body.append(row.text.format(*names).replace("D", f"%d{i}"))
        result = f"%d{i}"
        if row.bits == 1:
            body.append(f"selp.u64 %at, 1, 0, {result};")
        else:
            same = row.bits == 64
            body.append(
                f"mov.b64 %at, {result};" if same else f"cvt.u64.u{row.bits} %at, {result};"
            )
        body.append(f"st.global.b64 [%out+{i * STEP}], %at;")
    return HEAD.format(registers=" ".join(declared)) + "\n".join(body) + "\nret; }\n"


@cache
def looked_at() -> tuple[PtxModule, PtxFunction, dict[int, Instruction]]:
    """The kernel, and the instruction of each row: the one that writes its result."""
    module = parse(kernel(), {}, name="rows")
    function = module.functions["k"]
    found = {}
    for ins in function.body:
        first = getattr(ins, "operands", ())[:1]
        if isinstance(ins, Instruction) and first:
            target = getattr(first[0], "first", first[0])
            if (
                isinstance(target, Reg)
                and target.name.startswith("%d")
                and target.name[2:].isdigit()
            ):
                found[int(target.name[2:])] = ins
    return module, function, found


def derived(number: int, drawn: list[Drawn]) -> Form | None:
    module, function, found = looked_at()
    ins = found[number]
    decoded = lookup(ins.parts)
    assert decoded is not None
    forms = {f"%s{number}_{j}": x.form for j, x in enumerate(drawn)}
    if ins.parts[0] in (
        "ld",
        "ldu",
        "isspacep",
    ):  # the address is another register, of the operand's kind
        kind = drawn[0].form.kind
        forms |= dict.fromkeys(("%at", "%x"), Form(kind if kind == VECTOR else UNIFORM))
    program = KernelProgram(module, function, (32, 1, 1), {ins.index: decoded}, forms=forms)
    return program.result(ins)


def test_every_rule_has_a_row() -> None:
    assert {decode(ins).row.form for ins in looked_at()[2].values()} == set(WARP_FORMS)


def test_rows(seed: str) -> None:
    rng = random.Random(f"{seed} warp")
    drawings = [
        [[draw_one(rng) for _, draw_one in row.operands] for _ in range(DRAWINGS)] for row in ROWS
    ]
    columns = [[one[j].values for one in of_row] for of_row, row in zip(drawings, ROWS, strict=True)
               for j in range(len(row.operands))]  # fmt: skip
    given = np.array(columns, np.uint64)
    out = np.zeros((len(ROWS), DRAWINGS, 32), np.uint64)
    data = np.arange(64, dtype=np.uint32)
    weft.load_ptx(kernel(), device="sim:h200").kernel("k")[DRAWINGS, 32](given, out, data)
    kept = 0
    for number, (row, of_row) in enumerate(zip(ROWS, drawings, strict=True)):
        for drawn, lanes in zip(of_row, out[number], strict=True):
            form = derived(number, drawn)
            assert form is not None
            wrong = broken(form, [int(v) for v in lanes], row.bits)
            seen = ", ".join(str(x.form) for x in drawn)
            assert not wrong, f"{row.text}: {wrong} does not hold for {lanes[:4]}... from {seen}"
            kept += form.kind != VECTOR
    assert kept > DRAWINGS * len(ROWS) // 8, "the rules claim something, or this tests nothing"
