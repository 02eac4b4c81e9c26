// Names of cusolverSp_LOWLEVEL_PREVIEW.h that weft has nothing for: calls of functions link, and return "not supported".
// Written by scripts/library_names.py; do not edit.
#pragma once

#ifdef __cplusplus
#define WEFT_ANY ...
extern "C" {
#else
#define WEFT_ANY
#endif
typedef struct csrluInfoHost *csrluInfoHost_t;
typedef struct csrqrInfoHost *csrqrInfoHost_t;
typedef struct csrcholInfoHost *csrcholInfoHost_t;
typedef struct csrcholInfo *csrcholInfo_t;
cusolverStatus_t cusolverSpCcsrcholBufferInfo(WEFT_ANY), cusolverSpCcsrcholBufferInfoHost(WEFT_ANY),
    cusolverSpCcsrcholDiag(WEFT_ANY), cusolverSpCcsrcholFactor(WEFT_ANY),
    cusolverSpCcsrcholFactorHost(WEFT_ANY), cusolverSpCcsrcholSolve(WEFT_ANY),
    cusolverSpCcsrcholSolveHost(WEFT_ANY), cusolverSpCcsrcholZeroPivot(WEFT_ANY),
    cusolverSpCcsrcholZeroPivotHost(WEFT_ANY), cusolverSpCcsrluBufferInfoHost(WEFT_ANY),
    cusolverSpCcsrluExtractHost(WEFT_ANY), cusolverSpCcsrluFactorHost(WEFT_ANY),
    cusolverSpCcsrluSolveHost(WEFT_ANY), cusolverSpCcsrluZeroPivotHost(WEFT_ANY),
    cusolverSpCcsrqrBufferInfo(WEFT_ANY), cusolverSpCcsrqrBufferInfoHost(WEFT_ANY),
    cusolverSpCcsrqrFactor(WEFT_ANY), cusolverSpCcsrqrFactorHost(WEFT_ANY),
    cusolverSpCcsrqrSetup(WEFT_ANY), cusolverSpCcsrqrSetupHost(WEFT_ANY),
    cusolverSpCcsrqrSolve(WEFT_ANY), cusolverSpCcsrqrSolveHost(WEFT_ANY),
    cusolverSpCcsrqrZeroPivot(WEFT_ANY), cusolverSpCcsrqrZeroPivotHost(WEFT_ANY),
    cusolverSpCreateCsrcholInfo(WEFT_ANY), cusolverSpCreateCsrcholInfoHost(WEFT_ANY),
    cusolverSpCreateCsrluInfoHost(WEFT_ANY), cusolverSpCreateCsrqrInfoHost(WEFT_ANY),
    cusolverSpDcsrcholBufferInfo(WEFT_ANY), cusolverSpDcsrcholBufferInfoHost(WEFT_ANY),
    cusolverSpDcsrcholDiag(WEFT_ANY), cusolverSpDcsrcholFactor(WEFT_ANY),
    cusolverSpDcsrcholFactorHost(WEFT_ANY), cusolverSpDcsrcholSolve(WEFT_ANY),
    cusolverSpDcsrcholSolveHost(WEFT_ANY), cusolverSpDcsrcholZeroPivot(WEFT_ANY),
    cusolverSpDcsrcholZeroPivotHost(WEFT_ANY), cusolverSpDcsrluBufferInfoHost(WEFT_ANY),
    cusolverSpDcsrluExtractHost(WEFT_ANY), cusolverSpDcsrluFactorHost(WEFT_ANY),
    cusolverSpDcsrluSolveHost(WEFT_ANY), cusolverSpDcsrluZeroPivotHost(WEFT_ANY),
    cusolverSpDcsrqrBufferInfo(WEFT_ANY), cusolverSpDcsrqrBufferInfoHost(WEFT_ANY),
    cusolverSpDcsrqrFactor(WEFT_ANY), cusolverSpDcsrqrFactorHost(WEFT_ANY),
    cusolverSpDcsrqrSetup(WEFT_ANY), cusolverSpDcsrqrSetupHost(WEFT_ANY),
    cusolverSpDcsrqrSolve(WEFT_ANY), cusolverSpDcsrqrSolveHost(WEFT_ANY),
    cusolverSpDcsrqrZeroPivot(WEFT_ANY), cusolverSpDcsrqrZeroPivotHost(WEFT_ANY),
    cusolverSpDestroyCsrcholInfo(WEFT_ANY), cusolverSpDestroyCsrcholInfoHost(WEFT_ANY),
    cusolverSpDestroyCsrluInfoHost(WEFT_ANY), cusolverSpDestroyCsrqrInfoHost(WEFT_ANY),
    cusolverSpScsrcholBufferInfo(WEFT_ANY), cusolverSpScsrcholBufferInfoHost(WEFT_ANY),
    cusolverSpScsrcholDiag(WEFT_ANY), cusolverSpScsrcholFactor(WEFT_ANY),
    cusolverSpScsrcholFactorHost(WEFT_ANY), cusolverSpScsrcholSolve(WEFT_ANY),
    cusolverSpScsrcholSolveHost(WEFT_ANY), cusolverSpScsrcholZeroPivot(WEFT_ANY),
    cusolverSpScsrcholZeroPivotHost(WEFT_ANY), cusolverSpScsrluBufferInfoHost(WEFT_ANY),
    cusolverSpScsrluExtractHost(WEFT_ANY), cusolverSpScsrluFactorHost(WEFT_ANY),
    cusolverSpScsrluSolveHost(WEFT_ANY), cusolverSpScsrluZeroPivotHost(WEFT_ANY),
    cusolverSpScsrqrBufferInfo(WEFT_ANY), cusolverSpScsrqrBufferInfoHost(WEFT_ANY),
    cusolverSpScsrqrFactor(WEFT_ANY), cusolverSpScsrqrFactorHost(WEFT_ANY),
    cusolverSpScsrqrSetup(WEFT_ANY), cusolverSpScsrqrSetupHost(WEFT_ANY),
    cusolverSpScsrqrSolve(WEFT_ANY), cusolverSpScsrqrSolveHost(WEFT_ANY),
    cusolverSpScsrqrZeroPivot(WEFT_ANY), cusolverSpScsrqrZeroPivotHost(WEFT_ANY),
    cusolverSpXcsrcholAnalysis(WEFT_ANY), cusolverSpXcsrcholAnalysisHost(WEFT_ANY),
    cusolverSpXcsrluAnalysisHost(WEFT_ANY), cusolverSpXcsrluNnzHost(WEFT_ANY),
    cusolverSpXcsrqrAnalysis(WEFT_ANY), cusolverSpXcsrqrAnalysisHost(WEFT_ANY),
    cusolverSpZcsrcholBufferInfo(WEFT_ANY), cusolverSpZcsrcholBufferInfoHost(WEFT_ANY),
    cusolverSpZcsrcholDiag(WEFT_ANY), cusolverSpZcsrcholFactor(WEFT_ANY),
    cusolverSpZcsrcholFactorHost(WEFT_ANY), cusolverSpZcsrcholSolve(WEFT_ANY),
    cusolverSpZcsrcholSolveHost(WEFT_ANY), cusolverSpZcsrcholZeroPivot(WEFT_ANY),
    cusolverSpZcsrcholZeroPivotHost(WEFT_ANY), cusolverSpZcsrluBufferInfoHost(WEFT_ANY),
    cusolverSpZcsrluExtractHost(WEFT_ANY), cusolverSpZcsrluFactorHost(WEFT_ANY),
    cusolverSpZcsrluSolveHost(WEFT_ANY), cusolverSpZcsrluZeroPivotHost(WEFT_ANY),
    cusolverSpZcsrqrBufferInfo(WEFT_ANY), cusolverSpZcsrqrBufferInfoHost(WEFT_ANY),
    cusolverSpZcsrqrFactor(WEFT_ANY), cusolverSpZcsrqrFactorHost(WEFT_ANY),
    cusolverSpZcsrqrSetup(WEFT_ANY), cusolverSpZcsrqrSetupHost(WEFT_ANY),
    cusolverSpZcsrqrSolve(WEFT_ANY), cusolverSpZcsrqrSolveHost(WEFT_ANY),
    cusolverSpZcsrqrZeroPivot(WEFT_ANY), cusolverSpZcsrqrZeroPivotHost(WEFT_ANY);
#undef WEFT_ANY
#ifdef __cplusplus
}
#endif
