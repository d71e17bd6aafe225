"""How fast an endpoint is asked, and what a run may use: in pace, after overloads, to its end."""

import asyncio
import json
import math
from argparse import Namespace
from collections import Counter
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.arguments import add_compare
from bench.choice import Choice, choice_from, resumed, to_manifest
from bench.clients import OpenAIClient, Patience, ScriptedClient, account, reply_with
from bench.config import apply_config
from bench.drivers import NativeDriver, ReactDriver
from bench.endpoint import StrictEndpoint
from bench.limits import GROW_AFTER, Gate, Spending, Tokens, UsedUp, count_tokens, make_caps
from bench.plan import Order, make_plan
from bench.profiles import load_profiles, shape_for
from bench.records import RunFolder, list_runs
from bench.run import plan_jobs, run_all
from bench.status import INCOMPLETE, MISTAKE, OK
from bench.tasks import load_tasks
from bench.types import Gold, Reply, Request, StepKey, Task

DRIVERS = (ReactDriver(), NativeDriver())
OVERLOADED = Reply(429, {}, '{"error": {"message": "slow down"}}')


class Clock:
    """A time of its own, which goes on only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


def body_of(prompt, completion, text="Final Answer: 25"):
    """Give a completion's body that tells its tokens; None: it does not."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    message = {"role": "assistant", "content": text}
    return json.dumps(
        {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {name: count for name, count in usage.items() if count is not None},
        }
    )


def said(prompt=None, completion=None):
    return Reply(200, {"content-type": "application/json"}, body_of(prompt, completion))


def make_request(text="hi", **options):
    return Request(
        ({"role": "user", "content": text},), options, StepKey("t", "react", "full", 0, 0)
    )


class Limited(ScriptedClient):
    """A scripted model behind a gate: the seam where an endpoint's tries go through."""

    def __init__(self, script, gate, name="scripted"):
        super().__init__(script, name=name)
        self.gate = gate

    async def complete(self, request):
        return (await self.gate.ask(request, self.send))[0]

    async def send(self, request):
        return account(await super().complete(request))


def make_tasks(count):
    return [
        Task(f"t{n}-en", f"t{n}", "en", "no_tool", "weather", f"Question {n}?", Gold())
        for n in range(count)
    ]


@pytest.fixture
def folder(tmp_path):
    run = RunFolder.create(tmp_path, "compare", {"format": 1})
    yield run
    run.close()


# ------------------------------------------------------------ so much a minute


def ask_times(replies, **limits):
    """Ask one after the other; give the moments at which the requests went out."""
    clock, moments, script = Clock(), [], iter(replies)
    gate = Gate(**limits, clock=clock, sleep=clock.sleep)

    async def send(_):
        moments.append(round(clock.now, 6))
        return account(next(script))

    async def go():
        for _ in range(len(replies)):
            await gate.ask(make_request(max_tokens=10), send)

    asyncio.run(go())
    return moments


PACES = {
    "no limit": ({}, [said()] * 3, [0, 0, 0]),
    "requests": ({"rpm": 30}, [said()] * 4, [0, 2, 4, 6]),
    "tokens, by what was used and not by the estimate": (
        {"tpm": 600},
        [said(500, 100), said(0, 0), said(40, 20), said(1, 1)],
        [0, 60, 60, 66],
    ),
    "the stricter of both": (
        {"rpm": 60, "tpm": 600},
        [said(10, 10), said(0, 1), said(90, 10), said(0, 0), said(0, 0)],
        [0, 2, 3, 13, 14],
    ),
    "failures are requests too": ({"rpm": 60}, [OVERLOADED] * 3, [0, 1, 2]),
}


@pytest.mark.parametrize(("limits", "replies", "moments"), PACES.values(), ids=PACES)
def test_requests_go_out_at_a_pace(limits, replies, moments):
    assert ask_times(replies, **limits) == moments


