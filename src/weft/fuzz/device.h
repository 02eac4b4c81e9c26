// The device's side: its own intrinsics, and the warp and the block of a thread.
#define FN static __device__ inline
#define FUNCTION static __device__
#define NOINLINE static __device__ __noinline__
#define ON_DEVICE 1  // a difference, for tests of this tool
#define THREADS (blockDim.x * blockDim.y)
#define TX ((u32)threadIdx.x)
#define TY ((u32)threadIdx.y)
#define THREAD (TX + TY * (u32)blockDim.x)
#define LANE (THREAD & 31)
#define LANES (THREADS - (THREAD & ~31u) < 32 ? THREADS - (THREAD & ~31u) : 32)
#define WARP_MASK (LANES == 32 ? ~0u : (1u << LANES) - 1)

#include "both.h"

FN f32 fmin_of(f32 a, f32 b) { return fminf(a, b); }
FN f64 fmin_of(f64 a, f64 b) { return fmin(a, b); }
FN f32 fmax_of(f32 a, f32 b) { return fmaxf(a, b); }
FN f64 fmax_of(f64 a, f64 b) { return fmax(a, b); }
