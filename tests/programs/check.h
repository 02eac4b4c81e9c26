// What the test programs share: a call that must succeed, and a statement that must hold.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CALL(call)                                                                \
    do {                                                                          \
        cudaError_t error = (call);                                               \
        if (error != cudaSuccess) {                                               \
            printf("%s:%d %s: %s\n", __FILE__, __LINE__, cudaGetErrorName(error), \
                   cudaGetErrorString(error));                                    \
            exit(2);                                                              \
        }                                                                         \
    } while (0)
#define HOLDS(statement)                                                         \
    do {                                                                         \
        if (!(statement)) {                                                      \
            printf("%s:%d does not hold: %s\n", __FILE__, __LINE__, #statement); \
            exit(3);                                                             \
        }                                                                        \
    } while (0)
#define GIVES(call, expected)                                                                  \
    do {                                                                                       \
        cudaError_t error = (call);                                                            \
        if (error != (expected)) {                                                             \
            printf("%s:%d %s gives %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error)); \
            exit(4);                                                                           \
        }                                                                                      \
    } while (0)
