"""The ops of the library: one module per family with its `DEFINITIONS`, found by name."""
