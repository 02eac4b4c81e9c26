// Each thread transforms 8 complex numbers (Cooley and Tukey, radix 2).
struct Complex {
    float re, im;
};

// Joins two transforms of n / 2 numbers to one of n:
// a[0..] is of the even numbers, a[n/2..] of the odd ones.
__device__ void join(Complex* a, int n) {
    for (int k = 0; k < n / 2; k++) {
        float s, c;
        sincospif(-2.0f * k / n, &s, &c);
        Complex even = a[k], odd = a[k + n / 2];
        Complex turned = {odd.re * c - odd.im * s, odd.re * s + odd.im * c};
        a[k] = {even.re + turned.re, even.im + turned.im};
        a[k + n / 2] = {even.re - turned.re, even.im - turned.im};
    }
}

__global__ void fft8(const float* re, const float* im, float* out_re, float* out_im, int m) {
    int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= m) return;
    const int order[8] = {0, 4, 2, 6, 1, 5, 3, 7};  // even ones first, in every half again
    Complex a[8];
    for (int k = 0; k < 8; k++) a[k] = {re[row * 8 + order[k]], im[row * 8 + order[k]]};
    for (int k = 0; k < 8; k += 2) join(a + k, 2);
    for (int k = 0; k < 8; k += 4) join(a + k, 4);
    for (int k = 0; k < 8; k++) {
        out_re[row * 8 + k] = a[k].re;
        out_im[row * 8 + k] = a[k].im;
    }
}
