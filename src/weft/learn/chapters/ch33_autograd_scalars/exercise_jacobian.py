"""Write two functions: a Jacobian by differences, and one by hand.

differences(f, x)     the matrix of the derivatives of f(x)[i] with respect to x[j], by central
                      differences; x is an array [n] of float64, f(x) an array [m]. f is called
                      at most 2 n + 1 times, and x has its values again at the end
by_hand(w, b, x)      the Jacobian of the layer tanh(w @ x + b) with respect to x, by a formula
"""


def differences(f, x):
    pass


def by_hand(w, b, x):
    pass
