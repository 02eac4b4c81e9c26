"""Plan matrix products: product.py describes one, each other module plans a kind of kernel."""
