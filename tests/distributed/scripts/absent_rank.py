"""A rank that does not come: to a collective, then to a new group. The limit ends the wait."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", timeout=timedelta(seconds=20))


def refused(call, *parts):
    begin = time.monotonic()
    try:
        call()
    except dist.DistError as error:
        for part in parts:
            assert part in str(error), (part, str(error))
    else:
        raise AssertionError(f"{parts} was not refused")
    assert time.monotonic() - begin < 200


dist.all_reduce(torch.ones(1, device="cuda"))
if rank == 0:
    refused(
        lambda: dist.all_reduce(torch.ones(2, device="cuda")),
        "all_reduce(sum, float32 [2]) failed on rank 0",
        "rank 1: last called collective 1, all_reduce(sum, float32 [1])",
        "`timeout=` of init_process_group",
    )
    refused(
        lambda: dist.new_group([0, 1], timeout=timedelta(seconds=3)),
        "not all ranks of a process group came in time",
        "rank 1 of 2 missing after 0:00:03",
    )
    open("over", "w").close()
while not os.path.exists("over"):
    time.sleep(0.1)
