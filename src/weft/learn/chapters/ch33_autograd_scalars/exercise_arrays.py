"""Write the class: an array that knows how it was computed.

Tensor(array)        data is a NumPy array of float64, grad one of zeros of the same shape
a + b, a * b         of two Tensors, broadcast as NumPy does
a @ b                of two matrices
a.tanh(), a.sum()    sum is over all elements and has the shape ()
r.backward()         of an r of the shape (): adds to the grad of every Tensor that r was computed
                     from the derivatives of r with respect to its elements

The grad of a Tensor that was broadcast has the shape of the Tensor.
"""


class Tensor:
    """An array, and how it was computed."""
