import importlib.util
import json
import sys
from pathlib import Path

import pytest

from parsers import parse_react

COUNT = 2000


def load_maker():
    spec = importlib.util.spec_from_file_location(
        "compound", Path(__file__).with_name("compound.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["compound"] = module
    spec.loader.exec_module(module)
    return module


COMPOUND = load_maker()


def moves(reading):
    if reading.failure is not None:
        return [{"failure": reading.failure.kind}]
    if reading.final is not None:
        return [{"final": reading.final}]
    return [{"call": one.name, "arguments": one.arguments} for one in reading.good_calls]


def as_json(value):
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("seed", [1, 20_241])
def test_replies_with_several_faults_are_read_right_and_never_wrong_in_silence(seed):
    right, silent, refused = 0, [], []
    for one in COMPOUND.make_compounds(seed, COUNT):
        reading = parse_react(one.text, one.tools, finish_reason=one.finish)
        if as_json(moves(reading)) in map(as_json, one.readings):
            right += 1
        else:
            (silent if reading.failure is None else refused).append((one.faults, one.text))
    assert silent == []
    assert right >= 0.99 * COUNT, refused[:5]


def test_the_replies_of_a_seed_are_always_the_same():
    first, second = (COMPOUND.make_compounds(7, 50) for _ in range(2))
    assert first == second


def test_every_fault_is_used():
    used = {fault for one in COMPOUND.make_compounds(3, COUNT) for fault in one.faults}
    groups = ("LABELS", "NAMES", "VALUES", "ACTIONS", "BEFORE", "AFTER", "BAD")
    named = {
        fault.__name__.removeprefix("_") for group in groups for fault in getattr(COMPOUND, group)
    }
    assert named <= used
