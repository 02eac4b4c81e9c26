"""All collectives of NCCL's groups, on two or more ranks, with values that are known."""

import os

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import _functional_collectives as functional

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
total = world * (world + 1) / 2
EXACT = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8,
    torch.int32, torch.int64, torch.float8_e4m3fn, torch.complex64,
)  # fmt: skip


def mine(*shape, dtype=torch.float32):
    """Ones times the number of this rank, from 1."""
    return torch.full(shape or (3,), rank + 1, device="cuda").to(dtype)


def is_all(tensor, value):
    wide = tensor.to(torch.complex128)
    assert torch.allclose(wide, torch.full_like(wide, value), rtol=1e-6), (tensor, value)


def reductions():
    for dtype in EXACT:
        value = mine(dtype=dtype)
        dist.all_reduce(value)
        is_all(value, total)
    product = 1.0
    for number in range(world):
        product *= number + 1
    wanted = {
        ReduceOp.AVG: total / world,
        ReduceOp.MAX: world,
        ReduceOp.MIN: 1,
        ReduceOp.PRODUCT: product,
    }
    for operation, expected in wanted.items():
        value = mine()
        dist.all_reduce(value, op=operation)
        is_all(value, expected)
    value = mine(dtype=torch.int32)
    dist.all_reduce(value, op=ReduceOp.AVG)
    is_all(value, total // world)
    value = mine()
    dist.all_reduce(value, op=dist._make_nccl_premul_sum(0.5))
    is_all(value, total / 2)
    flags = torch.tensor([rank == 0, False, True], device="cuda")
    dist.all_reduce(flags)
    assert flags.tolist() == [True, False, True]
    value = mine(2, 3).T
    dist.all_reduce(value)
    is_all(value, total)
    value = mine()
    dist.reduce(value, 0, op=ReduceOp.AVG)
    is_all(value, total / world if rank == 0 else rank + 1)
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (world,))
    dist.all_reduce(sparse)
    is_all(sparse.to_dense(), 1)


def parts():
    """Collectives that divide or join tensors, also those of different sizes."""
    for dtype in EXACT:
        value = mine(2, 2, dtype=dtype)
        dist.broadcast(value, 1)
        is_all(value, 2)
        every = [torch.empty_like(value) for _ in range(world)]
        dist.all_gather(every, mine(2, 2, dtype=dtype))
        for number, part in enumerate(every):
            is_all(part, number + 1)
    every = [torch.empty(number, device="cuda") for number in range(world)]
    dist.all_gather(every, mine(rank) if rank else torch.empty(0))
    for number, part in enumerate(every):
        is_all(part, number + 1)
    into = torch.empty(world, 3, device="cuda")
    dist.all_gather_into_tensor(into, mine())
    is_all(into.sum(0), total)
    ramp = torch.arange(3.0 * world, device="cuda")
    part = torch.empty(3, device="cuda")
    dist.reduce_scatter_tensor(part, ramp, op=ReduceOp.AVG)
    torch.testing.assert_close(part, ramp.view(world, 3)[rank])
    part = torch.empty(rank + 1, device="cuda")
    dist.reduce_scatter(part, [torch.full((n + 1,), float(n)) for n in range(world)])
    is_all(part, rank * world)
    given = [torch.full((rank + 1,), float(10 * rank + n), device="cuda") for n in range(world)]
    taken = [torch.empty(n + 1, device="cuda") for n in range(world)]
    dist.all_to_all(taken, given)
    for number, part in enumerate(taken):
        is_all(part, 10 * number + rank)
    taken = torch.empty(world, device="cuda", dtype=torch.bfloat16)
    dist.all_to_all_single(taken, mine(world, dtype=torch.bfloat16))
    is_all(taken.sum(), total)
    part = torch.empty(3, device="cuda")
    dist.scatter(part, [torch.full((3,), float(n)) for n in range(world)] if not rank else None)
    is_all(part, rank)
    every = [torch.empty(3) for _ in range(world)] if rank == 1 else None
    dist.gather(mine(), every, dst=1)
    for number, part in enumerate(every or ()):
        is_all(part, number + 1)
    with dist.distributed_c10d._coalescing_manager():
        values = [mine(), mine(2)]
        for value in values:
            dist.all_reduce(value)
    for value in values:
        is_all(value, total)


