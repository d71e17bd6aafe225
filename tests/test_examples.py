"""The public names: each has an example in its docstring, and the example is true."""

import doctest
import inspect
import io

import pytest

import bench
import parsers

CALLED = [name for name in parsers.__all__ if inspect.isroutine(getattr(parsers, name))]
NAMES = [
    *((bench, name) for name in bench.__all__),
    *((parsers, name) for name in [*CALLED, "ReactStream", "Tool"]),
]


@pytest.mark.parametrize(
    ("package", "name"), NAMES, ids=[f"{package.__name__}.{name}" for package, name in NAMES]
)
def test_a_public_name_has_an_example_that_holds(package, name):
    value = getattr(package, name)
    finder = doctest.DocTestFinder(recurse=False)
    examples = finder.find(value, name, module=False, globs={})
    assert sum(len(test.examples) for test in examples) >= 1
    told = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        runner.run(test, out=told.write)
    assert runner.summarize(verbose=False).failed == 0, told.getvalue()
