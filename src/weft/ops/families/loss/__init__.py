"""Plan losses: of labels (classes.py) and of pairs of numbers (pairs.py)."""
