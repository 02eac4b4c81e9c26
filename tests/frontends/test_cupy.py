"""CuPy without CuPy: its kernels, arrays, memory and cupyx, against NumPy."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.cupy as cp
import weft.cupyx as cupyx
from weft.cupyx import jit

SAXPY = r"""
__constant__ float offset;
template <class T> __global__ void saxpy(T a, const T *x, T *y, int n) {
    extern __shared__ T tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) y[i] = a * tile[threadIdx.x] + SCALE * y[i] + T(offset);
}
"""


def test_a_module_with_a_template_a_variable_and_shared_memory() -> None:
    module = cp.RawModule(
        code=SAXPY, options=("-DSCALE=2", "--std=c++14"), name_expressions=["saxpy<double>"]
    )
    module.get_global("offset").copy_from_host(np.array([0.5], np.float32), 4)
    x, y = cp.arange(100, dtype=cp.float64), cp.ones(100)
    module.get_function("saxpy<double>")((4,), (32,), (3.0, x, y, 100), shared_mem=32 * 8)
    np.testing.assert_array_equal(y.get(), 3 * np.arange(100.0) + 2.5)


def test_an_elementwise_kernel_broadcasts_and_takes_its_types_from_the_arrays() -> None:
    kernel = cp.ElementwiseKernel("T x, T y, float32 f", "T z, int32 above", """
        z = (x - y) * f;
        above = z > 0
    """, "difference")  # fmt: skip
    for dtype in (cp.float32, cp.float64, cp.int32):
        x, y = cp.arange(12, dtype=dtype).reshape(3, 4), cp.array([1, 2, 3, 4], dtype)
        z, above = kernel(x, y, 2)
        np.testing.assert_array_equal(z.get(), 2 * (np.arange(12).reshape(3, 4) - [1, 2, 3, 4]))
        assert z.dtype == dtype and above.sum() == (z > 0).sum()
    out = cp.zeros((8, 3), np.float32).T[:, ::2]  # strided
    kernel(cp.ones((3, 4), cp.float32), 0.5, 4.0, out, cp.zeros((3, 4), np.int32))
    np.testing.assert_array_equal(out.get(), np.full((3, 4), 2.0))
    for wrong in (np.ones(3), cp.ones(3, cp.float32)):  # y has another dtype than x
        with pytest.raises(TypeError, match="cupy"):
            kernel(wrong, cp.ones(3), 1)


def test_raw_parameters_have_a_shape_and_are_indexed_by_the_operation() -> None:
    turned = cp.ElementwiseKernel("raw T x", "T y", """
        const long long at[] = {_ind.get()[1], x.shape()[1] - 1 - _ind.get()[0]};
        y = rounded(x[at]) + x.size() * 0;
    """, "turned", preamble="__device__ T rounded(T v) { return T(int(v)); }")  # fmt: skip
    x = cp.arange(6.0).reshape(3, 2).T + 0.5  # not contiguous
    out = cp.empty((3, 2))
    turned(x, out)
    np.testing.assert_array_equal(out.get(), np.rot90(x.get() - 0.5))
    with pytest.raises(ValueError, match="Loop size is undecided"):
        turned(x)


AXES = (None, 0, 1, (0, 2), -1)


def test_a_reduction_along_axes() -> None:
    norm = cp.ReductionKernel(
        "T x, raw T w", "T y", "square(x) * w[0]", "a + b", "y = sqrt(a)", "0", "norm",
        preamble="__device__ T square(T v) { return v * v; }",
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((3, 5, 200))
    for axis in AXES:
        expected = np.sqrt((x * x * 2).sum(axis, keepdims=True))  # type: ignore[call-overload]
        found = norm(cp.asarray(x), cp.array([2.0]), axis=axis, keepdims=True)
        np.testing.assert_allclose(found.get(), expected, rtol=1e-12)
    most = cp.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "most")
    np.testing.assert_array_equal(most(cp.asarray(-x * x), axis=1).get(), (-x * x).max(1))
    with pytest.raises(ValueError, match="zero-size"):
        most(cp.empty(0))


def test_complex_numbers_in_kernels() -> None:
    kernel = cp.ElementwiseKernel("T x, T y", "T z", "z = x * y + conj(x) / y - 2", "turn")
    x, y = np.array([1 + 2j, 3 - 1j], np.complex64), np.array([2 - 1j, 5j], np.complex64)
    found = kernel(cp.asarray(x), cp.asarray(y)).get()
    np.testing.assert_allclose(found, x * y + x.conj() / y - 2, rtol=1e-6)


def test_a_declaration_that_cannot_be_read_is_reported() -> None:
    with pytest.raises(weft.ArgumentError, match="cannot be read"):
        cp.ElementwiseKernel("float32", "T y", "y = 1")


# ---- arrays ------------------------------------------------------------------------------------
RESULTS = (
    lambda x: x + 1, lambda x: 2.0**x, lambda x: x.sum(), lambda x: x[0, 0], lambda x: x.T,
    lambda x: cp.exp(x), lambda x: np.exp(x), lambda x: np.concatenate([x, x]),
    lambda x: cp.linalg.norm(x), lambda x: cp.linalg.eigh(x @ x.T)[1], lambda x: cp.fft.fft(x),
    lambda x: cp.where(x > 1)[0], lambda x: cp.linspace(0, 1, 3), lambda x: cp.add.reduce(x),
    lambda x: cp.r_[x[0], x[1]], lambda x: next(iter(x)), lambda x: cp.random.rand(2, 2),
    lambda x: cp.random.RandomState(1).normal(size=3, dtype=cp.float32),
    lambda x: cp.random.default_rng(1).integers(0, 5, 3), lambda x: cp.asarray(np.ones(3)),
    lambda x: x[:, cp.newaxis], lambda x: cp.fuse(lambda v: v * v)(x), lambda x: cupyx.rsqrt(x),
    lambda x: x.flat[1:3],
)  # fmt: skip


def test_every_result_is_an_array_of_the_device() -> None:
    x = cp.arange(1, 7, dtype=cp.float64).reshape(2, 3)
    for result in RESULTS:
        made = result(x)
        assert isinstance(made, cp.ndarray) and type(made.get()) is np.ndarray
        assert cp.get_array_module(made) is cp and cp.get_array_module(made.get()) is np
    assert x.sum().shape == () and float(x.sum()) == 21 and f"{x[0, 1]:.1f}" == "2.0"


def test_arrays_follow_cupy_where_it_differs_from_numpy() -> None:
    host = np.arange(3.0)
    x = cp.asarray(host)
    item = x[1]
    host[:] = 9
    x += 1
    assert item == 2, "an array is a copy of NumPy's, an item a view"
    assert x[cp.array([4, -5])].get().tolist() == [2, 2], "indices wrap around"
    for wrong in (
        lambda: np.asarray(x), lambda: x + host, lambda: host + x, lambda: cp.exp(host),
        lambda: cp.exp([1.0]), lambda: x.set([1.0, 2.0, 3.0]),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"NumPy|cupy"):
            wrong()
    for missing in (lambda: cp.nosuch, lambda: x.nosuch, lambda: cp.matrix, lambda: cp.random.no):
        with pytest.raises(AttributeError, match="cupy"):
            missing()
    with pytest.raises(IndexError):
        x[3]
    assert type(cp.std(host)) is np.float64, "methods of NumPy's arrays stay NumPy's"
    cp.testing.assert_array_equal(x, x.get())


def test_an_array_of_another_library_shares_its_memory() -> None:
    x = cp.arange(4.0)
    other = type("Other", (), {"__cuda_array_interface__": x.__cuda_array_interface__})()
    cp.asarray(other)[1] = 9
    seen = np.from_dlpack(x)  # NumPy below 2.3 does not let it be written to
    x[2] = 8
    assert seen[2] == 8 and x.get().tolist() == [0, 9, 8, 3]
    add = weft.cuda("__global__ void add(double *x) { x[threadIdx.x] += 1; }").add
    add[1, 4](x)  # weft's own kernels take it as well
    assert x.get().tolist() == [1, 10, 9, 4]


@pytest.mark.parametrize("version", [{"max_version": (1, 0)}, {}])
def test_dlpack_shares_memory_that_is_said_to_be_on_a_gpu(version: dict[str, Any]) -> None:
    host = np.arange(12, dtype=np.int16).reshape(3, 4)

    class Buffer:
        """Memory of a GPU, as a buffer of cuda.core is."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **options: Any) -> Any:
            if options != version:
                raise TypeError("unexpected keyword argument")
            return host[:, 1:].__dlpack__(**options)

    x = cp.from_dlpack(Buffer())
    x[1, 0] = 99
    assert host[1, 1] == 99 and x.dtype == np.int16 and x.get().tolist() == host[:, 1:].tolist()
    assert cp.allclose(host, cp.asarray(host)) and not cp.isclose(host, host + 1).any()


