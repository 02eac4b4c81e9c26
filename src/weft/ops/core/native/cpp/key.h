// The keys that plans are found by: the arguments of a call as 64-bit words.
#pragma once
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

#include <cstring>

#include "python.h"

namespace {

using Key = c10::SmallVector<uint64_t, 64>;

struct Hash {
  size_t operator()(const Key& key) const {
    uint64_t hash = key.size();
    for (uint64_t word : key) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

// Every value begins with its kind, so no two lists of arguments have the same words.
enum Kind : uint64_t { NONE, NO, YES, WHOLE, REAL, TEXT, LIST, DTYPE, DEVICE, TENSOR };

void append(Key& key, Kind kind, uint64_t word) {
  key.push_back(kind);
  key.push_back(word);
}

bool append_text(Key& key, PyObject* value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text == nullptr) {  // half of a surrogate pair
    PyErr_Clear();
    return false;
  }
  append(key, TEXT, size);
  for (Py_ssize_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text + i, std::min<Py_ssize_t>(8, size - i));
    key.push_back(word);
  }
  return true;
}

// Appends an argument that is no tensor; false for a type that keys do not have.
bool append_value(Key& key, PyObject* value) {
  if (value == Py_None) {
    key.push_back(NONE);
  } else if (PyBool_Check(value)) {
    key.push_back(value == Py_True ? YES : NO);
  } else if (PyLong_CheckExact(value)) {
    int overflow = 0;
    append(key, WHOLE, PyLong_AsLongLongAndOverflow(value, &overflow));
    return overflow == 0;
  } else if (PyFloat_CheckExact(value)) {
    double number = PyFloat_AS_DOUBLE(value);
    uint64_t bits;
    std::memcpy(&bits, &number, 8);
    append(key, REAL, bits);
  } else if (PyUnicode_CheckExact(value)) {
    return append_text(key, value);
  } else if (PyTuple_Check(value) || PyList_CheckExact(value)) {
    Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    append(key, LIST, size);
    for (Py_ssize_t i = 0; i < size; i++) {
      if (!append_value(key, PySequence_Fast_GET_ITEM(value, i))) return false;
    }
  } else if (THPDtype_Check(value)) {
    append(key, DTYPE, static_cast<uint64_t>(reinterpret_cast<THPDtype*>(value)->scalar_type));
  } else if (THPDevice_Check(value)) {
    c10::Device device = reinterpret_cast<THPDevice*>(value)->device;
    append(key, DEVICE, static_cast<uint64_t>(device.type()) << 8 | (device.index() & 255));
  } else {
    return false;
  }
  return true;
}

// Everything but these keys is a tensor that something of torch has to see, or one whose memory has
// another meaning: sparse, functorch's wrappers, lazily negated or conjugated views.
constexpr c10::DispatchKeySet ORDINARY(
    {c10::DispatchKey::CPU, c10::DispatchKey::CUDA, c10::DispatchKey::ADInplaceOrView,
     c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutocastCPU,
     c10::DispatchKey::AutocastCUDA});

bool is_ordinary(const Tensor& t) { return (t.key_set().raw_repr() & ~ORDINARY.raw_repr()) == 0; }

// Appends the layout of an ordinary tensor; false for one that no plan serves.
bool append_tensor(Key& key, const Tensor& t) {
  uint64_t keys = t.key_set().raw_repr();
  // Derivatives in forward mode belong to tensors with this record.
  if (t.unsafeGetTensorImpl()->autograd_meta() != nullptr && t._fw_grad(0).defined()) return false;
  uint64_t aligned = reinterpret_cast<uintptr_t>(t.data_ptr()) & 15;
  c10::IntArrayRef sizes = t.sizes(), strides = t.strides();
  uint64_t dtype = static_cast<uint64_t>(t.scalar_type()), device = t.device().index() & 255;
  append(key, TENSOR, keys);
  key.push_back(dtype | aligned << 8 | device << 16 | sizes.size() << 24);
  for (int64_t size : sizes) key.push_back(size);
  for (int64_t stride : strides) key.push_back(stride);
  return true;
}

}  // namespace
