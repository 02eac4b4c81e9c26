// Calls of ops from Python: by a plan, which the arguments are looked up for, or by a recipe.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <optional>

#include "casts.h"
#include "key.h"
#include "node.h"

namespace {

struct Unlocked {  // the interpreter's lock is released while it lives
  PyThreadState* state = PyEval_SaveThread();
  Unlocked() = default;
  Unlocked(const Unlocked&) = delete;
  ~Unlocked() { PyEval_RestoreThread(state); }
};

PyObject* results_of(const Program& program, Slots& slots) {
  if (program.results.size() == 1) return THPVariable_Wrap(std::move(slots[program.results[0]]));
  py::tuple results(program.results.size());
  for (size_t i = 0; i < results.size(); i++) results[i] = wrapped(slots[program.results[i]]);
  return results.release().ptr();
}

uint64_t wanted_by(const Slots& tensors) {  // a bit for each tensor that requires a gradient
  uint64_t wanted = 0;
  for (size_t i = 0; i < tensors.size(); i++) {
    bool is_wanted = tensors[i].defined() && tensors[i].requires_grad();
    wanted |= static_cast<uint64_t>(is_wanted) << i;
  }
  return wanted;
}

// ---- with gradients ----------------------------------------------------------------------------
struct Recorder {  // the recipes of one plan, by the tensors that require a gradient
  size_t tensors, words;
  std::vector<std::pair<uint64_t, std::shared_ptr<Recipe>>> recipes;

  std::shared_ptr<Recipe> find(uint64_t wanted) const {
    for (const auto& [mask, each] : recipes) {
      if (mask == wanted) return each;
    }
    return nullptr;
  }
};

PyObject* recorded(const std::shared_ptr<Recipe>& recipe, Slots& slots, uint64_t wanted,
                   const Words& words) {
  const Program& forward = *recipe->forward;
  {
    Unlocked unlocked;
    {
      at::AutoGradMode off(false);
      forward.run(slots, words);
    }
    NodePtr made = new_node<NodePtr, OpNode>();
    auto* node = static_cast<OpNode*>(made.get());
    torch::autograd::edge_list edges;
    edges.reserve(recipe->inputs.size());
    for (int i : recipe->inputs) {
      bool is_wanted = wanted >> i & 1;
      edges.push_back(is_wanted ? torch::autograd::impl::gradient_edge(slots[i]) : Edge());
    }
    node->set_next_edges(std::move(edges));
    node->recipe = recipe;
    node->words = words;
    for (size_t i = 0; i < forward.results.size(); i++) {
      const Tensor& result = slots[forward.results[i]];
      torch::autograd::set_history(recipe->differentiable[i] ? result : Tensor(), made);
    }
    node->saved.reserve(recipe->saved.size());
    for (int number : recipe->saved) {
      if (number < 0) {
        node->saved.emplace_back(Tensor(), false);
        continue;
      }
      bool is_output = std::find(forward.results.begin(), forward.results.end(), number) !=
          forward.results.end();
      node->saved.emplace_back(slots[number], is_output);
    }
  }
  return results_of(forward, slots);
}

// Takes the tensors, then the words, of a call whose plan is known.
PyObject* record(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  HANDLE_TH_ERRORS
  auto& recorder = **static_cast<std::shared_ptr<Recorder>*>(PyCapsule_GetPointer(self, nullptr));
  if (static_cast<size_t>(n) != recorder.tensors + recorder.words) Py_RETURN_NOTIMPLEMENTED;
  Slots slots;
  Words words{};
  for (size_t i = 0; i < recorder.words; i++) {
    words[i] = PyLong_AsLongLong(args[recorder.tensors + i]);
    if (PyErr_Occurred()) return nullptr;
  }
  for (size_t i = 0; i < recorder.tensors; i++) {
    if (args[i] == Py_None) {
      slots.emplace_back();
      continue;
    }
    if (!THPVariable_CheckExact(args[i])) Py_RETURN_NOTIMPLEMENTED;
    const Tensor& t = THPVariable_Unpack(args[i]);
    if (!is_ordinary(t)) Py_RETURN_NOTIMPLEMENTED;
    slots.push_back(t);
  }
  uint64_t wanted = wanted_by(slots);
  std::shared_ptr<Recipe> recipe = recorder.find(wanted);
  if (recipe == nullptr) Py_RETURN_NOTIMPLEMENTED;
  return recorded(recipe, slots, wanted, words);
  END_HANDLE_TH_ERRORS
}

// ---- all calls ---------------------------------------------------------------------------------
struct Planned {
  std::shared_ptr<const Program> program;  // without gradients; nullptr: not known
  std::vector<std::shared_ptr<const Recorder>> recorders;
  at::Generator generator;                   // may be undefined
  uint64_t moved = 0;                        // how far a call moves its offset
  c10::Device device{c10::kCPU};             // of the generator

