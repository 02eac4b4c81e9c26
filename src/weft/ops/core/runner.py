"""Run plans: make one function per plan that allocates, launches and returns.

For a GPU the function is generated as source text, as in `dataclasses`: a loop over buffers and
steps would cost as much as the driver's launch. On the simulated GPU it is a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from weft.device import devices, tensor_map
from weft.device.base import LaunchConfig, LaunchTarget, PreparedLaunch
from weft.device.driver import bindings
from weft.device.gpu.addressed_launch import AddressedLaunch, addressed
from weft.device.gpu.facts import facts
from weft.errors import DeviceError
from weft.ops.core.plan import (
    COUNTERS,
    PARTIALS,
    Argument,
    Buffer,
    Constant,
    Counters,
    Map,
    Plan,
    Pointer,
    Step,
    Word,
    result,
)

EARLY = (9, 0)
"""The first compute capability whose kernels start early."""
Run = Callable[..., Any]
"""Takes the input tensors (None for an omitted one), then the words; returns the outputs."""


def runner(plan: Plan, count: int, device: torch.device, words: int = 0) -> Run:
    """The function that runs a plan of `count` inputs and of so many words on a device."""
    if device.type == "cuda":
        return _on_gpu(plan, count, device, words)
    return _simulated(plan, count)


# ---- the simulated GPU -------------------------------------------------------------------------
def _simulated(plan: Plan, count: int) -> Run:
    def run(*values: Any) -> Any:
        inputs, words = values[:count], values[count:]
        tensors = [*inputs, *map(_allocate, plan.outputs), *map(_allocate, plan.scratch)]
        memory = [None if t is None else span(t) for t in tensors]
        # New zeros for each call: kernels of two threads must not share them.
        zeros = _cleared(torch.device("cpu"))
        for step in plan.steps:
            launch = step.kernel[step.grid, step.block, step.shared, None, step.cluster]
            launch(*(_value(argument, memory, words, zeros) for argument in step.args))
        return result(tensors[count : count + len(plan.outputs)])

    return run


def _allocate(buffer: Buffer) -> torch.Tensor:
    made = torch.empty_strided(buffer.shape, buffer.steps, dtype=buffer.dtype)
    return made.zero_() if buffer.zeroed else made


def span(tensor: torch.Tensor) -> torch.Tensor:
    """A one-dimensional view from the first to the last element of a tensor."""
    if tensor.is_contiguous():
        return tensor.detach()
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.detach().as_strided((last + 1,), (1,), tensor.storage_offset())


def _value(argument: Any, memory: Sequence[Any], words: Sequence[int], zeros: torch.Tensor) -> Any:
    if isinstance(argument, Counters):
        # Partial results are numbers, for the check of a kernel's arguments.
        later = zeros[argument.offset // zeros.itemsize :]
        return later.view(torch.float32) if argument.offset else zeros
    if isinstance(argument, Word):
        return words[argument.number]
    if isinstance(argument, Constant):
        return constant(argument, torch.device("cpu"))
    if isinstance(argument, Map):
        return tensor_map.over(argument.request, _value(argument.pointer, memory, words, zeros))
    if not isinstance(argument, Pointer):
        return argument
    tensor = memory[argument.number]
    if tensor is None or not argument.offset:
        return tensor
    return tensor.reshape(-1)[argument.offset // tensor.itemsize :]


# ---- a real GPU --------------------------------------------------------------------------------
def _on_gpu(plan: Plan, count: int, device: torch.device, words: int) -> Run:
    buffers = (*plan.outputs, *plan.scratch)
    names = [f"t{i}" for i in range(count + len(buffers))]
    room: dict[str, Any] = {"empty": _empty(device), "zeros": _zeros(device)}
    parameters = names[:count] + [f"w{i}" for i in range(words)]
    lines = [f"def run({', '.join(parameters)}):"]
    for i, buffer in enumerate(buffers):
        room[f"shape{i}"], room[f"strides{i}"] = buffer.shape, buffer.steps
        room[f"dtype{i}"] = buffer.dtype
        make = "zeros" if buffer.zeroed else "empty"
        lines.append(f"    {names[count + i]} = {make}(shape{i}, strides{i}, dtype{i})")
    if any(isinstance(a, Counters) for step in plan.steps for a in step.args):
        room["counters"] = functools.partial(counters, device)
        lines.append("    counts = counters()")
    for i, step in enumerate(plan.steps):
        launch = _launch(step, device.index or 0)
        room |= {f"fast{i}": launch.fast, f"slow{i}": launch.slow, f"keep{i}": launch.keep}
        constants = [a for a in step.args if isinstance(a, Constant)]
        room |= {_label(a): constant(a, device).data_ptr() for a in constants}
        addresses = ", ".join(_address(a, names) for a in step.args if _is_address(a))
        lines.append(f"    if fast{i}({addresses}): slow{i}({addresses})")
    outputs = names[count : count + len(plan.outputs)]
    lines.append(f"    return {outputs[0] if len(outputs) == 1 else ', '.join(outputs)}")
    # The text has only generated names; values are passed through `room`.
    exec(compile("\n".join(lines), "<plan of weft.ops>", "exec"), room)
    made: Run = room["run"]
    return made


class Prepared(NamedTuple):
    """A launch whose addresses are open.

    open  the arguments that each call sets, and where they are in the parameter block
    """

    launch: PreparedLaunch
    params: bytes
    open: list[tuple[Argument, int]]


def prepare(step: Step, device: int) -> Prepared:
    """Load the kernel of a step on a GPU."""
    cluster = None if step.cluster is None else _three(step.cluster)
    gpu = devices.real(device)
    early = step.early and facts(device).compute_capability >= EARLY
    config = LaunchConfig(_three(step.grid), _three(step.block), step.shared, cluster, early)
    kernel, packer = step.kernel, step.kernel.packer
    params = packer.pack([_open(a, device) if _is_address(a) else a for a in step.args])[0]
    fields = zip(step.args, packer.params, strict=True)
    offsets = [(argument, field.offset) for argument, field in fields if _is_address(argument)]
    kernel.check(config, gpu)
    launch = gpu.prepare(LaunchTarget(kernel.program.on(gpu), kernel.entry, config), packer)
    return Prepared(launch, params, offsets)


def _launch(step: Step, device: int) -> AddressedLaunch:
    launch, params, arguments = prepare(step, device)
    return addressed(launch, params, [offset for _, offset in arguments], torch.Tensor)


def _is_address(argument: Any) -> bool:
    """True if each call sets this argument: eight bytes, the first ones of a tensor map."""
    return isinstance(argument, Pointer | Counters | Constant | Word | Map)


def _open(argument: Any, device: int) -> int | bytes | None:
    """The value of an argument until a call sets it."""
    if isinstance(argument, Map):
        return tensor_map.open_map(argument.request, device)
    return 0 if isinstance(argument, Word) else None


def _address(argument: Any, names: Sequence[str]) -> str:
    if isinstance(argument, Counters):
        return f"counts + {argument.offset}" if argument.offset else "counts"
    if isinstance(argument, Word):
        return f"w{argument.number}"
    if isinstance(argument, Constant):
        return _label(argument)
    if isinstance(argument, Map):
        argument = argument.pointer
    name = f"{names[argument.number]}.data_ptr()"
    return f"{name} + {argument.offset}" if argument.offset else name


def _label(constant: Constant) -> str:
    """The name of a constant's address in the text of a plan."""
    return f"constant_{constant.name.encode().hex()}"


