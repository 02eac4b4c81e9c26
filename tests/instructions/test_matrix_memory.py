"""ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store against NumPy indexing."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from threads import run
from weft.ir.tensor_layout import WIDTH, fragment_layout, packed, shape_of

rng = np.random.default_rng(3)
LANES = np.arange(32)
PITCH = 48
"""Bytes between rows in shared memory: not a power of two, but a multiple of 16."""


def halves(n: int) -> np.ndarray:
    return rng.integers(0, 1 << 16, n, dtype=np.uint16)


def held(matrix: np.ndarray) -> np.ndarray:
    """The register of each lane for an 8 x 8 matrix: two neighbours of row lane / 4."""
    row, column = LANES // 4, LANES % 4 * 2
    return matrix[row, column].astype(np.uint32) | matrix[row, column + 1].astype(np.uint32) << 16


def _fill(count: int) -> str:
    """Lane i's row from %memory to the pool; %r1 is the row it names."""
    copies = "".join(
        f"ld.global.b32 %r2, [%l1+{4 * i}]; st.shared.b32 [%r1+{4 * i}], %r2;" for i in range(4)
    )
    return f"""mov.u32 %r0, pool; mad.lo.u32 %r1, %i, {PITCH}, %r0;
        mul.wide.u32 %l0, %i, 16; add.u64 %l1, %memory, %l0;
        setp.ge.u32 %p0, %i, {8 * count}; @%p0 bra FILLED; {copies} FILLED:
        bar.warp.sync -1;"""


def _registers(count: int) -> str:
    names = ", ".join(f"%d{i}" for i in range(count))
    return f"{{{names}}}" if count > 1 else "{%d0}"


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
def test_ldmatrix(count: int, trans: str, space: str) -> None:
    memory = halves(64 * count)
    address = "cvt.u64.u32 %l5, %r1; cvta.shared.u64 %l5, %l5;" if not space else ""
    text = f"""{_fill(count)} {address}
        ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16
            {_registers(count)}, [{"%r1" if space else "%l5"}];"""
    got = run(text, [LANES.astype(np.uint32)], [np.uint32] * count, memory=memory, shared=2048)
    for i, matrix in enumerate(memory.reshape(count, 8, 8)):
        assert (got[i] == held(matrix.T if trans else matrix)).all()


def test_ldmatrix_at_one_row_and_at_regular_rows() -> None:
    memory = halves(64)
    text = f"""{_fill(1)} mov.u32 %r5, pool;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%d0}}, [%r5];
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%d1}}, [%r5+{PITCH}];"""
    first, second = run(
        text, [LANES.astype(np.uint32)], [np.uint32] * 2, memory=memory, shared=2048
    )
    rows = memory.reshape(8, 8)
    assert (first == held(np.repeat(rows[:1], 8, 0))).all()
    assert (second == held(np.repeat(rows[1:2], 8, 0))).all()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix(count: int, trans: str) -> None:
    registers = [rng.integers(0, 1 << 32, 32, dtype=np.uint32) for _ in range(count)]
    given = ", ".join(f"%a{i}" for i in range(count))
    back = "".join(f"ld.shared.b32 %d{i}, [%r1+{4 * i}];" for i in range(4))
    text = f"""mov.u32 %r0, pool; mad.lo.u32 %r1, %i, {PITCH}, %r0;
        stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r1], {{{given}}};
        bar.warp.sync -1; {back}"""
    got = np.stack(run(text, registers, [np.uint32] * 4, shared=2048), 1).view(np.uint16)
    for i in range(count):
        matrix = got[8 * i : 8 * i + 8]
        assert (registers[i] == held(matrix.T if trans else matrix)).all()


def test_movmatrix() -> None:
    matrix = halves(64).reshape(8, 8)
    (got,) = run("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;", [held(matrix)], [np.uint32])
    assert (got == held(matrix.T)).all()


@pytest.mark.parametrize("offset", [2, 1 << 16])
def test_ldmatrix_refuses_wrong_rows(offset: int) -> None:
    text = f"""{_fill(1)} add.u32 %r1, %r1, {offset};
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%d0}}, [%r1];"""
    with pytest.raises(weft.errors.Error):
        run(text, [LANES.astype(np.uint32)], [np.uint32], memory=halves(64), shared=2048)


# ---- wmma --------------------------------------------------------------------------------------
WAYS = ("row", "col")
BIG = ["m16n16k16", "m8n32k16", "m32n8k16"]
LOADS = [
    *((m, s, k, x) for m in "ab" for s in BIG for k in ("f16", "bf16", "u8") for x in WAYS),
    *((m, "m16n16k8", "tf32", x) for m in "ab" for x in WAYS),
    *((m, "m8n8k4", "f64", x) for m in "ab" for x in WAYS),
    ("a", "m8n8k32", "u4", "row"), ("b", "m8n8k32", "s4", "col"),
    ("a", "m8n8k128", "b1", "row"), ("b", "m8n8k128", "b1", "col"),
    *(("c", s, k, x) for s in BIG for k in ("f16", "f32", "s32") for x in WAYS),
    ("c", "m8n8k4", "f64", "row"), ("c", "m8n8k32", "s32", "row"), ("c", "m16n16k8", "f32", "row"),
]  # fmt: skip


def matrix_bits(matrix: str, shape: str, kind: str) -> np.ndarray:
    """A matrix of random bit patterns of the type's width."""
    m, n, k = shape_of(shape)
    size = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
    width = WIDTH[kind]
    return rng.integers(0, 1 << min(width, 63), size, dtype=np.uint64)