def test_a_raw_kernel_sees_memory_as_it_is() -> None:
    copy = cp.RawKernel(
        """extern "C" __global__ void copy(const float *a, float *b) {
            b[threadIdx.x] = a[threadIdx.x];
        }""",
        "copy",
    )
    x = cp.arange(12, dtype=cp.float32).reshape(3, 4)
    for given, seen in ((cp.asfortranarray(x), [0, 4, 8, 1]), (x[1:, ::2], [4, 5, 6, 7]),
                        (x.T[1:], [1, 2, 3, 4]), (x[2].data.ptr, [8, 9, 10, 11])):  # fmt: skip
        out = cp.zeros(4, cp.float32)
        copy((1,), (4,), (given, out))
        assert out.get().tolist() == seen
    again = pickle.loads(pickle.dumps(copy))
    assert again.num_regs == copy.attributes["num_regs"] > 0
    with pytest.raises(TypeError, match="size one"):
        copy((1,), (4,), (np.zeros(4, np.float32), out))


def test_a_raw_kernel_follows_a_table_of_addresses_and_takes_structures() -> None:
    code = """
    struct Pair { double a; int b; };
    extern "C" __global__ void f(float **p, float *q, Pair by) {
        q[0] = p[0][1] + p[1][2] * by.b + by.a;
    }
    """
    u, v, out = cp.arange(3, dtype="f"), cp.arange(3, dtype="f") * 10, cp.zeros(1, "f")
    pair = np.array([(0.5, 2)], np.dtype([("a", "f8"), ("b", "i4")], align=True))
    table = cp.array([u.data.ptr, v.data.ptr], dtype=cp.uint64)
    cp.RawKernel(code, "f")((1,), (1,), (table, out, pair))
    assert out.get() == [41.5]


