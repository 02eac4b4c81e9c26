"""Defines the structures shared with the runtime library; mirrors `shim/weft.h`."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char, c_char_p, c_int, c_int64, c_uint, c_uint64, c_void_p

from weft.device.models import GpuModel

DIED = 1 << 16
"""Flag added to the error of a kernel that started and failed."""
READ_ONLY = 1 << 16
"""Flag added to the kind of memory to which kernels may not write."""


class FunctionFacts(ctypes.Structure):
    """Attributes of a kernel."""

    _fields_ = (
        *(
            (name, c_int64)
            for name in (
                "static_shared", "constant", "local", "most_threads", "registers", "ptx", "binary",
                "must_have_cluster",
            )
        ),
        ("cluster", c_int64 * 3),
    )  # fmt: skip


Receive = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_uint64)
"""Takes a text of `Ops.load` or `Ops.link`: its reader, RESULT or ERROR or INFO, the text."""
RESULT, ERROR, INFO = range(3)


class Ops(ctypes.Structure):
    """The requests of the library; methods of `Runtime` and `ProgramCode` have their names."""

    _fields_ = (
        ("fat_binary", CFUNCTYPE(None, c_uint64, c_void_p, c_uint64, c_int)),
        ("load", CFUNCTYPE(c_int, c_uint64, c_void_p, c_uint64, c_void_p, Receive)),
        (
            "link",
            CFUNCTYPE(
                c_int,
                POINTER(c_void_p),
                POINTER(c_uint64),
                POINTER(c_char_p),
                c_int,
                c_void_p,
                Receive,
            ),
        ),
        ("function", CFUNCTYPE(None, c_uint64, c_void_p, c_char_p)),
        ("variable", CFUNCTYPE(None, c_uint64, c_void_p, c_char_p)),
        ("parameters", CFUNCTYPE(c_int, c_void_p, POINTER(c_uint), c_int)),
        ("prepare", CFUNCTYPE(c_int, c_void_p, POINTER(c_uint), c_uint64, c_int)),
        (
            "launch",
            CFUNCTYPE(c_int, c_void_p, POINTER(c_uint), c_void_p, c_uint64, c_uint64, c_int),
        ),
        ("symbol", CFUNCTYPE(c_uint64, c_void_p, POINTER(c_uint64))),
        ("variable_at", CFUNCTYPE(c_uint64, c_void_p, POINTER(c_uint64))),
        ("facts", CFUNCTYPE(c_int, c_void_p, POINTER(FunctionFacts), c_int)),
        ("blocks_per_sm", CFUNCTYPE(c_int, c_void_p, c_int, c_uint64)),
        ("clusters", CFUNCTYPE(c_int, c_void_p, c_int, c_uint64, c_int)),
        ("compute", CFUNCTYPE(c_int, c_char_p, POINTER(c_int64), c_int)),
        ("heap", CFUNCTYPE(None, c_uint64)),
        ("misused", CFUNCTYPE(None, c_char_p, c_char_p, c_uint64, c_char_p)),
    )


class DeviceProperties(ctypes.Structure):
    """The device properties for the program."""

    _fields_ = (
        ("name", c_char * 256),
        *(
            (name, c_int64)
            for name in (
                "major", "minor", "sms", "memory", "bus_bits", "l2", "shared_per_block",
                "shared_optin", "shared_per_sm", "reserved_shared", "registers_per_sm",
                "registers_per_block", "max_threads_per_block", "max_threads_per_sm",
                "max_blocks_per_sm",
            )
        ),
        ("max_block", c_int64 * 3),
        ("max_grid", c_int64 * 3),
        *(
            (name, c_int64)
            for name in ("warp", "constant", "clock_khz", "memory_khz", "max_cluster")
        ),
    )  # fmt: skip


def model_of(gpu: GpuModel) -> DeviceProperties:
    """The device properties of a GPU model."""
    return DeviceProperties(
        name=f"NVIDIA {gpu.name} (weft)".encode(),
        major=gpu.compute_capability[0],
        minor=gpu.compute_capability[1],
        sms=gpu.sms,
        memory=gpu.memory,
        bus_bits=gpu.memory_bus_bits,
        l2=gpu.l2,
        shared_per_block=gpu.static_shared_per_block,
        shared_optin=gpu.shared_per_block,
        shared_per_sm=gpu.shared_per_sm,
        reserved_shared=gpu.reserved_shared,
        registers_per_sm=gpu.registers_per_sm,
        registers_per_block=gpu.registers_per_block,
        max_threads_per_block=gpu.max_threads_per_block,
        max_threads_per_sm=gpu.max_threads_per_sm,
        max_blocks_per_sm=gpu.max_blocks_per_sm,
        max_block=(c_int64 * 3)(*gpu.max_block),
        max_grid=(c_int64 * 3)(*gpu.max_grid),
        warp=gpu.warp_size,
        constant=gpu.constant_memory,
        clock_khz=gpu.boost_mhz * 1000,
        memory_khz=gpu.memory_khz,
        max_cluster=gpu.max_cluster,
    )
