// Programs of whole graphs: they take a list of tensors, empty it, and return a list.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>

#include "call.h"

namespace {

struct Expected {  // the layout of an input that a program is made for
  bool is_defined;
  std::vector<int64_t> sizes, strides;
  uint64_t address;  // modulo 16

  explicit Expected(const Tensor& t) : is_defined(t.defined()), address(0) {
    if (!is_defined) return;
    sizes = t.sizes().vec();
    strides = t.strides().vec();
    address = low(t);
  }

  static uint64_t low(const Tensor& t) { return reinterpret_cast<uint64_t>(t.data_ptr()) & 15; }

  bool fits(const Tensor& t) const {
    if (!t.defined() || !is_defined) return t.defined() == is_defined;
    return t.sizes() == sizes && t.strides() == strides && low(t) == address;
  }
};

struct Boxed {
  std::shared_ptr<const Program> program;
  std::vector<Expected> inputs;
  std::vector<Tensor> constants;
};

// Takes the list of inputs. The list is emptied, so that a tensor which nobody else refers to is
// freed after the last step that reads it. NotImplemented: the program is not made for the inputs.
PyObject* boxed(PyObject* self, PyObject* list) {
  HANDLE_TH_ERRORS
  auto& own = *static_cast<Boxed*>(PyCapsule_GetPointer(self, nullptr));
  if (!PyList_Check(list)) Py_RETURN_NOTIMPLEMENTED;
  size_t n = PyList_GET_SIZE(list);
  if (n != own.inputs.size()) Py_RETURN_NOTIMPLEMENTED;
  Slots slots;
  slots.reserve(n + own.constants.size() + own.program->steps.size());
  for (size_t i = 0; i < n; i++) {
    PyObject* each = PyList_GET_ITEM(list, i);
    if (each != Py_None && !THPVariable_Check(each)) Py_RETURN_NOTIMPLEMENTED;
    slots.push_back(each == Py_None ? Tensor() : THPVariable_Unpack(each));
    if (!own.inputs[i].fits(slots.back())) Py_RETURN_NOTIMPLEMENTED;
  }
  slots.append(own.constants.begin(), own.constants.end());
  if (PyList_SetSlice(list, 0, n, nullptr) < 0) return nullptr;
  {
    Unlocked unlocked;
    at::AutoDispatchBelowADInplaceOrView below;
    own.program->run(slots);
  }
  const auto& results = own.program->results;
  py::list returned(results.size());
  for (size_t i = 0; i < results.size(); i++) {
    returned[i] = results[i] < 0 ? py::object(py::none()) : wrapped(slots[results[i]]);
  }
  return returned.release().ptr();
  END_HANDLE_TH_ERRORS
}

}  // namespace
