"""A script with an extension: tensors made before it, after it, and of NumPy's memory."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.cpp_extension import load

HERE = Path(__file__).parent
before = torch.ones(300, device="cuda")
plain = load(
    "plain",
    [str(HERE / "plain.cpp"), str(HERE / "plain.cu")],
    extra_cuda_cflags=["-DFACTOR=2", "-arch=sm_75"],
    extra_cflags=["-O1", "-Wall"],
    build_directory=sys.argv[1],
)
after = torch.ones(300, device="cuda")
shared = torch.from_numpy(np.ones(300, np.float32))
for x in (before, after, shared):
    print(plain.double_all(x.data_ptr(), 300), x.sum().item())
view = after[100:200]  # its base owns the neighbours
print(plain.write_beyond(view.data_ptr(), 100), after[200].item())
torch.cuda.synchronize()
print(plain.write_beyond(after.data_ptr(), 300))
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print(error)
