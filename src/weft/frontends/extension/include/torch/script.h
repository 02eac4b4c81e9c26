#ifdef WEFT_TENSORS
#include_next <torch/script.h>
#else
#define WEFT_TENSORS
#include <weft/tensors_begin.h>
#include_next <torch/script.h>
#include <weft/tensors_end.h>
#undef WEFT_TENSORS
#endif
