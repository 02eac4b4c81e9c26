"""Launches of the rungs whose number of passes, or whose kernel, depends on the length."""

from weft import cdiv
from weft.ops.families.fft.banks import Room, room
from weft.ops.families.fft.lengths import stages
from weft.ops.families.fft.passes import room_word, stages_word


def rung_02_radix_2(rows, n):
    """A pass for each factor 2."""
    passes = n.bit_length() - 1
    for i in range(passes):
        words = (str(word).lower() for word in (i == 0, i == passes - 1, i % 2 == 1))
        yield f"pass<{1 << i}, {', '.join(words)}>", cdiv(rows * n, 512), 256, 0


def rung_03_shared(rows, n):
    yield f"fft<{n}>", rows, min(n // 2, 512), 16 * n


def rung_04_registers(rows, n):
    """One row for each block."""
    s, made = stages(n)[0], Room(n, 1, 0, True)
    yield f"fft<{stages_word(s)}, {room_word(made)}>", rows, s.threads, made.bytes


def rung_05_padded(rows, n):
    """Rows enough for 128 threads."""
    s = stages(n)[0]
    columns = max(1, 128 // s.threads)
    made = room(s, columns, False, False)
    words = f"{stages_word(s)}, {room_word(made)}"
    yield f"fft<{words}>", cdiv(rows, columns), s.threads * columns, made.bytes
