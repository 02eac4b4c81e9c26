"""Plans of attention, forward and backward, in tiles as FlashAttention-2 has them."""
