"""The loop over the warps of a block, and the barriers between them."""
