// The parts of cuSOLVER's sparse routines, of which weft has no function; used where the toolkit has
// no cusolverSp_LOWLEVEL_PREVIEW.h of its own.
#pragma once

#include <cusolverSp.h>

#include <cusolverSp_LOWLEVEL_PREVIEW_rest.h>
