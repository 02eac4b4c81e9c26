"""Sectors of bulk and tensor copies, as ncu counts them on an H200.

The copies are those of support/copy_sectors.py: where lines of shared memory cut them, and what
tensor loads fill outside of a tensor (scripts/record_copy_sectors.py made the record).
"""

from __future__ import annotations

import json

import pytest

import copy_sectors
import weft
from folders import ROOT

pytestmark = pytest.mark.sim
RECORD = ROOT / "tests" / "golden" / "hardware" / "copy_sectors.json"


def test_sectors_are_those_of_an_h200() -> None:
    """Sectors that arrive at SMs, leave them and are written to L2; loads of L2 vary."""
    recorded = json.loads(RECORD.read_text("utf-8"))
    compared = [m for m in recorded["metrics"] if m != "lts__t_sectors_srcunit_tex_op_read.sum"]
    module = weft.cuda(copy_sectors.SOURCE, arch="sm_90a", device="sim:h200")
    differ = {}
    for case, counted in zip(copy_sectors.cases(), recorded["cases"], strict=True):
        launch, arguments = copy_sectors.launch(module, case, lambda array: array)
        totals = weft.profile(launch, *arguments).totals
        theirs = dict(zip(recorded["metrics"], counted, strict=True))
        mine = {m: totals[f"sim:{m}"] for m in compared}
        if mine != {m: theirs[m] for m in compared}:
            differ[case] = (mine, theirs)
    assert not differ
