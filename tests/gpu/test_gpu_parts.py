"""Parts of the real GPU's side that need none: versions, streams, settings, and what is said."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft.device import arrays, driver
from weft.device.base import LaunchConfig
from weft.device.gpu import guard, machine, native_launch, pending, streams, system
from weft.device.gpu.call import LaunchSlot, ParameterLayout
from weft.device.gpu.module import GpuModule, waits_for_grid

needs_no_gpu = pytest.mark.skipif(driver.count() > 0, reason="there is a GPU here")


# CUDA version of a driver, the newest PTX it takes
LIMITS = [(12000, (8, 0)), (12050, (8, 5)), (12060, (8, 5)), (12080, (8, 7)), (12090, (8, 8)),
          (13000, (9, 0)), (13040, (9, 4))]  # fmt: skip


@pytest.mark.parametrize(("cuda", "ptx"), LIMITS)
def test_the_newest_ptx_of_a_driver(cuda: int, ptx: tuple[int, int]) -> None:
    assert driver._ptx_of(cuda) == ptx


STREAMS: dict[str, Any] = {
    "a handle": 7,
    "cuda.core": SimpleNamespace(__cuda_stream__=lambda: (0, 7)),
    "torch": SimpleNamespace(cuda_stream=7),
    "CuPy": SimpleNamespace(ptr=7),
    "Numba": SimpleNamespace(handle=SimpleNamespace(value=7)),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_streams(kind: str) -> None:
    assert streams.handle(STREAMS[kind]) == 7


@pytest.mark.parametrize("bad", ["main", True, 1.5, None], ids=repr)
def test_what_is_no_stream(bad: object) -> None:
    with pytest.raises(weft.LaunchError, match="not a CUDA stream"):
        streams.handle(bad)


def test_grid_barriers_are_seen_kernel_by_kernel() -> None:
    ptx = weft.cuda(r"""
    #include <cooperative_groups.h>
    extern "C" __global__ void alone(int* y) { y[0] = 1; }
    extern "C" __global__ void meets(int* y) { cooperative_groups::this_grid().sync(); y[0] = 1; }
    extern "C" __global__ void alone_too(int* y) { y[0] = 2; }
    """).ptx.text
    found = [waits_for_grid(ptx, name) for name in ("alone", "meets", "alone_too")]
    assert found == [False, True, False]


SETTINGS = [
    ("RmProfilingAdminOnly: 0\n", True, "to every user"),
    ("Other: 1\n", False, "unknown"),
    ("", False, "unknown"),
]


@pytest.mark.parametrize(("text", "allowed", "why"), SETTINGS)
def test_who_may_read_counters(tmp_path: Path, text: str, allowed: bool, why: str) -> None:
    (tmp_path / "params").write_text(text)
    found = system.counters(tmp_path)
    assert found.allowed == allowed and why in found.why


def test_counters_of_administrators(tmp_path: Path) -> None:
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 1\n")
    found = system.counters(tmp_path)
    assert found.allowed == system._is_admin()
    assert found.allowed or "administrator can load the driver with" in found.fix


def test_the_version_of_the_driver(tmp_path: Path) -> None:
    assert system.driver_version(tmp_path) == ""
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module  580.159.04\n")
    assert system.driver_version(tmp_path) == "580.159.04"


@needs_no_gpu
def test_a_gpu_that_is_not_there() -> None:
    for device in ("gpu", "gpu:1", "cuda:0"):
        with pytest.raises(weft.MissingDependency, match="no NVIDIA GPU can be used here"):
            weft.cuda("__global__ void k() {}", device=device)
    weft.synchronize()  # nothing to wait for
    assert driver.absence()


@needs_no_gpu
def test_cuda_arrays_without_a_gpu() -> None:
    class Stray:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}

    kernel = weft.cuda("__global__ void k(float* y) { y[0] = 1; }").k
    with pytest.raises(weft.MissingDependency, match="no NVIDIA GPU"):
        kernel[1, 1](Stray())


def test_places_that_nobody_can_launch_on() -> None:
    class Elsewhere:
        def __dlpack__(self) -> None:
            raise AssertionError("never asked")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 0  # ROCm

    kernel = weft.cuda("__global__ void k(float* y) { y[0] = 1; }").k
    with pytest.raises(weft.ArgumentError, match="neither in host memory nor on a CUDA GPU"):
        kernel[1, 1](Elsewhere())


Launch = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
"""cuLaunchKernelEx: configuration, function, pointers to the parameters, extra."""


class Recorder:
    """Stands where the driver's launch does, and reads what it is given as the driver would."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.seen: list[list[bytes]] = []
        self.function = Launch(self._launch)
        self._sizes = sizes

    def _launch(self, config: int, function: int, params: int, extra: int) -> int:
        assert not extra
        pointers = (ctypes.c_void_p * len(self._sizes)).from_address(params)
        pairs = zip(pointers, self._sizes, strict=True)
        self.seen.append([ctypes.string_at(pointer or 0, size) for pointer, size in pairs])
        return 0


