"""Judges of exercises without kernels: hidden cases in float64, drawn anew for every grade."""

import sys
from pathlib import Path

import numpy as np
import torch

from weft.climbing.rung import load

RIGHT = ("", "")
HERE = Path(__file__).parent


def _close(got, expected, error=1e-9):
    """True if all numbers agree, relative to the largest one."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    if got.shape != expected.shape:
        return False
    return bool(np.all(np.abs(got - expected) <= error * max(1.0, np.abs(expected).max())))


_OPERATIONS = {
    "add": lambda a, b, number: a + b,
    "mul": lambda a, b, number: a * b,
    "tanh": lambda a, b, number: (a + b).tanh(),
    "number": lambda a, b, number: a * number + 2,
    "reverse": lambda a, b, number: number * b + (1 + a),
}


def _program(rng, count):
    """Random operations: (name, place of an operand, place of another one, number)."""
    names = rng.choice(list(_OPERATIONS), count)
    return [(n, *rng.integers(0, 10**6, 2), float(rng.uniform(-1, 1))) for n in names]


def _run(program, values):
    """Apply a program to numbers of any kind; one operand is among the last three results."""
    pool = list(values)
    for name, a, b, number in program:
        made = _OPERATIONS[name](pool[a % len(pool)], pool[-1 - b % min(3, len(pool))], number)
        pool.append(made if abs(float(made.data)) < 10 else made * 0.01)
    return pool[-1] + pool[-2] * pool[0]


def value(mine):
    rng = np.random.default_rng()
    for count in (1, 3, 8, 20, 20):
        numbers, program = rng.uniform(-1, 1, 3), _program(rng, count)
        theirs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in numbers]
        expected = _run(program, theirs)
        expected.backward()
        values = [mine.Value(float(v)) for v in numbers]
        result = _run(program, values)
        if not _close(result.data, float(expected.detach())):
            return "right", f"A result of {count} operations is {result.data}, not {expected:g}."
        result.backward()
        for name, got, true in zip("abc", values, theirs, strict=True):
            grad = 0.0 if true.grad is None else float(true.grad)
            if not _close(got.grad, grad):
                words = f"After {count} operations the grad of {name} is {got.grad}, not {grad:.6g}"
                return "right", f"{words}. Values are used more than once."
    return _shapes_of_graphs(mine, float(rng.uniform(0.5, 1)))


def _shapes_of_graphs(mine, start):
    """Two results that share a Value, a long chain, and a graph with very many paths."""
    a = mine.Value(start)
    (a * a).backward()
    (a * 3).backward()
    if not _close(a.grad, 2 * start + 3):
        return "right", f"Two results of a add up to {2 * start + 3:.6g} in its grad, got {a.grad}."
    a = last = mine.Value(start)
    for _ in range(5000):
        last = last + 0.5
    try:
        last.backward()
    except RecursionError:
        return "right", "5,000 operations in a row: recursion ends after about 1,000 levels."
    if not _close(a.grad, 1.0):
        return "right", f"After 5,000 additions the grad is {a.grad}, not 1."
    a = last = mine.Value(start)
    for _ in range(12):
        last = last + last
    calls = _calls(last.backward)
    if not _close(a.grad, 4096.0):
        return "right", f"Twelve times last = last + last: the grad is {a.grad}, not 4,096."
    if calls > 2000:
        words = f"13 Values with 4,096 paths between them cost {calls:,} calls of functions"
        return "right", f"{words}: visit each Value once, after all that use it."
    return RIGHT


def _calls(function):
    """The number of functions that a call of it calls."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def neuron(mine):
    rng, value_of = np.random.default_rng(), load(HERE / "solution_value.py").Value
    sizes = [int(rng.integers(2, 5)), int(rng.integers(3, 6)), int(rng.integers(1, 3))]
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
    arrays = [(rng.uniform(-1, 1, s), rng.uniform(-1, 1, s[0])) for s in shapes]
    examples = rng.uniform(-1, 1, (4, sizes[0]))
    targets = rng.uniform(-1, 1, (4, sizes[-1]))
    theirs = [tuple(torch.tensor(a, requires_grad=True) for a in pair) for pair in arrays]
    results = torch.tensor(examples)
    for w, b in theirs:
        results = torch.tanh(results @ w.T + b)
    total = ((results - torch.tensor(targets)) ** 2).sum()
    total.backward()
    layers = [
        ([[value_of(v) for v in row] for row in w], [value_of(v) for v in b]) for w, b in arrays
    ]
    inputs = [[value_of(v) for v in row] for row in examples]
    first = mine.layer(*layers[0], inputs[0])
    one = mine.neuron(layers[0][0][0], layers[0][1][0], inputs[0])
    if len(first) != sizes[1] or not _close(one.data, first[0].data):
        return "right", f"A layer of {sizes[1]} neurons gives {len(first)} results, or others."
    shown = [v.data for v in mine.network(layers, inputs[0])]
    if not _close(shown, results[0].detach().numpy()):
        return "right", f"network of sizes {sizes} gives {shown}, not {results[0].tolist()}."
    got = mine.loss(layers, inputs, targets.tolist())
    if not _close(got.data, float(total.detach())):
        return "right", f"The loss of 4 examples is {got.data}, not {total:.6g}."
    got.backward()
    for place, ((w, _), (true, _)) in enumerate(zip(layers, theirs, strict=True)):
        if not _close([[v.grad for v in row] for row in w], true.grad.numpy()):
            return "right", f"The gradients of the weights of layer {place} are wrong."
    return RIGHT


