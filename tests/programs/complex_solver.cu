// cuSOLVER's dense factors of complex matrices, in C and Z.
#include <cusolverDn.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "check.h"

#define SOLVES(call) HOLDS((call) == CUSOLVER_STATUS_SUCCESS)
using Number = std::complex<double>;
using Matrix = std::vector<Number>;  // by columns

static Matrix product(const Matrix &a, const Matrix &b, int m, int k, int n, bool adjoint = false) {
    Matrix c(m * n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            for (int l = 0; l < k; l++)
                c[i + j * m] += (adjoint ? std::conj(a[l + i * k]) : a[i + l * m]) * b[l + j * k];
    return c;
}
static double distance(const Matrix &a, const Matrix &b) {
    double worst = 0;
    for (size_t i = 0; i < b.size(); i++) worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst;
}
static cuDoubleComplex *on_device(const Matrix &host) {
    cuDoubleComplex *out;
    CALL(cudaMalloc(&out, host.size() * sizeof(Number)));
    CALL(cudaMemcpy(out, host.data(), host.size() * sizeof(Number), cudaMemcpyHostToDevice));
    return out;
}
static Matrix on_host(const void *x, size_t n) {
    Matrix out(n);
    CALL(cudaMemcpy(out.data(), x, n * sizeof(Number), cudaMemcpyDeviceToHost));
    return out;
}

int main() {
    const int n = 5, m = 7;
    Matrix a(n * n), tall(m * n), x(n * 2);
    for (int i = 0; i < n * n; i++) a[i] = {std::sin(3.0 * i * i + 1), std::cos(5.0 * i)};
    for (int i = 0; i < m * n; i++) tall[i] = {std::cos(2.0 * i * i + i), std::sin(i * 1.5)};
    for (int i = 0; i < n * 2; i++) x[i] = {i - 3.0, 1.0 / (i + 1)};
    Matrix hermitian = product(a, a, n, n, n, true);

    cusolverDnHandle_t handle;
    SOLVES(cusolverDnCreate(&handle));
    int *pivots, *info, size;
    CALL(cudaMalloc(&pivots, n * sizeof(int)));
    CALL(cudaMalloc(&info, sizeof(int)));
    auto *lu = on_device(a), *right = on_device(product(a, x, n, n, 2));
    auto *adjoint = on_device(product(a, x, n, n, 2, true));
    cuDoubleComplex *work;
    SOLVES(cusolverDnZgetrf_bufferSize(handle, n, n, lu, n, &size));
    CALL(cudaMalloc(&work, size * sizeof *work));
    SOLVES(cusolverDnZgetrf(handle, n, n, lu, n, work, pivots, info));
    SOLVES(cusolverDnZgetrs(handle, CUBLAS_OP_N, n, 2, lu, n, pivots, right, n, info));
    HOLDS(distance(on_host(right, n * 2), x) < 1e-12);
    SOLVES(cusolverDnZgetrs(handle, CUBLAS_OP_C, n, 2, lu, n, pivots, adjoint, n, info));
    HOLDS(distance(on_host(adjoint, n * 2), x) < 1e-12);

    for (auto fill : {CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_LOWER}) {
        auto *cholesky = on_device(hermitian), *b = on_device(product(hermitian, x, n, n, 2));
        SOLVES(cusolverDnZpotrf(handle, fill, n, cholesky, n, work, size, info));
        SOLVES(cusolverDnZpotrs(handle, fill, n, 2, cholesky, n, b, n, info));
        HOLDS(distance(on_host(b, n * 2), x) < 1e-9);
    }

    auto *qr = on_device(tall), *tau = on_device(x), *c = on_device(tall);
    SOLVES(cusolverDnZgeqrf(handle, m, n, qr, m, tau, work, size, info));
    SOLVES(cusolverDnZunmqr(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_C, m, n, n, qr, m, tau, c, m, work,
                            size, info));
    Matrix r = on_host(qr, m * n), turned = on_host(c, m * n), identity(n * n);
    for (int j = 0; j < n; j++)  // the adjoint of Q times A is the R above the reflections
        for (int i = 0; i < m; i++)
            HOLDS(std::abs(turned[i + j * m] - (i <= j ? r[i + j * m] : 0)) < 1e-12);
    SOLVES(cusolverDnZungqr(handle, m, n, n, qr, m, tau, work, size, info));
    Matrix q = on_host(qr, m * n);
    for (int i = 0; i < n; i++) identity[i * (n + 1)] = 1;
    HOLDS(distance(product(q, q, n, m, n, true), identity) < 1e-12);

    double *reals, values[n];  // eigenvalues and singular values are real
    CALL(cudaMalloc(&reals, n * sizeof(double)));
    auto *vectors = on_device(hermitian), *u = on_device(Matrix(m * m)), *vt = on_device(a);
    SOLVES(cusolverDnZheevd(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, vectors, n,
                            reals, work, size, info));
    CALL(cudaMemcpy(values, reals, sizeof values, cudaMemcpyDeviceToHost));
    Matrix v = on_host(vectors, n * n), scaled = v;
    for (int i = 0; i < n * n; i++) scaled[i] *= values[i / n];
    HOLDS(distance(product(hermitian, v, n, n, n), scaled) < 1e-10);
    SOLVES(cusolverDnZgesvd(handle, 'A', 'A', m, n, on_device(tall), m, reals, u, m, vt, n, work, size,
                            nullptr, info));
    CALL(cudaMemcpy(values, reals, sizeof values, cudaMemcpyDeviceToHost));
    Matrix left = on_host(u, m * n);
    for (int i = 0; i < m * n; i++) left[i] *= values[i / m];
    HOLDS(distance(product(left, on_host(vt, n * n), m, n, n), tall) < 1e-12);

    cuComplex one = {2, 1}, *small, *room = nullptr;
    CALL(cudaMalloc(&small, sizeof one));
    CALL(cudaMemcpy(small, &one, sizeof one, cudaMemcpyHostToDevice));
    SOLVES(cusolverDnCgetrf(handle, 1, 1, small, 1, room, pivots, info));

    printf("complex factors\n");
    SOLVES(cusolverDnDestroy(handle));
}
