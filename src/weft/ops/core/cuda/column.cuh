// Dimensions that are not the last one.
#pragma once

// A dimension of n elements with `inner` elements behind it. A block takes `width` neighbours of
// `inner`, with 256 / width threads for each, and a part of n.
struct Column {
    long long outer, first;
    int part, w, t, deep, begin, end;
    bool there;

    __device__ Column(int n, long long inner, int width, long long tiles, int parts, int each) {
        part = blockIdx.x % parts;
        long long tile = blockIdx.x / parts;
        outer = tile / tiles, first = tile % tiles * width;
        w = threadIdx.x % width, t = threadIdx.x / width, deep = 256 / width;
        there = t < deep && first + w < inner;
        begin = part * each, end = min(n, begin + each);
    }
};
