"""Lesson 2, calibration and training by hand: scores of a few features, and two steps of AdamW."""

import math

import pytest

from testcases.harness.suite.asserts import assert_equal, named, scenario
from tutorial.lesson02_reward_model import calibrate, train_reward_model

EVEN, ROOT2 = math.log(2.0), math.sqrt(2.0)
CALIBRATE = scenario("calibrate_model", of=calibrate)


# score = 2 feature + 1
@named(
    "features, sizes, weight, bias",
    {
        # Scores 1, 3, 5: mean 3, squares 4 + 0 + 4 over n - 1 = 2 are 4, std 2. 2 / 2 = 1 and (1 - 3) / 2 = -1.
        "one-batch": ([[0.0], [1.0], [2.0]], (3,), [[1.0]], [-1.0]),
        # Scores 1, 1, 3, 5, 5: mean 3, squares 16 over 4 are 4. The means of the batches are 5/3 and 5, of which the
        # mean is 10/3.
        "all-rows-together": ([[0.0], [0.0], [1.0], [2.0], [2.0]], (3, 2), [[1.0]], [-1.0]),
        # Scores 1 and 1 + 2 sqrt(2): mean 1 + sqrt(2), squares 2 + 2 over 1, std 2
        "two-responses-are-enough": ([[0.0], [ROOT2]], (1, 1), [[1.0]], [-ROOT2 / 2]),
        # Scores 0.75, 1, 1.25: std 0.25: the head grows
        "a-small-standard-deviation-is-scaled-up": ([[-0.125], [0.0], [0.125]], (3,), [[8.0]], [0.0]),
        # Scores 1, 1 + 2^-19, 1 + 2^-18: two parts in a million apart, and std 2^-19
        "scores-that-are-close-together-differ": ([[0.0], [2.0**-20], [2.0**-19]], (3,), [[2.0**20]], [-1.0]),
    },
)
@pytest.mark.points(5)
def test_calibrate_by_hand(features, sizes, weight, bias):
    answer = CALIBRATE(features=features, sizes=sizes, weight=[[2.0]], bias=[1.0])
    assert_equal(answer, weight=weight, bias=bias)


def test_calibrate_scales_each_weight_of_the_head():
    # Scores 4 a - 2 b + 3 = 1, 3, 5: the offset goes to (3 - 3) / 2 = 0
    answer = CALIBRATE(features=[[0.0, 1.0], [1.0, 2.0], [1.0, 1.0]], sizes=(2, 1), weight=[[4.0, -2.0]], bias=[3.0])
    assert_equal(answer, weight=[[2.0, -1.0]], bias=[0.0])


def test_calibrate_changes_the_head_in_place_and_nothing_else():
    answer = CALIBRATE(features=[[0.0], [1.0], [2.0]], sizes=(3,), weight=[[2.0]], bias=[1.0])
    assert_equal(answer, scale=[1.0])
    assert answer["same_parameters"] is True, "the head's own parameters, changed in place: an optimizer may hold them"
    assert_equal(answer, trainable="backbone.scale, head.weight, head.bias")
    assert answer["training"] is False, "a model that is still in eval mode"


# score = feature * scale * weight, scale = 1 and weight = 0 at first. One comparison: 3 against 1, so the difference is
# d = 2 scale weight. Slopes: by the weight -2 scale (1 - sigmoid d), by the scale -2 weight (1 - sigmoid d).
ONE_PAIR = {
    "table": [[3.0], [1.0]],
    "weight": [[0.0]],
    "chosen_ids": [[0]],
    "chosen_mask": [[True]],
    "rejected_ids": [[1]],
    "rejected_mask": [[True]],
    "learning_rate": 0.1,
    "max_grad_norm": 10.0,
}
TRAIN = scenario("train_on", of=train_reward_model, seconds=20.0)
# AdamW's first step is learning_rate * slope / (|slope| + 1e-8), and the slope is -1.
FIRST = 0.1 / (1 + 1e-8)


@pytest.mark.points(3)
def test_train_reward_model_by_hand():
    # Two steps: a tie, so log 2 and not right; then weight 0.1 on a difference of 2.
    answer = TRAIN(**ONE_PAIR, epochs=2, batch_size=4)
    assert (
        isinstance(answer["history"], list)
        and len(answer["history"]) == 2
        and all(type(entry.get(name)) is float for entry in answer["history"] for name in ("loss", "accuracy"))
    ), "a list with one dict for each step, {'loss': float, 'accuracy': float}"
    second = math.log1p(math.exp(-2 * FIRST))  # -log sigmoid of the margin after one step
    assert_equal(answer, losses=[EVEN, second], accuracies=[0.0, 1.0], learning_rates=[0.1, 0.05])


