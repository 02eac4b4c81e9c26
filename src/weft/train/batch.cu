// The images and labels of a batch, out of all of them: pixels become floats with mean 0 and
// deviation 1.
extern "C" __global__ void __launch_bounds__(256)
    batch(const unsigned char* __restrict__ images, const unsigned char* __restrict__ labels,
          const int* __restrict__ chosen, float* __restrict__ pixels,
          long long* __restrict__ classes, int count, int size, float scale, float shift) {
    int i = blockIdx.x * 256 + threadIdx.x;  // four pixels
    int quads = size / 4;
    if (i >= count * quads) return;
    int row = i / quads, at = i % quads;
    int from = chosen[row];
    uchar4 four = reinterpret_cast<const uchar4*>(images + (long long)from * size)[at];
    reinterpret_cast<float4*>(pixels)[i] =
        make_float4(four.x * scale - shift, four.y * scale - shift, four.z * scale - shift,
                    four.w * scale - shift);
    if (at == 0) classes[row] = labels[from];
}
