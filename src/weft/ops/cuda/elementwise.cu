// One expression of up to three operands, for each element. EXPRESSION is defined when this is
// compiled: C++ over a, b and c of the type C in which the arithmetic is done.
#include "vector.cuh"

// All operands have the output's order of elements; an operand with stride 0 is one element.
template <class O, class C, class TA, class TB, class TC, int VEC>
__global__ void __launch_bounds__(256) flat(const TA* pa, const TB* pb, const TC* pc, O* out, long long n,
                                            int sa, int sb, int sc) {
    long long i = (blockIdx.x * 256ll + threadIdx.x) * VEC;
    if (i + VEC <= n) {
        Vector<TA, VEC> va = sa ? load<VEC>(pa + i) : broadcast<VEC>(pa);
        Vector<TB, VEC> vb = sb ? load<VEC>(pb + i) : broadcast<VEC>(pb);
        Vector<TC, VEC> vc = sc ? load<VEC>(pc + i) : broadcast<VEC>(pc);
        Vector<O, VEC> result;
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            C a = to<C>(va[k]), b = to<C>(vb[k]), c = to<C>(vc[k]);
            result[k] = to<O>(EXPRESSION);
        }
        store(out + i, result);
    } else {
        for (; i < n; i++) {
            C a = to<C>(pa[i * sa]), b = to<C>(pb[i * sb]), c = to<C>(pc[i * sc]);
            out[i] = to<O>(EXPRESSION);
        }
    }
}

const int RANK = 6;
struct Shape {
    long long size[RANK], out[RANK], a[RANK], b[RANK], c[RANK];
};

// Operands of any strides: each thread finds the place of its element in each of them.
template <class O, class C, class TA, class TB, class TC>
__global__ void __launch_bounds__(256) strided(const TA* pa, const TB* pb, const TC* pc, O* out, long long n,
                                               const Shape shape) {
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= n) return;
    long long at = 0, ia = 0, ib = 0, ic = 0;
#pragma unroll
    for (int d = RANK - 1; d >= 0; d--) {
        if (shape.size[d] == 1) continue;
        long long k = i % shape.size[d];
        i /= shape.size[d];
        at += k * shape.out[d], ia += k * shape.a[d], ib += k * shape.b[d], ic += k * shape.c[d];
    }
    C a = to<C>(pa[ia]), b = to<C>(pb[ib]), c = to<C>(pc[ic]);
    out[at] = to<O>(EXPRESSION);
}
