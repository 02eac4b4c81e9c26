// The host's part alone.
#include "shared.h"
const char *name() { return "from C++"; }