# ---- memory, streams and events ----------------------------------------------------------------
def test_a_memory_pool_counts_arrays_and_has_a_limit() -> None:
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        x = cp.zeros(1000, cp.float32)
        view = x[10:]
        assert (pool.used_bytes(), pool.total_bytes()) == (4096, 4096)
        del x
        assert pool.used_bytes() == 4096, "a view keeps the memory"
        del view
        assert (pool.used_bytes(), pool.free_bytes(), pool.n_free_blocks()) == (0, 4096, 1)
        y = cp.zeros(3)
        assert (pool.used_bytes(), pool.free_bytes()) == (512, 3584), "a free block is split"
        pool.free_all_blocks()
        pool.set_limit(size=1024)
        with pytest.raises(cp.cuda.memory.OutOfMemoryError, match="limit set to: 1,024"):
            cp.zeros(1000)
        del y
    made = cp.ndarray(4, cp.int32, cp.cuda.alloc(16))
    made[...] = 7
    made[1:].data.memset(0, 4)
    assert made.get().tolist() == [7, 0, 7, 7]


def test_pinned_memory_is_a_buffer() -> None:
    mem = cp.cuda.alloc_pinned_memory(24)
    pinned = np.frombuffer(mem, np.float64, 3)
    cp.arange(3.0).get(out=pinned)
    assert pinned.tolist() == [0, 1, 2] and pinned.ctypes.data == mem.ptr
    like = cupyx.zeros_like_pinned(np.empty((2, 3), np.int8, order="F"))
    assert type(like) is np.ndarray and like.flags.f_contiguous and not like.any()


def test_streams_and_events() -> None:
    outer, inner, calls = cp.cuda.Stream(), cp.cuda.ExternalStream(1234), []
    with outer:
        inner.use()
        with inner:
            inner.launch_host_func(calls.append, 1)
        assert cp.cuda.get_current_stream() == outer
    assert cp.cuda.get_current_stream() == cp.cuda.Stream.null and calls == [1]
    start, end = cp.cuda.Event(), outer.record()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="recorded"):
        cp.cuda.get_elapsed_time(start, end)
    start.record()
    end.record()
    assert cp.cuda.get_elapsed_time(start, end) > 0
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="one simulated GPU"):
        cp.cuda.Device(1).use()