@pytest.mark.parametrize("rpm", [1, 7, 60])
def test_no_minute_holds_more_requests_than_allowed(rpm):
    moments = ask_times([said()] * (3 * rpm), rpm=rpm)
    for start in moments:
        assert sum(start <= moment < start + 60 - 1e-6 for moment in moments) <= rpm


def test_many_who_wait_go_one_after_the_other():
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    client = Limited(lambda _: "hi", Gate(rpm=60, clock=Clock(), sleep=sleep))

    async def go():
        await asyncio.gather(*(client.complete(make_request()) for _ in range(4)))

    asyncio.run(go())
    assert waits == [1, 2, 3]


def test_what_a_request_will_use_is_learnt_from_what_earlier_ones_used():
    gate = Gate(tpm=1_000_000)
    request = make_request("word " * 1000, max_tokens=1000)
    first = gate._estimator.guess(request)
    assert first.prompt == pytest.approx(count_tokens("word " * 1000), rel=0.05)
    for _ in range(20):
        asyncio.run(gate.ask(request, Limited([said(2 * round(first.prompt), 500)], gate).send))
    later = gate._estimator.guess(request)
    assert later.prompt == pytest.approx(2 * first.prompt, rel=0.1)
    assert later.completion == pytest.approx(500, rel=0.1)
    assert gate._estimator.guess(make_request(max_tokens=7)).completion == 7


# ------------------------------------------------------------ after an overload


class Crowd:
    """An endpoint that answers a whole crowd at a time, as it is told, and counts the crowd."""

    def __init__(self):
        self.sizes = []

    async def burst(self, gate, count, reply):
        """Let so many ask at once, and answer when no more come in; give the largest crowd."""
        inside = most = 0
        door = asyncio.Event()

        async def send(_):
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await door.wait()
            inside -= 1
            return account(reply)

        asked = [asyncio.ensure_future(gate.ask(make_request(), send)) for _ in range(count)]
        for _ in range(5):
            await asyncio.sleep(0)
        door.set()
        await asyncio.gather(*asked)
        return most


def crowds(*bursts):
    """Return how many were in flight in each burst of (count, reply)."""
    gate, crowd = Gate(), Crowd()

    async def go():
        return [await crowd.burst(gate, count, reply) for count, reply in bursts]

    return asyncio.run(go()), gate


BURSTS = {
    "no overload": ([(9, said()), (9, said())], [9, 9], None),
    "halved once by one crowd": ([(8, OVERLOADED), (4, said()), (8, said())], [8, 4, 4], 4),
    "halved again": ([(8, OVERLOADED), (4, OVERLOADED), (8, said())], [8, 4, 2], 2),
    "never none": ([(1, OVERLOADED), (1, OVERLOADED), (3, said())], [1, 1, 1], 1),
    "503": ([(6, Reply(503, {}, "busy")), (6, said())], [6, 3], 3),
    "529": ([(6, Reply(529, {}, "busy")), (6, said())], [6, 3], 3),
    "500 is no overload": ([(6, Reply(500, {}, "oops")), (6, said())], [6, 6], None),
    "nor is 401": ([(6, Reply(401, {}, "no")), (6, said())], [6, 6], None),
}


@pytest.mark.parametrize(("bursts", "sizes", "lowest"), BURSTS.values(), ids=BURSTS)
def test_an_overload_halves_what_is_in_flight(bursts, sizes, lowest):
    found, gate = crowds(*bursts)
    assert found == sizes
    assert gate.lowest == lowest
    overloads = sum(n for n, reply in bursts if reply.status in (429, 503, 529))
    assert gate.describe({})["overloads"] == gate.overloads == overloads


def test_every_so_many_answers_let_one_more_in():
    calm = [(1, said())] * GROW_AFTER
    found, _ = crowds((4, OVERLOADED), (9, said()), *calm[9:], (9, said()), *calm[9:], (9, said()))
    assert found == [4, 2, 1, 3, 1, 4]


