// Autograd nodes of weft's ops: forward and backward of a recorded call without Python.
//
// A program is a list of steps over numbered tensors: launches of a plan, ops of torch, or Python
// functions. A recipe is what a call with gradients does: its forward program, the tensors that it
// saves, and backward programs by the layouts of their tensors. What no program is known for goes
// to the Python function of the recipe, which may then teach the recipe a program.
//
// Compiled at run time against the headers of the installed torch; see build.py.
#include <ATen/ScalarOps.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/zero_ops.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

namespace {

using at::Tensor;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using NodePtr = decltype(Edge::function);  // shared or intrusive, by the version of torch
using Slots = c10::SmallVector<Tensor, 16>;

// ---- references to Python objects from threads without the interpreter's lock --------------------
struct Release {
  void operator()(PyObject* object) const {
    if (!Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    Py_DECREF(object);
  }
};
using Ref = std::unique_ptr<PyObject, Release>;

Ref keep(py::handle object) {
  return Ref(object.is_none() ? nullptr : object.inc_ref().ptr());
}

[[noreturn]] void raise() {
  python_error error;
  error.persist();
  throw error;
}

py::object called(PyObject* function, const py::tuple& args) {
  PyObject* result = PyObject_CallObject(function, args.ptr());
  if (result == nullptr) raise();
  return py::reinterpret_steal<py::object>(result);
}

py::object wrapped(const Tensor& t) {
  if (!t.defined()) return py::none();
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(t));
}

Tensor unwrapped(py::handle object) {
  if (object.is_none()) return Tensor();
  TORCH_CHECK(THPVariable_Check(object.ptr()), "weft: a tensor or None is expected");
  return THPVariable_Unpack(object.ptr());
}

// ---- launches ----------------------------------------------------------------------------------
struct Config {  // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  void* stream;
  void* attributes;
  unsigned count;
};

struct Driver {
  int (*launch)(const Config*, void*, void**, void**) = nullptr;
  int (*work_stream)(int, int, void**) = nullptr;  // of DLPack's exchange interface
  uint64_t* ring = nullptr;  // see device/gpu/pending.py
  uint64_t mask = 0;
} driver;

constexpr size_t ROOM = 1024, MANY = 128;  // see device/gpu/native_launch.py
constexpr int CUDA = 2;                    // DLPack's number

struct Address {  // a parameter that each call sets
  size_t at;
  int64_t tensor;  // its number in the plan; -1: the counters
  int64_t add;     // bytes
};

struct Kernel {
  Config config;
  void* function;
  std::vector<char> params;
  std::vector<size_t> offsets;
  std::vector<Address> addresses;
  uint64_t id;
  Ref slow;  // takes the addresses; launches, or raises what is wrong
  Ref kept;  // memory that config points to
};

struct Buffer {
  std::vector<c10::SymInt> sizes, strides;
  at::ScalarType dtype;
  bool zeroed;
};

struct Step {
  virtual ~Step() = default;
  virtual void run(Slots& slots) const = 0;  // appends its results
};

struct Launches : Step {
  std::vector<int> inputs;
  std::vector<Buffer> buffers;
  size_t outputs = 0;
  std::vector<Kernel> kernels;
  Ref counters;  // returns the address of zeros
  c10::Device device{c10::kCPU};

  void run(Slots& slots) const override {
    c10::SmallVector<Tensor, 12> tensors;
    for (int i : inputs) tensors.push_back(i < 0 ? Tensor() : slots[i]);
    for (const Buffer& b : buffers) tensors.push_back(allocated(b));
    int64_t zeros = 0;
    if (counters != nullptr) {
      py::gil_scoped_acquire gil;
      zeros = called(counters.get(), py::tuple()).cast<int64_t>();
    }
    void* stream = nullptr;
    if (driver.work_stream(CUDA, device.index() < 0 ? 0 : device.index(), &stream) != 0) {
      py::gil_scoped_acquire gil;
      raise();
    }
    for (const Kernel& kernel : kernels) launch(kernel, tensors, zeros, stream);
    for (size_t i = 0; i < outputs; i++) slots.push_back(std::move(tensors[inputs.size() + i]));
  }

