"""One kernel for each thing that Triton's language has."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def first_last(a, b):
    return tl.maximum(a, b) - tl.minimum(a, b) * 0


@triton.jit
def weighted(a1, b1, a2, b2):
    """Two linear maps, one after the other."""
    return a1 * a2, b1 * a2 + b2


@triton.jit
def reductions(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    k = (v * 10).to(tl.int32)
    tl.store(out + 0, tl.sum(v, 0))
    tl.store(out + 1, tl.max(v, 0))
    tl.store(out + 2, tl.min(v, 0))
    tl.store(out + 3, tl.argmax(v, 0).to(tl.float32))
    tl.store(out + 4, tl.argmin(v, 0).to(tl.float32))
    tl.store(out + 5, tl.xor_sum(k, 0).to(tl.float32))
    tl.store(out + 6, tl.reduce(v, 0, first_last))


@triton.jit
def axis_sums(x, rows, cols, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(rows + tl.arange(0, M), tl.sum(v, 1))
    tl.store(cols + tl.arange(0, N), tl.sum(v, 0))


@triton.jit
def scans(x, sums, products, maps, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(sums + i, tl.cumsum(v, 0))
    tl.store(products + i, tl.cumprod(1 + v * 0.01, 0, reverse=True))
    a, b = tl.associative_scan((v * 0 + 0.5, v), 0, weighted)
    tl.store(maps + i, a * 0 + b)


@triton.jit
def sorting(x, up, down, flipped, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(up + i, tl.sort(v))
    tl.store(down + i, tl.sort(v, descending=True))
    tl.store(flipped + i, tl.flip(v, 0))


@triton.jit
def shapes(x, joined, gathered, transposed, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(joined + tl.arange(0, 2 * N), tl.interleave(v, -v))
    tl.store(gathered + i, tl.gather(v, (i * 7) % N, 0))
    square = tl.reshape(v, (4, N // 4))
    tl.store(transposed + i, tl.reshape(tl.trans(square), (N,)))


@triton.jit
def histogram(x, counts, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0)
    tl.atomic_add(counts + v, 1, i < n)
    tl.atomic_add(bins + tl.arange(0, BINS), tl.histogram(v, BINS, mask=i < n))


@triton.jit
def atomics(x, out, half, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    one = i * 0
    tl.atomic_max(out + one, v, i < n)
    tl.atomic_min(out + 1 + one, v, i < n)
    tl.atomic_or(out + 2 + one, v, i < n)
    tl.atomic_xor(out + 3 + one, v, i < n)
    tl.atomic_and(out + 4 + one, v, i < n)
    tl.atomic_add(half, 1.0, sem="relaxed")


@triton.jit
def random(uniform, normal, integers, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(uniform + i, tl.rand(seed, i))
    tl.store(normal + i, tl.randn(seed, i))
    tl.store(integers + i, tl.randint(seed, i))


@triton.jit
def functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + 0 * N + i, tl.exp(v))
    tl.store(out + 1 * N + i, tl.log(v))
    tl.store(out + 2 * N + i, tl.sin(v))
    tl.store(out + 3 * N + i, tl.sqrt_rn(v))
    tl.store(out + 4 * N + i, tl.erf(v))
    tl.store(out + 5 * N + i, tl.sigmoid(v))
    tl.store(out + 6 * N + i, tl.floor(v))
    tl.store(out + 7 * N + i, libdevice.pow(v, 1.5))
    tl.store(out + 8 * N + i, libdevice.asin(v * 0.1))
    tl.store(out + 9 * N + i, libdevice.tgamma(v))
    tl.store(out + 10 * N + i, libdevice.sin(v * 1e5))


@triton.jit
def block_pointers(a, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """A transposed copy, tile by tile, with edges checked."""
    pm, pn = tl.program_id(0) * BM, tl.program_id(1) * BN
    source = tl.make_block_ptr(a, (M, N), (N, 1), (pm, pn), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (N, M), (M, 1), (pn, pm), (BN, BM), (1, 0))
    tile = tl.load(source, boundary_check=(0, 1), padding_option="zero")
    tl.store(target, tl.trans(tile), boundary_check=(0, 1))


@triton.jit
def product_of_descriptors(a, b, c, K, B: tl.constexpr):
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    c.store([0, 0], acc)


@triton.jit
def host_descriptor(source, target, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([m, n], source.load([m, n]) * 2)


@triton.jit
def device_descriptor(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([m, n], source.load([m, n]) + 1)


@triton.jit
def printing(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_print("value", tl.load(x + i))


@triton.jit(debug=True)
def asserting(x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.device_assert(v < 10, "too large")


@triton.jit
def scalars(out, a, b, c, d, e, f, flag, half, n: tl.constexpr, nothing):
    if nothing is None:
        tl.store(out + 0, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, d)
    tl.store(out + 4, e)
    tl.store(out + 5, f)
    if flag:
        tl.store(out + 6, half + n)


@triton.jit
def tuples(out, pair, nested):
    tl.store(out + 0, tl.load(pair[0]) + pair[1])
    tl.store(out + 1, nested[0] * nested[1][0])


@triton.jit
def casts(x, fp8, back, half, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    small = v.to(tl.float8e5)
    tl.store(fp8 + i, small.to(tl.uint8, bitcast=True))
    tl.store(back + i, small.to(tl.float32))
    tl.store(half + i, v.to(tl.bfloat16))


@triton.jit
def assembly(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.inline_asm_elementwise(
        "lop3.b32 $0, $1, $2, 0, 0x3c;", "=r,r,r", [tl.load(x + i), i], tl.int32, True, 1
    )
    tl.store(out + i, v)


@triton.jit(noinline=True)
def called(v, k):
    for _ in range(k):
        v = v * v + 1
    return v


@triton.jit
def calling(x, out, k):
    i = tl.program_id(0)
    tl.store(out + i, called(tl.load(x + i), k))


@triton.jit
def doubles(a, b, c, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(c + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j)))


@triton.jit
def past_the_end(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, v, i < n)


@triton.jit
def grid_numbers(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (x * tl.num_programs(1) + y) * tl.num_programs(2) + z
    tl.store(out + at, 100 * x + 10 * y + z)


@triton.jit
def through_a_table(table, out, N: tl.constexpr):
    x = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def sum_of_squares(x, out, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * n + i, i < n, other=0.0)
    tl.store(out + row, tl.sum(values * values))


@triton.jit
def scaled_product(a, b, scale, out, K: tl.constexpr):
    """Rows of 8-bit floats, as libraries quantise activations and weights."""
    i, k = tl.arange(0, 16), tl.arange(0, K)
    left = tl.load(a + i[:, None] * K + k[None, :])
    right = tl.load(b + i[None, :] * K + k[:, None])
    total = tl.dot(left, right) * tl.load(scale + i)[:, None]
    tl.store(out + i[:, None] * 16 + i[None, :], total.to(tl.float8e4nv))
