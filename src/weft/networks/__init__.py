"""Networks that people train and run, in plain PyTorch: nothing of weft is inside.

gpt2.py llama.py bert.py         language models and an encoder of texts
vit.py resnet.py convnext.py     classifiers of images
unet.py                          the network of a latent diffusion model
draws.py                         random inputs, equal on every machine
network.py                       a network by name and size, with its batches and its loss

>>> from weft.networks.network import network
>>> net = network("gpt2", "tiny")
>>> batch = net.batch(2)
>>> loss = net.loss(net.module(*batch.inputs), batch.target)
"""
