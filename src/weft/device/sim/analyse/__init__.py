"""What is known of a kernel before its code exists: operands, lane forms, divergence, waits."""
