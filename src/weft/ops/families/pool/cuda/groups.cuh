// Large windows: the lanes of a warp share the positions of one.
#pragma once
#include <weft/warp.cuh>

#include "windows.cuh"

// The positions of a window that a lane has, row by row: every 32nd.
struct Positions {
    int rows, columns, top, left;

    template <class Y, class X>
    static __device__ Positions of(int row, int column, const PoolShape& p) {
        int top = Y::first(row, p.height, p.out_rows),
            left = X::first(column, p.width, p.out_columns);
        return {Y::last(row, p.height, p.out_rows) - top,
                X::last(column, p.width, p.out_columns) - left, top, left};
    }
    // Calls f(y, x, number) for each.
    template <class F>
    __device__ void each(F f) const {
        int i = threadIdx.x % 32, y = i / columns, x = i % columns, down = 32 / columns,
            along = 32 % columns;
#pragma unroll 4
        for (; y < rows; i += 32) {
            f(top + y, left + x, i);
            y += down, x += along;
            if (x >= columns) x -= columns, ++y;
        }
    }
};

// A maximum and the number of its position; -1: none. As in torch: of equal ones the first, of NaNs
// the last.
template <class C>
struct Largest {
    C value = C(-INFINITY);
    int at = -1;

    __device__ void take(C other, int i) {
        bool nan = other != other, own = value != value;
        bool better = nan ? !own || i > at : !own && (other > value || (other == value && i < at));
        if (i >= 0 && (at < 0 || better)) value = other, at = i;
    }
    // The largest one of a warp.
    __device__ Largest of_warp() const {
        return warp_reduce(*this, [](Largest a, const Largest& b) {
            a.take(b.value, b.at);
            return a;
        });
    }
};
