"""Calls inside a kernel: linked into one body, run, and compared with the same thing in Python.

One CUDA source, one row a kernel: its arguments and what each thread must have stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import weft
from weft.ptx.callgraph import function_ids
from weft.ptx.link import link
from weft.ptx.model import Label
from weft.ptx.parse import parse

SOURCE = r"""
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ float widths(char c, bool b, short s, long long l, double d) {
    return b ? (float)(c + s + l) : (float)d;
}
struct Mixed { float a; double b; int c[3]; };
__device__ __noinline__ Mixed by_value(Mixed m, int k) {
    m.a += k; m.b *= 2; m.c[k % 3] += m.c[(k + 1) % 3]; return m;
}
__device__ __noinline__ void through_pointer(int* p, int n) {
    for (int i = 0; i < n; i++) p[i] += i;
}
__device__ __noinline__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__device__ __noinline__ float counted(int start, int n) {
    return (n > 0 ? counted(1, n - 1) : (float)start) + 1.0f;
}
__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__device__ __noinline__ int is_odd(int n);
__device__ __noinline__ int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }
__device__ __noinline__ void quicksort(int* a, int low, int high) {
    if (low >= high) return;
    int kept[4];
    for (int k = 0; k < 4; k++) kept[k] = low * k + high;
    int pivot = a[high], i = low;
    for (int j = low; j < high; j++)
        if (a[j] < pivot) { int t = a[i]; a[i] = a[j]; a[j] = t; i++; }
    int t = a[i]; a[i] = a[high]; a[high] = t;
    quicksort(a, low, i - 1);
    quicksort(a, i + 1, high);
    for (int k = 0; k < 4; k++)
        if (kept[(k + i) & 3] != low * ((k + i) & 3) + high) a[low] = -1;
}
struct Grown { double x; int a[3]; };
__device__ __noinline__ Grown grow(Grown g, int depth) {
    if (depth == 0) { g.x += 1; return g; }
    g.a[depth % 3] += depth;
    Grown left = grow(g, depth - 1);
    Grown right = grow(left, depth - 1);
    right.x += 0.5; right.a[0] += left.a[1];
    return right;
}
__device__ int add_one(int x) { return x + 1; }
__device__ int triple(int x) { return 3 * x; }
__device__ int count_down(int x) { return x <= 0 ? 7 : fibonacci(x % 8); }
typedef int (*Function)(int);
__device__ Function functions[3] = {add_one, triple, count_down};
__device__ __noinline__ int apply(Function f, int x) { return f(f(x)); }
struct Shape {
    __device__ virtual int area(int) const = 0;
    __device__ virtual int sides() const { return 0; }
};
struct Square : Shape {
    int s; __device__ Square(int s) : s(s) {}
    __device__ int area(int k) const override { return s * s * k; }
    __device__ int sides() const override { return 4; }
};
struct Circle : Shape {
    int r; __device__ Circle(int r) : r(r) {}
    __device__ int area(int k) const override { return 3 * r * r * k; }
};
__device__ __noinline__ int measure(const Shape* shape, int k) {
    return shape->area(k) + shape->sides();
}
__device__ __noinline__ void exchange(int* shared, int value) {
    shared[threadIdx.x] = value;
    __syncthreads();
}
__device__ __noinline__ int sum_of_warp(int x) {
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}
__device__ __noinline__ int early(int x) {
    if (x % 5 == 0) return -x;
    if (x % 3 == 0) return 1;
    return x;
}
#define I (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" {
__global__ void direct(int* o) { o[I] = twice(I) + twice(o[I]); }
__global__ void scalars(float* o) {
    o[I] = widths((char)(I - 20), I % 3 == 0, -3, 5ll << 33, I / 4.0);
}
__global__ void structures(int* o) {
    Mixed m{0.5f, 2.0, {1, 2, (int)I}};
    m = by_value(m, I); m = by_value(m, I + 1);
    o[I] = (int)(m.a + m.b) + 10 * m.c[0] + 100 * m.c[1] + 1000 * m.c[2];
}
__global__ void pointers(int* o) {
    int a[8] = {}; through_pointer(a, I % 8); through_pointer(o + I, 0);
    int s = 0; for (int k = 0; k < 8; k++) s += a[k] * k; o[I] = s;
}
__global__ void recursion(int* o) { o[I] = fibonacci(I % 11); }
__global__ void votes(int* o) {
    float a = counted(5, I % 4);
    unsigned odd = __ballot_sync(~0u, I & 1);
    o[I] = odd - 0xaaaaaaaau + (int)(a + counted(9, 0));
}
__global__ void twofold(int* o) { o[I] = ackermann(I % 3, I % 5); }
__global__ void mutual(int* o) { o[I] = is_even(I) * 2 + is_odd(I % 7); }
__global__ void sorting(int* o) { quicksort(o + 24 * I, 0, 23); }
__global__ void growing(int* o) {
    Grown g = grow(Grown{(double)I, {1, 2, 3}}, I % 5);
    o[I] = (int)(2 * g.x) + 100 * g.a[0] + 10000 * g.a[1] + 1000000 * g.a[2];
}
__global__ void table(int* o) { o[I] = functions[I % 3](I) + apply(functions[I % 2], I); }
__global__ void chosen(int* o) { Function f = I & 1 ? add_one : triple; o[I] = apply(f, I); }
__global__ void virtuals(int* o) {
    Square q(I); Circle c(I + 1);
    o[I] = measure(I % 3 ? (Shape*)&q : (Shape*)&c, 2);
}
__global__ void barriers(int* o) {
    __shared__ int s[256];
    int t = 0;
    for (int k = 0; k < 4; k++) {
        if (k & 1) exchange(s, I + k); else exchange(s, I * k);
        t += s[(I + 33) % blockDim.x];
        __syncthreads();
    }
    o[I] = t;
}
__global__ void warps(int* o) { o[I] = I < 32 ? sum_of_warp(I) : sum_of_warp(2 * I) + 1; }
__global__ void returns(int* o) { o[I] = early(I) + (I & 4 ? early(I + 1) : 0); }
__global__ void endless(int* o) { o[0] = ackermann(4, 4); }
__global__ void nowhere(int* o) { o[1] = ((Function)(size_t)o[0])(3); }
}
"""


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ack(m: int, n: int) -> int:
    return n + 1 if m == 0 else ack(m - 1, 1 if n == 0 else ack(m, n - 1))


def structures(i: int) -> int:
    a, b, c = 0.5, 2.0, [1, 2, i]
    for k in (i, i + 1):
        a, b = a + k, b * 2
        c[k % 3] += c[(k + 1) % 3]
    return int(a + b) + 10 * c[0] + 100 * c[1] + 1000 * c[2]


def grow(x: float, a: list[int], depth: int) -> tuple[float, list[int]]:
    if depth == 0:
        return x + 1, a
    a = [v + depth * (k == depth % 3) for k, v in enumerate(a)]
    x, left = grow(x, a, depth - 1)
    x, right = grow(x, left, depth - 1)
    return x + 0.5, [right[0] + left[1], *right[1:]]


def growing(i: int) -> int:
    x, a = grow(float(i), [1, 2, 3], i % 5)
    return int(2 * x) + 100 * a[0] + 10000 * a[1] + 1000000 * a[2]


FUNCTIONS: list[Callable[[int], int]] = [
    lambda x: x + 1,
    lambda x: 3 * x,
    lambda x: 7 if x <= 0 else fib(x % 8),
]


def early(x: int) -> int:
    return -x if x % 5 == 0 else 1 if x % 3 == 0 else x


def exchanged(i: int, n: int = 128) -> int:
    j = (i + 33) % n
    return sum(j + k if k & 1 else j * k for k in range(4))


# kernel, threads, what each thread stores
ROWS: list[tuple[str, int, Callable[[int], float]]] = [
    ("direct", 64, lambda i: 2 * i),
    ("structures", 40, structures),
    ("pointers", 64, lambda i: sum(k * k for k in range(i % 8))),
    ("recursion", 64, lambda i: fib(i % 11)),
    ("votes", 64, lambda i: (i % 4 + 2 if i % 4 else 6) + 10),
    ("twofold", 32, lambda i: ack(i % 3, i % 5)),
    ("mutual", 40, lambda i: 2 * (i % 2 == 0) + (i % 7) % 2),
    ("growing", 33, growing),
    ("table", 64, lambda i: FUNCTIONS[i % 3](i) + FUNCTIONS[i % 2](FUNCTIONS[i % 2](i))),
    ("chosen", 32, lambda i: i + 2 if i & 1 else 9 * i),
    ("virtuals", 64, lambda i: 2 * i * i + 4 if i % 3 else 6 * (i + 1) ** 2),
    ("barriers", 128, exchanged),
    ("warps", 64, lambda i: 496 if i < 32 else 2 * sum(range(32, 64)) + 1),
    ("returns", 64, lambda i: early(i) + (early(i + 1) if i & 4 else 0)),
]


@cache
def module() -> weft.Module:
    return weft.cuda(SOURCE)


@pytest.mark.parametrize(("name", "threads", "want"), ROWS, ids=[row[0] for row in ROWS])
def test_calls(name: str, threads: int, want: Callable[[int], float]) -> None:
    out = np.zeros(threads, np.int32)
    module().kernel(name)[1, threads](out)
    assert out.tolist() == [want(i) for i in range(threads)]


def test_scalars_of_every_width() -> None:
    out = np.zeros(64, np.float32)
    module().scalars[1, 64](out)
    want = [(i - 20) - 3 + (5 << 33) if i % 3 == 0 else i / 4 for i in range(64)]
    assert out.tolist() == np.array(want, np.float32).tolist()


def test_quicksort_keeps_its_arrays_in_frames() -> None:
    given = np.random.default_rng(1).integers(0, 99, (32, 24)).astype(np.int32)
    out = given.copy()
    module().sorting[1, 32](out)
    assert (out == np.sort(given, 1)).all()


def test_a_stack_has_an_end() -> None:
    with pytest.raises(weft.DeviceError, match="call stack of a thread is full"):
        module().endless[1, 1](np.zeros(1, np.int32))


def test_a_frame_that_is_larger_than_the_stack() -> None:
    source = """__device__ __noinline__ int down(int n, int* y) {
        int a[5000];
        for (int i = 0; i < 5000; i++) a[i] = n * i + y[i & 31];
        if (n > 0) a[n] += down(n - 1, y);
        return a[(n * 7) % 5000];
    }
    __global__ void k(int* y, int n) { y[threadIdx.x] = down(n, y); }"""
    with pytest.raises(weft.DeviceError, match="call stack of a thread is full"):
        weft.cuda(source).k[1, 32](np.ones(32, np.int32), 0)


def test_a_number_is_no_function() -> None:
    with pytest.raises(weft.IllegalAddress, match="pointer that is not a function"):
        module().nowhere[1, 1](np.array([4096, 0], np.int32))


HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
BY_HAND = (
    HEADER
    + """
