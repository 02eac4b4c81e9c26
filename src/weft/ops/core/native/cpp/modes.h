// Whether something of torch has to see the ops that this thread calls.
#pragma once
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace {

// Modes, transforms, autocast and tracers change the dispatch keys of the thread; inference mode does
// as well, and is no hindrance.
bool is_plain() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  bool is_normal = keys.included_ == c10::default_included_set &&
      keys.excluded_ == c10::default_excluded_set;
  bool is_inference =
      keys.included_ == c10::default_included_set.remove(c10::DispatchKey::ADInplaceOrView) &&
      keys.excluded_ == (c10::default_excluded_set | c10::autograd_dispatch_keyset);
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

}  // namespace
