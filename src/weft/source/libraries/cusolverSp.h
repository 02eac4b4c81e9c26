// cuSOLVER's sparse interface, of which weft has no function; used where the toolkit has no
// cusolverSp.h of its own.
#pragma once

#include <cusolver_common.h>
#include <cusparse.h>

#include <cusolverSp_rest.h>
