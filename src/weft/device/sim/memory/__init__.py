"""Instructions that touch memory: addresses, bounds checks, loads, stores, atomics, copies."""
