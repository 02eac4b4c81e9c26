"""A rank that ends in the middle: the others get an error, and do not wait for the limit."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
dist.all_reduce(torch.ones(1, device="cuda"))
if rank == 1:
    os._exit(7)
dist.all_reduce(torch.ones(1, device="cuda"))