def test_each_parameter_has_its_own_pointer() -> None:
    """The block as a whole is never handed over: ptxas decides where a parameter goes."""
    layout = ParameterLayout(128, (0, 64, 96))
    config = LaunchConfig((1, 1, 1), (32, 1, 1))
    call = SimpleNamespace(layout=layout, shape=config, cooperative=False, function=7)
    slot, recorder = LaunchSlot(call), Recorder((4, 32, 8))  # type: ignore[arg-type]
    block = bytes(range(128))
    ctypes.memmove(slot.buffer, block, 128)
    recorder.function(*slot.given)
    assert recorder.seen == [[block[0:4], block[64:96], block[96:104]]]


@pytest.mark.skipif(not machine.is_known_python(), reason="not for this Python")
def test_machine_code_gives_each_parameter_its_own_pointer() -> None:
    python, recorder = ctypes.pythonapi, Recorder((4, 8))
    template = ctypes.create_string_buffer(bytes(range(64)), 64)
    offsets, config = (ctypes.c_int64 * 2)(32, 8), driver.CuLaunchConfig()
    ring = (ctypes.c_int64 * (pending.RECORDED + 1))()
    head = dict.fromkeys(native_launch._HEAD, 0) | {
        "count": 1,
        "launch": machine.address(recorder.function),
        "save": machine.address(python.PyEval_SaveThread),
        "restore": machine.address(python.PyEval_RestoreThread),
        "from_long": machine.address(python.PyLong_FromLong),
        "as_long": machine.address(python.PyLong_AsLongLongAndOverflow),
        "is_fixed": 1,
        "param_bytes": 64,
        "param_count": 2,
        "offsets": ctypes.addressof(offsets),
        "config": ctypes.addressof(config),
        "template": ctypes.addressof(template),
        "ring": ctypes.addressof(ring),
    }
    numbers = [*head.values(), native_launch._WHOLE, id(int), 0, 2**40, 8, 8]
    launch = machine.function(native_launch._code()[0], struct.pack(f"<{len(numbers)}q", *numbers))
    assert launch(2**33 + 5) == 0
    assert recorder.seen == [[bytes(range(32, 36)), struct.pack("<q", 2**33 + 5)]]


