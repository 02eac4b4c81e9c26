"""Forms of rows that touch memory: loads, stores, atomics, copies, matrix fragments, mbarriers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.forms import Form, place, spell
from conformance.operands import width
from conformance.warp_forms import FREE
from weft.ir.tensor_layout import WIDTH, fragment_layout, packed, shape_of
from weft.ptx.isa import InstructionRow
from weft.ptx.model import SIZES

POOL = ".shared .align 128 .b8 pool[8192]; .local .align 32 .b8 mine[32];"
"""32 bytes of shared and of local memory a thread; a warp's 1024 bytes are together."""
WORDS = ("b32",) * 8
BYTES = 131072 * 4
"""The values of one 32-bit operand that loads from global memory may read."""
OWN = (
    "mov.u32 %t0, %tid.x; shl.b32 %t1, %t0, 5; mov.u32 %t2, pool; add.u32 %t1, %t1, %t2;"
    "mov.u32 %t3, mine; cvt.u64.u32 %u4, %t3; cvta.local.u64 %u5, %u4;"
    "cvt.u64.u32 %u1, %t1; cvta.shared.u64 %u2, %u1;"
)
"""%t1: a thread's shared memory, %u2 the same as a generic address; %t3, %u5: its local memory."""


def _fill(address: str, space: str) -> str:
    """Eight operands into a thread's 32 bytes."""
    halves = ((0, "%a0, %a1, %a2, %a3"), (16, "%a4, %a5, %a6, %a7"))
    return " ".join(f"st.{space}.v4.b32 [{address}+{at}], {{{x}}};" for at, x in halves)


def _clear(address: str, space: str) -> str:
    return " ".join(f"st.{space}.b64 [{address}+{8 * i}], 0;" for i in range(4))


def _back(address: str, space: str, first: int = 0) -> str:
    return " ".join(f"ld.{space}.b64 %d{first + i}, [{address}+{8 * i}];" for i in range(4))


def _vector(stem: str, count: int) -> str:
    names = ", ".join(f"%{stem}{i}" for i in range(count))
    return f"{{{names}}}" if count > 1 else names


def _size(kind: str) -> int:
    return SIZES[kind]


def _register(kind: str) -> int:
    """Bits of the register that memory of a type goes to."""
    return max(8 * _size(kind), 16) if _size(kind) > 1 else 32


def _table_address(size: int) -> list[str]:
    """%u0: this thread's place in the first operand's array, for reads of up to 32 bytes."""
    return ["ld.param.u64 %at, [p0];", f"and.b32 %t4, %i, {BYTES // size - 1};",
            f"mad.wide.u32 %u0, %t4, {size}, %at;"]  # fmt: skip


# ---- loads and stores -----------------------------------------------------------------------
SPACES = {"global": "%u0", "shared": "%t1", "shared::cta": "%t1", "local": "%t3", "": "%u2",
          "const": "%u6"}  # fmt: skip
HINTS = (
    "volatile", "weak", "relaxed.cta", "relaxed.gpu", "relaxed.sys", "relaxed.cluster",
    "acquire.cta", "acquire.gpu", "acquire.sys", "release.cta", "release.gpu", "release.sys",
    "mmio.relaxed.sys", "|nc", "|ca", "|cg", "|cs", "|lu", "|cv", "|wb", "|wt",
    "|L1::evict_normal", "|L1::evict_unchanged", "|L1::evict_first", "|L1::evict_last",
    "|L1::no_allocate", "|L2::64B", "|L2::128B", "|L2::256B", "|nc.L1::no_allocate.L2::256B",
)  # fmt: skip
"""Words ahead of the space and, after the bar, behind it: where they may stand."""


def load(row: InstructionRow) -> Iterator[Form]:
    kinds = sorted(row.modifiers["type"])
    spaces = sorted(row.modifiers["space"] & SPACES.keys()) + ([""] if row.base == "ld" else [])
    for kind in kinds:
        for space in spaces:
            for count in (1, 2, 4):
                if count * _size(kind) <= 16:
                    yield _load(row, kind, space, count, "")
    if row.base == "ld":
        for hint in HINTS:
            yield _load(row, "b32", "global", 1, hint)