  Tensor allocated(const Buffer& b) const {
    c10::DispatchKeySet keys(device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
    Tensor made = at::_ops::empty_strided::redispatch(
        keys, b.sizes, b.strides, b.dtype, c10::kStrided, device, false);
    if (b.zeroed) at::_ops::zero_::redispatch(keys, made);
    return made;
  }

  static void launch(const Kernel& kernel, c10::ArrayRef<Tensor> tensors, int64_t zeros,
                     void* stream) {
    alignas(16) char params[ROOM];
    void* pointers[MANY];
    int64_t values[MANY];
    std::memcpy(params, kernel.params.data(), kernel.params.size());
    size_t n = 0;
    for (const Address& a : kernel.addresses) {
      int64_t value = zeros;
      if (a.tensor >= 0) {
        const Tensor& t = tensors[a.tensor];
        value = t.defined() ? reinterpret_cast<int64_t>(t.data_ptr()) + a.add : 0;
      }
      std::memcpy(params + a.at, &value, 8);
      values[n++] = value;
    }
    for (size_t i = 0; i < kernel.offsets.size(); i++) pointers[i] = params + kernel.offsets[i];
    Config config = kernel.config;
    config.stream = stream;
    uint64_t turn = __atomic_fetch_add(driver.ring, 1, __ATOMIC_RELAXED);
    __atomic_store_n(driver.ring + 1 + (turn & driver.mask), kernel.id, __ATOMIC_RELAXED);
    if (driver.launch(&config, kernel.function, pointers, nullptr) == 0) return;
    py::gil_scoped_acquire gil;
    py::tuple given(n);
    for (size_t i = 0; i < n; i++) given[i] = py::int_(values[i]);
    called(kernel.slow.get(), given);
  }
};

struct Function : Step {  // a Python function of tensors
  std::vector<int> inputs;
  Ref function;

  void run(Slots& slots) const override {
    py::gil_scoped_acquire gil;
    py::tuple given(inputs.size());
    for (size_t i = 0; i < inputs.size(); i++) given[i] = inputs[i] < 0 ? py::none() : wrapped(slots[inputs[i]]);
    py::object result = called(function.get(), given);
    if (!PyTuple_Check(result.ptr())) {
      slots.push_back(unwrapped(result));
      return;
    }
    for (py::handle each : result.cast<py::tuple>()) slots.push_back(unwrapped(each));
  }
};

struct Operator : Step {  // an op of torch; arguments that are tensors are numbered
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;
  std::vector<std::pair<int, std::vector<int>>> tensors;  // (argument, numbers); -1: none
  std::vector<bool> lists;                                // of the same length

  explicit Operator(c10::OperatorHandle handle) : op(std::move(handle)) {}

  void run(Slots& slots) const override {
    torch::jit::Stack stack(arguments.begin(), arguments.end());
    for (size_t i = 0; i < tensors.size(); i++) {
      const auto& [argument, numbers] = tensors[i];
      if (!lists[i]) {
        stack[argument] = slots[numbers[0]];
        continue;
      }
      c10::List<Tensor> list;
      for (int n : numbers) list.push_back(slots[n]);
      stack[argument] = list;
    }
    op.callBoxed(&stack);
    for (c10::IValue& value : stack) {
      if (value.isTensor()) {
        slots.push_back(std::move(value).toTensor());
      } else {
        for (const Tensor& t : value.toTensorVector()) slots.push_back(t);
      }
    }
  }
};

struct Program {
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<int> results;  // numbers of tensors; -1: none

  void run(Slots& slots) const {
    for (const auto& step : steps) step->run(slots);
  }
};

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
  std::vector<int> saved;  // numbers of forward's tensors; -1: none
  std::vector<bool> differentiable;
  Ref formula;  // (saved, gradients) -> gradients of the tensors

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
  bool released = false;
  std::mutex mutex;

  std::string name() const override { return recipe->name; }

