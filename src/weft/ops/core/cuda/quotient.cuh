// Division by numbers that the host knows.
#pragma once

// x / size is quotient(x, magic, shift), for x that is not negative. See divisor() in pointwise.py.
__device__ inline int quotient(int x, int magic, int shift) {
    return int(__umulhi(x, magic) >> shift);
}
__device__ inline long long quotient(long long x, long long magic, long long shift) {
    return (long long)(__umul64hi(x, magic) >> shift);
}
