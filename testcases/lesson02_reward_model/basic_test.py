"""Lesson 2 by hand: where a text ends, a backbone whose hidden states are whole numbers, losses of differences of log 3
(where sigmoid is 3/4), and two steps of AdamW."""

import math

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, gradients, named, scenario, value_and_gradients
from tutorial.lesson02_reward_model import (
    RewardModel,
    calibrate,
    last_token_index,
    pairwise_loss,
    preference_accuracy,
    ranking_loss,
    token_pairwise_loss,
    train_reward_model,
)


@named(
    "attention_mask, index",
    {
        "padded-on-the-right": ([[True, True, True, False, False]], [2]),
        "padded-on-the-left": ([[False, False, True, True, True]], [4]),
        "padded-on-both-sides": ([[False, True, True, False, False]], [2]),
        "no-padding": ([[True, True, True]], [2]),
        "one-token": ([[False, True, False, False]], [1]),
        "a-mask-of-0-and-1": ([[1, 1, 0, 0]], [1]),
        "each-row-for-itself": ([[True, False, False], [False, True, True], [True, True, False]], [0, 2, 1]),
    },
)
@pytest.mark.points(3)
def test_last_token_index_by_hand(attention_mask, index):
    assert_equal(last_token_index(attention_mask), index)


# The backbone reads token k as k, and 10 more for each place: e = 3, 11, 22 for the text [3, 1, 2].
# hidden[t] = e[t] + half of all real e before: 3, 11 + 1.5 = 12.5, 22 + 7 = 29. Score 2 * 29 + 1 = 59.
BACKBONE = {
    "table": [[50.0], [1.0], [2.0], [3.0]],
    "places": [[0.0], [10.0], [20.0], [30.0], [40.0]],
    "weight": [[2.0]],
    "bias": [1.0],
}
SCORE = scenario("score_rows", of=RewardModel.forward)


@named(
    "input_ids, attention_mask, scores",
    {
        "reads-the-last-token": ([[3, 1, 2]], [[True, True, True]], [59.0]),
        "padded-on-the-right": ([[3, 1, 2, 0, 0]], [[True, True, True, False, False]], [59.0]),
        "padded-on-the-left": ([[0, 0, 3, 1, 2]], [[False, False, True, True, True]], [59.0]),
        "padded-on-both-sides": ([[0, 3, 1, 2, 0]], [[False, True, True, True, False]], [59.0]),
        "one-row-of-one-token-is-still-a-row": ([[2]], [[True]], [5.0]),
        # Token 0 is padding and also ends a text: e = 3, 60; 60 + 1.5 = 61.5. The mask says what is real, not the id.
        "the-padding-id-may-be-a-real-token": ([[3, 0, 0, 0]], [[True, True, False, False]], [124.0]),
    },
)
@pytest.mark.points(5)
def test_reward_model_by_hand(input_ids, attention_mask, scores):
    assert_equal(SCORE(input_ids=input_ids, attention_mask=attention_mask, **BACKBONE), scores)


@pytest.mark.points(2)
def test_reward_model_gradient():
    # Rows [3, 1] and [2], score = 2 hidden + 1, hidden = e[1] + e[0] / 2 and e[0]. So by a table entry 2 for the last
    # token and 1 for the one before; by the weight the hidden states themselves, 11 + 1.5 = 12.5 and 2; by the bias 1.
    answer, grads = value_and_gradients(
        SCORE,
        input_ids=[[3, 1, 0], [0, 0, 2]],
        attention_mask=[[True, True, False], [False, False, True]],
        **BACKBONE,
        wrt=("table", "places", "weight", "bias"),
    )
    assert_equal(answer, [26.0, 5.0])
    assert_equal(
        grads,
        table=[[0.0], [2.0], [2.0], [1.0]],
        places=[[3.0], [2.0], [0.0], [0.0], [0.0]],
        weight=[[14.5]],
        bias=[2.0],
    )


LOG3 = math.log(3)
"""sigmoid(log 3) = 3/4 and sigmoid(-log 3) = 1/4: the losses are log 4/3 and log 4, the slopes -1/4 and -3/4."""
WON, LOST, EVEN = math.log(4 / 3), math.log(4), math.log(2)


