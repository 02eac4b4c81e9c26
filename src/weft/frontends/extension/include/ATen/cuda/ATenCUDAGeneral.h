#include <weft/torch_cuda.h>
