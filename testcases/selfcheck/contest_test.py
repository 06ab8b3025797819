"""The contest's arithmetic by hand, what it may look at, and that it goes on where it was stopped."""

from __future__ import annotations

import ast
import math

import pytest
import torch

from solutions.apps.contest import plan, record
from solutions.apps.contest.evaluation import MOST, shares_of_ranks
from solutions.apps.contest.methods import Settings
from solutions.apps.contest.plan import BY_PROXY, METHODS, TUNING_SEEDS, Job, choose, curves, tuning
from solutions.apps.contest.running import Results, run, run_all
from solutions.apps.contest.statistics import Difference, gold_at, mean_of, paired, picked, responses_to
from solutions.apps.contest.world import FEW, HOME, World
from testcases.engine.contract import SOLUTIONS

START = {"kl": 0.0, "gold": 0.9}
CURVE = [
    {"kl": 4.0, "gold": 1.5, "proxy": 1.6},
    {"kl": 1.0, "gold": 1.7, "proxy": 1.2},
    {"kl": 9.0, "gold": 0.2, "proxy": 2.0},
]


def test_an_interval_by_hand():
    """1, 2, 3: mean 2, standard deviation 1, so 2 -+ 4.303 / sqrt(3)."""
    found = mean_of([1.0, 2.0, 3.0])
    assert found.mean == 2.0 and found.high - 2.0 == pytest.approx(4.303 / math.sqrt(3))
    with pytest.raises(ValueError, match="at least two seeds"):
        mean_of([1.0])


@pytest.mark.parametrize(
    "low, high, verdict",
    [
        pytest.param(-0.04, 0.05, "equal", id="within"),
        pytest.param(0.01, 0.04, "equal", id="a-difference-that-is-too-small-to-matter"),
        pytest.param(-0.04, 0.06, "not decided", id="could-be-larger"),
        pytest.param(0.01, 0.3, "better", id="above-0"),
        pytest.param(-0.3, -0.01, "worse", id="below-0"),
        pytest.param(-0.3, 0.3, "not decided", id="noise"),
    ],
)
def test_one_word_for_an_interval(low, high, verdict):
    assert Difference((low + high) / 2, low, high).verdict == verdict


def test_the_proxy_picks_within_five_nats_and_gold_is_read_between_the_points():
    assert picked(CURVE)["kl"] == 4.0
    assert picked(CURVE[2:])["kl"] == 9.0, "all are too far: the nearest one"
    assert gold_at(CURVE, 1.0, START) == 1.7 and gold_at(CURVE, 2.5, START) == pytest.approx(1.6)
    assert gold_at(CURVE, 0.5, START) == pytest.approx(1.3) and gold_at(CURVE, 9.5, START) is None
    trace = [{"responses": 256.0, "gold": 1.2}, {"responses": 512.0, "gold": 1.8}]
    assert responses_to(trace, 1.7) == 512.0 and responses_to(trace, 1.9) is None
    assert paired([1.0, None, 3.0], [0.5, 1.0, 1.0]) == [0.5, 2.0]


@pytest.mark.parametrize("n", [1, 2, 7, MOST])
def test_shares_of_ranks(n):
    shares = shares_of_ranks(n)
    assert shares.sum().item() == pytest.approx(1.0) and (shares >= -1e-12).all()
    torch.testing.assert_close(shares[-1].item(), n / MOST)  # the best of all is among n of MOST
    torch.testing.assert_close(shares[: n - 1], torch.zeros(n - 1, dtype=shares.dtype))


def test_every_method_is_tuned_alike_on_seeds_that_are_not_used_again():
    jobs = list(tuning())
    assert {(name, seed): 8 for name in BY_PROXY for seed in TUNING_SEEDS} == {
        (name, seed): sum((job.method, job.seed) == (name, seed) for job in jobs)
        for name in BY_PROXY
        for seed in TUNING_SEEDS
    }
    chosen = dict.fromkeys(BY_PROXY, Settings(1e-3, 1, 0.1))
    runs = [*curves(chosen, 10, 5), *curves(chosen, 10, 5, FEW)]
    assert len({job.key for job in [*jobs, *runs]}) == len(jobs) + len(runs)
    assert not {job.seed for job in runs} & set(TUNING_SEEDS)
    assert all(len(set(method.coefficients)) == 5 for method in METHODS.values())


def test_settings_are_chosen_by_the_proxy_near_the_sft_model_and_not_by_gold():
    results = {job.key: {"end": {"proxy": 1.0, "kl": 1.0, "gold": 0.0}} for job in tuning()}
    first, second, third, *_ = METHODS["PPO"].candidates()
    for seed in TUNING_SEEDS:
        results[Job("PPO", first, seed).key]["end"] = {"proxy": 9.0, "kl": 6.0, "gold": 2.0}
        results[Job("PPO", second, seed).key]["end"] = {"proxy": 1.0, "kl": 1.0, "gold": 2.0}
        results[Job("PPO", third, seed).key]["end"] = {"proxy": 1.1, "kl": 4.9, "gold": 0.0}
    assert choose(results)["PPO"] == third


def test_what_is_finished_is_not_run_again(tmp_path):
    job = Job("PPO", Settings(1e-3, 1, 0.1), 0)
    Results(tmp_path).keep(job.key, {"end": {"gold": 1.0}})
    Results(tmp_path).keep("another", {"end": {}})
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('\n{"key": "half a li')  # stopped while it wrote
    results, told = Results(tmp_path), []
    run_all([job], results, told.append)
    assert told == [job.key] and results.found[job.key] == {"end": {"gold": 1.0}} and "another" in results.found
    results.keep("one more", {})
    assert "one more" in Results(tmp_path).found


def test_only_the_evaluation_looks_at_the_gold_reward():
    for path in (SOLUTIONS / "apps/contest").glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
        assert ("gold_score" in names) == (path.name == "evaluation.py"), path.name


def test_without_a_record_the_command_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "FILE", tmp_path / "none.json")
    with pytest.raises(ValueError, match="TUNE=1"):
        record.chosen_settings(Results(tmp_path), tune=False)


@pytest.mark.slow
@pytest.mark.xdist_group("capstone")
def test_a_run_gives_the_same_numbers_again_and_counts_what_it_costs():
    world = World(plan.FIRST_SEED, HOME)
    for name in ("rejection sampling", "RLOO, verifier"):
        job = Job(name, Settings(1e-3, 1, METHODS[name].middle), world.seed)
        one, other = run(job, world), run(job, world)
        assert one["end"] == other["end"] and one["trace"] == other["trace"]
        cost = one["cost"]
        assert 2048 * 5 < cost["sampled"] <= 2048 * 20 and 0 < cost["forward_backward"] < cost["forward"]
