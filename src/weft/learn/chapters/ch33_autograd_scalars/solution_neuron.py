"""A network of Values: numbers with +, * and tanh."""


def neuron(weights, bias, inputs):
    total = bias
    for weight, given in zip(weights, inputs, strict=True):
        total = total + weight * given
    return total.tanh()


def layer(weights, biases, inputs):
    return [neuron(row, bias, inputs) for row, bias in zip(weights, biases, strict=True)]


def network(layers, inputs):
    for weights, biases in layers:
        inputs = layer(weights, biases, inputs)
    return inputs


def loss(layers, examples, targets):
    total = 0.0
    for inputs, wanted in zip(examples, targets, strict=True):
        for result, target in zip(network(layers, inputs), wanted, strict=True):
            error = result + (-target)
            total = total + error * error
    return total
