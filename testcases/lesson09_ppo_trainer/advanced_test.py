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

RESPONSES = scenario("responses_of", of=PPOTrainer.generate_responses)
REWARDS = scenario("rewards_of", of=PPOTrainer.compute_rewards)
LOSS = scenario("loss_of", of=PPOTrainer.compute_loss)
STEP = scenario("real_step_of", of=PPOTrainer.optimizer_step)
EPOCHS = scenario("epochs_of", of=PPOTrainer.training_step)
UPDATES = scenario("real_updates_of", of=PPOTrainer.training_step)
RUN = scenario("run_of", of=PPOTrainer.train)
SAVED = scenario("saved_of", of=PPOTrainer.save_checkpoint)
LOADED = scenario("loaded_of", of=PPOTrainer.load_checkpoint)
RESUMED = scenario("resumed_of", of=PPOTrainer.load_checkpoint)


# torch adds 1e-6 to the norm by which it clips; clipping by hand is as good.
CLIPPED_BY_HAND = 1e-5


def test_optimizer_step_agrees_with_the_reference():
    for answer in examples_of(PPOTrainer.optimizer_step):
        assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


def test_training_step_agrees_with_the_reference():
    for answer in examples_of(PPOTrainer.training_step):
        assert_leaves_global_random_alone(answer)
        assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


def batch(padding: int = 0) -> dict[str, Any]:
    """Three ragged rows; prompts of 1 to 3 tokens; `padding` more columns of it on both sides."""
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
    responses = torch.tensor([[2, 3, 4, 1], [4, 1, 0, 0], [1, 0, 0, 0]])
    prompts = torch.tensor([[0, 0, 2], [3, 2, 4], [0, 4, 4]])
    data = {
        "log_probs": -normal(3, 4, seed=6).abs() - 0.5,
        "advantages": normal(3, 4, seed=7),
        "values": normal(3, 4, seed=8),
        "returns": normal(3, 4, seed=9),
    }
    if padding:
        pad = torch.nn.functional.pad
        prompts, responses, mask = pad(prompts, (padding, 0)), pad(responses, (0, padding)), pad(mask, (0, padding))
        data = {name: pad(tensor, (0, padding), value=math.nan) for name, tensor in data.items()}
    return {"prompts": prompts, "responses": responses, "mask": mask, **data}


TABLES = {"actor": normal(5, 5, seed=10), "critic": normal(5, seed=11), "places": normal(12, 5, seed=12)}
NUMBERS = {"clip_epsilon": 0.3, "value_clip_epsilon": 0.4, "value_coef": 0.7, "entropy_coef": 0.3, "temperature": 0.8}


def slow_loss(rows: tuple[int, ...], data: dict[str, Any]) -> float:
    """The definition, token by token in plain Python."""
    policy = value = entropy = count = 0.0
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


def test_compute_loss_is_the_mean_over_tokens():
    answer = LOSS(**TABLES, **batch(), **NUMBERS)
    assert_equal(answer["loss"], slow_loss((0, 1, 2), batch()))


@pytest.mark.parametrize("row", [0, 1, 2])
def test_compute_loss_of_one_row_is_that_of_its_tokens(row):
    one = {name: tensor[row : row + 1] for name, tensor in batch().items()}
    answer = LOSS(**TABLES, **one, **NUMBERS)
    assert_equal(answer["loss"], slow_loss((row,), batch()))
    assert_equals_reference(answer)


@pytest.mark.parametrize("padding", [1, 3])
def test_compute_loss_does_not_depend_on_the_padding(padding):
    answer = LOSS(**TABLES, **batch(padding), **NUMBERS)
    assert_equal(answer["loss"], slow_loss((0, 1, 2), batch()))
    assert_equals_reference(answer)


