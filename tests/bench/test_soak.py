"""The soak accounts for every fault of a failing endpoint, and says so where one is swallowed."""

from collections import Counter
from dataclasses import replace

import pytest

from bench.clients import OpenAIClient
from bench.endpoint.script import FAULTS
from bench.perf.faulty import FAMILIES, Faulty
from bench.perf.soak import HARMLESS, SEEN, Account, Soak, find_problems, lines_of, seen_as, soak

SMALL = Soak(episodes=200, in_flight=10, share=0.05, seconds=8.0)


@pytest.fixture(scope="module")
def found():
    return soak(SMALL)


def test_every_episode_and_every_fault_is_accounted_for(found):
    account = found.account
    assert found.problems == ()
    assert account.planned == 200 == account.finished + account.failed.total()
    assert account.failed.total() > 0
    assert account.seen.total() > 20
    assert found.told["open"] == 0
    assert found.most > 5
    assert found.memory > 10_000_000


def test_what_it_came_to_is_told(found):
    text = "\n".join(lines_of(found))
    assert "200 episodes planned = " in text
    assert text.count("  failed: ") == len(found.account.failed)
    assert "0 connections left open" in text
    assert text.endswith("all accounted for")
    told = replace(found, told={**found.told, "requests": 0})
    assert "NOT ACCOUNTED FOR: 0 requests were answered" in "\n".join(lines_of(told))


class Swallowing(OpenAIClient):
    """A client that tries again and does not say so."""

    async def complete(self, request):
        return replace(await super().complete(request), attempts=())


def test_a_client_that_swallows_faults_is_found_out():
    problems = soak(replace(SMALL, episodes=20, share=0.2, seconds=1.0), Swallowing).problems
    assert any("requests were answered" in problem for problem in problems)
    assert any("on record" in problem and "made" in problem for problem in problems)


GOOD = Account(2, Counter(answered=1, endpoint=1), Counter({("rate_limited", 429): 1}), 3)
GOOD.seen = Counter({("rate_limited", 429): 2})
TOLD = {"requests": 3, "injected": {"rate_limit": 2, "no_done streamed": 1}, "open": 0}
PROBLEMS = {
    "nothing": (GOOD, TOLD, None),
    "an episode is missing": (replace(GOOD, missing=1), TOLD, "1 are missing"),
    "an episode is there twice": (replace(GOOD, twice=1), TOLD, "1 are twice"),
    "the sum is wrong": (replace(GOOD, planned=3), TOLD, "are not 3"),
    "a request too many": (GOOD, {**TOLD, "requests": 4}, "4 requests were answered, 3 are"),
    "a fault is swallowed": (replace(GOOD, seen=Counter()), TOLD, "2 were made, 0 are on record"),
    "a fault came from nowhere": (GOOD, {**TOLD, "injected": {}}, "0 were made, 2 are on record"),
    "a fault of another kind": (
        GOOD,
        {**TOLD, "injected": {"overloaded": 2}},
        "(503): 2 were made",
    ),
    "a connection is open": (GOOD, {**TOLD, "open": 1}, "1 connections are still open"),
}


@pytest.mark.parametrize(("account", "told", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_does_not_add_up_is_told(account, told, problem):
    problems = list(find_problems(account, told))
    assert bool(problems) is (problem is not None)
    assert problem is None or any(problem in found for found in problems)


def test_every_fault_is_made_and_known():
    assert sorted(fault for family in FAMILIES for fault in family) == sorted(FAULTS)
    every = {name for fault in FAULTS for name in (fault, f"{fault} streamed")}
    assert {name.removesuffix(" streamed") for name in (*SEEN, *HARMLESS)} == set(FAULTS)
    assert all(name in HARMLESS or seen_as(name) for name in every)


def test_a_share_of_each_family_fails_by_seed():
    messages = [{"content": "s"}, {"content": "q"}]
    bodies = [{"messages": messages, "stream": number % 2 == 0} for number in range(4_000)]
    first, again, other = (Faulty({}, 0.05, seed) for seed in ("1", "1", "2"))
    for body in bodies:
        assert first(body, 0) == again(body, 0)
        other(body, 0)
    assert first.injected == again.injected != other.injected
    assert first.requests == 4_000
    for family in FAMILIES:
        count = sum(
            first.injected[f"{fault}{end}"] for fault in family for end in ("", " streamed")
        )
        assert 140 < count < 260
