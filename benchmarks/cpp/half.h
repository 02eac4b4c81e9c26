// The compiler's own 16-bit float under one name.
#pragma once

#ifdef __aarch64__
using half = __fp16;
#else
using half = _Float16;
#endif
