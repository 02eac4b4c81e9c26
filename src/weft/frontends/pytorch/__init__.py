"""PyTorch scripts whose GPU is simulated: their CUDA tensors are CPU tensors.

redirect.py  `device="cuda"` means the CPU; installs all of the following
cuda.py      the functions of `torch.cuda`
devices.py   the GPUs by number, and the current one
streams.py   streams
graphs.py    CUDA graphs, recorded and repeated
memory.py    how much memory tensors take
amp.py       `torch.autocast("cuda")`
modules.py   functions outside of `torch.cuda`
distributed  scripts of several processes
inductor.py  `torch.compile` writes Triton kernels for the simulated GPU
"""
