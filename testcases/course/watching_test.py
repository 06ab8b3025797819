"""The live checks on metrics that are made up, and on runs with a real fault; the log files of a run."""

import json
import math
import re
import signal
from dataclasses import replace

import pytest
import torch

from ppo_by_hand.core import checks
from ppo_by_hand.core.checks import METRICS_FILE, RunLog
from solutions.demo import folder
from solutions.lesson04_gae import compute_response_gae
from solutions.lesson07_actor_critic import make_reference
from solutions.lesson08_rollout.rollout import rollout_metrics
from solutions.lesson09_ppo_trainer import DivergedError, PPOTrainer
from testcases.course.trainers import PROMPTS, rolled_out, small_policy, small_trainer
from testcases.harness.catalog import ROOT
from testcases.harness.suite.asserts import named

HEALTHY = {
    "score": 0.4,
    "kl": 0.0,
    "kl_coef": 0.05,
    "response_length": 9.0,
    "stop_rate": 0.98,
    "explained_variance": 0.3,
    "policy_loss": -0.01,
    "value_loss": 0.2,
    "entropy": 1.4,
    "ratio_mean": 1.0,
    "ratio_max": 1.4,
    "approx_kl": 0.01,
    "clip_fraction": 0.1,
    "grad_norm": 0.7,
    "max_grad_norm": 1.0,
    "skipped_share": 0.0,
    "first_ratio_max": 1.0,
    "optimizer_steps": 8.0,
}
FAULTY = {
    "nan": ("finite", {"value_loss": math.nan}, "NaN or infinity in value_loss:"),
    "infinite": ("finite", {"grad_norm": math.inf}, "infinity in grad_norm:"),
    "another-sampler": ("sampler", {"sampler_kl": 0.02}, "the sampler is 0.020 nats per token from"),
    "all-skipped": ("step", {"skipped_share": 1.0}, "every minibatch was skipped"),
    "ratio-above-1": ("first_ratio", {"first_ratio_max": 1.31}, "the largest was 1.31"),
    "ratio-below-1": ("first_ratio", {"first_ratio_max": 0.9}, "the largest was 0.90"),
    "another-reference": ("first_kl", {"kl": 3.2}, "it was 3.20 nats"),
    "negative-kl": ("negative_kl", {"kl": -1.5}, "it was -1.50 nats"),
    "negative-entropy": ("negative_entropy", {"entropy": -2.0}, "it was -2.00 nats"),
    "frozen": ("moves", {"ratio_max": 1.0}, "stayed 1 in all steps"),
    "large-steps": ("clip", {"clip_fraction": 0.6}, "60% of the tokens were clipped"),
    "large-update": ("clip", {"approx_kl": 3.8}, "moved the policy by 3.80 nats"),
    "drowned": ("grad_norm", {"grad_norm": 141.0, "return_std": 108.0}, "deviation of 108, so"),
    "collapsed": ("entropy", {"entropy": 0.002}, "fell to 0.002 nats"),
    "far-from-the-reference": ("kl", {"kl": 27.0}, "3.0 nats per token"),
    "clipped-scores": ("scores", {"score_clip_fraction": 0.3}, "30% of the scores were clipped"),
    "cut-off": ("stop_rate", {"stop_rate": 0.2}, "80% of the responses were cut off"),
}


def names(*history):
    return [name for name, _ in checks.faults(history)]


@named("name, change, sentence", FAULTY)
def test_a_check_names_what_is_wrong_and_is_silent_where_nothing_is(name, change, sentence):
    assert names(HEALTHY) == names({}) == [], "a metric that was not measured is no fault"
    assert sentence in dict(checks.faults([HEALTHY | change]))[name]
    assert names(HEALTHY, HEALTHY | change)[:1] == ([name] if name != "first_kl" else [])


def test_the_critic_may_be_bad_at_first_but_not_for_long():
    bad = HEALTHY | {"explained_variance": -0.5}
    assert names(*[bad] * 9) == names(*[bad] * 9, HEALTHY, *[bad] * 9) == []
    (found,) = checks.faults([HEALTHY] + [bad] * 10)
    assert "for 10 updates (explained variance -0.50)" in found[1]


