// Names of cusolverRf.h that weft has nothing for: calls of functions link, and return "not supported".
// Written by scripts/library_names.py; do not edit.
#pragma once

#ifdef __cplusplus
#define WEFT_ANY ...
extern "C" {
#else
#define WEFT_ANY
#endif
typedef enum { CUSOLVERRF_RESET_VALUES_FAST_MODE_OFF = 0, CUSOLVERRF_RESET_VALUES_FAST_MODE_ON = 1 }
    cusolverRfResetValuesFastMode_t;
typedef enum { CUSOLVERRF_MATRIX_FORMAT_CSR = 0, CUSOLVERRF_MATRIX_FORMAT_CSC = 1 }
    cusolverRfMatrixFormat_t;
typedef enum { CUSOLVERRF_UNIT_DIAGONAL_STORED_L = 0, CUSOLVERRF_UNIT_DIAGONAL_STORED_U = 1,
    CUSOLVERRF_UNIT_DIAGONAL_ASSUMED_L = 2, CUSOLVERRF_UNIT_DIAGONAL_ASSUMED_U = 3 }
    cusolverRfUnitDiagonal_t;
typedef enum { CUSOLVERRF_FACTORIZATION_ALG0 = 0, CUSOLVERRF_FACTORIZATION_ALG1 = 1,
    CUSOLVERRF_FACTORIZATION_ALG2 = 2 } cusolverRfFactorization_t;
typedef enum { CUSOLVERRF_TRIANGULAR_SOLVE_ALG1 = 1, CUSOLVERRF_TRIANGULAR_SOLVE_ALG2 = 2,
    CUSOLVERRF_TRIANGULAR_SOLVE_ALG3 = 3 } cusolverRfTriangularSolve_t;
typedef enum { CUSOLVERRF_NUMERIC_BOOST_NOT_USED = 0, CUSOLVERRF_NUMERIC_BOOST_USED = 1 }
    cusolverRfNumericBoostReport_t;
typedef struct cusolverRfCommon *cusolverRfHandle_t;
cusolverStatus_t cusolverRfAccessBundledFactorsDevice(WEFT_ANY), cusolverRfAnalyze(WEFT_ANY),
    cusolverRfBatchAnalyze(WEFT_ANY), cusolverRfBatchRefactor(WEFT_ANY),
    cusolverRfBatchResetValues(WEFT_ANY), cusolverRfBatchSetupHost(WEFT_ANY),
    cusolverRfBatchSolve(WEFT_ANY), cusolverRfBatchZeroPivot(WEFT_ANY), cusolverRfCreate(WEFT_ANY),
    cusolverRfDestroy(WEFT_ANY), cusolverRfExtractBundledFactorsHost(WEFT_ANY),
    cusolverRfExtractSplitFactorsHost(WEFT_ANY), cusolverRfGetAlgs(WEFT_ANY),
    cusolverRfGetMatrixFormat(WEFT_ANY), cusolverRfGetNumericBoostReport(WEFT_ANY),
    cusolverRfGetNumericProperties(WEFT_ANY), cusolverRfGetResetValuesFastMode(WEFT_ANY),
    cusolverRfRefactor(WEFT_ANY), cusolverRfResetValues(WEFT_ANY), cusolverRfSetAlgs(WEFT_ANY),
    cusolverRfSetMatrixFormat(WEFT_ANY), cusolverRfSetNumericProperties(WEFT_ANY),
    cusolverRfSetResetValuesFastMode(WEFT_ANY), cusolverRfSetupDevice(WEFT_ANY),
    cusolverRfSetupHost(WEFT_ANY), cusolverRfSolve(WEFT_ANY);
#undef WEFT_ANY
#ifdef __cplusplus
}
#endif
