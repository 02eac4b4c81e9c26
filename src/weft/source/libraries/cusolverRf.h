// cuSOLVER's refactorization interface, of which weft has no function; used where the toolkit has no
// cusolverRf.h of its own.
#pragma once

#include <cusolver_common.h>
#include <cusparse.h>

#include <cusolverRf_rest.h>
