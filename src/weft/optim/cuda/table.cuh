// A table of lists of tensors, and the work on them as chunks: one launch serves all tensors.
//
// Words of 64 bits: the addresses of `tensors` tensors, list by list; then their sizes; then one
// word for each chunk, the number of its tensor and the number of the chunk in it. A block has one
// chunk.
#pragma once

struct Table {
    const long long* words;
    int tensors, lists;

    template <class T>
    __device__ T* at(int list, int tensor) const {
        return reinterpret_cast<T*>(words[static_cast<long long>(list) * tensors + tensor]);
    }
    __device__ long long size(int tensor) const {
        return words[static_cast<long long>(lists) * tensors + tensor];
    }
    __device__ long long chunk(long long number) const {
        return words[static_cast<long long>(lists + 1) * tensors + number];
    }
};

struct Chunk {
    int tensor;
    long long begin, count;
    __device__ Chunk(const Table& table, long long number, int elements) {
        long long word = table.chunk(number);
        tensor = static_cast<int>(word >> 32);
        begin = (word & 0xffffffff) * elements;
        long long rest = table.size(tensor) - begin;
        count = rest < elements ? rest : elements;
    }
};
