// What autocast makes of the tensors of a call: the same as torch's own kernels for its keys.
#pragma once
#include "weights.h"

namespace {

enum class Policy { KEPT, SINGLE, LOWER, WIDEST };  // see bind/autocast.py

bool may_convert(const Tensor& t, uint64_t on) {
  bool is_float = t.is_floating_point() && t.scalar_type() != at::kDouble;
  return is_float && (on & bit_of(t.device().type())) != 0;
}

Tensor cast(const Tensor& t, at::ScalarType to) {
  bool is_kept = to != at::kFloat && is_weight(t) && at::autocast::is_autocast_cache_enabled();
  if (!is_kept) return at::autocast::cached_cast(to, t, t.device().type());
  Tensor made = cast_of_weight(t, to);
  return made.defined() ? made : at::autocast::cached_cast(to, t, t.device().type());
}

template <class Tensors>
bool has_single(const Tensors& tensors, uint64_t on) {
  for (const Tensor& t : tensors) {
    if (t.defined() && may_convert(t, on) && t.scalar_type() == at::kFloat) return true;
  }
  return false;
}

// Replaces the tensors of a call by those that the op gets; `on` has a bit for each device type.
template <class Tensors>
void convert(Tensors& tensors, Policy policy, uint64_t on) {
  if (policy == Policy::KEPT) return;
  if (policy == Policy::WIDEST && !has_single(tensors, on)) return;
  for (Tensor& t : tensors) {
    if (!t.defined() || !may_convert(t, on)) continue;
    auto to = policy == Policy::LOWER ? at::autocast::get_autocast_dtype(t.device().type())
                                      : at::kFloat;
    if (t.scalar_type() != to) t = cast(t, to);
  }
}

}  // namespace
