// C's mathematical functions are built into device code: there is nothing to declare.
#pragma once
