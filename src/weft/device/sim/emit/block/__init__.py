"""The turns of the warps of a block, and the barriers between them."""
