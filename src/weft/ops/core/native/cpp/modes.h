// Whether something of torch has to see the ops that this thread calls.
#pragma once
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace {

constexpr c10::DispatchKeySet AUTOCAST({c10::DispatchKey::AutocastCPU,
                                        c10::DispatchKey::AutocastCUDA});

// Modes, transforms and tracers change the dispatch keys of the thread. Inference mode and autocast
// do as well, and are no hindrance: the C++ code converts tensors itself.
bool is_plain() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  auto excluded = keys.excluded_ | AUTOCAST;
  bool is_normal = keys.included_ == c10::default_included_set &&
      excluded == c10::default_excluded_set;
  bool is_inference =
      keys.included_ == c10::default_included_set.remove(c10::DispatchKey::ADInplaceOrView) &&
      excluded == (c10::default_excluded_set | c10::autograd_dispatch_keyset);
  return (is_normal || is_inference) && at::impl::PythonTorchFunctionTLS::stack_len() == 0 &&
      !at::hasCallbacks();
}

// The same inside of an autograd node: torch excludes further keys there, such as that of named
// tensors in torch 2.11. No gradient of a gradient is recorded there.
bool is_plain_in_node() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  return keys.included_ == c10::default_included_set &&
      keys.excluded_.has_all(c10::default_excluded_set) &&
      at::impl::PythonTorchFunctionTLS::stack_len() == 0 && !at::hasCallbacks();
}

constexpr uint64_t bit_of(c10::DeviceType type) { return 1ull << static_cast<int>(type); }

// The device types that autocast is on for, as bits; 0: none.
uint64_t autocasting() {
  auto excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  if (excluded.has_all(AUTOCAST)) return 0;
  return (excluded.has(c10::DispatchKey::AutocastCPU) ? 0 : bit_of(c10::kCPU)) |
      (excluded.has(c10::DispatchKey::AutocastCUDA) ? 0 : bit_of(c10::kCUDA));
}

}  // namespace