  variable_list apply(variable_list&& gradients) override {
    std::lock_guard<std::mutex> lock(mutex);
    TORCH_CHECK(!released || saved.empty(), torch::autograd::ERR_BACKWARD_TWICE);
    Slots slots;
    for (const SavedVariable& each : saved) slots.push_back(each.unpack(getptr()));
    for (Tensor& gradient : gradients) slots.push_back(std::move(gradient));
    if (observed()) return by_formula(slots);
    std::shared_ptr<const Program> program = recipe->find(slots);
    if (program == nullptr) return by_formula(slots);
    program->run(slots);
    variable_list results(program->results.size());
    for (size_t i = 0; i < results.size(); i++) {
      int number = program->results[i];
      if (number >= 0 && task_should_compute_output(i)) results[i] = slots[number];
    }
    return results;
  }

  // Whether gradients of the gradients are wanted, or something of torch must see the ops.
  static bool observed() {
    return at::GradMode::is_enabled() || c10::impl::TorchDispatchModeTLS::any_modes_set() ||
        at::hasCallbacks() || at::autocast::is_autocast_enabled(at::kCUDA) ||
        at::autocast::is_autocast_enabled(at::kCPU) ||
        c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
  }

  variable_list by_formula(const Slots& slots) {
    py::gil_scoped_acquire gil;
    size_t count = saved.size();
    py::tuple kept(count), gradients(slots.size() - count);
    for (size_t i = 0; i < slots.size(); i++) {
      (i < count ? kept : gradients)[i < count ? i : i - count] = wrapped(slots[i]);
    }
    py::object made = called(recipe->formula.get(), py::make_tuple(kept, gradients));
    variable_list results;
    for (py::handle each : made.cast<py::sequence>()) results.push_back(unwrapped(each));
    return results;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex);
    released = true;
    for (SavedVariable& each : saved) each.reset_data();
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override {
    args.collect(reinterpret_cast<uint64_t>(recipe.get()));
    args.collect(saved, true);
  }