.func (.reg .u32 %out) sub(.reg .u32 %a, .reg .u32 %b) {
    .reg .pred %p; .reg .u32 %t;
    setp.ge.u32 %p, %a, %b;
    @%p bra DOWN;
    call (%t), sub, (%b, %a);
    add.u32 %out, %t, 1000;
    ret;
DOWN:
    sub.u32 %out, %a, %b;
    ret;
}
.func mark(.reg .u64 %at) { st.global.u32 [%at+4], 9; }
.visible .entry swapped(.param .u64 p) {
    .reg .u32 %r<4>; .reg .u64 %rd<3>; .reg .pred %p;
    ld.param.u64 %rd0, [p];
    mov.u32 %r0, %tid.x;
    call (%r1), sub, (%r0, 5);
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r1;
    setp.eq.u32 %p, %r0, 7;
    @%p call mark, (%rd2);
}
"""
)


def test_register_parameters_and_guarded_calls() -> None:
    """Parameters in registers are swapped by a call of itself; a function may end without ret."""
    out = np.zeros(9, np.int32)
    weft.load_ptx(BY_HAND).swapped[1, 8](out)
    assert out.tolist() == [abs(i - 5) + 1000 * (i < 5) for i in range(8)] + [9]


def test_a_guarded_barrier_is_branched_around() -> None:
    text = (
        HEADER
        + """
