"""Write the function, with loops over plain numbers: the loss of a network and its gradients.

The network has k inputs, h hidden units and c classes. For each of n images x[i]:
    a = tanh(x[i] w1 + b1)           w1 has k rows of h numbers, b1 has h
    z = a w2 + b2                    w2 has h rows of c numbers, b2 has c
    loss_i = -log(softmax(z)[t[i]])  t[i] is the label
gradients(x, t, w1, b1, w2, b2) returns (loss, dw1, db1, dw2, db2): the mean of the losses, and its
derivatives as lists of the shapes of the parameters. Elements of z may be as large as 1,000.
"""


def gradients(x, t, w1, b1, w2, b2):
    pass
