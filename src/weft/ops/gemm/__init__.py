"""Plans of matrix products: product.py describes one, tiled.py and few.py compute it."""
