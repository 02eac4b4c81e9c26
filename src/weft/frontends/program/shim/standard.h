// What the parts beside the core use of the C++ library; the core does without (basic.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>