def test_compute_loss_gradient_is_the_slope_of_the_loss():
    # A small move along one weight changes the loss by the gradient times the move.
    answer = LOSS(**TABLES, **batch(), **NUMBERS)
    for table, index in (("actor", (2, 3)), ("actor", (4, 1)), ("critic", (4,))):
        moved = {**TABLES, table: TABLES[table].clone()}
        moved[table][index] += 1e-6
        rise = (LOSS(**moved, **batch(), **NUMBERS)["loss"] - answer["loss"]).item() / 1e-6
        assert abs(answer[f"{table}_gradient"][index].item() - rise) < 1e-5, (
            f"{table}_gradient[{', '.join(map(str, index))}] of {rise:.6f}, measured by moving the weight"
        )
    assert_equals_reference(answer)


@pytest.mark.parametrize("size", [1, 2, 3, None])
@pytest.mark.parametrize("norm", [0.1, 1000.0])
@pytest.mark.points(2)
def test_optimizer_step_on_real_losses_does_not_depend_on_the_microbatches(size, norm):
    tables = {name: TABLES[name] for name in ("actor", "critic")}
    options = {**NUMBERS, "learning_rate": 0.3, "adam_epsilon": 0.2, "max_grad_norm": norm}
    whole = STEP(**tables, **batch(), **options)
    answer = STEP(**tables, **batch(), **options, micro_batch_size=size)
    for name in whole:
        assert_equal(answer[name], whole[name], atol=1e-6)  # shares of tokens may be float32
    assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


def test_optimizer_step_on_a_broken_loss_moves_nothing():
    broken = batch()
    broken["log_probs"] = broken["log_probs"].clone()
    broken["log_probs"][1, 0] = math.nan
    answer = STEP(actor=TABLES["actor"], critic=TABLES["critic"], **broken, **NUMBERS)
    assert_equal(answer, actor=TABLES["actor"], critic=TABLES["critic"], skipped_share=1.0, grad_norm=0.0)


@pytest.mark.parametrize("rows", [2, 5, 8])
@pytest.mark.parametrize("seed", [0, 3])
def test_training_step_of_any_number_of_rows(rows, seed):
    script = {"approx_kl": normal(9).abs(), "ratio_max": normal(9, seed=2), "policy_loss": normal(9, seed=3)}
    settings = {"num_epochs": 3, "num_minibatches": 2, "batch_size": rows, "seed": seed}
    assert_equals_reference(EPOCHS(rows=rows, **script, **settings))


WORLD = {
    "actor": normal(5, 5, seed=20),
    "critic": normal(5, seed=21),
    "reference": normal(5, 5, seed=22),
    "reward": normal(5, seed=23),
    "places": normal(12, 5, seed=24),
    "prompts": ((2,), (3, 4), (4, 2, 2), (3,), (2, 2), (4, 4)),
    "batch_size": 6,
    "num_minibatches": 2,
    "num_epochs": 2,
    "max_new_tokens": 5,
    "num_updates": 4,
    "adam_epsilon": 0.1,
}


@pytest.mark.parametrize("size", [None, 1, 4])
@pytest.mark.parametrize("seed", [0, 7])
def test_generate_responses_in_chunks_of_any_size(size, seed):
    given = {name: WORLD[name] for name in ("actor", "critic", "places", "prompts", "batch_size", "max_new_tokens")}
    answer = RESPONSES(**given, micro_rollout_batch_size=size, temperature=0.7, seed=seed, calls=2)
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


@pytest.mark.parametrize("size", [None, 2, 4])
@pytest.mark.parametrize("whiten", [False, True], ids=["raw", "whitened"])
@pytest.mark.parametrize("recompute", [False, True], ids=["as-sampled", "recomputed"])
def test_compute_rewards_in_chunks_of_any_size(size, whiten, recompute):
    mask = torch.arange(4) < torch.tensor([[4], [2], [1], [3], [4], [2]])
    responses = torch.tensor([2, 3, 4, 2]).expand(6, 4).masked_fill(~mask, 0)
    responses[1, 1] = responses[2, 0] = 1
    given = {**WORLD, "responses": responses, "mask": mask, "log_probs": -normal(6, 4).abs().masked_fill(~mask, 0.0)}
    del given["num_updates"], given["num_epochs"]
    settings = {"whiten_rewards": whiten, "recompute_log_probs": recompute}
    whole = REWARDS(**given, **settings, kl_coef=0.3)
    answer = REWARDS(**given, **settings, micro_rollout_batch_size=size, coefficient=0.3)
    assert_equal(answer["rewards"], whole["rewards"])
    assert_equal(answer["scores"], whole["scores"])
    assert_equals_reference(answer)