def test_a_run_that_goes_on_adds_to_what_was_counted():
    gate = Gate()
    assert gate.describe({"requests": 3, "overloads": 2, "lowest_in_flight": 1}) == {
        "requests": 3,
        "overloads": 2,
        "lowest_in_flight": 1,
    }


# ------------------------------------------------------------ a budget


def tokens(limit, **more):
    return Spending(make_caps(limit, None, None), **more)


COUNTED = {
    "what the endpoint says": (said(30, 5), Tokens(30, 5)),
    "an estimate where it says nothing": (said(), "guess"),
    "half of each": (said(30), "half"),
    "a failure that tells": (Reply(200, {}, '{"usage": {"prompt_tokens": 9}}'), "told"),
    "a failure that doesn't": (OVERLOADED, Tokens()),
    "nobody there": (Reply(0, {}, "connection: refused"), Tokens()),
    "a time-out: the model may have worked": (Reply(0, {}, "time-out: no answer"), "guess"),
    "nonsense": (said(10**400, 1), Tokens(10**12, 1)),
}


@pytest.mark.parametrize(("reply", "counted"), COUNTED.values(), ids=COUNTED)
def test_what_a_try_counts(reply, counted):
    spending = tokens(10**13)
    gate = Gate(spending=spending)
    guess = gate._estimator.guess(make_request())
    asyncio.run(gate.ask(make_request(), Limited([reply], gate).send))
    named = {
        "guess": guess,
        "half": Tokens(30, guess.completion),
        "told": Tokens(9, guess.completion),
    }
    assert spending.used == named.get(counted, counted)
    assert spending._held == Tokens()


def test_a_request_waits_for_those_in_flight_and_is_refused_where_that_is_no_use():
    async def go():
        spending, order = tokens(100), []
        await spending.hold(Tokens(60, 0))

        async def second():
            await spending.hold(Tokens(50, 0))
            order.append("second")

        waiting = asyncio.ensure_future(second())
        await asyncio.sleep(0)
        assert order == []
        spending.settle(Tokens(60, 0), Tokens(40, 0))
        await waiting
        assert order == ["second"]
        with pytest.raises(UsedUp):
            await spending.hold(Tokens(61, 0))
        assert not spending.may_begin()

    asyncio.run(go())


def test_what_is_cut_in_flight_counts_by_its_estimate():
    async def go():
        spending = tokens(10_000)
        gate = Gate(spending=spending)

        async def hang(_):
            await asyncio.sleep(60)

        asked = asyncio.ensure_future(gate.ask(make_request(), hang))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert spending.used == gate._estimator.guess(make_request())
        assert (spending._held, gate._inside) == (Tokens(), 0)

    asyncio.run(go())


def run(folder, toolbox, client, *, count=50, **options):
    jobs = plan_jobs(make_tasks(count), DRIVERS, [client])
    return asyncio.run(run_all(jobs, folder, toolbox_for=lambda *_: toolbox, **options))


def answer(_):
    return said(900, 100)


@pytest.mark.parametrize("at_once", [1, 4, 32])
def test_a_budget_ends_a_run_without_an_overrun(folder, toolbox, at_once):
    spending = tokens(20_000)
    spending.expect(Tokens(90_000, 10_000), 100)
    client = Limited(answer, Gate(spending=spending))
    tally = run(folder, toolbox, client, concurrency=at_once, spending=spending)
    kept = list(folder.lines())
    assert tally.left == 100 - len(kept)
    assert 18_000 <= spending.used.total <= 20_000
    assert spending.used.total == 1000 * len(client.requests)
    assert len(kept) == len(client.requests)  # nothing was cut
    assert tally.missing == 0


@pytest.mark.parametrize("at_once", [1, 4, 16])
def test_an_overrun_is_what_is_in_flight_beyond_its_estimate(folder, toolbox, at_once):
    grown = []

    def script(_):
        grown.append(0)
        return said(500, 100) if len(grown) < 20 else said(500, 1000)

    spending = tokens(20_000)
    client = Limited(script, Gate(spending=spending))
    tally = run(folder, toolbox, client, concurrency=at_once, spending=spending)
    assert tally.left > 0
    assert spending.used.total <= 20_000 + at_once * 1000