def _load(row: InstructionRow, kind: str, space: str, count: int, hint: str) -> Form:
    opcode = _spelled(row.base, space, count, kind, hint)
    before = [FREE, POOL, OWN]
    size = count * _size(kind)
    if space == "global":
        before += _table_address(size)
    elif space == "const":
        before.append(f"mul.lo.u32 %t6, %i, {size}; and.b32 %t6, %t6, 255;")
        before.append("mov.u64 %u6, constants; mad.wide.u32 %u6, %t6, 1, %u6;")
    else:
        before.append(_fill("%t3", "local") if space == "local" else _fill("%t1", "shared"))
    results, after = [_register(kind)] * count, ""
    if kind == "b128":
        before.append(".reg .b128 %x;")
        results, after = [64, 64], "mov.b128 {%d0, %d1}, %x;"
    dest = "%x" if kind == "b128" else _vector("d", count)
    code = (*before, f"{opcode} {dest}, [{SPACES[space]}];", after)
    sources = ("b32",) if space in ("global", "const") else WORDS
    return Form(opcode, row, sources, tuple(results), code)


def _spelled(base: str, space: str, count: int, kind: str, hint: str) -> str:
    before, _, after = hint.partition("|")
    vector = f"v{count}" if count > 1 else ""
    return ".".join(filter(None, (base, before, space, after, vector, kind)))


def store(row: InstructionRow) -> Iterator[Form]:
    for kind in sorted(row.modifiers["type"]):
        for space in ("global", "shared", "shared::cta", "local", ""):
            for count in (1, 2, 4):
                if count * _size(kind) <= 16 and kind != "b128":
                    yield _store(row, kind, space, count, "")
    for space in ("shared", ""):
        yield _store(row, "b128", space, 1, "")
    for hint in HINTS:
        yield _store(row, "b32", "global", 1, hint)


def _store(row: InstructionRow, kind: str, space: str, count: int, hint: str) -> Form:
    opcode = _spelled("st", space, count, kind, hint)
    sources: tuple[str, ...] = (f"b{_register(kind)}",) * count
    values, before = _vector("a", count), [FREE, POOL, OWN]
    if kind == "b128":
        sources, values = ("b64", "b64"), "%x"
        before.append(".reg .b128 %x; mov.b128 %x, {%a0, %a1};")
    if space == "global":  # four threads have 32 bytes together, and the first of them writes
        before += [*place(len(sources), 8), "and.b32 %t4, %i, 3; setp.eq.u32 %q0, %t4, 0;"]
        code = [f"@%q0 {opcode} [%at], {values};", "bar.warp.sync 0xffffffff;",
                "ld.volatile.global.b64 %d0, [%at];"]  # fmt: skip
        return Form(opcode, row, sources, (64,), (*before, *code))
    at, raw = ("%t3", "local") if space == "local" else ("%t1", "shared")
    code = [_clear(at, raw), f"{opcode} [{SPACES[space]}], {values};", _back(at, raw)]
    return Form(opcode, row, sources, (64,) * 4, (*before, *code))


# ---- atomics --------------------------------------------------------------------------------
ORDERS = ("relaxed.cta", "relaxed.gpu", "relaxed.sys", "acquire.gpu", "release.gpu", "acq_rel.gpu",
          "acq_rel.cta", "acq_rel.cluster")  # fmt: skip


def atomic(row: InstructionRow) -> Iterator[Form]:
    for op in sorted(row.modifiers["op"]):
        for kind in sorted(row.modifiers["type"]):
            tail = f"{op}.noftz.{kind}" if "f16" in kind else f"{op}.{kind}"
            for space in ("global", "shared", "shared::cta", "shared::cluster", ""):
                opcode = ".".join(filter(None, (row.base, space, tail)))
                yield from _atomic(row, opcode, kind, space)
            if kind in ("u32", "b32"):
                for order in ORDERS:
                    yield from _atomic(row, f"{row.base}.{order}.global.{tail}", kind, "global")


