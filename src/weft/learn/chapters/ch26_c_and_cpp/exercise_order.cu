// Write the whole program. Its arguments are n and seed.
// 1. n pairs on the host: key = i * seed % 101, value = i.
// 2. A kernel sorts them on the device by key, and pairs of equal keys by value.
// 3. The host sorts its own copy by
//      void sort(void* base, size_t count, size_t size, int (*compare)(const void*, const void*))
//    which you write: it knows nothing of pairs. It moves elements by memcpy.
// 4. If both results are equal, print the sum of (i + 1) * key + value over the pairs that the
// device
//    sorted, i being their place, with "%d\n"; else print -1.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Pair {
    int key, value;
};

int main(int count, char** arguments) {}
