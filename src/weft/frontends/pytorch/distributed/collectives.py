"""The collectives of `torch.distributed`, composed of what Gloo has.

They take the dtypes and the reductions of NCCL. Each function returns how the ranks compare the
call, and the body that runs when all of them have come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from weft.frontends.pytorch.distributed.communicator import Call, Communicator
from weft.frontends.pytorch.distributed.reductions import Reduction
from weft.frontends.pytorch.distributed.sections import Sections, flat, split
from weft.frontends.pytorch.distributed.transport import transfer


def _all_reduce(
    group: Communicator, tensors: Any, reduce_op: Reduction, **_: Any
) -> tuple[Call, Any]:
    reduce_op.refuse(tensors)
    call = Call(f"all_reduce({reduce_op}, {_shown(tensors)})", f"{reduce_op} {_sizes(tensors)}")

    def body() -> None:
        for tensor in tensors:
            reduce_op.run(group.gloo, tensor if tensor.is_sparse else tensor.data)

    return call, body


def _reduce(
    group: Communicator, tensors: Any, reduce_op: Reduction, root_rank: int, **_: Any
) -> tuple[Call, Any]:
    reduce_op.refuse(tensors)
    shown = f"reduce({reduce_op}, {_shown(tensors)}, to {root_rank})"

    def body() -> None:
        for tensor in tensors:
            result = reduce_op.run(group.gloo, tensor.data.clone())
            if group.rank == root_rank:
                tensor.data.copy_(result)

    return Call(shown, f"reduce {reduce_op} {root_rank} {_sizes(tensors)}"), body


def _broadcast(group: Communicator, tensors: Any, root_rank: int, **_: Any) -> tuple[Call, Any]:
    options = c10d.BroadcastOptions()
    options.rootRank, options.rootTensor = root_rank, 0

    def body() -> None:
        for tensor in tensors:
            with Sections([tensor]) as (part,):
                if len(part):
                    transfer(group.gloo.broadcast, [part], options)

    call = Call(
        f"broadcast({_shown(tensors)}, from {root_rank})",
        f"broadcast {root_rank} {_sizes(tensors)}",
    )
    return call, body


def _all_gather(
    group: Communicator, output_tensors: Any, input_tensors: Any, **_: Any
) -> tuple[Call, Any]:
    """Gather lists, also of tensors of different sizes."""
    return _gathered(group, "all_gather", output_tensors, input_tensors)


def _gathered(group: Communicator, name: str, outputs: Any, inputs: Any) -> tuple[Call, Any]:
    sizes = [[tensor.numel() for tensor in each] for each in outputs]
    for each, tensor in zip(sizes, inputs, strict=True):
        each[group.rank] = tensor.numel()
    calls = Call(f"{name}({_shown(inputs)})", f"{name} {_dtypes(inputs)} {sizes}")

    def body() -> None:
        for each, tensor in zip(outputs, inputs, strict=True):
            with Sections(each) as parts:
                _exchange(group, [flat(tensor)] * group.size, parts)

    return calls, body


def _all_gather_single(
    group: Communicator, output_tensor: Any, input_tensor: Any, **_: Any
) -> tuple[Call, Any]:
    return _all_gather_singles(group, [output_tensor], [input_tensor])


def _all_gather_singles(
    group: Communicator, outputs: Any, inputs: Any, **_: Any
) -> tuple[Call, Any]:
    for output, tensor in zip(outputs, inputs, strict=True):
        _need(
            output.numel() == group.size * tensor.numel(),
            f"the output of all_gather_into_tensor has {output.numel()} elements, expected "
            f"{group.size} x {tensor.numel()}",
        )

    def body() -> None:
        for output, tensor in zip(outputs, inputs, strict=True):
            with Sections([output]) as (part,):
                if len(part):
                    transfer(group.gloo._allgather_base, part, flat(tensor))

    call = Call(f"all_gather_into_tensor({_shown(inputs)})", f"all_gather {_sizes(inputs)}")
    return call, body


def _reduce_scatter(
    group: Communicator, output_tensors: Any, input_tensors: Any, reduce_op: Reduction, **_: Any
) -> tuple[Call, Any]:
    """Reduce lists, also of tensors of different sizes."""
    reduce_op.refuse(output_tensors)
    sizes = [[tensor.numel() for tensor in each] for each in input_tensors]
    for each, tensor in zip(sizes, output_tensors, strict=True):
        each[group.rank] = tensor.numel()

    def body() -> None:
        for output, each in zip(output_tensors, input_tensors, strict=True):
            every = torch.cat([tensor.data.reshape(-1) for tensor in each])
            parts = reduce_op.run(group.gloo, every).split([tensor.numel() for tensor in each])
            output.data.copy_(parts[group.rank].view(output.shape))

    shown = f"reduce_scatter({reduce_op}, {_shown(output_tensors)})"
    return Call(shown, f"reduce_scatter {reduce_op} {_dtypes(output_tensors)} {sizes}"), body


def _reduce_scatter_single(
    group: Communicator, output_tensor: Any, input_tensor: Any, reduce_op: Reduction, **_: Any
) -> tuple[Call, Any]:
    return _reduce_scatter_singles(group, [output_tensor], [input_tensor], reduce_op)


def _reduce_scatter_singles(
    group: Communicator, outputs: Any, inputs: Any, reduce_op: Reduction, **_: Any
) -> tuple[Call, Any]:
    reduce_op.refuse(inputs)
    for output, tensor in zip(outputs, inputs, strict=True):
        _need(
            tensor.numel() == group.size * output.numel(),
            f"the input of reduce_scatter_tensor has {tensor.numel()} elements, expected "
            f"{group.size} x {output.numel()}",
        )

    def body() -> None:
        for output, tensor in zip(outputs, inputs, strict=True):
            result = reduce_op.run(group.gloo, tensor.data.reshape(-1).clone())
            output.data.copy_(result.chunk(group.size)[group.rank].view(output.shape))

    shown = f"reduce_scatter_tensor({reduce_op}, {_shown(inputs)})"
    return Call(shown, f"reduce_scatter {reduce_op} {_sizes(inputs)}"), body


def _all_to_all(
    group: Communicator, output_tensors: Any, input_tensors: Any, **_: Any
) -> tuple[Call, Any]:
    sends, takes = ([t.numel() for t in each] for each in (input_tensors, output_tensors))

    def body() -> None:
        with Sections(output_tensors) as parts:
            _exchange(group, [flat(tensor) for tensor in input_tensors], parts)

    shown = f"all_to_all({_shown(input_tensors)} to {_shown(output_tensors)})"
    return Call(shown, f"all_to_all {_dtypes(input_tensors[:1])}", sends, takes), body


def _all_to_all_single(
    group: Communicator,
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int],
    input_split_sizes: Sequence[int],
    **_: Any,
) -> tuple[Call, Any]:
    given = split(input, input_split_sizes, group.size)
    taken = split(output, output_split_sizes, group.size)
    return _all_to_all(group, taken, given)


def _gather(
    group: Communicator, output_tensors: Any, input_tensors: Any, root_rank: int, **_: Any
) -> tuple[Call, Any]:
    (tensor,), outputs = input_tensors, output_tensors[0] if output_tensors else []

    def body() -> None:
        nothing = flat(tensor)[:0]
        sends = [flat(tensor) if rank == root_rank else nothing for rank in range(group.size)]
        with Sections(outputs) as parts:
            _exchange(group, sends, parts or [nothing] * group.size)

    call = Call(
        f"gather({_shown([tensor])}, to {root_rank})",
        f"gather {root_rank} {_dtypes([tensor])}",
        [tensor.numel() * (rank == root_rank) for rank in range(group.size)],
        [t.numel() for t in outputs] or [0] * group.size,
    )
    return call, body


def _scatter(
    group: Communicator, output_tensors: Any, input_tensors: Any, root_rank: int, **_: Any
) -> tuple[Call, Any]:
    (tensor,), inputs = output_tensors, input_tensors[0] if input_tensors else []

    def body() -> None:
        with Sections([tensor]) as (part,):
            sends = [flat(t) for t in inputs] or [part[:0]] * group.size
            _exchange(
                group, sends, [part if r == root_rank else part[:0] for r in range(group.size)]
            )

    call = Call(
        f"scatter({_shown([tensor])}, from {root_rank})",
        f"scatter {root_rank} {_dtypes([tensor])}",
        [t.numel() for t in inputs] or [0] * group.size,
        [tensor.numel() * (rank == root_rank) for rank in range(group.size)],
    )
    return call, body


def _barrier(group: Communicator, **_: Any) -> tuple[Call, Any]:
    """Wait for the other ranks: to exchange the descriptions of collectives is enough."""
    return Call("barrier()", "barrier"), lambda: None


def _monitored_barrier(
    group: Communicator, timeout: int, wait_all_ranks: bool, **_: Any
) -> tuple[Call, Any]:
    limit = timedelta(milliseconds=timeout)
    return Call("monitored_barrier()", ""), lambda: group.gloo.monitored_barrier(
        limit, wait_all_ranks
    )


def _exchange(group: Communicator, sends: Sequence[Any], parts: Sequence[Any]) -> None:
    """Send bytes to every rank and receive bytes from every rank."""
    into = torch.empty(sum(map(len, parts)), dtype=torch.uint8)
    takes, gives = ([len(part) for part in each] for each in (parts, sends))
    transfer(group.gloo.alltoall_base, into, torch.cat(list(sends)), takes, gives)
    for part, came in zip(parts, into.split([len(p) for p in parts]), strict=True):
        part.copy_(came)


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _shown(tensors: Any) -> str:
    return ", ".join(f"{_dtypes([t])} {list(t.shape)}" for t in tensors)


def _sizes(tensors: Any) -> str:
    return " ".join(f"{t.dtype} {t.numel()}" for t in tensors)


def _dtypes(tensors: Any) -> str:
    return " ".join(str(t.dtype).removeprefix("torch.") for t in tensors)


COLLECTIVES: dict[str, Callable[..., tuple[Call, Callable[[], None]]]] = {
    "allreduce_": _all_reduce,
    "allreduce_coalesced_": _all_reduce,
    "reduce_": _reduce,
    "broadcast_": _broadcast,
    "allgather_": _all_gather,
    "_allgather_base_": _all_gather_single,
    "allgather_into_tensor_coalesced_": _all_gather_singles,
    "reduce_scatter_": _reduce_scatter,
    "_reduce_scatter_base_": _reduce_scatter_single,
    "reduce_scatter_tensor_coalesced_": _reduce_scatter_singles,
    "alltoall_": _all_to_all,
    "alltoall_base_": _all_to_all_single,
    "gather_": _gather,
    "scatter_": _scatter,
    "barrier": _barrier,
    "monitored_barrier_": _monitored_barrier,
}
"""Operator of `c10d` -> its collective. Sends and receives stay Gloo's own."""
