// Casts of weights under autocast: many in one launch, kept as long as torch keeps its own.
#pragma once
#include <ATen/ops/_foreach_copy_ops.h>
#include <ATen/ops/empty_like_ops.h>
#include <ATen/ops/ones_ops.h>
#include <ATen/ops/to_ops.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "modes.h"
#include "node.h"

// Declared here: torch's header includes those of all its ops, which takes half of the time.
namespace at::autocast {
TORCH_API ScalarType get_autocast_dtype(c10::DeviceType);
TORCH_API Tensor cached_cast(ScalarType, const Tensor&, c10::DeviceType);
TORCH_API bool is_autocast_cache_enabled();
}  // namespace at::autocast

namespace {

using Impl = c10::TensorImpl;
using Weak = c10::weak_intrusive_ptr<Impl, c10::UndefinedTensorImpl>;

Tensor cast_again(const Tensor& t, at::ScalarType to) {
  return at::_ops::to_dtype::call(t, to, false, false, std::nullopt);
}

// A tensor whose cast torch's cache keeps; the condition is torch's.
bool is_weight(const Tensor& t) {
  return t.scalar_type() == at::kFloat && t.requires_grad() && t.is_leaf() && !t.is_view();
}

// The casts of some weights, whose gradients are converted back in one launch.
struct CastNode : Node {
  std::string name() const override { return "weft_castBackward"; }

  variable_list apply(variable_list&& gradients) override {
    c10::impl::ExcludeDispatchKeyGuard off(AUTOCAST);
    variable_list results(gradients.size());
    std::vector<Tensor> from, to;
    for (size_t i = 0; i < gradients.size(); i++) {
      const Tensor& g = gradients[i];
      if (!g.defined() || !task_should_compute_output(i)) continue;
      // Gradients of the gradients need an op that autograd records.
      bool is_converted = g.layout() == at::kStrided && g.scalar_type() != at::kFloat;
      if (at::GradMode::is_enabled() || !is_converted) {
        results[i] = cast_again(g, at::kFloat);
        continue;
      }
      results[i] = like(g, at::kFloat);
      from.push_back(g);
      to.push_back(results[i]);
    }
    if (!from.empty()) at::_ops::_foreach_copy_::call(to, from, false);
    return results;
  }

  static Tensor like(const Tensor& t, at::ScalarType dtype) {
    return at::_ops::empty_like::call(t, dtype, {}, {}, {}, at::MemoryFormat::Preserve);
  }
};

// The casts of one autocast region. It belongs to a cast that torch's cache keeps, so it ends when
// that is cleared: when the outermost region ends, or by torch.clear_autocast_cache().
struct Region : torch::autograd::FunctionPostHook {
  struct Row {
    Tensor made;
    uint32_t version;  // of the weight
  };
  std::mutex mutex;
  std::unordered_map<Impl*, Row> rows;  // weights that their casts keep alive

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    return outputs;
  }

  // The cast of a weight as it is now; undefined if there is none.
  Tensor find(const Tensor& weight, at::ScalarType to) {
    auto found = rows.find(weight.unsafeGetTensorImpl());
    if (found == rows.end() || found->second.version != weight._version()) return {};
    return found->second.made.scalar_type() == to ? found->second.made : Tensor();
  }

  void add(const std::vector<Tensor>& weights, at::ScalarType to) {
    std::vector<Tensor> made;
    {
      at::AutoGradMode off(false);
      for (const Tensor& w : weights) made.push_back(CastNode::like(w, to));
      at::_ops::_foreach_copy_::call(made, weights, false);
    }
    NodePtr node = new_node<NodePtr, CastNode>();
    torch::autograd::edge_list edges;
    for (const Tensor& w : weights) edges.push_back(torch::autograd::impl::gradient_edge(w));
    node->set_next_edges(std::move(edges));
    for (size_t i = 0; i < made.size(); i++) {
      torch::autograd::set_history(made[i], node);
      Row row{made[i], weights[i]._version()};
      rows.insert_or_assign(weights[i].unsafeGetTensorImpl(), std::move(row));
    }
  }
};

// The weights that were cast, in the order of their first use, in groups that are cast together.
struct Groups {
  static constexpr size_t MANY_WEIGHTS = 32;
  std::vector<Weak> order;
  std::unordered_map<Impl*, size_t> places;  // weak references keep addresses from other tensors
  size_t limit = 4096;

  // The weights of a group that a region has no cast of, with this one.
  std::vector<Tensor> with(const Tensor& weight, at::ScalarType to, Region& region) {
    auto found = places.find(weight.unsafeGetTensorImpl());
    if (found == places.end()) {
      if (order.size() >= limit) drop();
      places.emplace(weight.unsafeGetTensorImpl(), order.size());
      order.emplace_back(weight.getIntrusivePtr());
      return {weight};
    }
    std::vector<Tensor> group;
    size_t first = found->second / MANY_WEIGHTS * MANY_WEIGHTS;
    for (size_t i = first; i < std::min(order.size(), first + MANY_WEIGHTS); i++) {
      auto alive = order[i].lock();
      if (!alive) continue;
      Tensor other(std::move(alive));
      if (other.device() != weight.device() || !is_weight(other)) continue;
      if (!region.find(other, to).defined()) group.push_back(std::move(other));
    }
    return group;
  }

  void drop() {  // those that do not exist any more
    std::vector<Weak> kept;
    places.clear();
    for (Weak& each : order) {
      if (each.expired()) continue;
      places.emplace(each._unsafe_get_target(), kept.size());
      kept.push_back(std::move(each));
    }
    order = std::move(kept);
    limit = std::max<size_t>(limit, 2 * order.size());
  }
};

// The cast of a weight, with its history also where none is wanted; undefined in inference mode.
// torch's cache would keep a cast of a weight that changes in the region, and give casts that were
// made without gradients to calls that need one.
Tensor cast_of_weight(const Tensor& weight, at::ScalarType to) {
  if (c10::InferenceMode::is_enabled()) return {};
  // Never freed: threads may outlive static objects.
  static const Tensor& one = *new Tensor(
      at::_ops::ones::call({1}, at::kFloat, {}, c10::Device(c10::kCPU), {}).requires_grad_());
  static Groups& groups = *new Groups;
  static std::mutex& mutex = *new std::mutex;
  at::AutoGradMode on(true);  // the cast of `one` needs a node
  auto dtype = at::autocast::get_autocast_dtype(c10::kCPU);
  Tensor kept = at::autocast::cached_cast(dtype, one, c10::kCPU);
  NodePtr node = kept.grad_fn();
  if (node == nullptr) return {};  // in float32, or by a call of torch's that has no gradients
  std::lock_guard<std::mutex> lock(mutex);
  if (node->post_hooks().empty()) node->add_post_hook(std::make_unique<Region>());
  auto& region = static_cast<Region&>(*node->post_hooks()[0]);
  Tensor made = region.find(weight, to);
  if (made.defined()) return made;
  region.add(groups.with(weight, to, region), to);
  return region.find(weight, to);
}

}  // namespace
