"""Plans matrix products: product.py describes one; tiled.py, few.py, tensor.py compute it."""