@named(
    "chosen, rejected, margin, loss",
    {
        "a-tie-has-the-loss-log-2": ([2.0], [2.0], None, EVEN),
        "a-pair-won": ([LOG3], [0.0], None, WON),
        "a-pair-lost": ([0.0], [LOG3], None, LOST),
        "only-the-difference-counts": ([LOG3 - 5], [-5.0], None, WON),
        "the-mean-over-pairs": ([LOG3, 0.0, 4.0], [0.0, LOG3, 4.0], None, (WON + LOST + EVEN) / 3),
        "the-margin-is-subtracted": ([math.log(9)], [0.0], [LOG3], WON),  # 2 log 3 - log 3 = log 3 is left
        "each-pair-has-its-own-margin": ([math.log(9), LOG3], [0.0, 0.0], [LOG3, math.log(9)], (WON + LOST) / 2),
    },
)
@pytest.mark.points(6)
def test_pairwise_loss_by_hand(chosen, rejected, margin, loss):
    assert_equal(pairwise_loss(chosen, rejected, margin), loss)


@named(
    "chosen, rejected, margin",
    {"without": ([LOG3, 0.0], [0.0, LOG3], None), "with": ([math.log(9), 0.0], [0.0] * 2, [LOG3] * 2)},
)
@pytest.mark.points(4)
def test_pairwise_loss_gradient_without_and_with_a_margin(chosen, rejected, margin):
    # -(1 - sigmoid) / 2 by the chosen score, the opposite by the rejected one: the lost pair has the larger gradient.
    grads = gradients(pairwise_loss, chosen, rejected, margin, wrt=("chosen", "rejected"))
    assert_equal(grads, chosen=[-0.125, -0.375], rejected=[0.125, 0.375])


@named(
    "scores, loss",
    {
        "two-responses-are-one-pair": ([[LOG3, 0.0]], WON),
        "the-first-is-the-best": ([[0.0, LOG3]], LOST),
        # log 3, 2 log 3 and log 3 apart: sigmoid 3/4, 9/10, 3/4
        "three-responses-are-three-pairs": ([[2 * LOG3, LOG3, 0.0]], (2 * WON + math.log(10 / 9)) / 3),
        # six pairs: four with a gap of log 3, two ties
        "four-responses-are-six-pairs": ([[LOG3, LOG3, 0.0, 0.0]], (4 * WON + 2 * EVEN) / 6),
        "the-mean-over-prompts": ([[LOG3, 0.0], [0.0, LOG3], [5.0, 5.0]], (WON + LOST + EVEN) / 3),
        # Prompts differ by 100: pairs across prompts would show.
        "prompts-are-not-compared": (
            [[100 + LOG3, 100.0, 100.0], [0.0, 0.0, LOG3]],
            (2 * WON + EVEN) / 6 + (EVEN + 2 * LOST) / 6,
        ),
    },
)
@pytest.mark.points(5)
def test_ranking_loss_by_hand(scores, loss):
    assert_equal(ranking_loss(scores), loss)


@pytest.mark.points(2)
def test_ranking_loss_gradient():
    # Pairs (0, 1) and (0, 2) won by log 3: -1/4 each; the tie (1, 2): -1/2 on the better one. Over three pairs.
    grads = gradients(ranking_loss, [[LOG3, 0.0, 0.0]], wrt="scores")
    assert_equal(grads, scores=[[-0.5 / 3, (0.25 - 0.5) / 3, (0.25 + 0.5) / 3]])


# Tokens 5, 6, ... are words, 9 is the padding token. `ahead`: by how much the chosen text's score is ahead.
@named(
    "ahead, chosen_ids, rejected_ids, loss",
    {
        # The prefix [5, 6] is common. Positions 2 and 3 are compared: won by log 3 and lost by log 3.
        "from-the-first-token-that-differs": ([6.0, -1.0, LOG3, -LOG3], [5, 6, 7, 8], [5, 6, 8, 7], (WON + LOST) / 2),
        "they-differ-from-the-start": ([LOG3, -LOG3], [5, 6], [6, 6], (WON + LOST) / 2),
        # Once they differ they stay different texts, though the tokens at 2 and 3 are the same again.
        "equal-tokens-after-it-count": ([2.0, LOG3, -LOG3, 0.0], [5, 6, 7, 8], [5, 7, 7, 8], (WON + LOST + EVEN) / 3),
        # Lengths 3 and 3 of 5: the scores on padding do not count.
        "not-the-padding-after": ([2.0, LOG3, -LOG3, 50.0, -50.0], [5, 6, 7, 9, 9], [5, 7, 7, 9, 9], (WON + LOST) / 2),
        # Lengths 2 and 4: positions 1, 2, 3 are compared. At 2 and 3 the shorter one is scored on its padding.
        "to-the-end-of-the-rejected": (
            [2.0, LOG3, -LOG3, LOG3, 50.0],
            [5, 6, 9, 9, 9],
            [5, 7, 7, 8, 9],
            (2 * WON + LOST) / 3,
        ),
        "to-the-end-of-the-chosen": (
            [2.0, LOG3, -LOG3, LOG3, 50.0],
            [5, 6, 7, 8, 9],
            [5, 7, 9, 9, 9],
            (2 * WON + LOST) / 3,
        ),
        "one-is-empty": ([LOG3, 7.0, 50.0], [9, 9, 9], [5, 9, 9], WON),  # Position 0 alone: the chosen text is empty.
        # One text goes on where the other stops: they differ at 2, where the first has its padding token.
        "one-continues-the-other": ([2.0, 7.0, LOG3], [5, 6, 9], [5, 6, 7], WON),
    },
)
@pytest.mark.points(8)
def test_token_pairwise_loss_by_hand(ahead, chosen_ids, rejected_ids, loss):
    scores = [[4 + score for score in ahead]], [[4.0] * len(ahead)]
    assert_equal(token_pairwise_loss(*scores, [chosen_ids], [rejected_ids], 9), loss)