def in_memory(matrix: np.ndarray, width: int, layout: str, stride: int) -> np.ndarray:
    """Bytes with `stride` elements from line to line, each element in its bits."""
    lines = matrix if layout == "row" else matrix.T
    bits = np.zeros((len(lines), stride, width), np.uint8)
    place = np.arange(width, dtype=np.uint64)
    bits[:, : lines.shape[1]] = (lines[..., None] >> place) & np.uint64(1)
    return np.packbits(bits.reshape(-1), bitorder="little")


def fragment(matrix: np.ndarray, which: str, shape: str, kind: str) -> list[np.ndarray]:
    """The contents of each register of each lane."""
    per, width = packed(kind), WIDTH[kind]
    slots = fragment_layout(which, shape, kind)
    out = []
    for r in range(len(slots) // per):
        register = np.zeros(32, np.uint64)
        for i in range(per):
            rows, columns = np.array(slots[r * per + i]).T
            register |= matrix[rows, columns] << np.uint64(i * width)
        out.append(register)
    return out


def _padding(width: int) -> int:
    """Elements in 16 bytes, by which the stride is longer than a line."""
    return 128 // width


@pytest.mark.parametrize(
    ("matrix", "shape", "kind", "layout", "space"),
    [(*row, ("global", "shared", "")[i % 3]) for i, row in enumerate(LOADS)],
)
def test_wmma_load(matrix: str, shape: str, kind: str, layout: str, space: str) -> None:
    """Lines that are apart, and lines that follow one another up to the end of the memory."""
    width = WIDTH[kind]
    values = matrix_bits(matrix, shape, kind)
    want = fragment(values, matrix, shape, kind)
    length = values.shape[1 if layout == "row" else 0]
    paddings = (_padding(width), 0) if length * width >= 128 else (_padding(width) - length,)
    memory, loads = np.zeros(0, np.uint8), ""
    for i, padding in enumerate(paddings):
        place = -(-len(memory) // 32) * 32  # aligned
        memory = np.pad(memory, (0, place - len(memory)))
        memory = np.append(memory, in_memory(values, width, layout, length + padding))
        names = ", ".join(f"%d{len(want) * i + j}" for j in range(len(want)))
        stride = f", {length + padding}" if padding else ""
        at = "%memory" if space != "shared" else "%l50"
        opcode = ".".join(filter(None, (matrix, "sync.aligned", layout, shape, space, kind)))
        loads += f"wmma.load.{opcode} {{{names}}}, [{at}+{place}]{stride};"
    copy = _to_pool(len(memory)) if space == "shared" else ""
    kinds = [np.uint64 if width == 64 else np.uint32] * (len(want) * len(paddings))
    got = run(copy + loads, [LANES.astype(np.uint32)], kinds, memory=memory, shared=8192)
    for have, expected in zip(got, want * len(paddings), strict=True):
        assert (have == expected).all()


def _to_pool(nbytes: int) -> str:
    """Lane 0 copies %memory to the pool word by word; %l50 is the pool."""
    return f"""mov.u64 %l50, pool; setp.ne.u32 %p9, %i, 0; @%p9 bra COPIED; mov.u32 %r50, 0;
        mov.u64 %l51, %memory; mov.u64 %l52, pool;
        COPY: ld.global.b32 %r51, [%l51]; st.shared.b32 [%l52], %r51;
        add.u64 %l51, %l51, 4; add.u64 %l52, %l52, 4; add.u32 %r50, %r50, 4;
        setp.lt.u32 %p8, %r50, {nbytes}; @%p8 bra COPY;
        COPIED: bar.warp.sync -1;"""


STORES = [(s, k, x) for m, s, k, x in LOADS if m == "c"]


@pytest.mark.parametrize(("shape", "kind", "layout"), STORES)
def test_wmma_store(shape: str, kind: str, layout: str) -> None:
    width = WIDTH[kind]
    values = matrix_bits("c", shape, kind)
    length = values.shape[1 if layout == "row" else 0]
    stride = length + _padding(width)
    reg = np.uint64 if width == 64 else np.uint32
    given = [x.astype(reg) for x in fragment(values, "d", shape, kind)]
    names = ", ".join(f"%a{i}" for i in range(len(given)))
    want = in_memory(values, width, layout, stride)
    memory = np.zeros(len(want), np.uint8)
    text = f"""mov.u32 %r1, {stride};
        wmma.store.d.sync.aligned.{layout}.{shape}.global.{kind} [%memory], {{{names}}}, %r1;"""
    run(text, given, [], memory=memory)
    assert (memory == want).all()


def test_wmma_refuses_lines_outside_an_allocation() -> None:
    text = """.reg .b32 %w<8>; wmma.load.a.sync.aligned.row.m16n16k16.global.f16
        {%w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7}, [%memory], 24;"""
    whole = np.zeros(15 * 24 + 16, np.uint16)
    run(text, [LANES.astype(np.uint32)], [], memory=whole)
    with pytest.raises(weft.errors.Error):
        run(text, [LANES.astype(np.uint32)], [], memory=whole[:-1].copy())


def test_a_product_through_wmma() -> None:
    source = r"""
    #include <mma.h>
    using namespace nvcuda;
    extern "C" __global__ void product(const half* a, const half* b, float* c, int n) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
        wmma::fill_fragment(sum, 0.0f);
        int row = blockIdx.y * 16, column = blockIdx.x * 16;
        for (int k = 0; k < n; k += 16) {
            wmma::load_matrix_sync(x, a + row * n + k, n);
            wmma::load_matrix_sync(y, b + column * n + k, n);
            wmma::mma_sync(sum, x, y, sum);
        }
        wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
    }"""
    n = 64
    a, b = (rng.integers(-8, 9, (n, n)).astype(np.float16) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    weft.cuda(source).product[(n // 16, n // 16), 32](a, b, c, n)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
