"""Replaces functions of `torch.cuda` for one simulated device.

Launches are synchronous, so streams and synchronisation do nothing, and events record the current
time. The functions were chosen by their frequency in public code.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from weft.device.models import GpuModel
from weft.errors import LaunchError
from weft.frontends import clock


class Stream:
    """A CUDA stream whose work is always complete."""

    cuda_stream = 0
    device = torch.device("cpu")

    def __init__(self, *_: object, **__: object) -> None:
        self.priority = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def record_event(self, event: clock.Event | None = None) -> clock.Event:
        event = event or clock.Event()
        event.record()
        return event

    def synchronize(self) -> None:
        """Returns at once: launches are synchronous."""

    def wait_event(self, event: object) -> None:
        """Returns at once: launches are synchronous."""

    def wait_stream(self, stream: object) -> None:
        """Returns at once: launches are synchronous."""

    def query(self) -> bool:
        return True


class Context:
    """`with torch.cuda.device(0):` and its like."""

    def __init__(self, *_: object, **__: object) -> None:
        self.idx = 0

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Generator(torch.Generator):  # type: ignore[misc]
    """torch's CPU generator, for every device argument."""

    def __new__(cls, device: object = "cpu") -> Any:
        return super().__new__(cls)


def replacements(model: GpuModel) -> dict[Any, dict[str, Any]]:
    """Owner -> name -> replacement.

    Each name needs its own object: TorchDynamo finds rules for functions by object identity
    and rejects an object with two rules.
    """
    return {
        torch.cuda: _functions(model),
        torch.cuda.nvtx: {name: _nothing() for name in ("range_push", "range_pop", "mark")},
        torch.autograd.profiler.profile: {"__init__": _profile_the_cpu},
        torch.nn.Module: {"cuda": lambda module, device=None: module},
        torch: {"Generator": Generator, "set_default_device": _set_default_device, "load": _load},
    }


def _functions(model: GpuModel) -> dict[str, Any]:
    stream = Stream()
    return {
        "get_device_capability": _always(model.compute_capability),
        "synchronize": _nothing(),
        "is_available": _always(True),
        "current_stream": _always(stream),
        "default_stream": _always(stream),
        "get_device_properties": _always(_properties(model)),
        "get_device_name": _always(f"{model.name}, simulated"),
        "current_device": _always(0),
        "set_device": _nothing(),
        "set_stream": _nothing(),
        "device_count": _always(1),
        "Stream": Stream,
        "ExternalStream": type("ExternalStream", (Stream,), {}),
        "Event": clock.Event,
        "stream": type("stream", (Context,), {}),
        "device": type("device", (Context,), {}),
        "device_of": type("device_of", (Context,), {}),
        # A silent no-op would drop the captured kernels.
        "CUDAGraph": _no_graphs(),
        "graph": _no_graphs(),
        "make_graphed_callables": _no_graphs(),
        "is_current_stream_capturing": _always(False),
        "init": _nothing(),
        "is_initialized": _always(True),
        "empty_cache": _nothing(),
        "ipc_collect": _nothing(),
        # Tensors live in host memory, which torch does not account for.
        "memory_allocated": _always(0),
        "max_memory_allocated": _always(0),
        "memory_reserved": _always(0),
        "max_memory_reserved": _always(0),
        "reset_peak_memory_stats": _nothing(),
        "memory_stats": _always({}),
        "mem_get_info": _always((model.memory, model.memory)),
        **_random_numbers(),
        "is_bf16_supported": _always(model.compute_capability >= (8, 0)),
        "can_device_access_peer": _always(False),
    }


def _random_numbers() -> dict[str, Any]:
    """The CPU's generator serves the device: its tensors are on the CPU."""
    cpu = torch.default_generator
    return {
        "get_rng_state": lambda device="cuda": cpu.get_state(),
        "get_rng_state_all": lambda: [cpu.get_state()],
        "set_rng_state": lambda state, device="cuda": cpu.set_state(state) and None,
        "set_rng_state_all": lambda states: [cpu.set_state(state) for state in states] and None,
        "manual_seed": lambda seed: cpu.manual_seed(int(seed)) and None,
        "manual_seed_all": lambda seed: cpu.manual_seed(int(seed)) and None,
        "seed": lambda: cpu.seed() and None,
        "seed_all": lambda: cpu.seed() and None,
        "initial_seed": lambda: cpu.initial_seed(),
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


def _always(value: Any) -> Any:
    return lambda *_, **__: value


def _nothing() -> Any:
    return _always(None)


def _no_graphs() -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise LaunchError(
            "CUDA graphs are not simulated",
            got="a capture of kernels and torch's own operations",
            next="call the function itself: without a GPU a graph would save nothing",
        )

    return refuse


def _set_default_device(device: Any) -> None:
    """torch's function, with the CPU instead of CUDA."""
    if not str(device).startswith("cuda"):
        _default_device(device)


def _load(file: Any, map_location: Any = None, *args: Any, **options: Any) -> Any:
    """torch's function; CUDA tensors are loaded to the CPU."""
    stays = callable(map_location) or isinstance(map_location, dict)
    return _torch_load(file, map_location if stays else "cpu", *args, **options)


def _profile_the_cpu(
    profiler: Any, *args: Any, use_cuda: bool = False, use_device: str | None = None, **options: Any
) -> None:
    """torch's constructor without CUDA events, which would need CUPTI."""
    if use_cuda or use_device == "cuda":
        clock.say_once()
        use_device, options["use_cpu"] = None, True
    _torch_profile_init(profiler, *args, use_device=use_device, **options)


_default_device = torch.set_default_device
_torch_load = torch.load
_torch_profile_init = torch.autograd.profiler.profile.__init__
