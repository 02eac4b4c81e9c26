// Records of 8 bytes, each loaded as a whole; an enum says what to compute.
#include <cstring>

enum Kind { ADD, SUB, XOR, SHIFT };

struct Record {
    int value;
    unsigned char kind;
    signed char shift;
    short count;
};

__device__ int result(const Record* r) {
    switch (r->kind % 4) {
        case ADD: return int(unsigned(r->value) + r->count);
        case SUB: return int(unsigned(r->value) - r->count);
        case XOR: return r->value ^ r->count;
        default: return r->value >> (r->shift & 31);
    }
}

__global__ void evaluate(const unsigned char* bytes, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint2 raw = reinterpret_cast<const uint2*>(bytes)[i];
    Record record;
    memcpy(&record, &raw, sizeof record);
    y[i] = result(&record);
}