def test_an_episode_that_a_budget_cuts_is_not_kept_and_runs_again(folder, toolbox):
    call = 'Action: get_weather\nAction Input: {"city": "Beijing"}'

    def script(request):
        if request.key.step == 1:
            return said(100, 10)
        return Reply(200, {}, body_of(999_000, 10, call))

    spending = tokens(1_000_000)  # enough for the first reply, not for the second
    client = Limited(script, Gate(spending=spending))
    jobs = list(plan_jobs(make_tasks(1), DRIVERS[:1], [client]))
    go = {"toolbox_for": lambda *_: toolbox, "concurrency": 1}
    tally = asyncio.run(run_all(jobs, folder, spending=spending, **go))
    assert (len(client.requests), tally.left, list(folder.lines())) == (1, 1, [])
    tally = asyncio.run(run_all(jobs, folder, **go))
    # the gate still has the budget that is used up
    assert tally.left == 1
    client.gate = Gate()
    tally = asyncio.run(run_all(jobs, folder, **go))
    assert (tally.left, tally.stops) == (0, {"answered": 1})


BEGIN = {
    # limit, used, ended, running: may another begin?
    "nothing known": (1000, 0, 0, 0, True),
    "the first, whatever the estimate": (10, 0, 0, 0, True),
    "beside the first, by the estimate": (1000, 0, 0, 1, True),
    "too many beside the first": (1000, 0, 0, 10, False),
    "room by the mean": (1000, 800, 8, 0, True),
    "just room": (1000, 900, 9, 0, True),
    "no room by the mean": (1000, 901, 9, 0, False),
    "no room beside those that run": (1000, 800, 7, 2, False),
    "used up": (1000, 1000, 9, 0, False),
    "used up before any ended": (1000, 1001, 0, 0, False),
}


@pytest.mark.parametrize(("limit", "used", "ended", "running", "may"), BEGIN.values(), ids=BEGIN)
def test_an_episode_begins_where_one_of_mean_size_has_room(limit, used, ended, running, may):
    spending = tokens(limit)
    spending.expect(Tokens(1000, 0), 10)
    spending.add_earlier(Tokens(used, 0), ended)
    spending._running = running
    assert spending.may_begin() == may


def test_money_is_counted_at_its_price():
    [cap] = make_caps(None, 2.0, (0.5, 1.5))
    assert cap.cost(Tokens(1_000_000, 1_000_000)) == 2.0
    spending = Spending([cap])
    spending.add_earlier(Tokens(1_000_000, 900_000), 10)
    assert spending.may_begin() is False
    assert "--budget-money 2: 1,900,000 tokens used" in spending.tell()
    assert "1.85 in money" in spending.tell()
    assert spending.suggest(10) == "--budget-money 4.7"


def test_the_outlook_names_each_limit():
    spending = Spending(make_caps(50_000, 1.0, (10, 20)))
    spending.expect(Tokens(90_000, 10_000), 100)
    assert list(spending.foresee(516)) == [
        "budget 50,000 tokens: enough for about 50 of 516 episodes",
        "budget 1.00: enough for about 90 of 516 episodes",
    ]
    spending.add_earlier(Tokens(30_000, 0), 10)
    assert next(spending.foresee(500)) == (
        "budget 50,000 tokens, 30,000 tokens of it used: enough for about 6 of 500 episodes"
    )


def test_a_price_of_nothing_is_never_used_up():
    spending = Spending(make_caps(None, 1.0, (0, 5)))
    spending.add_earlier(Tokens(10**9, 0), 3)
    assert spending.may_begin()
    assert "enough for about 7 of 7" in next(spending.foresee(7))


# ------------------------------------------------------------ a time limit


