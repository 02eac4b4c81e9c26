// CUDA 13 has this header in nvtx3 alone.
#include <nvtx3/nvToolsExt.h>
