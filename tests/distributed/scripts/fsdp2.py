"""`fully_shard` with mixed precision, state dicts and checkpoints, against one process."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("cpu:gloo,cuda:nccl")
mesh = init_device_mesh("cuda", (world,))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def make():
    torch.manual_seed(3)
    return nn.Sequential(Block(), Block(), nn.Linear(8, 3)).to("cuda")


def shard(model, **options):
    for block in model[:2]:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def part(rank):
    return torch.cos(torch.arange(4 * 8, device="cuda").reshape(4, 8) * 0.3 + rank)


def train(model, x, steps=2):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
    return optimizer, norm


alone = make()
_, expected_norm = train(alone, torch.cat([part(r) for r in range(world)]))
model = shard(make())
weight = model[0].up.weight
assert isinstance(weight, DTensor) and weight.placements == (Shard(0),)
assert weight.to_local().shape == (16 // world, 8) and weight.device == torch.device("cuda", rank)
optimizer, norm = train(model, part(rank))
torch.testing.assert_close(norm.full_tensor(), expected_norm, rtol=1e-4, atol=1e-6)
full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
for name, value in full.items():
    torch.testing.assert_close(value, alone.state_dict()[name], rtol=1e-4, atol=1e-5)

states, moments = get_state_dict(model, optimizer)
dcp.save({"model": states, "optimizer": moments}, checkpoint_id="saved")
again = shard(make())
other = torch.optim.AdamW(again.parameters(), 1e-2)
states, moments = get_state_dict(again, other)
loaded = {"model": states, "optimizer": moments}
dcp.load(loaded, checkpoint_id="saved")
set_state_dict(again, other, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
assert torch.equal(again(part(rank)), model(part(rank)))

policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
half = shard(make(), mp_policy=policy, reshard_after_forward=False)
assert half(part(rank)).dtype == torch.bfloat16
train(half, part(rank))
for ours, expected in zip(half.parameters(), alone.parameters(), strict=True):
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.full_tensor(), expected, rtol=0.1, atol=0.03)

with torch.device("meta"):
    empty = nn.Linear(8, 8)
assert empty.weight.is_meta
fully_shard(empty, mesh=mesh)
empty.to_empty(device="cuda")
nn.init.ones_(empty.weight)
nn.init.zeros_(empty.bias)
torch.testing.assert_close(empty(part(0)), part(0).sum(1, keepdim=True).expand(4, 8))
dist.destroy_process_group()
