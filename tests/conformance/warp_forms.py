"""Forms of rows that look at other lanes: shuffles, votes, matches, reductions, barriers, moves."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.forms import Form, spell
from weft.ptx.isa import InstructionRow

FREE = ".reg .b32 %t<10>; .reg .b64 %u<10>; .reg .pred %q<6>;"
"""Registers that recipes may use."""
ALL = "0xffffffff"


def _bit(p: str, source: str) -> list[str]:
    return [f"and.b32 %t9, {source}, 1;", f"setp.ne.u32 {p}, %t9, 0;"]


def _some(code: list[str]) -> list[str]:
    """Under a branch that some lanes take: %t0 is who they are."""
    return [
        *_bit("%q5", "%a1"), f"vote.sync.ballot.b32 %t0, %q5, {ALL};",
        "@!%q5 bra SKIP;", *code, "SKIP:",
    ]  # fmt: skip


def _sets(row: InstructionRow, opcode: str, sources: tuple[str, ...], results: tuple[int, ...],
          code: list[str], zero: str) -> Iterator[Form]:  # fmt: skip
    """The form by all lanes of a warp, and by those that take a branch."""
    whole = [line.replace("%t0", ALL) for line in code]
    yield Form(opcode, row, sources, results, (FREE, zero, *whole))
    yield Form(opcode, row, sources, results, (FREE, zero, *_some(code)), "in a branch")


def shuffle(row: InstructionRow) -> Iterator[Form]:
    tail = f", {ALL}" if "sync" in row.syntax else ""
    for opcode in spell(row):
        code = (FREE, f"{opcode} %d0|%q0, %a0, %a1, %a2{tail};", "selp.u32 %d1, 1, 0, %q0;")
        yield Form(opcode, row, ("b32", "b32", "b32"), (32, 32), code)
        masks = ("and.b32 %t1, %a1, 31; and.b32 %t2, %a2, 0x1f1f;",)
        small = f"{opcode} %d0|%q0, %a0, %t1, %t2{tail};"
        yield Form(
            opcode, row, ("b32", "b32", "b32"), (32, 32),
            (FREE, *masks, small, "selp.u32 %d1, 1, 0, %q0;"), "lanes below 32",
        )  # fmt: skip


def vote(row: InstructionRow) -> Iterator[Form]:
    for opcode in spell(row):
        tail = ", %t0" if ".sync" in opcode else ""
        if opcode.endswith("pred"):
            code = [f"{opcode} %q1, %q0{tail};", "selp.u32 %d0, 1, 0, %q1;"]
        else:
            code = [f"{opcode} %d0, %q0{tail};"]
        start = "and.b32 %t8, %a0, 7; setp.ne.u32 %q0, %t8, 0; mov.u32 %d0, 7;"
        yield from _sets(row, opcode, ("b32", "b32"), (32,), code, start)


def active(row: InstructionRow) -> Iterator[Form]:
    yield from _sets(
        row, row.base + ".b32", ("b32", "b32"), (32,), ["activemask.b32 %d0;"], "mov.u32 %d0, 7;"
    )


def match(row: InstructionRow) -> Iterator[Form]:
    for opcode in spell(row):
        bits = 64 if opcode.endswith("64") else 32
        pair = "%d0|%q1" if ".all" in opcode else "%d0"
        code = [f"{opcode} {pair}, %a0, %t0;"]
        code += ["selp.u32 %d1, 1, 0, %q1;"] if ".all" in opcode else []
        for keep in (0, 3):  # 0: all lanes agree
            start = f"and.b{bits} %a0, %a0, {keep}; mov.u32 %d0, 7; mov.u32 %d1, 7;"
            for form in _sets(row, opcode, (f"b{bits}", "b32"), (32, 32), code, start):
                note = ", ".join(filter(None, (form.note, f"of {keep + 1} values")))
                yield Form(form.opcode, row, form.sources, form.results, form.code, note)


def reduce(row: InstructionRow) -> Iterator[Form]:
    for opcode in spell(row):
        code = [f"{opcode} %d0, %a0, %t0;"]
        yield from _sets(row, opcode, ("b32", "b32"), (32,), code, "mov.u32 %d0, 7;")


def elect(row: InstructionRow) -> Iterator[Form]:
    code = ["elect.sync %d0|%q1, %t0;", "selp.u32 %d1, 1, 0, %q1;"]
    yield from _sets(
        row, "elect.sync", ("b32", "b32"), (32, 32), code, "mov.u32 %d0, 7; mov.u32 %d1, 7;"
    )


def barrier_reduce(row: InstructionRow) -> Iterator[Form]:
    """Block-wide reductions of a predicate that is mostly true, mostly false, or mixed."""
    for opcode in spell(row):
        for mask in (1, 1023):
            start = (FREE, f"and.b32 %t1, %a0, {mask}; setp.ne.u32 %q0, %t1, 0;")
            dest, after = ("%d0", "") if "u32" in opcode else ("%q1", "selp.u32 %d0, 1, 0, %q1;")
            for count in ("", "256, "):
                run = f"{opcode} {dest}, 1, {count}%q0; {after}"
                note = f"{'counted, ' if count else ''}1 in {mask + 1} false"
                yield Form(opcode, row, ("b32",), (32,), (*start, run), note)


def move(row: InstructionRow) -> Iterator[Form]:
    for opcode in spell(row):
        kind = opcode.rpartition(".")[2]
        if kind == "pred":
            code = [*_bit("%q0", "%a0"), "mov.pred %q1, %q0;", "selp.u32 %d0, 1, 0, %q1;"]
            yield Form(opcode, row, ("b32",), (32,), (FREE, *code))
        elif kind == "b128":
            code = [".reg .b128 %x, %y;", "mov.b128 %x, {%a0, %a1};", "mov.b128 %y, %x;",
                    "mov.b128 {%d0, %d1}, %y;"]  # fmt: skip
            yield Form(opcode, row, ("b64", "b64"), (64, 64), (FREE, *code))
        else:
            yield Form(opcode, row, (kind,), (int(kind[1:]),), (FREE, f"{opcode} %d0, %a0;"))
            yield from _packed(row, opcode, int(kind[1:]))


def _packed(row: InstructionRow, opcode: str, bits: int) -> Iterator[Form]:
    """mov of vectors to one register and back: b32 of two or four parts, b64 of two or four."""
    if opcode not in ("mov.b32", "mov.b64"):
        return
    for parts in (2, 4):
        part = bits // parts
        if part < 16:
            continue
        names = ", ".join(f"%v{i}" for i in range(parts))
        turned = ", ".join(f"%v{i}" for i in reversed(range(parts)))
        code = (f".reg .b{part} %v<{parts}>;", f"{opcode} {{{names}}}, %a0;",
                f"{opcode} %d0, {{{turned}}};")  # fmt: skip
        yield Form(opcode, row, (f"b{bits}",), (bits,), code, f"of {parts} parts")


RECIPES = {
    "shfl": shuffle, "vote": vote, "activemask": active, "match": match, "redux": reduce,
    "elect": elect, "mov": move,
}  # fmt: skip
"""Opcode -> the forms of one of its rows."""
