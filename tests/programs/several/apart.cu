// A device function that another file calls: needs relocatable device code.
__device__ int scale = 2;
__device__ int twice_of(int value) { return scale * value; }
