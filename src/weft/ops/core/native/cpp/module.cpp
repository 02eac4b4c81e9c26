// Calls of weft's ops without Python: what Python makes programs, recipes and tables of plans with.
//
// A program is what a plan does: it allocates, launches and returns.
// A recipe is what a call with gradients does: its forward program, the tensors that it saves, and
// backward programs by the layouts of their tensors. What no program is known for goes to the Python
// function of the recipe, which may then teach the recipe a program.
//
// Compiled at run time against the headers of the installed torch; see build.py.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/scalar_tensor_ops.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>

#include <map>

#include "boxed.h"

namespace {

// ---- construction, from plain Python values ----------------------------------------------------
template <class T>
T* held(py::handle capsule) {
  return static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
}

at::ScalarType scalar_type(py::handle dtype) {
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

std::vector<int> numbers(py::handle list) { return list.cast<std::vector<int>>(); }

// std::vector<bool> has no bool in memory, as c10::List needs it.
c10::List<bool> bools(py::handle list) {
  c10::List<bool> made;
  for (py::handle each : list.cast<py::sequence>()) made.push_back(each.cast<bool>());
  return made;
}

std::vector<int64_t> sizes(py::handle list) { return list.cast<std::vector<int64_t>>(); }

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
  made->place_scratch();
  for (py::handle each : row[4].cast<py::sequence>()) {
    made->kernels.push_back(kernel(each.cast<py::tuple>()));
  }
  made->counters = keep(row[5]);
  made->device = reinterpret_cast<THPDevice*>(row[6].ptr())->device;
  made->allocator = made->device.is_cuda() ? at::detail::getCUDAHooks().getCUDADeviceAllocator()
                                           : c10::GetAllocator(c10::kCPU);
  return made;
}

std::unique_ptr<Step> function(const py::tuple& row) {
  auto made = std::make_unique<Function>();
  made->inputs = numbers(row[1]);
  made->function = keep(row[2]);
  made->words = row[3].cast<size_t>();
  return made;
}

std::unique_ptr<Step> written(const py::tuple& row) {
  auto made = std::make_unique<Written>();
  made->numbers = numbers(row[1]);
  return made;
}

// A number in the place of a tensor: it does not take part in the promotion of dtypes.
Tensor number(py::handle value) {
  c10::Scalar scalar = PyFloat_Check(value.ptr()) ? c10::Scalar(value.cast<double>())
                                                  : c10::Scalar(value.cast<int64_t>());
  auto dtype = PyFloat_Check(value.ptr()) ? at::kDouble : at::kLong;
  Tensor made = at::_ops::scalar_tensor::call(scalar, dtype, {}, c10::Device(c10::kCPU), {});
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
  if (kind == "layout") return static_cast<int64_t>(reinterpret_cast<THPLayout*>(value.ptr())->layout);
  if (kind == "memory_format") {
    return static_cast<int64_t>(reinterpret_cast<THPMemoryFormat*>(value.ptr())->memory_format);
  }
  if (kind == "bools") return bools(value);
  if (kind == "floats") return c10::List<double>(value.cast<std::vector<double>>());
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

std::unique_ptr<Step> free_slots(const py::tuple& row) {
  auto made = std::make_unique<Free>();
  made->tensors = numbers(row[1]);
  return made;
}

py::object new_program(const py::sequence& steps, const std::vector<int>& results) {
  static const std::map<std::string, std::unique_ptr<Step> (*)(const py::tuple&)> kinds = {
      {"launches", launches},
      {"function", function},
      {"op", op},
      {"written", written},
      {"free", free_slots}};
  auto made = std::make_shared<Program>();
  for (py::handle each : steps) {
    py::tuple row = each.cast<py::tuple>();
    made->steps.push_back(kinds.at(row[0].cast<std::string>())(row));
  }
  made->results = results;
  return capsule(std::move(made));
}

// `inputs` are tensors whose layouts the program is made for, `constants` follow them.
py::object new_boxed(const py::object& program, const py::sequence& inputs,
                     const py::sequence& constants) {
  Boxed made;
  made.program = *held<std::shared_ptr<Program>>(program);
  for (py::handle each : inputs) made.inputs.emplace_back(unwrapped(each));
  for (py::handle each : constants) made.constants.push_back(unwrapped(each));
  return capsule(std::move(made));
}

py::object new_recipe(const std::string& name, const py::object& forward,
                      const std::vector<int>& inputs, const std::vector<int>& saved,
                      const std::vector<bool>& differentiable, const py::object& formula) {
  auto made = std::make_shared<Recipe>();
  made->name = name;
  made->forward = *held<std::shared_ptr<Program>>(forward);
  made->inputs = inputs;
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

PyMethodDef CALL{"call", reinterpret_cast<PyCFunction>(call), METH_FASTCALL, nullptr};
PyMethodDef RECORD{"record", reinterpret_cast<PyCFunction>(record), METH_FASTCALL, nullptr};
PyMethodDef BOXED{"boxed", reinterpret_cast<PyCFunction>(boxed), METH_O, nullptr};
PyMethodDef RUN{"run", reinterpret_cast<PyCFunction>(run), METH_FASTCALL, nullptr};

py::object new_recorder(size_t tensors, size_t words) {
  auto made = std::make_shared<Recorder>();
  made->tensors = tensors;
  made->words = words;
  TORCH_CHECK(words <= Words().size());
  return capsule(std::move(made));
}

void add(const py::object& recorder, uint64_t wanted, const py::object& recipe) {
  auto shared = *held<std::shared_ptr<Recipe>>(recipe);
  (*held<std::shared_ptr<Recorder>>(recorder))->recipes.emplace_back(wanted, std::move(shared));
}

py::object new_calls(const std::vector<bool>& is_tensor, const std::string& policy) {
  static const std::map<std::string, Policy> policies = {{"kept", Policy::KEPT},
                                                         {"single", Policy::SINGLE},
                                                         {"lower", Policy::LOWER},
                                                         {"widest", Policy::WIDEST}};
  return capsule(Calls{is_tensor, policies.at(policy), {}});
}

// Keeps a program and recipes for calls with arguments like these, if keys can describe them.
// `program` is None where only calls with gradients are known.
// `source` is None, or a generator and how far a call moves it.
void enter(const py::object& calls, const py::tuple& args, const py::object& program,
           const py::object& recorder, const py::object& source) {
  auto* own = held<Calls>(calls);
  Key key;
  Slots tensors;
  PyObject* const* given = PySequence_Fast_ITEMS(args.ptr());
  if (!own->tensors_of(given, args.size(), tensors)) return;
  if (!own->describe(given, tensors, key)) return;
  auto found = own->plans.find(key);
  auto planned = found == own->plans.end() ? std::make_shared<Planned>()
                                           : std::make_shared<Planned>(*found->second);
  if (!program.is_none()) planned->program = *held<std::shared_ptr<Program>>(program);
  std::shared_ptr<const Recorder> added = *held<std::shared_ptr<Recorder>>(recorder);
  auto& all = planned->recorders;
  if (std::find(all.begin(), all.end(), added) == all.end()) all.push_back(added);
  if (!source.is_none()) {
    auto pair = source.cast<py::tuple>();
    planned->generator = THPGenerator_Unwrap(pair[0].ptr());
    planned->moved = pair[1].cast<uint64_t>();
    planned->device = planned->generator.device();
  }
  own->plans[key] = std::move(planned);
}

size_t count(const py::object& calls) { return held<Calls>(calls)->plans.size(); }

void forget(const py::object& calls) {
  // They may keep the last reference to a Python object, whose end may run any code.
  auto dropped = std::move(held<Calls>(calls)->plans);
  held<Calls>(calls)->plans.clear();
}

void configure(uintptr_t launch, uintptr_t work_stream, uintptr_t capturing, uintptr_t ring,
               uint64_t kept) {
  driver.launch = reinterpret_cast<decltype(driver.launch)>(launch);
  driver.work_stream = reinterpret_cast<decltype(driver.work_stream)>(work_stream);
  driver.capturing = reinterpret_cast<decltype(driver.capturing)>(capturing);
  driver.ring = reinterpret_cast<uint64_t*>(ring);
  driver.mask = kept - 1;
}

}  // namespace

PYBIND11_MODULE(weft_native, module) {
  module.def("configure", configure);
  module.def("program", new_program);
  module.def("recipe", new_recipe);
  module.def("learn", learn);
  module.def("recorder", new_recorder);
  module.def("add", add);
  module.def("calls", new_calls);
  module.def("enter", enter);
  module.def("count", count);
  module.def("forget", forget);
  module.def("calling", [](const py::object& c) { return builtin(CALL, c); });
  module.def("recording", [](const py::object& r) { return builtin(RECORD, r); });
  module.def("boxed", [](const py::object& p, const py::sequence& i, const py::sequence& c) {
    return builtin(BOXED, new_boxed(p, i, c));
  });
  module.def("running", [](const py::object& p) { return builtin(RUN, p); });
}
