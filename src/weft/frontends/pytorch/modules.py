"""Replaces functions of torch outside of `torch.cuda`, for scripts whose GPU is simulated."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
import torch.utils.data

from weft.device.models import GpuModel
from weft.frontends import clock
from weft.frontends.pytorch import amp, cuda, generators, memory
from weft.frontends.pytorch.distributed import groups

Replaced = dict[Any, dict[str, Any]]
"""Owner -> name -> replacement."""

_MISSING = ("_cuda_getCurrentRawStream", "_cuda_cudaCachingAllocator_is_enabled")
"""Functions that a build of torch for the CPU does not have, and that its Python code calls."""


def replacements(model: GpuModel, tracker: memory.Tracker, gpus: int) -> Replaced:
    """All replacements, `torch.cuda` included."""
    merged: Replaced = {}
    functions = cuda.functions(model, tracker, gpus)
    for table in (_main(functions), _optimizers(), amp.replacements(), groups.replacements()):
        for owner, replaced in table.items():
            merged.setdefault(owner, {}).update(replaced)
    return merged


def _main(functions: dict[str, Any]) -> Replaced:
    profiler = torch.autograd.profiler
    return {
        torch.cuda: functions,
        torch.cuda.nvtx: {
            name: cuda.nothing()
            for name in ("range_push", "range_pop", "range_start", "range_end", "mark")
        },
        torch.cuda.profiler: {"start": cuda.nothing(), "stop": cuda.nothing()},
        torch.accelerator: _accelerator(functions),
        profiler.profile: {"__init__": _profile_the_cpu},
        profiler.emit_nvtx: {"__enter__": _itself, "__exit__": cuda.nothing()},
        torch.nn.Module: {"cuda": lambda module, device=None: module},
        torch: {
            "Generator": generators.Generator,
            "set_default_device": functools.partial(_set_default_device, torch.set_default_device),
            "load": functools.partial(_load, torch.load),
        },
        # Its C++ code would reject the streams of streams.py.
        torch.Tensor: {"record_stream": cuda.nothing()},
        torch.UntypedStorage: {"cuda": _itself},
        torch.TypedStorage: {"cuda": _itself},
        torch.utils.data._utils.pin_memory: {"pin_memory": _itself},
        torch.backends.cuda: {"is_built": cuda.always(True)},
        torch.version: {"cuda": "13.0"},
        torch._C: {name: cuda.always(0) for name in _MISSING},
        torch.cuda.memory: {
            "_record_memory_history": cuda.nothing(),
            "_snapshot": cuda.always({"segments": [], "device_traces": []}),
        },
        torch.nn.parallel.DistributedDataParallel: {
            "__init__": _on_one_device(torch.nn.parallel.DistributedDataParallel.__init__)
        },
        torch.nn.DataParallel: {"__init__": _on_one_device(torch.nn.DataParallel.__init__)},
    }


def _accelerator(functions: dict[str, Any]) -> dict[str, Any]:
    """`torch.accelerator` by the functions of `torch.cuda`."""
    names = {
        "is_available": "is_available", "device_count": "device_count",
        "current_device_index": "current_device", "set_device_index": "set_device",
        "current_device_idx": "current_device", "set_device_idx": "set_device",
        "current_stream": "current_stream", "set_stream": "set_stream",
        "synchronize": "synchronize", "empty_cache": "empty_cache",
        "memory_allocated": "memory_allocated", "max_memory_allocated": "max_memory_allocated",
        "memory_reserved": "memory_reserved", "max_memory_reserved": "max_memory_reserved",
        "memory_stats": "memory_stats", "reset_peak_memory_stats": "reset_peak_memory_stats",
        "get_memory_info": "mem_get_info",
    }  # fmt: skip

    def alike(function: Any) -> Any:
        return lambda *args, **options: function(*args, **options)

    found = {
        name: alike(functions[of]) for name, of in names.items() if hasattr(torch.accelerator, name)
    }
    return {"current_accelerator": cuda.always(torch.device("cuda")), **found}


_ON_CUDA = ("_get_capturable_supported_devices", "_get_foreach_kernels_supported_devices")
"""Functions that list the devices for `capturable=True` and for one call for all parameters."""


def _optimizers() -> Replaced:
    """Let optimizers treat the CPU as a GPU."""
    modules = [m for n, m in list(sys.modules.items()) if n.startswith("torch.optim.")]
    devices = cuda.always(["cpu", "cuda"])
    tables = ((m, {name: devices for name in _ON_CUDA if hasattr(m, name)}) for m in modules)
    return {module: table for module, table in tables if table}


def _on_one_device(init: Any) -> Any:
    """A constructor that ignores the list of GPUs: the module is on the CPU."""

    @functools.wraps(init)
    def replaced(
        self: Any,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        *args: Any,
        **options: Any,
    ) -> None:
        init(self, module, None, None, *args, **options)

    return replaced


def _itself(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _set_default_device(own: Any, device: Any) -> None:
    """torch's function, with the CPU instead of CUDA."""
    if not str(device).startswith("cuda"):
        own(device)


def _load(own: Any, file: Any, map_location: Any = None, *args: Any, **options: Any) -> Any:
    """torch's function; CUDA tensors are loaded to the CPU."""
    return own(file, map_location if callable(map_location) else "cpu", *args, **options)


def _profile_the_cpu(
    profiler: Any, *args: Any, use_cuda: bool = False, use_device: str | None = None, **options: Any
) -> None:
    """torch's constructor without CUDA events, which would need CUPTI."""
    if use_cuda or use_device == "cuda":
        clock.say_once()
        use_device, options["use_cpu"] = None, True
    _torch_profile_init(profiler, *args, use_device=use_device, **options)


_torch_profile_init = torch.autograd.profiler.profile.__init__
