// Names of cublasXt.h that weft has nothing for: calls of functions link, and return "not supported".
// Written by scripts/library_names.py; do not edit.
#pragma once

#ifdef __cplusplus
#define WEFT_ANY ...
extern "C" {
#else
#define WEFT_ANY
#endif
typedef enum { CUBLASXT_FLOAT = 0, CUBLASXT_DOUBLE = 1, CUBLASXT_COMPLEX = 2, CUBLASXT_DOUBLECOMPLEX
    = 3 } cublasXtOpType_t;
typedef enum { CUBLASXT_GEMM = 0, CUBLASXT_SYRK = 1, CUBLASXT_HERK = 2, CUBLASXT_SYMM = 3,
    CUBLASXT_HEMM = 4, CUBLASXT_TRSM = 5, CUBLASXT_SYR2K = 6, CUBLASXT_HER2K = 7, CUBLASXT_SPMM = 8,
    CUBLASXT_SYRKX = 9, CUBLASXT_HERKX = 10, CUBLASXT_TRMM = 11, CUBLASXT_ROUTINE_MAX = 12 }
    cublasXtBlasOp_t;
cublasStatus_t cublasXtCgemm(WEFT_ANY), cublasXtChemm(WEFT_ANY), cublasXtCher2k(WEFT_ANY),
    cublasXtCherk(WEFT_ANY), cublasXtCherkx(WEFT_ANY), cublasXtCspmm(WEFT_ANY),
    cublasXtCsymm(WEFT_ANY), cublasXtCsyr2k(WEFT_ANY), cublasXtCsyrk(WEFT_ANY),
    cublasXtCsyrkx(WEFT_ANY), cublasXtCtrmm(WEFT_ANY), cublasXtCtrsm(WEFT_ANY),
    cublasXtDspmm(WEFT_ANY), cublasXtDsymm(WEFT_ANY), cublasXtDsyr2k(WEFT_ANY),
    cublasXtDsyrk(WEFT_ANY), cublasXtDsyrkx(WEFT_ANY), cublasXtDtrmm(WEFT_ANY),
    cublasXtDtrsm(WEFT_ANY), cublasXtGetNumBoards(WEFT_ANY), cublasXtGetPinningMemMode(WEFT_ANY),
    cublasXtSetCpuRatio(WEFT_ANY), cublasXtSetCpuRoutine(WEFT_ANY), cublasXtSspmm(WEFT_ANY),
    cublasXtSsymm(WEFT_ANY), cublasXtSsyr2k(WEFT_ANY), cublasXtSsyrk(WEFT_ANY),
    cublasXtSsyrkx(WEFT_ANY), cublasXtStrmm(WEFT_ANY), cublasXtStrsm(WEFT_ANY),
    cublasXtZgemm(WEFT_ANY), cublasXtZhemm(WEFT_ANY), cublasXtZher2k(WEFT_ANY),
    cublasXtZherk(WEFT_ANY), cublasXtZherkx(WEFT_ANY), cublasXtZspmm(WEFT_ANY),
    cublasXtZsymm(WEFT_ANY), cublasXtZsyr2k(WEFT_ANY), cublasXtZsyrk(WEFT_ANY),
    cublasXtZsyrkx(WEFT_ANY), cublasXtZtrmm(WEFT_ANY), cublasXtZtrsm(WEFT_ANY);
#undef WEFT_ANY
#ifdef __cplusplus
}
#endif