def test_a_time_limit_cuts_what_runs_and_keeps_what_is_finished(folder, toolbox):
    class Slow(Limited):
        async def complete(self, request):
            await asyncio.sleep(0 if request.key.task_id == "t0-en" else 60)
            return await super().complete(request)

    spending = Spending(seconds=0.3)
    client = Slow(answer, Gate(spending=spending))
    tally = run(folder, toolbox, client, count=5, spending=spending)
    assert {line["task_id"] for line in folder.lines()} == {"t0-en"}
    assert tally.left == 8
    assert spending.tell().startswith("stopped by --time-limit 0.3: 2,000 tokens used")
    assert spending.suggest(8).startswith("--time-limit ")


def test_no_episode_begins_that_would_end_too_late():
    clock = Clock()
    spending = Spending(seconds=100, clock=clock)
    assert spending.start() == 100
    for _ in range(3):
        assert spending.may_begin()
        with spending.episode():
            clock.now += 30
    assert not spending.may_begin()
    spending.stop(out_of_time=False)
    clock.now += 1000  # the report takes no part in it
    assert spending.tell().startswith("stopped by --time-limit 100:")
    assert spending.suggest(3) == "--time-limit 120"
    assert spending.suggest(30) == "--time-limit 1200"


# ------------------------------------------------------------ real requests


@pytest.mark.parametrize("stream", [False, True])
def test_both_drivers_run_under_overloads_and_nothing_is_lost(tmp_path, stream):
    tasks, faults = load_tasks(categories=["single"])[:6], 6
    busy = iter([{"fault": "rate_limit", "retry_after": "ms", "wait": 0.02}] * faults)

    async def go(endpoint, folder):
        client = OpenAIClient(
            "here",
            "m",
            base_url=endpoint.base_url,
            api_key="planted-key",
            stream=stream,
            patience=Patience(tries=faults + 1, seconds=20.0, first_wait=0.01),
            shape=shape_for(load_profiles()["openai"], "m"),
        )
        try:
            jobs = plan_jobs(tasks, DRIVERS, [client])
            return await run_all(jobs, folder, concurrency=8), client.gate
        finally:
            await client.close()

    folder = RunFolder.create(tmp_path, "t", {"format": 1})
    with StrictEndpoint("openai", lambda _body, _number: next(busy, None)) as endpoint:
        tally, gate = asyncio.run(go(endpoint, folder))
        asked = len(endpoint.requests)
    folder.close()
    episodes = list(folder.episodes())
    assert Counter(episode.driver for episode in episodes) == {"react": 6, "native": 6}
    assert (tally.missing, tally.left) == (0, 0)
    tries = [attempt for e in episodes for turn in e.turns for attempt in turn.reply.attempts]
    assert [attempt.kind for attempt in tries] == ["rate_limited"] * faults
    assert gate.requests == asked == sum(len(e.turns) for e in episodes) + faults
    assert gate.overloads == faults
    assert gate.lowest < 8


def counting(handler):
    """Play a model that answers at once and counts its tokens."""
    asked = handler.server.endpoint.requests[-1]
    text = "I can't say." if "tools" in asked else "Thought: so.\nFinal Answer: I can't say."
    prompt = round(count_tokens(json.dumps(asked, ensure_ascii=False)))
    handler.send(200, body_of(prompt, 10, text))


def busy(handler):
    handler.send(429, '{"error": {"message": "slow down"}}', retry_after_ms="1")


@pytest.fixture
def live(endpoint, capsys, tmp_path):
    """Run a comparison against the server; give status, output, complaints."""
    endpoint.answers = [counting]

    def go(*words, resume=False):
        here = ["--results", str(tmp_path / "r"), "--yes"]
        if not resume:
            here += ["--model", "m", "--base-url", endpoint.base_url, "--api-key", "k" * 9]
            here += ["--category", "no_tool", "--limit", "8"]
        status = main(["compare", *here, *words])
        out, err = capsys.readouterr()
        return status, out, err

    return go


def the_run(tmp_path):
    (path,) = list_runs(tmp_path / "r")
    return RunFolder(path)


