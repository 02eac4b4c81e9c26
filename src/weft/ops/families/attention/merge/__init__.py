"""Results of attention over parts of the keys, merged in place."""
