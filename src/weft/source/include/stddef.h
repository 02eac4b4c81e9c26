// size_t is built in; ptrdiff_t and max_align_t are the device library's.
#pragma once
#include <cuda/std/cstddef>
using cuda::std::max_align_t;
using cuda::std::ptrdiff_t;
