// cuSOLVER's dense factors: residuals of systems, orthogonality, eigenvalues, singular values.
#include "check.h"
#include <cublasXt.h>
#include <cusolverDn.h>
#include <algorithm>
#include <cmath>
#include <vector>

#define SOLVES(call) HOLDS((call) == CUSOLVER_STATUS_SUCCESS)
using Matrix = std::vector<double>;  // by columns

static Matrix product(const Matrix &a, const Matrix &b, int m, int k, int n, bool turn = false) {
    Matrix c(m * n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            for (int l = 0; l < k; l++) c[i + j * m] += a[turn ? l + i * k : i + l * m] * b[l + j * k];
    return c;
}
static double distance(const Matrix &a, const Matrix &b) {
    double worst = 0;
    for (size_t i = 0; i < b.size(); i++) worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst;
}
static double *on_device(const Matrix &host) {
    double *out;
    CALL(cudaMalloc(&out, host.size() * sizeof(double)));
    CALL(cudaMemcpy(out, host.data(), host.size() * sizeof(double), cudaMemcpyHostToDevice));
    return out;
}
static Matrix on_host(const double *x, size_t n) {
    Matrix out(n);
    CALL(cudaMemcpy(out.data(), x, n * sizeof(double), cudaMemcpyDeviceToHost));
    return out;
}

int main() {
    const int n = 6, m = 9;
    Matrix a(n * n), tall(m * n), x(n * 2), symmetric(n * n);
    for (int i = 0; i < n * n; i++) a[i] = std::sin(3.0 * i * i + 1) + (i % (n + 1) ? 0 : 2);
    for (int i = 0; i < m * n; i++) tall[i] = std::cos(2.0 * i * i + i);
    for (int i = 0; i < n * 2; i++) x[i] = i - 3;
    symmetric = product(a, a, n, n, n, true);
    Matrix b = product(a, x, n, n, 2), turned = product(a, x, n, n, 2, true);

    cusolverDnHandle_t handle;
    SOLVES(cusolverDnCreate(&handle));
    int *pivots, *info, size, host_info = -1;
    CALL(cudaMalloc(&pivots, n * sizeof(int)));
    CALL(cudaMalloc(&info, sizeof(int)));
    double *lu = on_device(a), *right = on_device(b), *work;
    SOLVES(cusolverDnDgetrf_bufferSize(handle, n, n, lu, n, &size));
    CALL(cudaMalloc(&work, size * sizeof(double)));
    SOLVES(cusolverDnDgetrf(handle, n, n, lu, n, work, pivots, info));
    SOLVES(cusolverDnDgetrs(handle, CUBLAS_OP_N, n, 2, lu, n, pivots, right, n, info));
    HOLDS(distance(on_host(right, n * 2), x) < 1e-12);
    double *again = on_device(turned);
    SOLVES(cusolverDnDgetrs(handle, CUBLAS_OP_T, n, 2, lu, n, pivots, again, n, info));
    HOLDS(distance(on_host(again, n * 2), x) < 1e-12);

    // The same system by the factors: the lower one has ones on its diagonal.
    cublasHandle_t blas;
    HOLDS(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
    std::vector<int> order(n);
    CALL(cudaMemcpy(order.data(), pivots, n * sizeof(int), cudaMemcpyDeviceToHost));
    Matrix swapped = b;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 2; j++) std::swap(swapped[i + j * n], swapped[order[i] - 1 + j * n]);
    double *by_parts = on_device(swapped), one = 1;
    HOLDS(cublasDtrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, n,
                      2, &one, lu, n, by_parts, n) == CUBLAS_STATUS_SUCCESS);
    HOLDS(cublasDtrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N,
                      CUBLAS_DIAG_NON_UNIT, n, 2, &one, lu, n, by_parts,
                      n) == CUBLAS_STATUS_SUCCESS);
    HOLDS(distance(on_host(by_parts, n * 2), x) < 1e-12);

    // cuBLASXt multiplies matrices of the host.
    cublasXtHandle_t xt;
    int device = 0;
    double zero = 0;
    Matrix c_host(n * 2);
    HOLDS(cublasXtCreate(&xt) == CUBLAS_STATUS_SUCCESS);
    HOLDS(cublasXtDeviceSelect(xt, 1, &device) == CUBLAS_STATUS_SUCCESS);
    HOLDS(cublasXtDgemm(xt, CUBLAS_OP_T, CUBLAS_OP_N, n, 2, n, &one, a.data(), n, x.data(), n, &zero,
                        c_host.data(), n) == CUBLAS_STATUS_SUCCESS);
    HOLDS(distance(c_host, turned) < 1e-12);
    HOLDS(cublasXtDestroy(xt) == CUBLAS_STATUS_SUCCESS);

    double *cholesky = on_device(symmetric), *spd = on_device(product(symmetric, x, n, n, 2));
    SOLVES(cusolverDnDpotrf(handle, CUBLAS_FILL_MODE_UPPER, n, cholesky, n, work, size, info));
    SOLVES(cusolverDnDpotrs(handle, CUBLAS_FILL_MODE_UPPER, n, 2, cholesky, n, spd, n, info));
    HOLDS(distance(on_host(spd, n * 2), x) < 1e-9);
    Matrix indefinite = symmetric;
    indefinite[2 * n + 2] = -1;
    double *bad = on_device(indefinite);
    SOLVES(cusolverDnDpotrf(handle, CUBLAS_FILL_MODE_LOWER, n, bad, n, work, size, info));
    CALL(cudaMemcpy(&host_info, info, sizeof(int), cudaMemcpyDeviceToHost));
    printf("not positive definite: %d\n", host_info);

    double *qr = on_device(tall), *tau, *c = on_device(tall);
    CALL(cudaMalloc(&tau, n * sizeof(double)));
    SOLVES(cusolverDnDgeqrf(handle, m, n, qr, m, tau, work, size, info));
    SOLVES(cusolverDnDormqr(handle, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, m, n, n, qr, m, tau, c, m, work,
                            size, info));
    Matrix r = on_host(qr, m * n), turned_r = on_host(c, m * n);
    for (int j = 0; j < n; j++)  // Q'A is the R above the reflections
        for (int i = 0; i < m; i++)
            HOLDS(std::abs(turned_r[i + j * m] - (i <= j ? r[i + j * m] : 0)) < 1e-12);
    SOLVES(cusolverDnDorgqr(handle, m, n, n, qr, m, tau, work, size, info));
    Matrix q = on_host(qr, m * n), identity(n * n);
    for (int i = 0; i < n; i++) identity[i * (n + 1)] = 1;
    HOLDS(distance(product(q, q, n, m, n, true), identity) < 1e-12);

    double *vectors = on_device(symmetric), *eigenvalues, *s, *u, *vt, *svd = on_device(tall);
    CALL(cudaMalloc(&eigenvalues, n * sizeof(double)));
    SOLVES(cusolverDnDsyevd(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, vectors, n,
                            eigenvalues, work, size, info));
    Matrix v = on_host(vectors, n * n), w = on_host(eigenvalues, n), scaled = v;
    for (int i = 0; i < n * n; i++) scaled[i] *= w[i / n];
    HOLDS(distance(product(symmetric, v, n, n, n), scaled) < 1e-10);
    CALL(cudaMalloc(&s, n * sizeof(double)));
    CALL(cudaMalloc(&u, m * m * sizeof(double)));
    CALL(cudaMalloc(&vt, n * n * sizeof(double)));
    SOLVES(cusolverDnDgesvd(handle, 'A', 'A', m, n, svd, m, s, u, m, vt, n, work, size, nullptr,
                            info));
    Matrix left = on_host(u, m * m), values = on_host(s, n);
    left.resize(m * n);
    for (int i = 0; i < m * n; i++) left[i] *= values[i / m];
    HOLDS(distance(product(left, on_host(vt, n * n), m, n, n), tall) < 1e-12);
    printf("largest eigenvalue %.6f, singular value %.6f\n", w[n - 1], values[0]);
    SOLVES(cusolverDnDestroy(handle));
}
