// Programs: lists of steps over numbered tensors. A step launches the kernels of a plan, calls an op
// of torch or a Python function, or notes what was written; it appends its results to the tensors.
#pragma once
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zero_ops.h>

#include <array>
#include <mutex>
#include <unordered_map>

#include "python.h"

namespace {

using Slots = c10::SmallVector<Tensor, 16>;
using Words = std::array<int64_t, 2>;  // integers that differ from call to call, such as a seed

constexpr size_t ROOM = LAUNCH_ROOM, MANY = LAUNCH_MANY;  // of device/gpu/native_launch.py
constexpr int64_t ALIGNED = 512;                          // as torch's allocations on a GPU are
constexpr int CUDA = 2;                                   // DLPack's number

struct Config {  // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  void* stream;
  void* attributes;
  unsigned count;
};

struct Driver {
  int (*launch)(const Config*, void*, void**, void**) = nullptr;
  int (*work_stream)(int, int, void**) = nullptr;  // of DLPack's exchange interface
  int (*capturing)(void*, int*) = nullptr;         // cuStreamIsCapturing
  uint64_t* ring = nullptr;                        // see device/gpu/pending.py
  uint64_t mask = 0;
} driver;

void* current_stream(c10::Device device) {
  void* stream = nullptr;
  if (driver.work_stream(CUDA, device.index() < 0 ? 0 : device.index(), &stream) == 0) return stream;
  py::gil_scoped_acquire gil;
  raise();
}

bool is_capturing(void* stream) {  // also where the driver does not say
  int status = 0;
  return driver.capturing(stream, &status) != 0 || status != 0;
}


struct Address {  // a parameter that each call sets
  size_t at;
  int64_t tensor;  // its number in the plan; -1: the counters; -2 and less: a word
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
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype;
  bool zeroed;

  int64_t bytes() const {
    return at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  }
};

struct Step {
  virtual ~Step() = default;
  virtual void run(Slots& slots, const Words& words) const = 0;  // appends its results
};

struct Launches : Step {
  std::vector<int> inputs;
  std::vector<Buffer> buffers;
  std::vector<int64_t> places;  // of scratch, which is allocated at once
  int64_t room = 0;             // bytes of that
  size_t outputs = 0;
  std::vector<Kernel> kernels;
  Ref counters;  // returns the address of zeros
  c10::Device device{c10::kCPU};
  c10::Allocator* allocator = nullptr;

  void run(Slots& slots, const Words& words) const override {
    c10::SmallVector<int64_t, 12> addresses;  // of the inputs, outputs and scratch
    c10::SmallVector<Tensor, 4> zeroed;
    for (int i : inputs) addresses.push_back(i < 0 ? 0 : address(slots[i]));
    c10::DataPtr scratch;
    if (room > 0) scratch = allocator->allocate(room);
    for (size_t i = 0; i < buffers.size(); i++) {
      if (i >= outputs && !buffers[i].zeroed) {
        addresses.push_back(reinterpret_cast<int64_t>(scratch.get()) + places[i]);
        continue;
      }
      Tensor made = allocated(buffers[i]);
      addresses.push_back(address(made));
      if (i < outputs) slots.push_back(std::move(made));
      else zeroed.push_back(std::move(made));
    }
    if (kernels.empty()) return;
    void* stream = current_stream(device);
    int64_t zeros = counters == nullptr ? 0 : zeros_of(stream);
    for (const Kernel& kernel : kernels) launch(kernel, addresses, zeros, words, stream);
  }

  void place_scratch() {
    places.assign(buffers.size(), 0);
    for (size_t i = outputs; i < buffers.size(); i++) {
      if (buffers[i].zeroed) continue;
      places[i] = room;
      room += (buffers[i].bytes() + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
  }

  static int64_t address(const Tensor& t) {
    return t.defined() ? reinterpret_cast<int64_t>(t.data_ptr()) : 0;
  }

  // As at::empty_strided, without the dispatcher.
  Tensor allocated(const Buffer& b) const {
    c10::DispatchKeySet keys(device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
    Tensor made(at::detail::empty_strided_generic(b.sizes, b.strides, allocator, keys, b.dtype));
    if (b.zeroed) at::_ops::zero_::redispatch(keys, made);
    return made;
  }

  // Zeros are kept for each stream. A graph gets its own, which Python makes.
  int64_t zeros_of(void* stream) const {
    static std::mutex mutex;
    static std::unordered_map<void*, int64_t> known;
    bool captured = is_capturing(stream);
    if (!captured) {
      std::lock_guard<std::mutex> lock(mutex);
      auto found = known.find(stream);
      if (found != known.end()) return found->second;
    }
    py::gil_scoped_acquire gil;
    int64_t zeros = called(counters.get(), py::tuple()).cast<int64_t>();
    if (!captured) {
      std::lock_guard<std::mutex> lock(mutex);
      known[stream] = zeros;
    }
    return zeros;
  }

  static void launch(const Kernel& kernel, c10::ArrayRef<int64_t> addresses, int64_t zeros,
                     const Words& words, void* stream) {
    alignas(16) char params[ROOM];
    void* pointers[MANY];
    int64_t values[MANY];
    std::memcpy(params, kernel.params.data(), kernel.params.size());
    size_t n = 0;
    for (const Address& a : kernel.addresses) {
      int64_t value = a.tensor == -1 ? zeros + a.add : 0;
      if (a.tensor < -1) value = words[-2 - a.tensor];
      if (a.tensor >= 0 && addresses[a.tensor] != 0) value = addresses[a.tensor] + a.add;
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

struct Function : Step {  // a Python function of tensors and, where it takes them, words
  std::vector<int> inputs;
  Ref function;
  size_t words = 0;

  void run(Slots& slots, const Words& values) const override {
    py::gil_scoped_acquire gil;
    py::tuple given(inputs.size() + words);
    for (size_t i = 0; i < words; i++) given[inputs.size() + i] = py::int_(values[i]);
    for (size_t i = 0; i < inputs.size(); i++) {
      given[i] = inputs[i] < 0 ? py::none() : wrapped(slots[inputs[i]]);
    }
    py::object result = called(function.get(), given);
    if (!PyTuple_Check(result.ptr())) {
      slots.push_back(unwrapped(result));
      return;
    }
    for (py::handle each : result.cast<py::tuple>()) slots.push_back(unwrapped(each));
  }
};

struct Written : Step {  // tells autograd that kernels before have written to tensors
  std::vector<int> numbers;

  void run(Slots& slots, const Words&) const override {
    for (int n : numbers) {
      if (slots[n].defined()) slots[n].unsafeGetTensorImpl()->bump_version();
    }
  }
};

struct Operator : Step {  // an op of torch; arguments that are tensors are numbered
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;
  std::vector<std::pair<int, std::vector<int>>> tensors;  // (argument, numbers); -1: none
  std::vector<bool> lists;                                // of the same length

  explicit Operator(c10::OperatorHandle handle) : op(std::move(handle)) {}

  void run(Slots& slots, const Words&) const override {
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

struct Free : Step {  // drops tensors that no later step reads
  std::vector<int> tensors;

  void run(Slots& slots, const Words&) const override {
    for (int i : tensors) slots[i].reset();
  }
};

struct Program {
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<int> results;  // numbers of tensors; -1: none

  void run(Slots& slots, const Words& words = {}) const {
    for (const auto& step : steps) step->run(slots, words);
  }
};

}  // namespace