def said_of(capsys, history, *updates) -> list[str]:
    """What a log says of these updates, after those."""
    with RunLog(None, history) as log:
        for metrics in updates:
            log.write(0, metrics)
    return capsys.readouterr().err.splitlines()


def test_a_sentence_is_said_once_with_the_number_of_its_update(capsys):
    sick = HEALTHY | {"entropy": -1.0}
    said = said_of(capsys, [HEALTHY], HEALTHY, sick, sick)
    assert [line.split(": ")[:2] for line in said] == [["check", "update 3"]]


def test_a_resumed_run_does_not_say_again_what_was_said(capsys):
    assert said_of(capsys, [HEALTHY | {"entropy": -1.0}], HEALTHY | {"entropy": -1.0}) == []


def test_a_diverged_run_says_which_check_failed_first():
    with RunLog(None, [HEALTHY, HEALTHY | {"clip_fraction": 0.7}]) as log:
        log.write(3, HEALTHY)
        told = "at update 4: NaN or infinity in value_loss: .*failed: update 2: the steps"
        with pytest.raises(DivergedError, match=told):
            log.write(4, HEALTHY | {"value_loss": math.nan})


def test_the_page_names_the_exit_codes():
    page = (ROOT / "book/pages/practitioners.md").read_text("utf-8")
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert codes == {folder.FINE, folder.WRONG, 2, folder.STOPPED, folder.CTRL_C, 128 + signal.SIGTERM}


def test_the_log_writes_valid_json_and_ends_a_run_of_nan(tmp_path, capsys):
    with pytest.raises(DivergedError, match="at update 2: NaN or infinity in score"), RunLog(str(tmp_path)) as log:
        log.write(1, HEALTHY | {"stop_rate": 0.1})
        log.write(2, {"score": math.nan, "kl": 1.0})
    lines = (tmp_path / METRICS_FILE).read_text().splitlines()
    assert json.loads(lines[0]) == {"update": 1, **HEALTHY, "stop_rate": 0.1}
    assert lines[1] == '{"update": 2, "score": null, "kl": 1.0}'
    said = capsys.readouterr().err
    assert "check: update 1: 90% of the responses were cut off" in said and said.count("check: ") == 2
    assert [file.name for file in tmp_path.glob("events*")], "TensorBoard's file"


def trainer(**settings) -> PPOTrainer:
    """A run whose reward is the share of small token ids."""
    made = small_trainer(**{"num_updates": 3, "batch_size": 32, "max_new_tokens": 8, **settings})
    made.ref_model = make_reference(small_policy().double())
    made.score = lambda ids, visible, start, prompts: (ids[:, start:] < 6).double().mean(dim=1)
    return made


def first_sentence(run: PPOTrainer, capsys) -> str:
    try:
        run.train([[5, 6, 7], [8, 9], [10, 11, 5, 6]])
    except DivergedError:
        pass
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("check: ")]
    return said[0] if said else "nothing"


def test_a_healthy_run_raises_no_check(capsys):
    assert first_sentence(trainer(num_updates=6), capsys) == "nothing"


@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_a_critic_is_measured_against_what_came_and_not_against_its_own_next_values(lam):
    run = small_trainer(kl_coef=0.0, lam=lam)
    rollout = rolled_out(run, PROMPTS)
    perfect = rollout.rewards.sum(dim=1, keepdim=True).expand_as(rollout.values)
    found = []
    for values in (perfect, torch.zeros_like(perfect), perfect.roll(1, dims=0)):
        made = compute_response_gae(rollout.rewards, values, rollout.mask, lam=lam)
        told = replace(rollout, values=values, returns=made.returns, advantages=made.advantages)
        found.append(rollout_metrics(told, run.config)["explained_variance"])
    assert found[:2] == pytest.approx([1.0, 0.0], abs=1e-9) and found[2] < 0.0
