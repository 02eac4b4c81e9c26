// Names of cufft.h that weft has nothing for: calls of functions link, and return "not supported".
// Written by scripts/library_names.py; do not edit.
#pragma once

#ifdef __cplusplus
#define WEFT_ANY ...
extern "C" {
#else
#define WEFT_ANY
#endif
static const cufftResult CUFFT_MISSING_DEPENDENCY = (cufftResult)17, CUFFT_NVRTC_FAILURE =
    (cufftResult)18, CUFFT_NVJITLINK_FAILURE = (cufftResult)19, CUFFT_NVSHMEM_FAILURE =
    (cufftResult)20;
typedef enum { CUFFT_COMPATIBILITY_FFTW_PADDING = 1 } cufftCompatibility;
typedef enum { NVFFT_PLAN_PROPERTY_INT64_PATIENT_JIT = 1,
    NVFFT_PLAN_PROPERTY_INT64_MAX_NUM_HOST_THREADS = 2, NVFFT_PLAN_PROPERTY_INT64_BLUESTEIN_ONLY =
    3, NVFFT_PLAN_PROPERTY_INT64_DISABLE_FMA = 4 } cufftProperty;
cufftResult cufftEstimate2d(WEFT_ANY), cufftEstimate3d(WEFT_ANY), cufftEstimateMany(WEFT_ANY),
    cufftGetPlanPropertyInt64(WEFT_ANY), cufftGetProperty(WEFT_ANY), cufftGetSize1d(WEFT_ANY),
    cufftGetSize2d(WEFT_ANY), cufftGetSize3d(WEFT_ANY), cufftGetSizeMany(WEFT_ANY),
    cufftGetSizeMany64(WEFT_ANY), cufftMakePlanMany64(WEFT_ANY), cufftResetPlanProperty(WEFT_ANY),
    cufftSetPlanPropertyInt64(WEFT_ANY);
#undef WEFT_ANY
#ifdef __cplusplus
}
#endif
