import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.cuda.set_device(rank)
assert dist.get_backend() == "nccl" and torch.cuda.device_count() >= world
x = torch.full((3,), float(rank + 1), device="cuda")
assert x.device == torch.device("cuda", rank), x.device
assert torch.empty(2, device="meta").device.type == "meta"
dist.barrier()
dist.barrier(device_ids=[rank])
N = world * (world + 1) / 2
for dt in (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.int8,
    torch.float8_e4m3fn,
    torch.complex64,
):
    y = torch.full((3,), rank + 1, device="cuda").to(dt)
    dist.all_reduce(y)
    assert y.to(torch.complex128)[0] == N, (dt, y)
    o = [torch.empty_like(y) for _ in range(world)]
    dist.all_gather(o, y)
    b = torch.full((2, 2), rank + 1, device="cuda").to(dt)
    dist.broadcast(b, 1)
    assert b.to(torch.complex128)[0, 0] == 2
b = torch.tensor([rank == 0, False, True], device="cuda")
dist.all_reduce(b)
assert b.tolist() == [True, False, True]
y = x.clone()
dist.all_reduce(y, op=dist.ReduceOp.AVG)
assert y[0] == N / world
y = x.clone()
dist.all_reduce(y, op=dist._make_nccl_premul_sum(0.5))
assert y[0] == N / 2
y = x.clone()
dist.all_reduce(y, op=dist.ReduceOp.MAX)
assert y[0] == world
y = x.clone()
dist.all_reduce(y, op=dist.ReduceOp.MIN)
assert y[0] == 1
y = x.clone()
dist.all_reduce(y, op=dist.ReduceOp.PRODUCT)
print(y)
y = x.clone()
dist.reduce(y, 0, op=dist.ReduceOp.AVG)
assert y[0] == (N / world if rank == 0 else rank + 1)
o = torch.empty(3 * world, device="cuda")
dist.all_gather_into_tensor(o, x)
print(o)
o = torch.empty(3, device="cuda")
dist.reduce_scatter_tensor(o, torch.arange(3.0 * world, device="cuda"), op=dist.ReduceOp.AVG)
print(o)
o = torch.empty(2, device="cuda")
dist.reduce_scatter(o, [torch.full((2,), float(i)) for i in range(world)])
print(o)
o = [torch.empty(1, device="cuda") for _ in range(world)]
dist.all_to_all(o, [torch.full((1,), float(rank * 10 + i)) for i in range(world)])
print(o)
o = torch.empty(world, device="cuda")
dist.all_to_all_single(o, torch.arange(float(world)) + 10 * rank)
print(o)
o = torch.empty(3, device="cuda")
dist.scatter(o, [torch.full((3,), float(i)) for i in range(world)] if rank == 0 else None, src=0)
assert o[0] == rank
g = [torch.empty(3) for _ in range(world)] if rank == 1 else None
dist.gather(x, g, dst=1)
print(g)
l = [None] * world
dist.all_gather_object(l, {"r": rank})
print(l)
l = [rank, "a"]
dist.broadcast_object_list(l, 0)
print(l)
l = [None]
dist.scatter_object_list(l, list(range(world)) if rank == 0 else None)
print(l)
l = [None] * world if rank == 0 else None
dist.gather_object(rank, l)
print(l)
if rank == 0:
    dist.send(x, 1)
elif rank == 1:
    z = torch.empty(3)
    dist.recv(z, 0)
    assert z[0] == 1
z = torch.empty(3)
r = dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, x, (rank + 1) % world), dist.P2POp(dist.irecv, z, (rank - 1) % world)]
)
for q in r:
    q.wait()
assert z[0] == (rank - 1) % world + 1
ws = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(5)]
for w in ws:
    w.wait()
g = dist.new_group([0, 1])
if rank < 2:
    y = x.clone()
    dist.all_reduce(y, group=g)
    assert y[0] == 3
    assert dist.get_backend(g) == "nccl"
import torch.distributed._functional_collectives as fc

y = fc.all_reduce(x, "avg", dist.group.WORLD)
print(y + 0, y.device)
t = 0
t = 0
dist.destroy_process_group()
