"""Lesson 9, in general: each exercise against the reference, against slow loops written here, and end to end."""

import math
from typing import Any

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_leaves_global_random_alone,
    examples_of,
    named,
    scenario,
)
from tutorial.lesson09_ppo_trainer import PPOTrainer

LOSS = scenario("loss_of", of=PPOTrainer.compute_loss)
STEP = scenario("real_step_of", of=PPOTrainer.optimizer_step)
UPDATES = scenario("real_updates_of", of=PPOTrainer.training_step)
RESUMED = scenario("resumed_of", of=PPOTrainer.load_checkpoint)

# torch adds 1e-6 to the norm by which it clips; clipping by hand is as good.
CLIPPED_BY_HAND = 1e-5


@pytest.mark.points(2)
def test_optimizer_step_agrees_with_the_reference():
    for answer in examples_of(PPOTrainer.optimizer_step):
        assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


@pytest.mark.points(2)
def test_training_step_agrees_with_the_reference():
    for answer in examples_of(PPOTrainer.training_step):
        assert_leaves_global_random_alone(answer)
        assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


def batch(rows: tuple[int, ...] = (0, 1, 2), padding: int = 0) -> dict[str, Any]:
    """These of three ragged rows; prompts of 1 to 3 tokens; `padding` more columns of it on both sides, with NaN."""
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
    responses = torch.tensor([[2, 3, 4, 1], [4, 1, 0, 0], [1, 0, 0, 0]])
    prompts = torch.tensor([[0, 0, 2], [3, 2, 4], [0, 4, 4]])
    data = {
        "log_probs": -normal(3, 4, seed=6).abs() - 0.5,
        "advantages": normal(3, 4, seed=7),
        "values": normal(3, 4, seed=8),
        "returns": normal(3, 4, seed=9),
    }
    pad = torch.nn.functional.pad
    prompts, responses, mask = pad(prompts, (padding, 0)), pad(responses, (0, padding)), pad(mask, (0, padding))
    data = {name: pad(tensor, (0, padding), value=math.nan) for name, tensor in data.items()}
    whole = {"prompts": prompts, "responses": responses, "mask": mask, **data}
    return {name: tensor[list(rows)] for name, tensor in whole.items()}


TABLES = {"actor": normal(5, 5, seed=10), "critic": normal(5, seed=11), "places": normal(12, 5, seed=12)}
NUMBERS = {"clip_epsilon": 0.3, "value_clip_epsilon": 0.4, "value_coef": 0.7, "entropy_coef": 0.3, "temperature": 0.8}


def slow_loss(rows: tuple[int, ...]) -> float:
    """The definition, token by token in plain Python."""
    data, policy, value, entropy, count = batch(), 0.0, 0.0, 0.0, 0
    for row in rows:
        text = [token for token in data["prompts"][row].tolist() if token != 0]
        for t in range(int(data["mask"][row].sum())):
            position, token = len(text) - 1, int(data["responses"][row, t])
            logits = (TABLES["actor"][text[-1]] + TABLES["places"][position]) / NUMBERS["temperature"]
            log_probs = (logits - logits.exp().sum().log()).tolist()
            old, advantage, old_value, target = (
                data[name][row, t].item() for name in ("log_probs", "advantages", "values", "returns")
            )
            ratio = math.exp(log_probs[token] - old)
            near = min(max(ratio, 1 - NUMBERS["clip_epsilon"]), 1 + NUMBERS["clip_epsilon"])
            policy -= min(ratio * advantage, near * advantage)
            guess = TABLES["critic"][text[-1]].item() + 0.01 * position
            low, high = old_value - NUMBERS["value_clip_epsilon"], old_value + NUMBERS["value_clip_epsilon"]
            value += 0.5 * max((guess - target) ** 2, (min(max(guess, low), high) - target) ** 2)
            entropy -= sum(math.exp(one) * one for one in log_probs)
            count += 1
            text.append(token)
    return (policy + NUMBERS["value_coef"] * value - NUMBERS["entropy_coef"] * entropy) / count


@named(
    "rows, padding",
    {
        "of-all-rows": ((0, 1, 2), 0),
        "whatever-the-padding-holds": ((0, 1, 2), 3),
        "of-a-long-row": ((0,), 0),
        "of-a-row-of-one-token": ((2,), 1),
    },
)
@pytest.mark.points(3)
def test_compute_loss_is_the_mean_over_tokens(rows, padding):
    answer = LOSS(**TABLES, **batch(rows, padding), **NUMBERS)
    assert_equal(answer["loss"], slow_loss(rows))
    assert_equals_reference(answer)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.points(2)
def test_optimizer_step_on_real_losses_does_not_depend_on_the_microbatches(size):
    tables = {name: TABLES[name] for name in ("actor", "critic")}
    options = {**NUMBERS, "learning_rate": 0.3, "adam_epsilon": 0.2, "max_grad_norm": 0.1}
    whole = STEP(**tables, **batch(), **options)
    answer = STEP(**tables, **batch(), **options, micro_batch_size=size)
    for name in whole:
        assert_equal(answer[name], whole[name], atol=1e-6)  # shares of tokens may be float32
    assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


WORLD = {
    "actor": normal(5, 5, seed=20),
    "critic": normal(5, seed=21),
    "reference": normal(5, 5, seed=22),
    "reward": normal(5, seed=23),
    "batch_size": 6,
    "num_minibatches": 2,
    "num_epochs": 2,
    "max_new_tokens": 5,
    "adam_epsilon": 0.1,
}


@named(
    "settings",
    {
        "stops-early": {"max_update_kl": 0.02},
        "skips-spikes": {"ratio_threshold": 1.001},
        "microbatches-and-clip": {"micro_batch_size": 1, "max_grad_norm": 0.05},
        "adaptive-kl-coef": {"kl_target": 0.2, "kl_horizon": 12, "whiten_advantages": False},
        "other-numbers": {"entropy_coef": 0.3, "gamma": 0.9, "lam": 0.6, "temperature": 0.7},
    },
)
@pytest.mark.points(2)
def test_training_step_of_a_whole_run(settings):
    prompts = ((2,), (3, 4), (4, 2, 2), (3,), (2, 2), (4, 4))
    run = {**WORLD, "places": normal(12, 5, seed=24), "prompts": prompts, "num_updates": 4, "learning_rate": 0.3}
    assert_equals_reference(UPDATES(**run, updates=3, **settings), atol=CLIPPED_BY_HAND)


def test_load_checkpoint_takes_no_half_written_file():
    with pytest.raises(FileNotFoundError, match=r"trainer\.pt"):
        scenario("loaded_of", of=PPOTrainer.load_checkpoint)(mark=1.0, content="unfinished")


@pytest.mark.points(2)
def test_load_checkpoint_makes_the_resumed_run_equal_the_undisturbed_one():
    settings = {**WORLD, "learning_rate": 0.2, "kl_target": 0.5, "kl_horizon": 30, "num_updates": 5}
    answer = RESUMED(prompts=((2,), (3,), (4,), (2, 2)), saved_after=(1, 3), **settings)
    assert_equals_reference(answer, atol=CLIPPED_BY_HAND)
    for name in ("actor", "critic", "momentum", "coefficient", "history", "next_draw_sampling", "prompts_waiting"):
        assert all(
            str(answer[f"{run}_{name}"]) == str(answer[f"undisturbed_{name}"])
            and bool(torch.as_tensor(answer[f"{run}_{name}"] == answer[f"undisturbed_{name}"]).all())
            for run in ("resumed_after_1", "resumed_after_3")
        ), "a resumed run with the very numbers of the undisturbed one, to the last bit"