def objects():
    every = [None] * world
    dist.all_gather_object(every, {"rank": rank})
    assert every == [{"rank": number} for number in range(world)]
    every = [rank, "a"]
    dist.broadcast_object_list(every, 0)
    assert every == [0, "a"]
    one = [None]
    dist.scatter_object_list(one, list(range(world)) if rank == 0 else None)
    assert one == [rank]
    every = [None] * world if rank == 0 else None
    dist.gather_object(rank, every)
    assert every == (list(range(world)) if rank == 0 else None)


def between_two():
    after, before = (rank + 1) % world, (rank - 1) % world
    value, came = mine(dtype=torch.bfloat16), torch.empty(3, dtype=torch.bfloat16, device="cuda")
    if rank % 2:
        dist.recv(came, before)
        dist.send(value, after)
    else:
        dist.send(value, after)
        dist.recv(came, before)
    is_all(came, before + 1)
    came.zero_()
    for work in (dist.isend(value, after), dist.irecv(came, before)):
        work.wait()
    is_all(came, before + 1)
    came.zero_()
    both = dist.P2POp(dist.isend, value, after), dist.P2POp(dist.irecv, came, before)
    for work in dist.batch_isend_irecv(list(both)):
        work.wait()
    is_all(came, before + 1)


def asynchronous():
    values = [mine() for _ in range(4)]
    works = [dist.all_reduce(value, async_op=True) for value in values]
    for work, value in zip(works, values, strict=True):
        work.wait()
        assert work.is_completed()
        is_all(value, total)
    doubled = (
        dist.all_reduce(values[0], async_op=True).get_future().then(lambda f: 2 * f.value()[0])
    )
    is_all(doubled.wait(), 2 * world * total)
    is_all(functional.all_reduce(mine(), "avg", dist.group.WORLD), total / world)
    gathered = functional.all_gather_tensor(mine(1), 0, dist.group.WORLD)
    assert gathered.tolist() == [number + 1 for number in range(world)]


def groups():
    pair = dist.new_group([0, 1])
    if rank < 2:
        value = mine()
        dist.all_reduce(value, group=pair)
        is_all(value, 3)
        assert dist.get_backend(pair) == "nccl" and dist.get_rank(pair) == rank
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    other = dist.new_group(backend="cpu:gloo,cuda:nccl", pg_options=options)
    dist.barrier(other)
    plain = dist.new_group(backend="gloo")
    assert dist.get_backend(plain) == "gloo"
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, op=ReduceOp.BOR, group=plain)
    assert bits.item() == (1 << world) - 1
    dist.monitored_barrier(plain)
    dist.destroy_process_group(plain)


def devices():
    here = torch.device("cuda", rank)
    assert mine().device == here == torch.cuda.Stream().device and mine().get_device() == rank
    assert torch.cuda.current_device() == rank < torch.cuda.device_count()
    assert torch.cuda.can_device_access_peer(0, 1) and not torch.cuda.can_device_access_peer(1, 1)
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == rank
    assert torch.empty(1, device="meta").device.type == "meta" and not mine().is_cpu
    value = mine()
    copy = value.to((rank + 1) % world)
    copy += 1
    is_all(value, rank + 1)


torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
assert dist.get_backend() == "nccl" and dist.is_nccl_available()
dist.barrier()
dist.barrier(device_ids=[rank])
for part in (reductions, parts, objects, between_two, asynchronous, groups, devices):
    part()
dist.destroy_process_group()
