"""Changes of a traced graph before it is divided into steps.

joins.py        has attention write gradients side by side where one linear layer reads them
residuals.py    adds gradients of residual connections in the kernels of norms
conversions.py  reads gradients of 16 bits in norms of float32, and stores theirs in both dtypes
gradients.py    stores gradients of weights in float32 where they are converted to it
casts.py        recognises conversions between 16 bits and float32
dropouts.py     writes out dropout beside elementwise operations as a mask of their kernel
norms.py        writes out norms that autocast surrounds with conversions
"""
