// int32_t and the like, as the device library spells them.
#pragma once
#include <cuda/std/cstdint>
