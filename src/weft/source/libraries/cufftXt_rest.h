// Names of cufftXt.h that weft has nothing for: calls of functions link, and return "not supported".
// Written by scripts/library_names.py; do not edit.
#pragma once

#ifdef __cplusplus
#define WEFT_ANY ...
extern "C" {
#else
#define WEFT_ANY
#endif
static const cufftXtSubFormat CUFFT_XT_FORMAT_DISTRIBUTED_INPUT = (cufftXtSubFormat)5,
    CUFFT_XT_FORMAT_DISTRIBUTED_OUTPUT = (cufftXtSubFormat)6, CUFFT_FORMAT_UNDEFINED =
    (cufftXtSubFormat)7;
static const cufftXtCopyType CUFFT_COPY_UNDEFINED = (cufftXtCopyType)3;
typedef enum { CUFFT_QUERY_1D_FACTORS = 0, CUFFT_QUERY_UNDEFINED = 1 } cufftXtQueryType;
typedef enum { CUFFT_CB_LD_COMPLEX = 0, CUFFT_CB_LD_COMPLEX_DOUBLE = 1, CUFFT_CB_LD_REAL = 2,
    CUFFT_CB_LD_REAL_DOUBLE = 3, CUFFT_CB_ST_COMPLEX = 4, CUFFT_CB_ST_COMPLEX_DOUBLE = 5,
    CUFFT_CB_ST_REAL = 6, CUFFT_CB_ST_REAL_DOUBLE = 7, CUFFT_CB_UNDEFINED = 8 } cufftXtCallbackType;
cufftResult cufftXtClearCallback(WEFT_ANY), cufftXtQueryPlan(WEFT_ANY),
    cufftXtSetCallback(WEFT_ANY), cufftXtSetCallbackSharedSize(WEFT_ANY),
    cufftXtSetJITCallback(WEFT_ANY);
#undef WEFT_ANY
#ifdef __cplusplus
}
#endif
