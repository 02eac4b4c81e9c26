"""The network of the project in float64, and the digits: what judges and references compare with.

Parameters are one array: w1 [k, h], b1 [h], w2 [h, 10], b2 [10].
"""

import numpy as np

from weft.train import data

MEAN, DEVIATION = 0.13, 0.31
"""The mean and the deviation of the pixels of MNIST, which are from 0 to 1."""


def split(p, k, h, classes=10):
    """The four parameters."""
    w1, b1, w2, b2 = np.split(p, np.cumsum([k * h, h, classes * h]))
    return w1.reshape(k, h), b1, w2.reshape(h, classes), b2


def gradients(p, x, t, h, classes=10):
    """(losses of the images, gradient of their mean)."""
    n, k = x.shape
    w1, b1, w2, b2 = split(p, k, h, classes)
    a = np.tanh(x @ w1 + b1)
    z = a @ w2 + b2
    z = z - z.max(axis=1, keepdims=True)
    sums = np.exp(z).sum(axis=1)
    losses = np.log(sums) - z[np.arange(n), t]
    d = np.exp(z) / sums[:, None]
    d[np.arange(n), t] -= 1
    d /= n
    e = (d @ w2.T) * (1 - a * a)
    return losses, np.concatenate([(x.T @ e).ravel(), e.sum(0), (a.T @ d).ravel(), d.sum(0)])


def accuracy(p, x, t, h):
    """The share of images whose largest result is that of the label."""
    w1, b1, w2, b2 = split(np.asarray(p, np.float64), x.shape[1], h)
    return float(np.mean((np.tanh(x @ w1 + b1) @ w2 + b2).argmax(axis=1) == t))


def start(rng, k, h):
    """Parameters to start a training from: sums have a variance of about 1."""
    sizes = (k * h, k**-0.5), (h, 0), (h * 10, h**-0.5), (10, 0)
    return np.concatenate([scale * rng.standard_normal(size) for size, scale in sizes])


def digits(rng, side):
    """((x, t) to train with, (x, t) to test with): the sample of MNIST, side x side pixels.

    Pixels have the mean 0 and the variance 1. Classes and pixels are exchanged at random, so that
    stored parameters recognise nothing.
    """
    both, classes, pixels = data.load(None), rng.permutation(10), rng.permutation(side * side)
    parts = []
    for part in (both.training, both.test):
        small = part.images.reshape(-1, side, 28 // side, side, 28 // side).mean(axis=(2, 4)) / 255
        small = (small - MEAN) / DEVIATION
        parts.append((small.reshape(len(part), -1)[:, pixels], classes[part.labels]))
    return parts