def used_by(run):
    usages = [turn["reply"]["usage"] for line in run.lines() for turn in line["turns"]]
    return sum(usage["prompt"] + usage["completion"] for usage in usages)


def flags_of(err, run):
    """Return what is to be typed behind the run's folder to go on."""
    command = err.splitlines()[-1].split()
    assert command[:6] == ["python", "-m", "bench", "compare", "--resume", str(run.path)]
    return command[6:]


def test_a_budget_stops_a_run_and_raised_lets_it_go_on(live, endpoint, tmp_path):
    status, out, err = live("--budget-tokens", "6000")
    run = the_run(tmp_path)
    kept = len(list(run.lines()))
    assert status == INCOMPLETE
    assert 0 < kept < 16
    assert "success" in out
    assert "budget 6,000 tokens: enough for about " in err
    assert f"{16 - kept} episodes are left" in err
    assert "stopped by --budget-tokens 6000: " in err
    assert run.manifest["finished"] is None
    spent = sum(run.manifest["spent"].values())
    assert used_by(run) <= spent <= 6000

    asked = len(endpoint.requests)
    status, _, err = live("--resume", "latest", resume=True)
    assert (status, len(list(run.lines()))) == (INCOMPLETE, kept)
    assert len(endpoint.requests) <= asked + 1  # the first question
    assert f"{16 - kept} episodes are left" in err

    status, _, err = live("--resume", str(run.path), *flags_of(err, run), resume=True)
    assert status == OK
    assert len(list(run.lines())) == 16
    assert run.manifest["finished"]
    assert sum(run.manifest["spent"].values()) >= used_by(run) > spent
    assert run.manifest["choice"]["budget_tokens"] > 6000


def test_a_budget_counts_what_a_killed_run_has_used(live, tmp_path):
    live()
    run = the_run(tmp_path)
    file = run.path / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-4]))
    manifest = run.manifest
    del manifest["spent"]
    run.write_manifest({**manifest, "finished": None})
    kept = used_by(run)
    status, _, err = live("--resume", "latest", "--budget-tokens", str(kept), resume=True)
    assert (status, used_by(run)) == (INCOMPLETE, kept)
    assert f"budget {kept:,} tokens, {kept:,} tokens of it used: enough for about 0 of 4" in err


def test_a_budget_of_money_stops_a_run(live, tmp_path):
    status, _, err = live("--budget-money", "0.006", "--price", "1,2")
    assert status == INCOMPLETE
    run = the_run(tmp_path)
    spent = run.manifest["spent"]
    assert spent["prompt"] * 1e-6 + spent["completion"] * 2e-6 <= 0.006
    assert flags_of(err, run)[0] == "--budget-money"
    assert float(flags_of(err, run)[1]) > 0.006


def test_a_budget_too_small_for_a_question_keeps_nothing_and_says_so(live, tmp_path):
    status, out, err = live("--budget-tokens", "5")
    assert (status, out) == (INCOMPLETE, "")
    assert "16 episodes are left" in err
    run = the_run(tmp_path)
    assert list(run.lines()) == []
    assert "Traceback" not in err


def test_a_time_limit_stops_a_run(live, tmp_path):
    status, _, err = live("--time-limit", "0.000001")
    assert status == INCOMPLETE
    assert "stopped by --time-limit 1e-06: " in err
    run = the_run(tmp_path)
    assert run.manifest["finished"] is None
    assert flags_of(err, run)[0] == "--time-limit"


def test_overloads_are_told_and_kept(live, endpoint, tmp_path):
    endpoint.answers = [counting, busy, busy, busy, counting]
    status, _, err = live("--concurrency", "4")
    assert status == OK
    asked = the_run(tmp_path).manifest["asked"]["m"]
    assert asked["overloads"] == 3
    assert asked["requests"] == len(endpoint.requests)
    assert asked["lowest_in_flight"] in (1, 2)
    assert (
        f"m was asked too much 3 times (429, 503 or 529); requests in flight went down to {asked['lowest_in_flight']}"
        in err
    )