  variable_list apply_with_saved(const variable_list& inputs,
                                 torch::dynamo::autograd::SwapSavedVariables& swap) override {
    for (SavedVariable& each : saved) swap.before(each);
    variable_list results = apply(variable_list(inputs));
    for (SavedVariable& each : saved) swap.after(each);
    return results;
  }
};

template <class Pointer>
Pointer new_node() {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>) {
    // Found by its argument: not every version of torch has this function.
    return Pointer(new OpNode(), [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<OpNode>();
  }
}

// ---- recorded calls ----------------------------------------------------------------------------
struct Recorder {  // the recipes of one plan, by the tensors that require a gradient
  size_t tensors;
  std::vector<std::pair<uint64_t, std::shared_ptr<Recipe>>> recipes;
};

const c10::DispatchKeySet LAZY(
    {c10::DispatchKey::Negative, c10::DispatchKey::Conjugate, c10::DispatchKey::Python});

PyObject* record(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  HANDLE_TH_ERRORS
  auto* recorder = static_cast<Recorder*>(PyCapsule_GetPointer(self, nullptr));
  if (static_cast<size_t>(n) != recorder->tensors) Py_RETURN_NOTIMPLEMENTED;
  Slots slots;
  uint64_t wanted = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (args[i] == Py_None) {
      slots.emplace_back();
      continue;
    }
    if (!THPVariable_CheckExact(args[i])) Py_RETURN_NOTIMPLEMENTED;
    const Tensor& t = THPVariable_Unpack(args[i]);
    if (t.key_set().has_any(LAZY)) Py_RETURN_NOTIMPLEMENTED;
    wanted |= static_cast<uint64_t>(t.requires_grad()) << i;
    slots.push_back(t);
  }
  std::shared_ptr<Recipe> recipe;
  for (const auto& [mask, each] : recorder->recipes) {
    if (mask == wanted) recipe = each;
  }
  if (recipe == nullptr) Py_RETURN_NOTIMPLEMENTED;
  const Program& forward = *recipe->forward;
  {
    py::gil_scoped_release release;
    {
      at::AutoGradMode off(false);
      forward.run(slots);
    }
    NodePtr made = new_node<NodePtr>();
    auto* node = static_cast<OpNode*>(made.get());
    torch::autograd::edge_list edges;
    edges.reserve(n);
    for (Py_ssize_t i = 0; i < n; i++) {
      bool is_wanted = wanted >> i & 1;
      edges.push_back(is_wanted ? torch::autograd::impl::gradient_edge(slots[i]) : Edge());
    }
    node->set_next_edges(std::move(edges));
    node->recipe = recipe;
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
  if (forward.results.size() == 1) return wrapped(slots[forward.results[0]]).release().ptr();
  py::tuple results(forward.results.size());
  for (size_t i = 0; i < forward.results.size(); i++) {
    results[i] = wrapped(slots[forward.results[i]]);
  }
  return results.release().ptr();
  END_HANDLE_TH_ERRORS
}

PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  HANDLE_TH_ERRORS
  auto& program = *static_cast<std::shared_ptr<Program>*>(PyCapsule_GetPointer(self, nullptr));
  Slots slots;
  for (Py_ssize_t i = 0; i < n; i++) {
    slots.push_back(args[i] == Py_None ? Tensor() : THPVariable_Unpack(args[i]));
  }
  {
    py::gil_scoped_release release;
    program->run(slots);
  }
  if (program->results.size() == 1) return wrapped(slots[program->results[0]]).release().ptr();
  py::tuple results(program->results.size());
  for (size_t i = 0; i < results.size(); i++) results[i] = wrapped(slots[program->results[i]]);
  return results.release().ptr();
  END_HANDLE_TH_ERRORS
}

// ---- construction, from plain Python values ----------------------------------------------------
template <class T>
T* held(py::handle capsule) {
  return static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
}

template <class T>
py::object capsule(T value) {
  return py::capsule(new T(std::move(value)), [](void* p) { delete static_cast<T*>(p); });
}

at::ScalarType scalar_type(py::handle dtype) {
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

std::vector<int> numbers(py::handle list) { return list.cast<std::vector<int>>(); }

std::vector<c10::SymInt> sizes(py::handle list) {
  auto values = list.cast<std::vector<int64_t>>();
  return {values.begin(), values.end()};
}

Kernel kernel(const py::tuple& row) {
  Kernel made;
  auto config = row[0].cast<std::string>(), params = row[2].cast<std::string>();
  TORCH_CHECK(config.size() == sizeof(Config) && params.size() <= ROOM);
  std::memcpy(&made.config, config.data(), sizeof(Config));
  made.function = reinterpret_cast<void*>(row[1].cast<uintptr_t>());
  made.params.assign(params.begin(), params.end());
  made.offsets = row[3].cast<std::vector<size_t>>();
  for (py::handle each : row[4].cast<py::sequence>()) {
    auto [at, tensor, add] = each.cast<std::tuple<size_t, int64_t, int64_t>>();
    made.addresses.push_back({at, tensor, add});
  }
  TORCH_CHECK(made.offsets.size() <= MANY && made.addresses.size() <= MANY);
  made.id = row[5].cast<uint64_t>();
  made.slow = keep(row[6]);
  made.kept = keep(row[7]);
  return made;
}

std::unique_ptr<Step> launches(const py::tuple& row) {
  auto made = std::make_unique<Launches>();
  made->inputs = numbers(row[1]);
  for (py::handle each : row[2].cast<py::sequence>()) {
    py::tuple b = each.cast<py::tuple>();
    made->buffers.push_back({sizes(b[0]), sizes(b[1]), scalar_type(b[2]), b[3].cast<bool>()});
  }
  made->outputs = row[3].cast<size_t>();
  for (py::handle each : row[4].cast<py::sequence>()) {
    made->kernels.push_back(kernel(each.cast<py::tuple>()));
  }
  made->counters = keep(row[5]);
  made->device = reinterpret_cast<THPDevice*>(row[6].ptr())->device;
  return made;
}

std::unique_ptr<Step> function(const py::tuple& row) {
  auto made = std::make_unique<Function>();
  made->inputs = numbers(row[1]);
  made->function = keep(row[2]);
  return made;
}

// A number in the place of a tensor: it does not take part in the promotion of dtypes.
Tensor number(py::handle value) {
  c10::Scalar scalar = PyFloat_Check(value.ptr()) ? c10::Scalar(value.cast<double>())
                                                  : c10::Scalar(value.cast<int64_t>());
  Tensor made = c10::scalar_to_tensor(scalar);
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

c10::IValue constant(const std::string& kind, py::handle value) {
  if (kind == "none") return {};
  if (kind == "bool") return value.cast<bool>();
  if (kind == "int") return value.cast<int64_t>();
  if (kind == "float") return value.cast<double>();
  if (kind == "number") return number(value);
  if (kind == "str") return value.cast<std::string>();
  if (kind == "dtype") return static_cast<int64_t>(scalar_type(value));
  if (kind == "device") return reinterpret_cast<THPDevice*>(value.ptr())->device;
  TORCH_CHECK(kind == "ints", "weft: no constants of the kind ", kind);
  return c10::List<int64_t>(value.cast<std::vector<int64_t>>());
}

std::unique_ptr<Step> op(const py::tuple& row) {
  auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
      row[1].cast<std::string>().c_str(), row[2].cast<std::string>().c_str());
  auto made = std::make_unique<Operator>(handle);
  for (py::handle each : row[3].cast<py::sequence>()) {
    py::tuple argument = each.cast<py::tuple>();
    auto kind = argument[0].cast<std::string>();
    if (kind == "tensor" || kind == "tensors") {
      made->tensors.emplace_back(made->arguments.size(), numbers(argument[1]));
      made->lists.push_back(kind == "tensors");
      made->arguments.emplace_back();
    } else {
      made->arguments.push_back(constant(kind, argument[1]));
    }
  }
  return made;
}

py::object new_program(const py::sequence& steps, const std::vector<int>& results) {
  static const std::map<std::string, std::unique_ptr<Step> (*)(const py::tuple&)> kinds = {
      {"launches", launches}, {"function", function}, {"op", op}};
  auto made = std::make_shared<Program>();
  for (py::handle each : steps) {
    py::tuple row = each.cast<py::tuple>();
    made->steps.push_back(kinds.at(row[0].cast<std::string>())(row));
  }
  made->results = results;
  return capsule(std::move(made));
}

py::object new_recipe(const std::string& name, const py::object& forward,
                      const std::vector<int>& saved, const std::vector<bool>& differentiable,
                      const py::object& formula) {
  auto made = std::make_shared<Recipe>();
  made->name = name;
  made->forward = *held<std::shared_ptr<Program>>(forward);
  made->saved = saved;
  made->differentiable = differentiable;
  made->formula = keep(formula);
  return capsule(std::move(made));
}

void learn(const py::object& recipe, const py::sequence& tensors, const py::object& program) {
  Backward made;
  for (py::handle each : tensors) made.layouts.emplace_back(unwrapped(each));
  made.program = *held<std::shared_ptr<Program>>(program);
  (*held<std::shared_ptr<Recipe>>(recipe))->learn(std::move(made));
}

py::object builtin(PyMethodDef& method, const py::object& self) {
  return py::reinterpret_steal<py::object>(PyCFunction_New(&method, self.ptr()));
}

PyMethodDef RECORD{"record", reinterpret_cast<PyCFunction>(record), METH_FASTCALL, nullptr};
PyMethodDef RUN{"run", reinterpret_cast<PyCFunction>(run), METH_FASTCALL, nullptr};

py::object new_recorder(size_t tensors) {
  auto made = std::make_unique<Recorder>();
  made->tensors = tensors;
  return py::capsule(made.release(), [](void* p) { delete static_cast<Recorder*>(p); });
}

void add(const py::object& recorder, uint64_t wanted, const py::object& recipe) {
  auto shared = *held<std::shared_ptr<Recipe>>(recipe);
  held<Recorder>(recorder)->recipes.emplace_back(wanted, std::move(shared));
}

void configure(uintptr_t launch, uintptr_t work_stream, uintptr_t ring, uint64_t kept) {
  driver.launch = reinterpret_cast<decltype(driver.launch)>(launch);
  driver.work_stream = reinterpret_cast<decltype(driver.work_stream)>(work_stream);
  driver.ring = reinterpret_cast<uint64_t*>(ring);
  driver.mask = kept - 1;
}

}  // namespace

PYBIND11_MODULE(weft_autograd, module) {
  module.def("configure", configure);
  module.def("program", new_program);
  module.def("recipe", new_recipe);
  module.def("learn", learn);
  module.def("recorder", new_recorder);
  module.def("add", add);
  module.def("recording", [](const py::object& r) { return builtin(RECORD, r); });
  module.def("running", [](const py::object& p) { return builtin(RUN, p); });
}