@pytest.mark.skipif(not machine.is_known_python(), reason="not for this Python")
def test_machine_code_refuses_what_it_does_not_know() -> None:
    """The checks of the compiled launch; the driver's function is never reached."""
    torch = pytest.importorskip("torch")
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        pytest.skip("this torch has no C exchange interface")
    api, python = arrays.exchange(capsule), native_launch.ctypes.pythonapi
    x = torch.ones(4, 4)
    assert api.dtype(x) == 2 | 32 << 8 | 1 << 16
    template = native_launch.ctypes.create_string_buffer(64)
    head = dict.fromkeys(native_launch._HEAD, 0) | {
        "count": 2,
        "from_long": machine.address(python.PyLong_FromLong),
        "as_long": machine.address(python.PyLong_AsLongLongAndOverflow),
        "clear": machine.address(python.PyErr_Clear),
        "describe": api.describe,
        "place": 1,  # the host's memory
        "param_bytes": 16,
        "template": native_launch.ctypes.addressof(template),
    }
    words = [
        (native_launch._ARRAY, id(torch.Tensor), api.dtype(x), 0, 8, 0),
        (native_launch._WHOLE, id(int), -8, 7, 4, 8),
    ]
    numbers = [*head.values(), *words[0], *words[1]]
    launch = machine.function(native_launch._code()[0], struct.pack(f"<{len(numbers)}q", *numbers))
    bad: list[tuple[Any, ...]] = [
        (), (x,), (x, 1, 2), (x, 8), (x, -9), (x, 10**30), (x, 1.0), (x, "1"), (x, None), (1, 1),
        (x.double(), 1), (x.t(), 1), (x[:, ::2], 1), (x.numpy(), 1), (x.to("meta"), 1),
        (torch.nn.Parameter(x), 1), (x, np.int32(1)),
    ]  # fmt: skip
    before = sys.getrefcount(x)
    for args in bad * 20:
        assert launch(*args) == native_launch.REFUSED
    assert sys.getrefcount(x) == before


@pytest.mark.skipif(not machine.is_known_python(), reason="not for this Python")
def test_the_guard_tells_layouts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """On tensors of the CPU, whose number in DLPack takes the place of CUDA's."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, native_launch.EXCHANGE):
        pytest.skip("this torch has no C exchange interface")
    monkeypatch.setattr(native_launch, "CUDA", 1)
    monkeypatch.setattr(driver, "count", lambda: 1)
    room = torch.zeros(64)
    x, y = room[:12].view(3, 4), room[16:20]
    check = guard.guard([x, None, y], (torch.Tensor, torch.nn.Parameter))
    same = room[32:44].view(3, 4)
    assert check(x, None, y) == check(same, None, y) == 1
    assert check(torch.nn.Parameter(same), None, y) == 1
    wrong = {
        "too few": (x, None),
        "none": (x, None, None),
        "not none": (x, y, y),
        "shape": (room[:12].view(4, 3), None, y),
        "strides": (room[:12].view(4, 3).t(), None, y),
        "rank": (room[:12], None, y),
        "dtype": (x.int(), None, y),
        "alignment": (room[1:13].view(3, 4), None, y),
        "type": (x.numpy(), None, y),
        "subclass": (x.as_subclass(type("Mine", (torch.Tensor,), {})), None, y),
        "number": (3, None, y),
    }
    assert {name: check(*args) for name, args in wrong.items()} == dict.fromkeys(wrong, 0)


def test_two_threads_that_need_shared_memory_leave_the_larger_request() -> None:
    """The driver keeps the last request, so the smaller one must not come second."""
    module = GpuModule.__new__(GpuModule)
    asked, kept, done = threading.Event(), [0], threading.Event()

    def set_attribute(entry: str, attribute: int, value: int) -> None:
        if value == 100_000:  # the other thread asks while this request is on its way
            asked.set()
            done.wait(0.3)
        kept[0] = value

    vars(module).update(
        _room={}, _room_lock=threading.Lock(), _static=lambda entry: 0, _set_attribute=set_attribute
    )
    smaller = threading.Thread(target=module._make_room, args=("rows", 100_000))
    smaller.start()
    asked.wait()
    module._make_room("rows", 150_000)
    done.set()
    smaller.join()
    assert kept == [150_000]
    module._make_room("rows", 100_000)
    module._make_room("other", 1000)  # which every kernel may use
    assert kept == [150_000]


def test_threads_that_ask_for_machine_code_at_once_get_the_same() -> None:
    """Functions of Python point into it, so what only one thread has would be freed."""
    guard._code.cache_clear()
    barrier, found = threading.Barrier(8), list[object]()

    def ask() -> None:
        barrier.wait()
        found.append(guard._code()[1])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len({id(code) for code in found}) == 1
