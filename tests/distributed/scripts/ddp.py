"""DistributedDataParallel with accumulated gradients and a checkpoint, against one process."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
device = torch.device("cuda", rank)


def model_of(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3)).to(device)


def batch(step, part):
    values = torch.arange(4 * 6, dtype=torch.float32, device=device).reshape(4, 6)
    return torch.sin(values * (1 + step) + part)


def train(model, parts, together):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(3):
        optimizer.zero_grad()
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            with together.no_sync() if together and not last else torch.enable_grad():
                loss = (together or model)(batch(step, part)).square().mean() / len(parts)
                loss.backward()
        optimizer.step()
    return optimizer


model = model_of(rank)  # DDP begins with the parameters of rank 0
parallel = DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
train(model, [2 * rank, 2 * rank + 1], parallel)
alone = model_of(0)
train(alone, range(2 * world), None)
for ours, expected in zip(model.parameters(), alone.parameters(), strict=True):
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)

if rank == 0:
    torch.save(parallel.state_dict(), "checkpoint.pt")
dist.barrier()
again = DistributedDataParallel(model_of(7), device_ids=[rank])
again.load_state_dict(
    torch.load("checkpoint.pt", map_location={"cuda:0": f"cuda:{rank}"}, weights_only=True)
)
assert torch.equal(again(batch(0, 0)), parallel(batch(0, 0)))
dist.destroy_process_group()
