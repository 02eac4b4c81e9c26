// One step of training of a network of two layers, on one core.
#include <math.h>
#include <stdlib.h>

// The loss of one image; adds the gradients of all parameters to g. a and e have h numbers.
static double add_gradient(const double* p, const double* x, int label, double* g, double* a,
                           double* e, int n, int k, int h) {
    const double *b1 = p + k * h, *w2 = b1 + h, *b2 = w2 + h * 10;
    double *gb1 = g + k * h, *gw2 = gb1 + h, *gb2 = gw2 + h * 10, z[10], d[10];
    // The inner loop runs along rows of w1, as they lie in memory.
    for (int j = 0; j < h; j++) a[j] = b1[j];
    for (int i = 0; i < k; i++)
        for (int j = 0; j < h; j++) a[j] += x[i] * p[i * h + j];
    for (int j = 0; j < h; j++) a[j] = tanh(a[j]);

    double most = -INFINITY, sum = 0;
    for (int c = 0; c < 10; c++) {
        z[c] = b2[c];
        for (int j = 0; j < h; j++) z[c] += a[j] * w2[j * 10 + c];
        most = fmax(most, z[c]);
    }
    for (int c = 0; c < 10; c++) sum += d[c] = exp(z[c] - most);
    for (int c = 0; c < 10; c++) {
        d[c] = (d[c] / sum - (c == label)) / n;
        gb2[c] += d[c];
    }
    for (int j = 0; j < h; j++) {
        e[j] = 0;
        for (int c = 0; c < 10; c++) {
            gw2[j * 10 + c] += a[j] * d[c];
            e[j] += d[c] * w2[j * 10 + c];
        }
        e[j] *= 1 - a[j] * a[j];
        gb1[j] += e[j];
    }
    for (int i = 0; i < k; i++)
        for (int j = 0; j < h; j++) g[i * h + j] += x[i] * e[j];
    return most + log(sum) - z[label];
}

double step(double* p, const double* x, const int* t, int n, int k, int h, double rate) {
    int size = k * h + h + h * 10 + 10;
    double *g = (double*)calloc(size + 2 * h, sizeof(double)), *a = g + size, *e = a + h, loss = 0;
    for (int i = 0; i < n; i++) loss += add_gradient(p, x + i * k, t[i], g, a, e, n, k, h);
    for (int i = 0; i < size; i++) p[i] -= rate * g[i];
    free(g);
    return loss / n;
}
