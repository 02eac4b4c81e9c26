// The headers of the C++ library for the parts beside the core, which does without (basic.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>
