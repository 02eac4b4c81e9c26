"""`weft train`: networks that train on weft's own kernels.

data.py     MNIST from its files, or the sample that the package has
network.py  the network, with PyTorch's layers or weft's
step.py     one training step: forward, backward, update; on a GPU as a CUDA graph
loop.py     epochs, evaluation, checkpoints
compare.py  the same training by PyTorch
"""