  std::shared_ptr<Recipe> find(uint64_t wanted) const {
    for (const auto& recorder : recorders) {
      if (auto recipe = recorder->find(wanted)) return recipe;
    }
    return nullptr;
  }

  // Takes seed and offset; false where a graph must read them from memory.
  bool draw(Words& words) const {
    if (!generator.defined()) return true;
    if (is_capturing(current_stream(device))) return false;
    auto& source = *generator.unsafeGetGeneratorImpl();
    std::lock_guard<std::mutex> lock(source.mutex_);
    words[0] = static_cast<int64_t>(source.current_seed());
    words[1] = static_cast<int64_t>(source.get_offset());
    source.set_offset(words[1] + moved);
    return true;
  }
};

struct Calls {  // the plans of one op
  std::vector<bool> is_tensor;  // of each argument
  Policy policy;
  std::unordered_map<Key, std::shared_ptr<const Planned>, Hash> plans;

  // The tensors of a call; false for one that something of torch has to see.
  bool tensors_of(PyObject* const* args, size_t n, Slots& tensors) const {
    if (n != is_tensor.size()) return false;
    for (size_t i = 0; i < n; i++) {
      if (!is_tensor[i]) continue;
      if (args[i] == Py_None) {
        tensors.emplace_back();
        continue;
      }
      if (!THPVariable_CheckExact(args[i])) return false;
      const Tensor& t = THPVariable_Unpack(args[i]);
      if (!is_ordinary(t)) return false;
      tensors.push_back(t);
    }
    return true;
  }

  bool describe(PyObject* const* args, const Slots& tensors, Key& key) const {
    size_t number = 0;
    for (size_t i = 0; i < is_tensor.size(); i++) {
      if (!is_tensor[i]) {
        if (!append_value(key, args[i])) return false;
        continue;
      }
      const Tensor& t = tensors[number++];
      if (!t.defined()) key.push_back(NONE);
      else if (!append_tensor(key, t)) return false;
    }
    return true;
  }
};

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  HANDLE_TH_ERRORS
  auto& calls = *static_cast<Calls*>(PyCapsule_GetPointer(self, nullptr));
  Key key;
  Slots slots;
  if (!is_plain() || !calls.tensors_of(args, n, slots)) Py_RETURN_NOTIMPLEMENTED;
  // Plans are those of the converted tensors, and run as if autocast were off.
  std::optional<c10::impl::ExcludeDispatchKeyGuard> off;
  if (uint64_t on = autocasting(); on != 0) {
    off.emplace(AUTOCAST);
    Unlocked unlocked;
    convert(slots, calls.policy, on);
  }
  if (!calls.describe(args, slots, key)) Py_RETURN_NOTIMPLEMENTED;
  auto found = calls.plans.find(key);
  if (found == calls.plans.end()) Py_RETURN_NOTIMPLEMENTED;
  // Another thread may drop the plans while this one has released the interpreter's lock.
  std::shared_ptr<const Planned> planned = found->second;
  uint64_t wanted = at::GradMode::is_enabled() ? wanted_by(slots) : 0;
  std::shared_ptr<Recipe> recipe = wanted == 0 ? nullptr : planned->find(wanted);
  if (wanted == 0 ? planned->program == nullptr : recipe == nullptr) Py_RETURN_NOTIMPLEMENTED;
  Words words{};
  if (!planned->draw(words)) Py_RETURN_NOTIMPLEMENTED;
  if (wanted != 0) return recorded(recipe, slots, wanted, words);
  {
    Unlocked unlocked;
    planned->program->run(slots, words);
  }
  return results_of(*planned->program, slots);
  END_HANDLE_TH_ERRORS
}

// Runs a program on tensors.
PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  HANDLE_TH_ERRORS
  auto& program = *static_cast<std::shared_ptr<Program>*>(PyCapsule_GetPointer(self, nullptr));
  Slots slots;
  for (Py_ssize_t i = 0; i < n; i++) slots.push_back(unwrapped(args[i]));
  {
    Unlocked unlocked;
    program->run(slots);
  }
  return results_of(*program, slots);
  END_HANDLE_TH_ERRORS
}

}  // namespace
