"""Write a network of Values: they have +, * and tanh(), and nothing else is needed.

neuron(weights, bias, inputs)            tanh(bias + the sum of weights[i] * inputs[i]), a Value
layer(weights, biases, inputs)           a list: weights[j] and biases[j] belong to neuron j
network(layers, inputs)                  layers is a list of (weights, biases); each takes the
                                         results of the one before
loss(layers, examples, targets)          the sum over all examples and results of
                                         (result - target) squared; targets are plain numbers
"""


def neuron(weights, bias, inputs):
    pass


def layer(weights, biases, inputs):
    pass


def network(layers, inputs):
    pass


def loss(layers, examples, targets):
    pass