def test_a_pace_is_of_each_endpoint():
    here = "http://127.0.0.1:9/v1"
    choice = Choice(endpoint=(f"a={here},m", f"b={here},m"), rpm=30, tpm=600, limit=1)
    gates = [client.gate for client in make_plan(choice, Order(Path("nowhere"))).clients]
    assert gates[0] is not gates[1]
    assert gates[0]._spending is gates[1]._spending
    for gate in gates:
        assert [pace.seconds for pace in gate._paces] == [2.0, 0.1]


def test_a_file_of_options_holds_limits(live, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        *("rpm = 30", "tpm = 600", "budget-tokens = 6000", "budget-money = 100"),
        *('price = "0.15,0.6"', "time-limit = 600.5"),
    ]
    file = tmp_path / "bench.toml"
    file.write_text("\n".join(lines))
    options = Namespace()
    apply_config(options, ["compare"], file, {"compare": add_compare})
    found = choice_from(vars(options))
    assert (found.rpm, found.tpm, found.price) == (30, 600, (0.15, 0.6))
    assert (found.budget_tokens, found.budget_money, found.time_limit) == (6000, 100.0, 600.5)
    status, _, err = live("--dry-run", "--budget-money", "200")
    assert status == OK
    assert "budget 6,000 tokens: enough for about " in err
    assert "budget 200.00: enough for about 16 of 16 episodes" in err


MISTAKES = {
    "no requests": ("--rpm", "0"),
    "half a request": ("--rpm", "0.5"),
    "tokens that are none": ("--tpm", "many"),
    "a budget below nothing": ("--budget-tokens", "-5"),
    "a budget of nothing": ("--budget-money", "0"),
    "money without end": ("--budget-money", "inf"),
    "money that is no number": ("--budget-money", "nan"),
    "money without a price": ("--budget-money", "5"),
    "half a price": ("--price", "5"),
    "a price below nothing": ("--price=-1,2",),
    "a price of nothing": ("--price", "0,0"),
    "a price without end": ("--price", "inf,1"),
    "no time": ("--time-limit", "0"),
    "no time for a request": ("--timeout", "-1"),
    "a time that is no number": ("--timeout", "nan"),
    "none at once": ("--concurrency", "0"),
}


@pytest.mark.parametrize("words", MISTAKES.values(), ids=MISTAKES)
def test_a_bad_limit_is_one_line(live, endpoint, tmp_path, words):
    status, out, err = live(*words)
    assert (status, out, endpoint.requests) == (MISTAKE, "", [])
    assert len(err.splitlines()) == 1
    assert words[0].partition("=")[0] in err
    assert not (tmp_path / "r").exists()


def test_a_bad_limit_in_a_file_names_its_line(live, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.toml").write_text("\nbudget-tokens = -1\n")
    status, _, err = live()
    assert status == MISTAKE
    assert "bench.toml:2" in err


def test_limits_may_be_said_otherwise_when_a_run_goes_on():
    stored = to_manifest(
        choice_from({"rpm": 5, "budget_money": 1.0, "price": (1.0, 2.0), "timeout": 9.0}), ()
    )
    now = {"rpm": 7, "budget_money": 3.0, "concurrency": 2, "time_limit": None}
    choice = resumed(stored, now, "run")
    assert (choice.rpm, choice.budget_money, choice.concurrency) == (7, 3.0, 2)
    assert (choice.price, choice.timeout, choice.time_limit) == ((1.0, 2.0), 9.0, None)


def test_tokens_are_estimated_by_their_alphabet():
    assert count_tokens("a" * 8 + "天" * 3) == 4.0
    assert count_tokens("") == 0.0
    assert not math.isnan(count_tokens("\ud800"))


def test_an_answer_without_a_gate_of_its_own_is_not_held_up():
    gate = Gate()
    reply, failure = asyncio.run(gate.ask(make_request(), Limited([reply_with("hi")], gate).send))
    assert (reply.status, failure, gate.lowest) == (200, None, None)
