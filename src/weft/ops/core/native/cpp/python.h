// References to Python objects from threads without the interpreter's lock.
#pragma once
#include <torch/csrc/autograd/python_variable.h>

#include <memory>

namespace {

using at::Tensor;

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

template <class T>
py::object capsule(T value) {
  return py::capsule(new T(std::move(value)), [](void* p) { delete static_cast<T*>(p); });
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

}  // namespace
