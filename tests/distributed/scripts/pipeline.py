"""A network in stages, by two schedules, against one process."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    SplitPoint,
    pipeline,
)

rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(world))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def loss_of(out, target):
    return (out - target).square().mean()


x = torch.sin(torch.arange(8.0 * 6, device=device)).reshape(8, 6)
target = torch.cos(torch.arange(8.0 * 6, device=device)).reshape(8, 6)
alone = Net().to(device)
expected = alone(x)
loss_of(expected, target).backward()


def stage_by_hand():
    model = Net().to(device)
    own = nn.Sequential(model.layers[rank], nn.Tanh())
    return PipelineStage(own, rank, world, device), model.layers[rank]


def stage_by_tracing():
    model = Net().to(device)
    points = {f"layers.{i}": SplitPoint.BEGINNING for i in range(1, world)}
    pipe = pipeline(model, mb_args=(x[:2],), split_spec=points)
    return pipe.build_stage(rank, device), None


for build, schedule in (
    (stage_by_hand, ScheduleGPipe),
    (stage_by_hand, Schedule1F1B),
    (stage_by_tracing, ScheduleGPipe),
):
    stage, layer = build()
    run, losses = schedule(stage, n_microbatches=4, loss_fn=loss_of), []
    if rank == 0:
        out = run.step(x)
    elif rank == world - 1:
        out = run.step(target=target, losses=losses)
    else:
        out = run.step()
    if rank == world - 1:
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            torch.stack(losses).mean(), loss_of(expected, target), rtol=1e-5, atol=1e-6
        )
    weight = next(stage.submod.parameters())
    wanted = alone.layers[rank].weight.grad
    torch.testing.assert_close(weight.grad, wanted, rtol=1e-4, atol=1e-6)
dist.destroy_process_group()