@pytest.mark.points(2)
def test_token_pairwise_loss_gradient():
    # Positions 1 and 2 of the first pair, 2 of the second; -1/4 where won, -3/4 where lost; each over 2 pairs.
    scores = [[4.0, LOG3, 0.0, 50.0], [4.0, 1.0, LOG3, 50.0]], [[2.0, 0.0, LOG3, 0.0], [2.0, 5.0, 0.0, 0.0]]
    # Here the padding token is 0, and 9 is a word.
    ids = [[5, 6, 7, 0], [5, 6, 9, 0]], [[5, 7, 7, 0], [5, 6, 8, 0]]
    grads = gradients(token_pairwise_loss, *scores, *ids, 0, wrt=("chosen_scores", "rejected_scores"))
    slopes = torch.tensor([[0.0, 0.0625, 0.1875, 0.0], [0.0, 0.0, 0.125, 0.0]], dtype=torch.float64)
    assert_equal(grads, chosen_scores=-slopes, rejected_scores=slopes)


@named(
    "chosen, rejected, accuracy",
    {
        "right": ([2.0], [1.0], 1.0),
        "wrong": ([1.0], [2.0], 0.0),
        "a-tie-is-not-right": ([1.0], [1.0], 0.0),
        "the-sign-of-a-score-means-nothing": ([-1.0, -3.0, -2.0], [-2.0, -4.0, -9.0], 1.0),
        "a-fraction-of-the-pairs": ([5.0, 1.0, 3.0, 2.0], [4.0, 3.0, 3.0, 0.0], 0.5),
        # One large loss does not outweigh three small wins.
        "by-how-much-does-not-matter": ([1.0, 2.0, 3.0, 0.0], [0.0, 1.0, 2.0, 100.0], 0.75),
    },
)
@pytest.mark.points(6)
def test_preference_accuracy_by_hand(chosen, rejected, accuracy):
    assert_equal(preference_accuracy(chosen, rejected), torch.tensor(accuracy))


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
        "two-responses-are-enough": ([[0.0], [math.sqrt(2)]], (1, 1), [[1.0]], [-math.sqrt(2) / 2]),
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
    assert all(type(entry[name]) is float for entry in answer["history"] for name in ("loss", "accuracy")), (
        "a list with one dict for each step, {'loss': float, 'accuracy': float}"
    )
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


def test_train_reward_model_reads_each_side_with_its_own_mask():
    # Chosen 3 and rejected 1 + 1; what stands on padding is 100. Before the step: weight 1, difference 1.
    answer = TRAIN(
        table=[[3.0], [1.0], [100.0]],
        weight=[[1.0]],
        chosen_ids=[[0, 2, 2]],
        chosen_mask=[[True, False, False]],
        rejected_ids=[[1, 1, 2]],
        rejected_mask=[[True, True, False]],
        learning_rate=0.1,
    )
    assert_equal(answer, losses=[math.log1p(math.exp(-1.0))], accuracies=[1.0])


def test_train_reward_model_mode():
    answer = TRAIN(**ONE_PAIR)
    assert answer["train_mode_while_training"] is True, "train mode during the steps"
    assert answer["train_mode_afterwards"] is False, "eval mode afterwards"


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
