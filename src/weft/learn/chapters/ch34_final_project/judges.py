"""Judges of the stages: loss and gradients against float64, and digits that must be recognised."""

import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from weft.climbing.rung import load
from weft.learn import c_code

RIGHT = ("", "")
network = load(Path(__file__).with_name("network.py"))


def _wrong(got, expected):
    """The largest error, relative to the largest number expected; None if the shapes differ."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    if got.shape != expected.shape:
        return None
    return float(np.max(np.abs(got - expected)) / max(1e-30, np.abs(expected).max()))


def _is_close(got, expected):
    error = _wrong(got, expected)
    return error is not None and error < 1e-8


def look(mine):
    rng = np.random.default_rng()
    images = [_image(rng, 28, 28), _image(rng, 28, 28), _image(rng, 5, 9), [[0, 0], [0, 7]]]
    labels = [int(v) for v in rng.integers(0, 10, len(images))]
    text = mine.page(images, labels)
    if not isinstance(text, str):
        return "right", f"page returns {type(text).__name__}, not a string."
    try:
        figures = list(ET.fromstring(text.strip()).iter("figure"))
    except ET.ParseError as error:
        return "right", f"The page is not well-formed: {error}."
    if len(figures) != len(images):
        return "right", f"The page has {len(figures)} figures for {len(images)} images."
    for place, (figure, image, label) in enumerate(zip(figures, images, labels, strict=True)):
        caption = (figure.findtext("figcaption") or "").strip()
        if caption != str(label):
            return "right", f"The caption of figure {place} is '{caption}', not '{label}'."
        box, drawn = f"0 0 {len(image[0])} {len(image)}", figure.find("svg")
        if drawn is None or drawn.get("viewBox") != box:
            return "right", f'Figure {place} has no <svg viewBox="{box}">.'
        if _pixels(drawn, image) != image:
            return "right", f"Figure {place} shows another image."
    return RIGHT


def _image(rng, height, width):
    shown = rng.integers(1, 256, (height, width)) * (rng.uniform(size=(height, width)) < 0.2)
    return [[int(v) for v in row] for row in shown]


def _pixels(drawn, image):
    """The image that rectangles show; None if one of them is no pixel of it."""
    shown = [[0] * len(image[0]) for _ in image]
    for rect in drawn.iter("rect"):
        x, y = int(rect.get("x", -1)), int(rect.get("y", -1))
        grey = rect.get("fill", "").removeprefix("rgb(").removesuffix(")").split(",")
        one = (rect.get("width"), rect.get("height")) == ("1", "1") and len({*grey}) == 1
        if not one or not (0 <= y < len(image) and 0 <= x < len(image[0])) or shown[y][x]:
            return None
        shown[y][x] = int(grey[0])
        if not shown[y][x]:
            return None
    return shown


def loops(mine):
    rng = np.random.default_rng()
    for n, k, h, c, scale in ((1, 1, 1, 2, 1), (4, 7, 5, 3, 1), (3, 4, 6, 10, 1000)):
        x, p = rng.uniform(-1, 1, (n, k)), rng.uniform(-1, 1, k * h + h + h * c + c)
        p[k * h + h :] *= scale
        t = rng.integers(0, c, n)
        losses, g = network.gradients(p, x, t, h, c)
        parts = network.split(p, k, h, c)
        got = mine.gradients(x.tolist(), t.tolist(), *(a.tolist() for a in parts))
        sizes = f"For n = {n}, k = {k}, h = {h}, c = {c}"
        if not _is_close(got[0], losses.mean()):
            return "right", f"{sizes} the loss is {got[0]}, not {losses.mean():.8g}."
        names = ("dw1", "db1", "dw2", "db2")
        for name, mine_, true in zip(names, got[1:], network.split(g, k, h, c), strict=True):
            error = _wrong(mine_, true)
            if error is None or np.max(np.abs(mine_ - true)) > 1e-8 * np.abs(g).max():
                return "right", f"{sizes} {name} is wrong."
    return RIGHT


def arrays(mine):
    rng = np.random.default_rng()
    for n, k, h in ((1, 1, 1), (5, 8, 6), (16, 3, 20)):
        p, x = rng.uniform(-1, 1, k * h + h + h * 10 + 10), rng.uniform(-1, 1, (n, k))
        t, kept = rng.integers(0, 10, n), p.copy()
        loss, g = mine.gradients(p, x, t, h)
        losses, true = network.gradients(kept, x, t, h)
        if not _is_close(loss, losses.mean()):
            return "right", f"For n = {n} the loss is {loss}, not {losses.mean():.8g}."
        if not _is_close(g, true):
            return "right", f"For n = {n}, k = {k}, h = {h} the gradient is wrong."
        if not np.array_equal(p, kept):
            return "right", "gradients changes p."
    (x, t), test = network.digits(rng, 28)
    started = time.process_time()
    p = mine.train(x, t, 32)
    seconds, reached = time.process_time() - started, network.accuracy(p, *test, 32)
    if seconds > 2:
        return "right", f"train takes {seconds:.1f} seconds, and 2 are allowed."
    return _recognised(reached, 0.75)


def _recognised(reached, least):
    words = f"{reached:.0%} of 128 other images are recognised"
    return ("right", f"{words}, not {least:.0%}.") if reached < least else ("", words)


C_MAIN = """
#include <stdio.h>
#include <stdlib.h>
double step(double* p, const double* x, const int* t, int n, int k, int h, double rate);
int main() {
    int sizes[5];
    double rate;
    if (fread(sizes, 4, 5, stdin) != 5 || fread(&rate, 8, 1, stdin) != 1) return 2;
    int n = sizes[0], k = sizes[1], h = sizes[2], batch = sizes[3], steps = sizes[4];
    int size = k * h + h + h * 10 + 10;
    double *p = (double*)malloc(8 * size), *x = (double*)malloc(8 * batch * k);
    double *all = (double*)malloc(8 * n * k);
    int *labels = (int*)malloc(4 * n), *t = (int*)malloc(4 * batch);
    if (fread(p, 8, size, stdin) != size || fread(all, 8, n * k, stdin) != n * k) return 2;
    if (fread(labels, 4, n, stdin) != n) return 2;
    for (int s = 0; s < steps; s++) {
        for (int m = 0; m < batch; m++) {
            int from = (s * batch + m) % n;
            for (int i = 0; i < k; i++) x[m * k + i] = all[from * k + i];
            t[m] = labels[from];
        }
        double loss = step(p, x, t, batch, k, h, rate);
        fwrite(&loss, 8, 1, stdout);
    }
    fwrite(p, 8, size, stdout);
    free(p), free(x), free(all), free(labels), free(t);
}
"""
"""Calls the learner's `step`. Arrays have the exact sizes: the sanitizer sees their ends."""


