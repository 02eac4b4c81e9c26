"""The LLVM IR of a warp and of the loop that runs blocks: registers, masks, branches, barriers."""
