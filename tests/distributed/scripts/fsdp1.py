"""FullyShardedDataParallel with wrapped layers and a full state dict, against one process."""

import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import (
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 5)).cuda()


def part(rank):
    return torch.cos(torch.arange(4 * 6, device="cuda").reshape(4, 6) * 0.3 + rank)


def step(model, x):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()


alone = make()
step(alone, torch.cat([part(r) for r in range(world)]))
wrap = functools.partial(size_based_auto_wrap_policy, min_num_params=100)
for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
    model = FullyShardedDataParallel(
        make(),
        auto_wrap_policy=wrap,
        device_id=torch.cuda.current_device(),
        sharding_strategy=strategy,
    )
    step(model, part(rank))
    full = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, full):
        state = model.state_dict()
    assert bool(state) == (rank == 0)
    for name, value in state.items():
        torch.testing.assert_close(value, alone.state_dict()[name], rtol=1e-5, atol=1e-6)

half = MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)
model = FullyShardedDataParallel(make(), mixed_precision=half, use_orig_params=True)
step(model, part(rank))
norm = model.clip_grad_norm_(1.0)
with FullyShardedDataParallel.summon_full_params(model):
    for ours, expected in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=0.05, atol=0.02)
assert torch.isfinite(norm)
dist.destroy_process_group()
