// Write the whole program. Its arguments are rows and parts.
// 1. y = max(x w1, 0) w2 of a batch of rows * parts rows; x, w1 and w2 are those of exercise
// tensor.
//    GPU 0 has x and w1, GPU 1 has w2 and y.
// 2. The batch goes through in parts of `rows` rows: GPU 0 computes the hidden numbers of a part
//    and sends them; GPU 1 receives them and computes the rows of y.
//    Each GPU has two buffers of hidden numbers and two streams: one for kernels, one for messages.
//    Events say when a buffer is full and when it may be filled again.
// 3. Print, with "%.9g\n", the sum over all i of (i % 5 + 1) * y[i].
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <vector>

int main(int count, char** arguments) {}
