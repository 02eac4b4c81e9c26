// Arrays of CuPy's kernels: dense, indexed by one number or by one number for each axis.
#pragma once

template <typename T, int N, bool C = true, bool Small = false> class CArray {
public:
    T* data_;
    const long long* shape_;  // the lengths of its axes, then the number of elements

    __device__ long long size() const { return shape_[N]; }
    __device__ const long long* shape() const { return shape_; }
    __device__ T& operator[](long long index) const { return data_[index]; }
    template <typename I> __device__ T& operator[](const I* index) const {
        long long flat = 0;
        for (int axis = 0; axis < N; axis++) flat = flat * shape_[axis] + index[axis];
        return data_[flat];
    }
};

template <int N, bool Small = false> class CIndexer {
    const long long* shape_;
    long long index_[N + 1];  // an array without axes has one element

public:
    __device__ CIndexer(const long long* shape) : shape_(shape) {}
    __device__ long long size() const { return shape_[N]; }
    __device__ const long long* get() const { return index_; }
    __device__ void set(long long i) {
        for (int axis = N - 1; axis >= 0; axis--) {
            index_[axis] = i % shape_[axis];
            i /= shape_[axis];
        }
    }
};
