"""The kinds of mistakes: a likely cause, and a question that leads on.

Braces are filled in from the evidence.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of mistake."""

    name: str
    cause: str
    question: str


COMPILE = Kind(
    "does not compile",
    "The compiler cannot read the file; its first message is the one to repair first.",
    "Which name, bracket or semicolon in that line is not what the compiler expects?",
)
OUT_OF_BOUNDS = Kind(
    "off by one",
    "An index is past the end of an array: a bound is one too large, or a test of the index is "
    "missing. A grid has more threads than there are elements.",
    "Which index does the last thread of the last block compute, and what does it compare it with?",
)
BOUND = Kind(
    "off by one",
    "A bound is one too small, so that the last element is left out.",
    "For an array of n elements the last index is n - 1: what does your comparison say for it?",
)
SHIFTED = Kind(
    "off by one",
    "An index is one too large or one too small: each element holds the value of its neighbour.",
    "Which element should thread 0 of block 0 read, and which one does it read?",
)
BARRIER = Kind(
    "missing barrier",
    "One thread reads shared memory before another one has written it, or writes it before "
    "another one has read it. Warps of a block run in any order.",
    "Between which two lines must all threads of the block have arrived?",
)
DIVERGENCE = Kind(
    "barrier in a branch",
    "A barrier is reached by some threads of the block only; the others never arrive.",
    "Which condition keeps threads from the barrier, and does the barrier have to be inside of it?",
)
RACE = Kind(
    "race",
    "Two threads access the same element at the same time, and one of them writes it. Which one "
    "is last is not defined.",
    "May two threads own this element? If they must, which operation reads, adds and writes it in "
    "one step?",
)
WAIT = Kind(
    "missing wait",
    "The host, or another stream, uses memory while a kernel or a copy may still work on it. A "
    "launch returns before its kernel has ended.",
    "Which call makes the host, or the other stream, wait until this work is complete?",
)
TRANSPOSED = Kind(
    "transposed index",
    "Rows and columns are exchanged: the result has the right numbers in the wrong order.",
    "In a matrix with w columns, how far apart in memory are two neighbours of a row, and two of "
    "a column?",
)
UNCOALESCED = Kind(
    "uncoalesced access",
    "The 32 threads of a warp access addresses that lie apart, so that memory delivers many "
    "sectors of 32 bytes of which little is used.",
    "Which index do thread 0 and thread 1 of a warp use in this line, and how many elements lie "
    "between them?",
)
CONFLICTS = Kind(
    "bank conflicts",
    "Threads of a warp access different words of the same bank of shared memory, one after "
    "another.",
    "Bank = word index modulo 32: which banks do threads 0, 1 and 2 access in this line?",
)
DIVISION = Kind(
    "integer division",
    "Line {line} computes {above} / {below} with two integers. The quotient is an integer: its "
    "fraction is dropped before it becomes a float.",
    "Which of the two operands has to be a float, so that the fraction stays?",
)
UNINITIALISED = Kind(
    "uninitialised output",
    "The kernel adds to an element, or reads one, that was never set. Memory holds what was there "
    "before.",
    "What is in the element before the first addition, and which thread sets it?",
)
UNWRITTEN = Kind(
    "unwritten output",
    "No thread writes some elements, although there are enough threads.",
    "Which index does the thread compute that should write {element}, and which condition stops "
    "it?",
)
TOO_FEW = Kind(
    "too few threads",
    "There are fewer threads that work than elements: some elements have no thread, or few "
    "threads do the work of many.",
    "How many threads does the launch have, how many elements are there, and which elements "
    "belong to one thread?",
)
HOST = Kind(
    "host result",
    "The results are computed by the host, in Python or in main, and not by a kernel.",
    "Which line of the host computes? What would a single thread do for one element?",
)
DEADLOCK = Kind(
    "endless wait",
    "Threads wait for something that never happens: a barrier that others do not reach, or a value "
    "that none writes.",
    "Which threads wait in this line, and which ones would have to arrive?",
)
RULE = Kind(
    "rule",
    "The results are right, but the kernel does more, or other, work than the exercise asks for.",
    "Which line contributes most to this count, and how often does it have to be executed?",
)
CALL = Kind(
    "call",
    "The program does not use the function that this exercise is about.",
    "Which step of the program is this function for?",
)
IMPORT = Kind(
    "import",
    "The file uses a package or a header that this exercise leaves out.",
    "Which of its functions do you use, and what would you write in place of it?",
)
RESULT = Kind(
    "wrong result",
    "The computation differs from what is asked for; the first wrong elements show where.",
    "Compute {element} by hand: which term differs from what your kernel adds or multiplies?",
)
