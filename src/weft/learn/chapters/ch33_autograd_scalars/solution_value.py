"""Reverse mode on numbers: every result remembers its inputs and how it depends on each."""

import math


class Value:
    """A number, its gradient, and (input, local derivative) of each input."""

    def __init__(self, data, inputs=()):
        self.data, self.grad, self.inputs = float(data), 0.0, inputs

    def __add__(self, other):
        other = as_value(other)
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        other = as_value(other)
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))

    __radd__, __rmul__ = __add__, __mul__

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t * t),))

    def backward(self):
        # The parts of this result alone: a grad may hold what an earlier result has left there.
        parts = {self: 1.0}
        for value in reversed(ordered(self)):
            part = parts[value]
            value.grad += part
            for one, slope in value.inputs:
                parts[one] = parts.get(one, 0.0) + part * slope


def as_value(number):
    return number if isinstance(number, Value) else Value(number)


def ordered(result):
    """All Values of a result, each after its inputs. A list in place of recursion has no limit."""
    order, seen, stack = [], set(), [(result, False)]
    while stack:
        value, done = stack.pop()
        if done:
            order.append(value)
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack.extend((one, False) for one, _ in value.inputs)
    return order
