"""Write the functions with NumPy: the step of stage loops, and a training that learns to read.

The parameters are one array p of float64: w1 [k, h], b1 [h], w2 [h, 10], b2 [10], one after the
other. x is an array [n, k], t an array [n] of labels from 0 to 9.

gradients(p, x, t, h)    (loss, g): the mean loss, and its derivatives as an array like p
train(x, t, h)           trained parameters p. You choose how they start, the learning rate and the
                         number of steps; x has about the mean 0 and the variance 1. At least 75 %
                         of other images must be recognised, after at most 2 seconds.
"""


def gradients(p, x, t, h):
    pass


def train(x, t, h):
    pass
