"""Numba kernels on the simulated GPU: `weft.kernel(fn)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba.cuda")

from numba import cuda, njit

import weft
from numba_kernels import ROWS, Row, rand


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items()])
def test_kernels(row: Row) -> None:
    args, given = row.args(), row.args()
    expected = row.expected(*given)
    weft.kernel(row.kernel)[row.config](*args)
    if row.tolerance:
        np.testing.assert_allclose(args[-1], expected, rtol=row.tolerance, atol=row.tolerance)
    else:
        np.testing.assert_array_equal(args[-1], expected)


def add_one(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def test_a_decorated_kernel_and_its_options() -> None:
    kernel = weft.kernel(cuda.jit(launch_bounds=64)(add_one))
    x = np.zeros(70)
    kernel[2, 64](x)
    assert (x == 1).all()
    with pytest.raises(weft.LaunchError, match="compiled for fewer threads"):
        kernel[1, 128](x)
    assert ".maxntid 64" in kernel.ptx


def test_overloads_follow_the_types() -> None:
    kernel = weft.kernel(add_one)
    for dtype in (np.int32, np.float32, np.complex128, np.int32):
        x = np.zeros(40, dtype)
        kernel(x, grid=1, block=64)
        assert (x == 1).all()
    assert len(kernel.overloads) == 3
    with pytest.raises(weft.LaunchError, match="3 sets of argument types"):
        _ = kernel.ptx
    assert "ld.global.f64" in kernel.compile("void(float64[::1])").ptx


def test_resources_are_the_assemblers() -> None:
    kernel = weft.kernel(add_one)
    found = kernel.compile("void(float32[::1])").resources
    assert found.registers > 0
    assert found == kernel.resources


def test_tensors_of_the_cpu_are_the_same_memory() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(3, 40)[:, ::2]
    weft.kernel(add_rows)[1, (4, 32)](x)
    assert bool((x == 1).all())


def add_rows(x: Any) -> None:
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] += 1


def test_memory_of_cuda_core_is_an_array() -> None:
    core = pytest.importorskip("cuda.core")
    if not hasattr(core, "Buffer"):
        pytest.skip("this version has it in cuda.core.experimental")
    from cuda.core.utils import StridedMemoryView

    numbers = np.arange(24, dtype=np.int32).reshape(4, 6)
    turned = np.asfortranarray(numbers)
    kernel = weft.kernel(note)
    seen = np.zeros(4, np.int64)
    kernel[1, 1](core.Buffer.from_handle(numbers.ctypes.data, numbers.nbytes), seen)
    assert seen.tolist() == [1, 96, 1, 1]  # bytes: the second number is 1
    view = StridedMemoryView.from_dlpack(turned, stream_ptr=-1)
    assert tuple(view.strides) == (1, 4)  # counted in elements
    weft.kernel(note_two)[1, 1](view, seen)
    assert seen.tolist() == [2, 24, 24, int(numbers[2, 5])]


def note(a: Any, seen: Any) -> None:
    seen[0], seen[1], seen[2], seen[3] = a.ndim, a.size, a.itemsize, a[4]


def note_two(a: Any, seen: Any) -> None:
    seen[0], seen[1], seen[2], seen[3] = a.ndim, a.size, a.shape[0] * a.shape[1], a[2, 5]


def test_hints_say_which_way_data_goes() -> None:
    x, y = np.zeros(32), np.zeros(32)
    weft.kernel(both)[1, 32](cuda.In(x), cuda.Out(y))
    assert (x == 0).all()
    assert (y == 2).all()


def both(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    x[i] += 2
    y[i] = x[i]


def test_the_gpu_to_simulate() -> None:
    x = np.zeros(8)
    weft.kernel(add_one, device="sim:t4")[1, 8](x)
    assert ".target sm_75" in weft.kernel(add_one, device="t4").compile("void(f8[:])").ptx


def test_prints_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    weft.kernel(hello)[1, 2](np.array([1.5]))
    assert capsys.readouterr().out == "hello 0 1.500000\nhello 1 1.500000\n"


def test_prints_of_chosen_threads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_PRINTF_FROM", "block=1 thread=1")
    weft.kernel(hello)[2, 2](np.array([1.5]))
    assert capsys.readouterr().out == "block (1, 0, 0), thread (1, 0, 0): hello 1 1.500000\n"


def hello(x: Any) -> None:
    print("hello", cuda.threadIdx.x, x[0])


def test_cuda_source_is_linked(tmp_path: Path) -> None:
    source = tmp_path / "triple.cu"
    source.write_text(
        'extern "C" __device__ int triple(int* out, int x) { *out = 3 * x; return 0; }\n'
    )
    triple = cuda.declare_device("triple", "int32(int32)")

    def kernel(x: Any) -> None:
        x[0] = triple(x[0])

    x = np.array([14], np.int32)
    weft.kernel(kernel, link=[str(source)])[1, 1](x)
    assert x[0] == 42


# ---- what goes wrong -----------------------------------------------------------------------------
def test_an_error_names_the_python_line() -> None:
    x = np.zeros(10, np.float32)
    with pytest.raises(weft.IllegalAddress) as caught:
        weft.kernel(past_the_end)[1, 32](x)
    text = str(caught.value)
    assert "test_numba.py" in text
    assert "`x[i] = i`" in text
    assert "nearest is 'x' (40 bytes)" in text
    assert caught.value.thread == (10, 0, 0)


def past_the_end(x: Any) -> None:
    i = cuda.grid(1)
    x[i] = i


def divide(x: Any, by: int) -> None:
    x[0] = 5 // by


def test_debug_raises_what_python_would() -> None:
    kernel = weft.kernel(divide, debug=True, opt=False)
    x = np.zeros(1, np.int64)
    kernel[1, 1](x, 2)
    assert x[0] == 2
    with pytest.raises(ZeroDivisionError, match=r"^tid=\[0, 0, 0\] ctaid=\[0, 0, 0\]: integer"):
        kernel[1, 1](x, 0)
    kernel[1, 1](x, 5)
    assert x[0] == 1


def unknown_name(x: Any) -> None:
    x[0] = not_there  # noqa: F821


@cuda.jit(device=True)
def device_function(x: Any) -> Any:
    return x


REFUSED = {
    "a name that is not there": (unknown_name, (rand(3),), weft.CompileError, "not_there"),
    "too few arguments": (divide, (rand(3),), weft.ArgumentError, "2 arguments"),
    "too many arguments": (add_one, (rand(3), 1), weft.ArgumentError, "1 argument"),
    "an object": (add_one, (object(),), weft.ArgumentError, "'x'"),
    "a dict": (add_one, ({"a": 1},), weft.ArgumentError, "'x'"),
    "a string": (add_one, ("text",), weft.Error, "text|unicode"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_launches(what: str) -> None:
    fn, args, error, match = REFUSED[what]
    with pytest.raises(error, match=match):
        weft.kernel(fn)[1, 32](*args)


def test_a_misspelt_option_of_a_launch() -> None:
    with pytest.raises(weft.ArgumentError, match="did you mean 'time_limit='"):
        weft.kernel(add_one)[1, 32](rand(3), time_limits=3)


NO_KERNELS = {
    "a device function": (device_function, "device function"),
    "a function of the CPU": (njit(add_one), "for the CPU"),
    "a built-in": (len, "not a Python function"),
    "text": ("x", "not a Python function"),
}


@pytest.mark.parametrize("what", NO_KERNELS)
def test_what_is_no_kernel(what: str) -> None:
    fn, match = NO_KERNELS[what]
    with pytest.raises(weft.ArgumentError, match=match):
        weft.kernel(fn)


def test_a_launch_without_a_block() -> None:
    with pytest.raises(weft.LaunchError, match="takes a grid and a block"):
        weft.kernel(add_one)[4](np.zeros(4))


def count(x: Any, empty: Any) -> None:
    x[cuda.grid(1)] += len(empty)
    x[cuda.grid(1)] += cuda.grid(1)


def test_a_misaligned_array_and_an_empty_tuple() -> None:
    """Numba copies arrays to aligned memory; its line information cannot describe the tuple."""
    whole = np.zeros(40, np.uint8)
    x = np.ndarray(4, np.float64, whole.data, 4)
    weft.kernel(count)[1, 4](x, ((), ()))
    assert x.tolist() == [2, 3, 4, 5]
    assert whole[:4].tolist() == whole[-4:].tolist() == [0] * 4