_SHAPES = [
    ((), ()), ((3,), (3,)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((3, 4), ()),
    ((2, 3, 4), (3, 1)), ((1, 1), (2, 3)), ((1,), (1, 1)), ((1, 4), (1, 4)),
]  # fmt: skip


def arrays(mine):
    rng = np.random.default_rng()
    for left, right in _SHAPES:
        for name, f in (
            ("a + b", lambda a, b: (a + b).tanh().sum()),
            ("a * b", lambda a, b: (a * b).tanh().sum()),
            ("a * b + a", lambda a, b: ((a * b + a) * b).sum()),
        ):
            failed = _array_case(mine, rng, f, (left, right), f"{name} of {left} and {right}")
            if failed:
                return "right", failed

    def network(x, w, b, v, c):
        hidden = (x @ w + b).tanh()
        return ((hidden @ v + c) * (hidden @ v + c)).sum()

    shapes = ((5, 3), (3, 4), (4,), (4, 2), (1, 2))
    failed = _array_case(mine, rng, network, shapes, "a network of two layers")
    return ("right", failed) if failed else RIGHT


def _array_case(mine, rng, f, shapes, what):
    """The error of one function of arrays; "" if there is none."""
    numbers = [rng.uniform(-1, 1, s) for s in shapes]
    theirs = [torch.tensor(a, requires_grad=True) for a in numbers]
    tensors = [mine.Tensor(a) for a in numbers]
    expected, result = f(*theirs), f(*tensors)
    if np.shape(result.data) != () or not _close(result.data, float(expected.detach())):
        return f"{what}: the result is {result.data}, not {float(expected.detach()):.6g}."
    expected.backward()
    result.backward()
    for name, shape, got, true in zip("abcde", shapes, tensors, theirs, strict=False):
        if np.shape(got.grad) != shape:
            return f"{what}: the grad of {name} has the shape {np.shape(got.grad)}, not {shape}."
        if not _close(got.grad, true.grad.numpy()):
            return f"{what}: the grad of {name} is wrong."
    return ""


def jacobian(mine):
    rng = np.random.default_rng()
    for n, m in ((1, 1), (3, 2), (4, 6)):
        w, b = rng.uniform(-1, 1, (m, n)), rng.uniform(-1, 1, m)
        # One place is large: a step of a fixed size loses digits there.
        scale = np.where(np.arange(n) == n - 1, 1e4, 1.0)
        calls = 0

        def f(x, w=w / scale, b=b):
            nonlocal calls
            calls += 1
            return np.tanh(w @ x + b)

        x = rng.uniform(-1, 1, n)
        by_hand = (1 - np.tanh(w @ x + b) ** 2)[:, None] * w
        if not _close(mine.by_hand(w, b, x.copy()), by_hand):
            return "right", f"by_hand of a layer with {n} inputs and {m} results is wrong."
        given = x * scale
        got = np.asarray(mine.differences(f, given))
        if got.shape != (m, n):
            return "right", f"differences has the shape {got.shape}, not {(m, n)}."
        if not np.array_equal(given, x * scale):
            return "right", "differences changes x."
        if calls > 2 * n + 1:
            return "right", f"differences calls f {calls} times for {n} inputs."
        if not _close(got * scale, by_hand, 1e-8):
            worst = np.abs(got * scale - by_hand).max()
            words = f"differences is off by {worst:.1e}, relative to the size of x"
            return "right", f"{words}: central differences with a good step reach 1e-8."
    return RIGHT


_FUNCTIONS = {
    "x * x * y": lambda x, y: x * x * y,
    "(x * y + x).tanh() * y + 2": lambda x, y: (x * y + x).tanh() * y + 2,
    "3 * y": lambda x, y: 3 * y + x * 0,
    "(x + y).tanh().tanh() * x": lambda x, y: (x + y).tanh().tanh() * x,
}


def hessian(mine):
    rng = np.random.default_rng()
    for _ in range(3):
        x, y = rng.uniform(-1, 1, 2)
        true = _hessian(lambda x, y: x * x * y + (x * y).tanh(), x, y)
        if not _close(mine.by_hand(float(x), float(y)), true):
            return "right", f"by_hand at x = {x:.3g}, y = {y:.3g} is not {true.tolist()}."
        for name, f in _FUNCTIONS.items():
            calls = 0

            def counted(a, b, f=f):
                nonlocal calls
                calls += 1
                return f(a, b)

            got, true = mine.by_backward(counted, float(x), float(y)), _hessian(f, x, y)
            if calls != 1:
                return "right", f"by_backward calls f {calls} times: two backward passes need one."
            if not _close(got, true):
                words = f"by_backward of {name} at x = {x:.3g}, y = {y:.3g} is {got}"
                return "right", f"{words}, not {true.tolist()}."
    return RIGHT


def _hessian(f, x, y):
    at = tuple(torch.tensor(float(v), dtype=torch.float64) for v in (x, y))
    rows = torch.autograd.functional.hessian(f, at)
    return np.array([[float(v) for v in row] for row in rows])
