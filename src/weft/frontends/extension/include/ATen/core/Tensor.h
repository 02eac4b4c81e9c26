#ifdef WEFT_TENSORS
#include_next <ATen/core/Tensor.h>
#else
#define WEFT_TENSORS
#include <weft/tensors_begin.h>
#include_next <ATen/core/Tensor.h>
#include <weft/tensors_end.h>
#undef WEFT_TENSORS
#endif
