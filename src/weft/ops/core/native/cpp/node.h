// Recipes of recorded calls, and the autograd nodes that they make.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <mutex>

#include "modes.h"
#include "steps.h"

namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using NodePtr = decltype(Edge::function);  // shared or intrusive, by the version of torch

// ---- layouts -----------------------------------------------------------------------------------
struct Layout {
  bool defined = false;
  uint64_t keys = 0;
  at::ScalarType dtype = at::kFloat;
  c10::Device device{c10::kCPU};
  std::vector<int64_t> sizes, strides;
  uintptr_t aligned = 0;

  Layout() = default;
  explicit Layout(const Tensor& t) : defined(t.defined()) {
    if (!defined) return;
    keys = t.key_set().raw_repr();
    dtype = t.scalar_type();
    device = t.device();
    sizes = t.sizes().vec();
    strides = t.strides().vec();
    aligned = reinterpret_cast<uintptr_t>(t.data_ptr()) & 15;
  }

  bool operator()(const Tensor& t) const {
    if (!defined || !t.defined()) return defined == t.defined();
    // The keys differ for subclasses, fake tensors and lazily negated or conjugated views.
    return t.key_set().raw_repr() == keys && t.scalar_type() == dtype && t.device() == device &&
        t.sizes() == c10::IntArrayRef(sizes) && t.strides() == c10::IntArrayRef(strides) &&
        (reinterpret_cast<uintptr_t>(t.data_ptr()) & 15) == aligned;
  }
};

struct Backward {
  std::vector<Layout> layouts;
  std::shared_ptr<const Program> program;

  bool fits(const Slots& slots) const {
    for (size_t i = 0; i < layouts.size(); i++) {
      if (!layouts[i](slots[i])) return false;
    }
    return true;
  }
};

// ---- recipes -----------------------------------------------------------------------------------
struct Recipe {
  std::string name;
  std::shared_ptr<const Program> forward;
  std::vector<int> inputs;  // the tensors of the call that the formula has gradients of
  std::vector<int> saved;   // numbers of forward's tensors; -1: none
  std::vector<bool> differentiable;
  Ref formula;  // (saved, gradients, recipe, words) -> gradients of the tensors

  std::shared_ptr<const Program> find(const Slots& slots) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Backward& b : backward_) {
      if (b.fits(slots)) return b.program;
    }
    return nullptr;
  }
  void learn(Backward&& backward) {
    std::lock_guard<std::mutex> lock(mutex_);
    backward_.push_back(std::move(backward));
  }

 private:
  std::mutex mutex_;
  std::vector<Backward> backward_;
};

struct OpNode : Node {
  std::shared_ptr<Recipe> recipe;
  std::vector<SavedVariable> saved;
  Words words{};  // of the forward call
  bool released = false;
  std::mutex mutex;

  std::string name() const override { return recipe->name; }

  variable_list apply(variable_list&& gradients) override {
    // Forward has computed on converted tensors: gradients have their dtypes.
    c10::impl::ExcludeDispatchKeyGuard off(AUTOCAST);
    Slots slots;
    {
      std::lock_guard<std::mutex> lock(mutex);
      TORCH_CHECK(!released || saved.empty(), torch::autograd::ERR_BACKWARD_TWICE);
      for (const SavedVariable& each : saved) slots.push_back(each.unpack(getptr()));
    }
    for (Tensor& gradient : gradients) slots.push_back(std::move(gradient));
    // Gradients of the gradients need a formula.
    if (at::GradMode::is_enabled() || !is_plain_in_node()) return by_formula(slots);
    std::shared_ptr<const Program> program = recipe->find(slots);
    if (program == nullptr) return by_formula(slots);
    program->run(slots, words);
    variable_list results(program->results.size());
    for (size_t i = 0; i < results.size(); i++) {
      int number = program->results[i];
      if (number >= 0 && task_should_compute_output(i)) results[i] = slots[number];
    }
    return results;
  }

  variable_list by_formula(const Slots& slots) {
    py::gil_scoped_acquire gil;
    size_t count = saved.size();
    py::tuple kept(count), gradients(slots.size() - count);
    for (size_t i = 0; i < slots.size(); i++) {
      (i < count ? kept : gradients)[i < count ? i : i - count] = wrapped(slots[i]);
    }
    // The formula does not keep the recipe, which keeps it: they would never be freed.
    py::tuple given = py::make_tuple(kept, gradients, capsule(recipe), words);
    py::object made = called(recipe->formula.get(), given);
    variable_list results;
    for (py::handle each : made.cast<py::sequence>()) results.push_back(unwrapped(each));
    return results;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex);
    released = true;
    for (SavedVariable& each : saved) each.reset_data();
  }
};

template <class Pointer, class Made>
Pointer new_node() {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>) {
    // Found by its argument: not every version of torch has this function.
    return Pointer(new Made(), [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Made>();
  }
}

}  // namespace
