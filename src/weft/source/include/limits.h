// INT_MAX and the like, from the device library.
#pragma once
#include <cuda/std/climits>
