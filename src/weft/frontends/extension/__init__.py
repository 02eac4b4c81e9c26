"""Runs C++ extensions of PyTorch that have CUDA kernels, unedited, on the simulated GPU.

`torch.utils.cpp_extension` builds them: `load`, `load_inline`, and `CUDAExtension` in a setup.py.
weft takes the place of its last step, which calls ninja and nvcc. Names, versions, folders and
bindings stay torch's own.

    build.py     sources to a shared object, with nvcc, g++ and weft's cache
    include/     the CUDA part of torch's C++ interface, which a CPU build lacks
    tensors.py   the memory of tensors, which kernels may access
"""

from __future__ import annotations

AFTER = "torch.utils.cpp_extension"
"""A script that imports this module calls `install` afterwards."""


def install(gpu: str) -> None:
    """Build extensions of this process for the simulated GPU from now on."""
    from weft.frontends.extension import replace  # needs torch

    replace.install(gpu)