def c(path):
    rng = np.random.default_rng()
    n, k, h, rate = 6, 5, 7, 0.25
    x, t, p = rng.uniform(-1, 1, (n, k)), rng.integers(0, 10, n), network.start(rng, k, h)
    (train, test), rounds = network.digits(rng, 14), 96
    first = network.start(rng, 196, 16)
    stage, words, tiny = _stepped(path, p, x, t, h, (n, 1), rate)
    if stage:
        return stage, words
    losses, g = network.gradients(p, x, t, h)
    if not _is_close(tiny[0], losses.mean()):
        return "right", f"step returns the loss {tiny[0]:.8g}, not {losses.mean():.8g}."
    if not _is_close(p - tiny[1:], rate * g):
        return "right", "step does not change the parameters by -rate times the gradient."
    stage, words, long = _stepped(path, first, *train, 16, (32, rounds), 0.3)
    return (stage, words) if stage else _recognised(network.accuracy(long[rounds:], *test, 16), 0.7)


def _stepped(path, p, x, t, h, batches, rate):
    """(stage, words, losses of the steps and then the parameters)."""
    sizes = np.array([*x.shape, h, *batches], np.int32)
    data = (sizes, np.float64(rate), p, x.astype(np.float64), t.astype(np.int32))
    stage, words, out = c_code.run(path, C_MAIN, b"".join(a.tobytes() for a in data))
    return stage, words, np.frombuffer(out, np.float64)


def kernels(runner):
    """Train on 7 x 7 pixels: the simulated GPU takes its time."""
    rng = np.random.default_rng()
    ((x, t), test), n, h = network.digits(rng, 7), 64, 16
    x, p = x.astype(np.float32), network.start(rng, 49, h).astype(np.float32)
    for step in range(60):
        some = np.arange(step * n, (step + 1) * n) % len(x)
        g, q, losses = np.zeros_like(p), np.zeros_like(p), np.zeros(n, np.float32)
        runner(x=x[some], t=t[some].astype(np.int32), p=p, losses=losses, g=g, q=q, n=n, k=49, h=h)
        p = q
    return _recognised(network.accuracy(p, *test, h), 0.7)
