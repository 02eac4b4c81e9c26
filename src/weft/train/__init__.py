"""`weft train`: networks that train on weft's own kernels.

data.py         MNIST from its files, or the sample that the package has
batches.py      batches on the device, from its memory or from the host's
network.py      the network, with PyTorch's layers or weft's
settings.py     how to train
step.py         one training step: forward, backward, update; on a GPU as a CUDA graph
fused/          the same step as a few kernels that are made for this network
contenders.py   the steps of weft and of PyTorch, from the same weights
loop.py         epochs and evaluation; interrupts.py: Ctrl-C; checkpoint.py: files
times.py        the time of each part of a step
parallel.py     several processes, and synchronised.py: the network in one of them
page.py         the curves as an HTML page
"""
