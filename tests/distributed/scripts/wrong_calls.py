"""Calls on which the ranks disagree, or that NCCL or a GPU would refuse, and their errors."""

import os

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")


def refused(call, *parts, kind=dist.DistBackendError):
    try:
        call()
    except kind as error:
        for part in parts:
            assert part in str(error), (part, str(error))
    else:
        raise AssertionError(f"{parts} was not refused")


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="cuda")


size, dtype = 4 + rank, (torch.float32, torch.int32)[rank]
refused(
    lambda: dist.all_reduce(ones(size)),
    "the ranks disagree",
    "rank 0: all_reduce(sum, float32 [4]), rank 1: all_reduce(sum, float32 [5])",
)
refused(lambda: dist.all_reduce(ones(4, dtype=dtype)), "float32 [4]", "int32 [4]")
operation = (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[rank]
refused(lambda: dist.all_reduce(ones(4), op=operation), "rank 0: all_reduce(sum", "rank 1: all_red")
refused(lambda: dist.broadcast(ones(4), rank), "from 0", "from 1")
refused(
    lambda: dist.barrier() if rank else dist.all_reduce(ones(1)), "all_reduce(", "rank 1: barrier()"
)
out = [ones(3), ones(3)]
refused(lambda: dist.all_gather(out, ones(3 + rank)), "float32 [3]", "float32 [4]")
refused(
    lambda: dist.all_to_all_single(ones(4), ones(4), [1, 3], [2, 2]),
    "rank 0: all_to_all(float32 [2], float32 [2] to float32 [1], float32 [3])",
)
work = dist.all_reduce(ones(size), async_op=True)
refused(work.wait, "the ranks disagree", "rank 1")
refused(lambda: functional.all_reduce(ones(size), "sum", dist.group.WORLD) + 1, "rank 1")

# The group still works: nothing was sent.
value = ones(2)
dist.all_reduce(value)
assert value.tolist() == [2, 2]

refused(
    lambda: dist.all_reduce(ones(1, dtype=torch.int16)), "not supported", "int16", kind=TypeError
)
refused(
    lambda: dist.all_reduce(ones(1, dtype=torch.int32), op=dist.ReduceOp.BAND),
    "BAND",
    kind=ValueError,
)
refused(
    lambda: dist.all_reduce(ones(1, dtype=torch.bool), op=dist.ReduceOp.AVG), "AVG", kind=TypeError
)
refused(
    lambda: dist.all_reduce(ones(1, dtype=torch.complex64), op=dist.ReduceOp.MAX),
    "complex",
    kind=ValueError,
)
refused(
    lambda: dist.all_gather_into_tensor(ones(3), ones(2)),
    "has 3 elements, expected 2 x 2",
    kind=ValueError,
)
refused(
    lambda: dist.reduce_scatter_tensor(ones(2), ones(3)),
    "has 3 elements, expected 2 x 2",
    kind=ValueError,
)
refused(lambda: dist.all_to_all_single(ones(3), ones(3)), "of 3, by 2 ranks", kind=ValueError)

count = torch.cuda.device_count()
ordinal = ("invalid device ordinal", f"cuda:{count}", f"weft run --gpus {count + 1}")
refused(lambda: torch.cuda.set_device(count), *ordinal, kind=RuntimeError)
refused(lambda: torch.ones(1, device=f"cuda:{count}"), *ordinal, kind=RuntimeError)
refused(lambda: torch.ones(1).to(count), *ordinal, kind=RuntimeError)
refused(lambda: torch.ones(1).cuda(count), *ordinal, kind=RuntimeError)
refused(lambda: torch.cuda.device(count).__enter__(), *ordinal, kind=RuntimeError)
refused(lambda: torch.cuda.can_device_access_peer(0, count), *ordinal, kind=RuntimeError)
dist.destroy_process_group()
refused(
    lambda: dist.init_process_group("nccl", device_id=torch.device("cuda", count)),
    "out of range",
    kind=ValueError,
)
