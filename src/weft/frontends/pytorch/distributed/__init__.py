"""Scripts of several processes: `torch.distributed` with simulated GPUs.

groups.py        process groups of NCCL, which Gloo serves
operators.py     registers the collectives as torch's operators
collectives.py   the collectives, composed of what Gloo has
reductions.py    sums, averages and their like, for all dtypes of NCCL
sections.py      the memory of tensors as bytes
communicator.py  runs the collectives of a group in order, and compares the ranks' calls
"""