.visible .entry k(.param .u64 p) {
    .reg .u32 %r<4>; .reg .u64 %rd<3>; .reg .pred %p; .shared .u32 s[64];
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p, %r0, 64;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, s;
    add.u32 %r2, %r2, %r1;
    @%p st.shared.u32 [%r2], %r0;
    @%p bar.sync 0, 64;
    xor.b32 %r1, %r1, 252;
    mov.u32 %r2, s;
    add.u32 %r2, %r2, %r1;
    mov.u32 %r3, 0;
    @%p ld.shared.u32 %r3, [%r2];
    ld.param.u64 %rd0, [p];
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r3;
}
"""
    )
    out = np.zeros(96, np.int32)
    weft.load_ptx(text).k[1, 96](out)
    assert out.tolist() == [i ^ 63 for i in range(64)] + [0] * 32


def test_nothing_to_link() -> None:
    """A kernel that calls nothing is left alone."""
    parsed = parse(HEADER + ".visible .entry k() { ret; }")
    assert link(parsed, parsed.functions["k"]) is parsed.functions["k"]


def test_linking_leaves_the_module_as_it_was() -> None:
    """Two kernels share a function: numbering the copies must not touch the source."""
    parsed = parse(BY_HAND)
    before = [x.index for x in parsed.functions["sub"].body if not isinstance(x, Label)]
    linked = link(parsed, parsed.functions["swapped"])
    indices = [x.index for x in linked.body if not isinstance(x, Label)]
    assert indices == list(range(len(indices)))
    assert before == [x.index for x in parsed.functions["sub"].body if not isinstance(x, Label)]


def test_function_numbers_start_at_one() -> None:
    parsed = parse(
        HEADER
        + """
.func f() { ret; }
.func g() { ret; }
.global .u64 table[2] = {g, 0};
.visible .entry k() { .reg .u64 %rd; mov.u64 %rd, f; ret; }
"""
    )
    assert function_ids(parsed) == {"f": 1, "g": 2}


REFUSED = [
    ("cudaDeviceSynchronize", "this function of the device runtime is not simulated"),
    ("somewhere_else", "declared, but not defined"),
]


@pytest.mark.parametrize(("name", "message"), REFUSED)
def test_what_is_not_there_is_refused(name: str, message: str) -> None:
    text = HEADER + f".extern .func {name}();\n.visible .entry k() {{ call {name}; ret; }}"
    with pytest.raises(weft.UnsupportedInstruction, match=f"{name}.*{message}"):
        weft.load_ptx(text).k[1, 1]()
