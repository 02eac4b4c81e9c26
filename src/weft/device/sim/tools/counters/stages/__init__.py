"""Stages of shared memory: the copies, waits and reads of one block, in the order they happened."""
