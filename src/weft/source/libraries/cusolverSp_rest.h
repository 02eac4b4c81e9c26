// Names of cusolverSp.h that weft has nothing for: calls of functions link, and return "not supported".
// Written by scripts/library_names.py; do not edit.
#pragma once

#ifdef __cplusplus
#define WEFT_ANY ...
extern "C" {
#else
#define WEFT_ANY
#endif
typedef struct cusolverSpContext *cusolverSpHandle_t;
typedef struct csrqrInfo *csrqrInfo_t;
cusolverStatus_t cusolverSpCcsreigsHost(WEFT_ANY), cusolverSpCcsreigvsi(WEFT_ANY),
    cusolverSpCcsreigvsiHost(WEFT_ANY), cusolverSpCcsrlsqvqrHost(WEFT_ANY),
    cusolverSpCcsrlsvchol(WEFT_ANY), cusolverSpCcsrlsvcholHost(WEFT_ANY),
    cusolverSpCcsrlsvluHost(WEFT_ANY), cusolverSpCcsrlsvqr(WEFT_ANY),
    cusolverSpCcsrlsvqrHost(WEFT_ANY), cusolverSpCcsrqrBufferInfoBatched(WEFT_ANY),
    cusolverSpCcsrqrsvBatched(WEFT_ANY), cusolverSpCcsrzfdHost(WEFT_ANY),
    cusolverSpCreate(WEFT_ANY), cusolverSpCreateCsrqrInfo(WEFT_ANY),
    cusolverSpDcsreigsHost(WEFT_ANY), cusolverSpDcsreigvsi(WEFT_ANY),
    cusolverSpDcsreigvsiHost(WEFT_ANY), cusolverSpDcsrlsqvqrHost(WEFT_ANY),
    cusolverSpDcsrlsvchol(WEFT_ANY), cusolverSpDcsrlsvcholHost(WEFT_ANY),
    cusolverSpDcsrlsvluHost(WEFT_ANY), cusolverSpDcsrlsvqr(WEFT_ANY),
    cusolverSpDcsrlsvqrHost(WEFT_ANY), cusolverSpDcsrqrBufferInfoBatched(WEFT_ANY),
    cusolverSpDcsrqrsvBatched(WEFT_ANY), cusolverSpDcsrzfdHost(WEFT_ANY),
    cusolverSpDestroy(WEFT_ANY), cusolverSpDestroyCsrqrInfo(WEFT_ANY),
    cusolverSpGetStream(WEFT_ANY), cusolverSpScsreigsHost(WEFT_ANY), cusolverSpScsreigvsi(WEFT_ANY),
    cusolverSpScsreigvsiHost(WEFT_ANY), cusolverSpScsrlsqvqrHost(WEFT_ANY),
    cusolverSpScsrlsvchol(WEFT_ANY), cusolverSpScsrlsvcholHost(WEFT_ANY),
    cusolverSpScsrlsvluHost(WEFT_ANY), cusolverSpScsrlsvqr(WEFT_ANY),
    cusolverSpScsrlsvqrHost(WEFT_ANY), cusolverSpScsrqrBufferInfoBatched(WEFT_ANY),
    cusolverSpScsrqrsvBatched(WEFT_ANY), cusolverSpScsrzfdHost(WEFT_ANY),
    cusolverSpSetStream(WEFT_ANY), cusolverSpXcsrissymHost(WEFT_ANY),
    cusolverSpXcsrmetisndHost(WEFT_ANY), cusolverSpXcsrpermHost(WEFT_ANY),
    cusolverSpXcsrperm_bufferSizeHost(WEFT_ANY), cusolverSpXcsrqrAnalysisBatched(WEFT_ANY),
    cusolverSpXcsrsymamdHost(WEFT_ANY), cusolverSpXcsrsymmdqHost(WEFT_ANY),
    cusolverSpXcsrsymrcmHost(WEFT_ANY), cusolverSpZcsreigsHost(WEFT_ANY),
    cusolverSpZcsreigvsi(WEFT_ANY), cusolverSpZcsreigvsiHost(WEFT_ANY),
    cusolverSpZcsrlsqvqrHost(WEFT_ANY), cusolverSpZcsrlsvchol(WEFT_ANY),
    cusolverSpZcsrlsvcholHost(WEFT_ANY), cusolverSpZcsrlsvluHost(WEFT_ANY),
    cusolverSpZcsrlsvqr(WEFT_ANY), cusolverSpZcsrlsvqrHost(WEFT_ANY),
    cusolverSpZcsrqrBufferInfoBatched(WEFT_ANY), cusolverSpZcsrqrsvBatched(WEFT_ANY),
    cusolverSpZcsrzfdHost(WEFT_ANY);
#undef WEFT_ANY
#ifdef __cplusplus
}
#endif
