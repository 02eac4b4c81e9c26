"""Write two functions: a Hessian by hand, and one by differentiating twice.

by_hand(x, y)            the Hessian of f(x, y) = x x y + tanh(x y), from formulas of the second
                         derivatives, as [[f_xx, f_xy], [f_xy, f_yy]]; x and y are floats
by_backward(f, x, y)     the Hessian of any f of two Values at the floats x and y, in the same form.
                         f uses +, * with Values and numbers, and tanh(). It is called once.

The gradient of a Value has to be a Value, too, so that it has a gradient.
"""


def by_hand(x, y):
    pass


def by_backward(f, x, y):
    pass