# ---- cupyx -------------------------------------------------------------------------------------
@jit.rawkernel(device=True)
def _norm(a, b):
    return cp.sqrt(a * a + b * b)


@jit.rawkernel()
def _rows(x, y, total, scale):
    """Sums of rows, by one block for each."""
    row, tid = jit.blockIdx.x, jit.threadIdx.x
    m, n = x.shape
    if row >= m:
        return
    value = cp.float64(0)
    for j in range(tid, n, jit.blockDim.x):
        value += _norm(x[row, j], 0.0) if 0 < j < n - 1 else x[row][j]
    shared = jit.shared_memory(cp.float64, 8)
    shared[tid] = value * scale
    jit.syncthreads()
    half = 4
    while half > 0:
        if tid < half:
            shared[tid] += shared[tid + half]
        jit.syncthreads()
        half //= 2
    if tid == 0:
        y[row] = shared[0]
        jit.atomic_add(total, 0, 1)
        for k in range(3, 0, -1):
            if k == 2:
                continue
            jit.atomic_max(total, 1, k + cp.int32(row) * -7 // 2 % 5)


def test_a_kernel_of_cupyx_jit() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (20, 4)).astype(np.float32).T  # strided
    y, total = cp.zeros(4), cp.zeros(2, cp.int64)
    _rows[5, 8](cp.asarray(x, order="A"), y, total, 2.0)
    np.testing.assert_allclose(y.get(), 2 * x.sum(1, dtype=np.float64), rtol=1e-6)
    assert total.get().tolist() == [4, max(k + r * -7 // 2 % 5 for k in (1, 3) for r in range(4))]
    assert "__syncthreads" in _rows.cached_code


def test_python_that_a_kernel_cannot_use_is_reported() -> None:
    @jit.rawkernel()
    def wrong(x):
        with x:
            x[0] = 1

    with pytest.raises(NotImplementedError, match=r"cupyx\.jit .* `with x:` .*test_cupy\.py, line"):
        wrong[1, 1](cp.zeros(1))
    with pytest.raises(RuntimeError, match="can be called in kernels"):
        jit.syncthreads()


def test_scipy_computes_for_cupyx_if_it_is_installed() -> None:
    try:
        import scipy.sparse  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(weft.errors.MissingDependency, match="pip install scipy"):
            cupyx.scipy.sparse.csr_matrix(cp.eye(3))
        return
    matrix = cupyx.scipy.sparse.csr_matrix(cp.eye(3) * 2)
    assert isinstance(matrix @ cp.ones(3), cp.ndarray) and isinstance(matrix.data, cp.ndarray)
    assert isinstance(matrix.T, cupyx.scipy.sparse.csc_matrix)
    assert isinstance(matrix.T.tocsr() + matrix, cupyx.scipy.sparse.csr_matrix)
    assert (matrix.toarray().get() == 2 * np.eye(3)).all()


def test_a_contraction_of_named_axes() -> None:
    rng = np.random.default_rng(2)
    a, b, c = rng.random((2, 3, 4)), rng.random((4, 5, 3)), rng.random((5, 2))
    found = cupyx.cutensor.contraction(
        2.0, cp.asarray(a), "mhk", cp.asarray(b), "knh", 0.5, cp.asarray(c), "nm"
    )
    np.testing.assert_allclose(found.get(), 2 * np.einsum("mhk,knh->nm", a, b) + 0.5 * c)


SCRIPT = """
import cupy as cp
import cupyx.scipy.sparse
from cupy.linalg import norm
from cupyx import jit
kernel = cp.RawKernel('extern "C" __global__ void k(int *x) { x[threadIdx.x] = threadIdx.x; }', "k")
x = cp.zeros(4, dtype=cp.int32)
with cp.cuda.Stream() as stream:
    kernel((1,), (4,), (x,))
stream.synchronize()
print(cp.asnumpy(x), x.sum().item(), type(x.get()).__name__, norm(x) ** 2)
"""


def test_a_script_imports_cupy(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "weft", "run", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[0 1 2 3] 6 ndarray 14.0\n", 0), done.stderr
    assert "weft.cupy stands in" in done.stderr
