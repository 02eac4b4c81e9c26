"""The life of each stage of a block's shared memory, with clocks of a model."""
