"""Asynchronous operations: copies, products of warpgroups, and the tiles that they access."""
