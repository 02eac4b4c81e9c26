"""Clusters of blocks: their loop and their instructions."""