@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize("temperature", [0.6, 1.5])
def test_training_step_at_a_learning_rate_of_0_keeps_every_ratio_at_1(size, temperature):
    # Left-padded prompts of several lengths, absolute positions, a temperature, microbatches: whatever is recomputed
    # in another way than it was sampled shows here.
    answer = UPDATES(**WORLD, learning_rate=1e-200, temperature=temperature, micro_batch_size=size, updates=2)
    for name in ("first_ratio_max", "ratio_max", "ratio_mean"):
        assert_equal(answer[name], [1.0, 1.0], atol=1e-9)
    assert_equal(answer["approx_kl"], [0.0, 0.0], atol=1e-9)
    assert_equals_reference(answer)


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
def test_training_step_of_a_whole_run(settings):
    answer = UPDATES(**WORLD, learning_rate=0.3, updates=3, **settings)
    assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


@pytest.mark.parametrize("available, size", [(1, 2), (2, 5), (7, 3)])
def test_train_with_any_number_of_prompts(available, size):
    settings = {"batch_size": size, "num_minibatches": 1, "num_updates": 4, "seed": 2}
    assert_equals_reference(RUN(available=available, **settings))


def test_train_closes_tensorboard_in_any_case():
    settings = {"available": 3, "batch_size": 2, "num_minibatches": 1, "num_updates": 4, "log": True}
    for stop in (None, 2):
        answer = RUN(**settings, stop_after=stop)
        assert answer["tensorboard"][-1] == "closed", "a writer that is closed, or its end is lost"


def test_save_checkpoint_says_when_the_folder_cannot_be():
    with pytest.raises(FileExistsError):
        SAVED(marks=(1.0,), in_the_way=True)


@pytest.mark.parametrize("content", ["nothing", "unfinished"])
def test_load_checkpoint_takes_no_half_written_file(content):
    with pytest.raises(FileNotFoundError, match=r"trainer\.pt"):
        LOADED(mark=1.0, content=content)


def test_load_checkpoint_explains_another_shape():
    with pytest.raises(ValueError, match=r"\(5, 5\)"):
        LOADED(mark=1.0, content="5 wide")


def test_load_checkpoint_refuses_models_with_other_parts():
    with pytest.raises(ValueError):
        LOADED(mark=1.0, content="of a policy with places")


def test_load_checkpoint_makes_the_resumed_run_equal_the_undisturbed_one():
    tables = {name: WORLD[name] for name in ("actor", "critic", "reference", "reward")}
    settings = {name: value for name, value in WORLD.items() if name not in (*tables, "places", "prompts")}
    settings |= {"learning_rate": 0.2, "kl_target": 0.5, "kl_horizon": 30, "num_updates": 5}
    answer = RESUMED(tables=tables, prompts=((2,), (3,), (4,), (2, 2)), saved_after=(1, 3), **settings)
    assert_equals_reference(answer, atol=CLIPPED_BY_HAND)
    for name in ("actor", "critic", "momentum", "coefficient", "history", "next_draw_sampling", "prompts_waiting"):
        assert all(
            str(answer[f"{run}_{name}"]) == str(answer[f"undisturbed_{name}"])
            and bool(torch.as_tensor(answer[f"{run}_{name}"] == answer[f"undisturbed_{name}"]).all())
            for run in ("resumed_after_1", "resumed_after_3")
        ), "a resumed run with the very numbers of the undisturbed one, to the last bit"