def _atomic(row: InstructionRow, opcode: str, kind: str, space: str) -> Iterator[Form]:
    """Each thread changes a place of its own: the place before and after, and what came back."""
    if kind == "b128":
        if space != "global":
            yield _atomic_wide(row, opcode, space)
        return
    bits = width(kind)
    sources = (kind,) * (3 if ".cas." in opcode else 2)
    operands = ", ".join(f"%a{i}" for i in range(1, len(sources)))
    before = [FREE, POOL, OWN]
    if space == "global":
        before += place(len(sources), bits // 8)
        at, raw = "%at", "global"
    else:
        at, raw = SPACES.get(space, "%t1"), "shared"
    base = "%at" if space == "global" else "%t1"
    dest = "%d1, " if row.base == "atom" else ""
    code = [f"st.{raw}.b{bits} [{base}], %a0;", f"{opcode} {dest}[{at}], {operands};",
            f"ld.volatile.{raw}.b{bits} %d0, [{base}];"]  # fmt: skip
    results = (bits,) * (2 if dest else 1)
    yield Form(opcode, row, sources, results, (*before, *code))


def _atomic_wide(row: InstructionRow, opcode: str, space: str) -> Form:
    cas = ".cas." in opcode
    given = "%x, %y" if cas else "%y"
    code = [
        ".reg .b128 %x, %y, %z;",
        "st.shared.v2.b64 [%t1], {%a0, %a1};",
        "and.b32 %t4, %i, 1; setp.ne.u32 %q0, %t4, 0;",  # every other thread expects what is there
        "selp.b64 %u6, %a0, %a2, %q0; mov.b128 %x, {%u6, %a1}; mov.b128 %y, {%a3, %a2};",
        f"{opcode} %z, [{SPACES.get(space, '%t1')}], {given};",
        "mov.b128 {%d2, %d3}, %z;",
        "ld.shared.v2.b64 {%d0, %d1}, [%t1];",
    ]
    return Form(opcode, row, ("b64",) * 4, (64,) * 4, (FREE, POOL, OWN, *code))


# ---- copies and matrices --------------------------------------------------------------------
def copy(row: InstructionRow) -> Iterator[Form]:
    if "cop" not in row.modifiers:
        return
    for opcode in spell(row):
        if "cache_hint" in opcode:
            continue
        for size in (4, 8, 16):
            for part in ("", "some bytes"):
                yield _copy(row, opcode, size, part)


def _copy(row: InstructionRow, opcode: str, size: int, part: str) -> Form:
    take = f"rem.u32 %t6, %a7, {size + 1};" if part else ""
    code = [*_table_address(size), _fill("%t1", "shared"), take,
            f"{opcode} [%t1], [%u0], {size}{', %t6' if part else ''};",
            "cp.async.commit_group; cp.async.wait_group 0;", _back("%t1", "shared")]  # fmt: skip
    note = f"{size} bytes{', some filled with zero' if part else ''}"
    return Form(opcode, row, WORDS, (64,) * 4, (FREE, POOL, OWN, *code), note)


WARP = (
    "mov.u32 %t4, %laneid; shl.b32 %t5, %t4, 5; sub.u32 %t5, %t1, %t5;"
    "cvt.u64.u32 %u6, %t5; cvta.shared.u64 %u7, %u6;"
)
"""%t5: the 1024 bytes of this warp, %u7 the same as a generic address."""
JOIN = "bar.warp.sync 0xffffffff;"


def rows_of_matrices(row: InstructionRow) -> Iterator[Form]:
    """ldmatrix and stmatrix: lane i names row i, in an order of its own."""
    turn = "mad.lo.u32 %t6, %t4, 5, 3; and.b32 %t6, %t6, 31; mad.lo.u32 %t6, %t6, 16, %t5;"
    turn += "cvt.u64.u32 %u8, %t6; cvta.shared.u64 %u8, %u8;"
    for opcode in spell(row):
        count = int(next(p for p in opcode.split(".") if p in ("x1", "x2", "x4"))[1:])
        at = "%t6" if "shared" in opcode else "%u8"
        if row.base == "ldmatrix":
            names = ", ".join(f"%d{i}" for i in range(count))
            code = [_fill("%t1", "shared"), JOIN, turn, f"{opcode} {{{names}}}, [{at}];"]
            yield Form(opcode, row, WORDS, (32,) * count, (FREE, POOL, OWN, WARP, *code))
        else:
            names = ", ".join(f"%a{i}" for i in range(count))
            code = [_clear("%t1", "shared"), JOIN, turn, f"{opcode} [{at}], {{{names}}};", JOIN,
                    _back("%t1", "shared")]  # fmt: skip
            yield Form(opcode, row, ("b32",) * count, (64,) * 4, (FREE, POOL, OWN, WARP, *code))


def transpose(row: InstructionRow) -> Iterator[Form]:
    opcode = next(spell(row))
    yield Form(opcode, row, ("b32",), (32,), (f"{opcode} %d0, %a0;",))


def fragments(row: InstructionRow) -> Iterator[Form]:
    """wmma.load and wmma.store, from and to a warp's own 1024 bytes."""
    for opcode in spell(row):
        words = opcode.split(".")
        matrix = "d" if words[1] == "store" else words[2]
        shape = next(w for w in words if w[0] == "m" and w[1].isdigit())
        kind, layout = words[-1], next(w for w in words if w in ("row", "col"))
        m, n, k = shape_of(shape)
        rows, columns = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
        stride = columns if layout == "row" else rows
        count = len(fragment_layout(matrix, shape, kind)) // packed(kind)
        bits = 64 if WIDTH[kind] == 64 else 32
        yield _fragment(row, opcode, count, bits, stride, store=matrix == "d")


def _fragment(
    row: InstructionRow, opcode: str, count: int, bits: int, stride: int, store: bool
) -> Form:
    at = "%t5" if "shared" in opcode else "%u7"
    if not store:
        before = [_fill("%t1", "shared"), JOIN]
        if ".global" in opcode:  # some 1024 bytes of the first operand's array
            before = ["ld.param.u64 %at, [p0];", "shr.u32 %t6, %i, 5; and.b32 %t6, %t6, 255;",
                      "mad.wide.u32 %u0, %t6, 1024, %at;"]  # fmt: skip
            at = "%u0"
        names = ", ".join(f"%d{i}" for i in range(count))
        code = [*before, f"{opcode} {{{names}}}, [{at}], {stride};"]
        return Form(opcode, row, WORDS, (bits,) * count, (FREE, POOL, OWN, WARP, *code))
    names = ", ".join(f"%a{i}" for i in range(count))
    sources = (f"b{bits}",) * count
    if ".global" in opcode:  # the last result's array is the place: 8 bytes a thread, 256 a warp
        return _fragment_global(row, opcode, names, sources, stride)
    code = [_clear("%t1", "shared"), JOIN, f"{opcode} [{at}], {{{names}}}, {stride};", JOIN,
            _back("%t1", "shared")]  # fmt: skip
    return Form(opcode, row, sources, (64,) * 4, (FREE, POOL, OWN, WARP, *code))


def _fragment_global(
    row: InstructionRow, opcode: str, names: str, sources: tuple[str, ...], stride: int
) -> Form:
    """One warp in four writes, to the 1024 bytes that four warps have in the result."""
    code = [
        "shr.u32 %t6, %i, 7;", f"ld.param.u64 %at, [p{len(sources)}];",
        "mad.wide.u32 %u0, %t6, 1024, %at;", "shr.u32 %t7, %i, 5; and.b32 %t7, %t7, 3;",
        "setp.ne.u32 %q0, %t7, 0;", "@%q0 bra WRITTEN;",
        f"{opcode} [%u0], {{{names}}}, {stride};", "WRITTEN:", "bar.sync 0;",
        *place(len(sources), 8), "ld.volatile.global.b64 %d0, [%at];",
    ]  # fmt: skip
    return Form(opcode, row, sources, (64,), (FREE, POOL, OWN, WARP, *code))


# ---- addresses and barriers -----------------------------------------------------------------
def spaces(row: InstructionRow) -> Iterator[Form]:
    """isspacep of addresses in shared, local, global and constant memory."""
    for opcode in spell(row):
        tests = "".join(
            f"{opcode} %q0, {source}; selp.u32 %d{j}, 1, 0, %q0;"
            for j, source in enumerate(("%u2", "%u5", "%at", "%u8"))
        )
        where = "mov.u64 %u8, constants; cvta.const.u64 %u8, %u8; ld.param.u64 %at, [p0];"
        yield Form(opcode, row, ("b32",), (32,) * 4, (FREE, POOL, OWN, where, tests))


LOOKS = (
    "test_wait.shared.b64 %q0, [%t1], %u6",
    "test_wait.parity.shared.b64 %q0, [%t1], 0",
    "try_wait.parity.shared.b64 %q0, [%t1], 1, 0",
)
SEQUENCES: dict[str, Sequence[str]] = {
    "mbarrier.arrive.shared.b64": (
        "mbarrier.arrive.shared.b64 %u6, [%t1];", "STATE", "mbarrier.arrive.shared.b64 %u6, [%t1];",
        "STATE", "mbarrier.arrive.shared.b64 %u6, [%t1];", "STATE",
    ),
    "mbarrier.arrive_drop.shared.b64": (
        "mbarrier.arrive_drop.shared.b64 %u6, [%t1];", "STATE",
        "mbarrier.arrive.shared.b64 %u6, [%t1];", "STATE",
        "mbarrier.arrive.shared.b64 %u6, [%t1];", "STATE",
    ),
    "mbarrier.arrive.expect_tx.shared.b64": (
        "mbarrier.arrive.expect_tx.shared.b64 %u6, [%t1], %t7;", "STATE",
        "mbarrier.arrive.shared.b64 %u6, [%t1];", "STATE",
        "mbarrier.complete_tx.relaxed.cta.shared.b64 [%t1], %t7;", "STATE",
    ),
    "mbarrier.arrive.noComplete.shared.b64": (
        "mbarrier.arrive.noComplete.shared.b64 %u6, [%t1], 1;", "STATE",
        "mbarrier.arrive.shared.b64 %u6, [%t1];", "STATE",
        "mbarrier.arrive.shared.b64 %u6, [%t1];", "STATE",
    ),
}  # fmt: skip
"""The operations on a barrier that each thread has for itself; STATE tests it."""


def mbarriers(row: InstructionRow) -> Iterator[Form]:
    """A few turns of a thread's own barrier: who is waited for, and which phase is over."""
    if "arrive" not in row.syntax and "arrive" not in row.modifiers.get("op", ()):
        return
    for opcode, steps in SEQUENCES.items():
        if (".expect_tx" in opcode) != (".expect_tx" in row.syntax):
            continue
        code, results = list[str](), 0
        for step in steps:
            if step != "STATE":
                code.append(step)
                continue
            code.append(f"mbarrier.pending_count.b64 %d{results}, %u6;")
            for j, test in enumerate(LOOKS, results + 1):
                code.append(f"mbarrier.{test}; selp.u32 %d{j}, 1, 0, %q0;")
            results += 1 + len(LOOKS)
        start = (
            "and.b32 %t6, %a0, 3; add.u32 %t6, %t6, 2; and.b32 %t7, %a0, 0xff00;",
            "mbarrier.init.shared.b64 [%t1], %t6;",
        )
        yield Form(opcode, row, ("b32",), (32,) * results, (FREE, POOL, OWN, *start, *code))


RECIPES = {
    "ld": load, "ldu": load, "st": store, "atom": atomic, "red": atomic, "cp": copy,
    "ldmatrix": rows_of_matrices, "stmatrix": rows_of_matrices, "movmatrix": transpose,
    "isspacep": spaces, "mbarrier": mbarriers,
}  # fmt: skip
"""Opcode -> the forms of one of its rows."""
