"""Is a kernel right? Inputs, references, tolerances, guards around arrays, and likely causes."""
