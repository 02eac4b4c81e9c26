"""The second derivatives of a function of two numbers, by hand and by two backward passes."""

import math


def by_hand(x, y):
    t = math.tanh(x * y)
    first = 1 - t * t
    second = -2 * t * first
    mixed = 2 * x + first + x * y * second
    return [[2 * y + y * y * second, mixed], [mixed, x * x * second]]


class Value:
    """A number with (input, local derivative) of each input; the derivatives are Values."""

    def __init__(self, data, inputs=()):
        self.data, self.inputs = float(data), inputs

    def __add__(self, other):
        other = as_value(other)
        return Value(self.data + other.data, lambda: ((self, Value(1)), (other, Value(1))))

    def __mul__(self, other):
        other = as_value(other)
        return Value(self.data * other.data, lambda: ((self, other), (other, self)))

    __radd__, __rmul__ = __add__, __mul__

    def tanh(self):
        result = Value(math.tanh(self.data))
        # Its own derivative is made of it, so that the next pass goes through it again.
        result.inputs = lambda: ((self, result * result * -1 + 1),)
        return result


def as_value(number):
    return number if isinstance(number, Value) else Value(number)


def gradients(result, wanted):
    """The gradients of a result with respect to Values, as Values."""
    parts, edges = {result: Value(1)}, {}
    for value in reversed(ordered(result, edges)):
        for one, slope in edges[value]:
            part = parts[value] * slope
            parts[one] = parts[one] + part if one in parts else part
    return [parts.get(one, Value(0)) for one in wanted]


def ordered(result, edges):
    """All Values of a result, each after its inputs; `edges` gets the inputs of each."""
    order, stack = [], [(result, False)]
    while stack:
        value, done = stack.pop()
        if done:
            order.append(value)
        elif value not in edges:
            edges[value] = value.inputs() if callable(value.inputs) else ()
            stack.append((value, True))
            stack.extend((one, False) for one, _ in edges[value])
    return order


def by_backward(f, x, y):
    inputs = Value(x), Value(y)
    return [
        [second.data for second in gradients(first, inputs)]
        for first in gradients(f(*inputs), inputs)
    ]
