"""Replaces functions of `torch.cuda` for simulated devices.

Launches are synchronous, so streams and synchronisation do nothing, and events record the current
time. The functions were chosen by their frequency in public code.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from weft.device.models import GpuModel
from weft.frontends import clock
from weft.frontends.pytorch import devices, generators, graphs, memory, streams

_TENSOR_TYPES = (
    "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "ByteTensor", "CharTensor",
    "ShortTensor", "IntTensor", "LongTensor", "BoolTensor",
)  # fmt: skip


def functions(model: GpuModel, tracker: memory.Tracker, gpus: int) -> dict[str, Any]:
    """The names of `torch.cuda`. Each has its own object.

    TorchDynamo finds rules for functions by object identity and rejects an object with two rules.
    """
    return {
        "get_device_capability": always(model.compute_capability),
        "synchronize": streams.synchronize,
        "is_available": always(True),
        "current_stream": streams.current,
        "default_stream": streams.default,
        "get_device_properties": always(_properties(model)),
        "get_device_name": always(f"{model.name}, simulated"),
        "current_device": lambda: devices.index(),
        "set_device": devices.set_device,
        "_exchange_device": lambda device: devices.exchange(device),
        "_maybe_exchange_device": devices.exchange,
        "set_stream": streams.set_current,
        "device_count": always(gpus),
        "Stream": streams.Stream,
        "ExternalStream": streams.ExternalStream,
        "Event": clock.Event,
        "stream": streams.StreamContext,
        "StreamContext": type("StreamContext", (streams.StreamContext,), {}),
        "device": type("device", (devices.Context,), {}),
        "device_of": type("device_of", (devices.ContextOf,), {}),
        "CUDAGraph": graphs.CUDAGraph,
        "graph": graphs.graph,
        "make_graphed_callables": graphs.make_graphed_callables,
        "graph_pool_handle": always((0, 1)),
        "is_current_stream_capturing": lambda: graphs.capture() is not None,
        "init": nothing(),
        "is_initialized": always(True),
        "ipc_collect": nothing(),
        **memory.functions(tracker, model.memory),
        **generators.functions(gpus),
        **{name: getattr(torch, name) for name in _TENSOR_TYPES},
        "get_arch_list": always([model.machine.rstrip("a")]),
        "get_gencode_flags": always(""),
        "is_bf16_supported": always(model.compute_capability >= (8, 0)),
        "can_device_access_peer": devices.can_access_peer,
        "utilization": always(0),
        "_sleep": nothing(),
        "_lazy_init": nothing(),
        "_is_compiled": always(True),
    }


def _properties(model: GpuModel) -> types.SimpleNamespace:
    major, minor = model.compute_capability
    return types.SimpleNamespace(
        name=f"{model.name}, simulated",
        major=major,
        minor=minor,
        total_memory=model.memory,
        multi_processor_count=model.sms,
        warp_size=model.warp_size,
        max_threads_per_multi_processor=model.max_threads_per_sm,
        max_threads_per_block=model.max_threads_per_block,
        regs_per_multiprocessor=model.registers_per_sm,
        shared_memory_per_block=model.static_shared_per_block,
        shared_memory_per_block_optin=model.shared_per_block,
        shared_memory_per_multiprocessor=model.shared_per_sm,
        L2_cache_size=model.l2,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName="",
    )


def always(value: Any) -> Any:
    """A new function that returns this value for any arguments."""
    return lambda *_, **__: value


def nothing() -> Any:
    """A new function that does nothing."""
    return always(None)
