"""The sweep: ops of the library on calls drawn at random, against torch, checked in float64.

draw.py      sizes, dtypes and strides from a seed
cases.py     what each op is called with, and what torch calls it
time.py      how long a call takes, as users make it and alone
run.py       makes one call: checks it, times it
compiled.py  torch.compile as a contender, compiled ahead in several processes
whole.py     all calls of an op, and their record
host.py      what a call costs the host
gpu.py       the GPU that is needed
"""
