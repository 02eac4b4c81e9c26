"""Write the class: a number that knows how it was computed, and the gradient of a result.

Value(3.0)       data is the number, grad a float that starts as 0
a + b, a * b     of two Values, or of a Value and a plain number on either side
a.tanh()
r.backward()     adds to the grad of every Value that r was computed from the derivative of r with
                 respect to it; that of r with respect to itself is 1

A Value may be used many times, and 5,000 operations may follow one another.
"""


class Value:
    """A number, and how it was computed."""
