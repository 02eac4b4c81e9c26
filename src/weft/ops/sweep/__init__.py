"""The sweep: runs library ops on random calls, checks them in float64, compares with torch.

draw.py      random sizes, dtypes and strides from a seed
case.py      what a case is: random arguments of an op, and its torch counterpart
cases/       the cases of each family, found by name
time.py      times a call, as users make it and alone
run.py       makes one call, checks it and times it
gpu_lock.py  lets one process at a time use the GPU
compiled.py  torch.compile as a contender
measure.py   measures one call with all contenders
worker.py    a process that measures calls
whole.py     all calls of the ops, and their record
host.py      the host time of a call
gpu.py       requires a GPU
"""