def _three(dim: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*dim, 1, 1)[:3]
    return x, y, z


def _empty(device: torch.device) -> Callable[..., torch.Tensor]:
    """torch's fastest allocation function, which Inductor uses as well."""
    quick: Any = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    # This function always allocates on the current device.
    if quick is not None and torch.cuda.device_count() == 1:
        allocate: Callable[..., torch.Tensor] = quick
        return allocate
    return lambda shape, strides, dtype: torch.empty_strided(
        shape, strides, dtype=dtype, device=device
    )


def _zeros(device: torch.device) -> Callable[..., torch.Tensor]:
    empty = _empty(device)
    return lambda shape, strides, dtype: empty(shape, strides, dtype).zero_()


_CONSTANTS: dict[tuple[str, torch.device], torch.Tensor] = {}


def constant(table: Constant, device: torch.device) -> torch.Tensor:
    """The tensor of a constant on a device; it is kept, because plans have its address."""
    key = (table.name, device)
    if key not in _CONSTANTS:
        _CONSTANTS[key] = table.make().to(device)
    return _CONSTANTS[key]


_SHARED_COUNTERS: dict[tuple[int, int], torch.Tensor] = {}
_GRAPH_COUNTERS: dict[tuple[int, int], torch.Tensor] = {}
"""Those of captures, by the number of the capture and the stream."""
MOST_CAPTURES = 16
"""Captures whose zeros are kept: no more are under way at once."""


def counters(device: torch.device) -> int:
    """The address of zeros shared by launches of the current stream.

    A graph gets its own zeros, which each replay clears once: a replay may overlap launches of
    other streams. They are kept while the graph is captured, so that nothing else in it gets their
    memory.
    """
    number = device.index or 0
    stream = torch._C._cuda_getCurrentRawStream(number)
    if torch.cuda.is_current_stream_capturing():
        key, known = (_capture(stream), stream), _GRAPH_COUNTERS
        while len(known) >= MOST_CAPTURES and key not in known:
            del known[next(iter(known))]
    else:
        key, known = (number, stream), _SHARED_COUNTERS
    zeros = known.get(key)
    if zeros is None:
        zeros = known[key] = _cleared(device)
    return int(zeros.data_ptr())


def _capture(stream: int) -> int:
    """The number of the capture of a stream."""
    driver = bindings()
    error, _, number, *_ = driver.cuStreamGetCaptureInfo(stream)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"cuStreamGetCaptureInfo: {error}")
    return int(number)


def _cleared(device: torch.device) -> torch.Tensor:
    """Counters that are zero, and memory for partial results after them."""
    made = torch.empty(COUNTERS + PARTIALS // 4, dtype=torch.int32, device=device)
    made[:COUNTERS].zero_()
    return made