@pytest.mark.points(5)
def test_train_reward_model_two_steps_by_hand():
    # The first slope is -1 by the weight and 0 by the scale. Then both: 2 (1 - sigmoid d) (1, weight).
    left = 2 * (1 - 1 / (1 + math.exp(-2 * FIRST)))

    def move(first: float, second: float) -> float:
        """The second step of AdamW: mean (0.09 g1 + 0.1 g2) / 0.19, square (0.000999 g1^2 + 0.001 g2^2) / 0.001999."""
        mean = (0.09 * first + 0.1 * second) / 0.19
        square = (0.000999 * first**2 + 0.001 * second**2) / 0.001999
        return -0.05 * mean / (math.sqrt(square) + 1e-8)

    answer = TRAIN(**ONE_PAIR, epochs=2, batch_size=4)
    assert_equal(answer, gradient_norms=[1.0, left * math.hypot(1.0, FIRST)])
    assert_equal(answer, weight=[[FIRST + move(-1.0, -left)]], scale=[1.0 + move(0.0, -left * FIRST)])


@named(
    "given, norm",
    {
        "scaled-down": ({"max_grad_norm": 0.25}, 0.25),
        "a-small-gradient-stays": ({"max_grad_norm": 4.0}, 1.0),
        # A tie: 6 * 4 - 8 * 3 = 0. Slopes -(3, 4) by the weight and -(12, -12) by the scale: together 17.7 long.
        "all-parameters-together": (
            {"table": [[6.0, 8.0], [0.0, 0.0]], "weight": [[4.0, -3.0]], "max_grad_norm": 1.0},
            1.0,
        ),
    },
)
@pytest.mark.points(3)
def test_train_reward_model_clips_the_gradient(given, norm):
    # In the first two rows the slope is 1 long. Torch divides by the norm + 1e-6, which the docstring doesn't ask for.
    assert_equal(TRAIN(**ONE_PAIR | given), gradient_norms=[norm], atol=1e-6)


def test_train_reward_model_reads_each_side_with_its_own_mask():
    # Chosen 3 and rejected 1 + 1; what stands on padding is 100. Before the step: weight 1, difference 1.
    answer = TRAIN(
        table=[[3.0], [1.0], [100.0]],
        weight=[[1.0]],
        chosen_ids=[[2, 2, 0]],
        chosen_mask=[[False, False, True]],
        rejected_ids=[[1, 1, 2]],
        rejected_mask=[[True, True, False]],
        learning_rate=0.1,
    )
    assert_equal(answer, losses=[math.log1p(math.exp(-1.0))], accuracies=[1.0])


def test_train_reward_model_mode():
    answer = TRAIN(**ONE_PAIR)
    assert answer["train_mode_while_training"] is True, "train mode during the steps"
    assert answer["train_mode_afterwards"] is False, "eval mode afterwards"


WATCH = scenario("watch_training", of=train_reward_model, seconds=20.0)


@named(
    "pairs, epochs, batch_size, sizes",
    {
        "the-last-batch-is-smaller": (5, 1, 2, [2, 2, 1]),
        "an-epoch-ends-with-its-own-last-batch": (5, 2, 2, [2, 2, 1, 2, 2, 1]),
        "fewer-than-a-batch": (3, 1, 64, [3]),
    },
)
@pytest.mark.points(3)
def test_train_reward_model_uses_each_pair_once_an_epoch(pairs, epochs, batch_size, sizes):
    answer = WATCH(pairs=pairs, epochs=epochs, batch_size=batch_size)
    assert_equal(answer, batch_sizes=sizes)
    assert answer["each_pair_once_an_epoch"] is True, "each comparison once in each epoch"
    assert answer["both_sides_of_a_pair_together"] is True, "chosen and rejected of one comparison in one batch"
    assert answer["entries_in_history"] == len(sizes), f"a history of {len(sizes)} entries, one per step"


def test_train_reward_model_decays_the_learning_rate_to_0():
    # Six steps in two epochs: 6/6, 5/6, ... 1/6 of it; after the last one it would be 0.
    answer = WATCH(pairs=5, epochs=2, batch_size=2, learning_rate=0.6)
    assert_equal(answer, learning_rates=[0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_train_reward_model_shuffles_each_epoch_anew():
    answer = WATCH(pairs=30, epochs=3, batch_size=8)
    assert answer["in_the_order_given"] is False, "a shuffled order"
    assert answer["same_order_in_two_epochs"] is False, "a new order in each epoch"


def test_train_reward_model_draws_the_order_from_its_seed():
    seeded = scenario("train_with_seeds", of=train_reward_model, seconds=20.0)
    answer = seeded(pairs=30, batch_size=8, seeds=(0, 4, 5, 9))
    assert answer["same_seed_same_order"] is True, "the same order from the same seed"
    assert answer["other_seed_other_order"] is True, "another order from another seed"
    untouched = "no draw from the global random generators, and no seeding of them"
    assert answer["global_random_untouched"] is True, untouched
