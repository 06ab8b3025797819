"""Lesson 2, by hand: differences of log 3, where sigmoid is 3/4, and a body whose hidden states are whole numbers."""

from __future__ import annotations

import math

import pytest
import torch

from testcases.engine import call, scenario, worth
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

NAN = math.nan
LOG3 = math.log(3.0)
"""sigmoid(log 3) = 3/4 and sigmoid(-log 3) = 1/4: the losses are log 4/3 and log 4, the slopes -1/4 and -3/4."""
WON, LOST, EVEN = math.log(4 / 3), math.log(4.0), math.log(2.0)


def nll(difference: float) -> float:
    """-log sigmoid(difference), in plain Python."""
    return math.log1p(math.exp(-difference))


@pytest.mark.parametrize(
    "attention_mask, index",
    [
        pytest.param([[True, True, True, False, False]], [2], id="padded-on-the-right"),
        pytest.param([[False, False, True, True, True]], [4], id="padded-on-the-left"),
        pytest.param([[False, True, True, False, False]], [2], id="padded-on-both-sides"),
        pytest.param([[True, True, True]], [2], id="no-padding"),
        pytest.param([[False, True, False, False]], [1], id="one-token"),
        pytest.param([[True, False, False]], [0], id="one-token-in-front"),
        pytest.param([[1, 1, 0, 0]], [1], id="a-mask-of-0-and-1"),
        pytest.param([[0, 1, 1]], [2], id="a-mask-of-0-and-1-padded-on-the-left"),
        pytest.param([[True]], [0], id="one-column"),
        pytest.param(
            [[True, False, False], [False, True, False], [False, True, True], [True, True, False]],
            [0, 1, 2, 1],
            id="each-row-has-its-own",
        ),
        # No text has a hole, but the last real token is the last one all the same.
        pytest.param([[True, False, True, False]], [2], id="a-hole-does-not-end-the-text"),
    ],
)
@worth(3)
def test_last_token_index_by_hand(attention_mask, index):
    call(last_token_index, attention_mask).equals(index)


# The body reads token k as k, and 10 more for each place: e = 3, 11, 22 for the text [3, 1, 2].
# hidden[t] = e[t] + half of all real e before: 3, 11 + 1.5 = 12.5, 22 + 7 = 29. Score 2 * 29 + 1 = 59.
BODY = {
    "table": [[50.0], [1.0], [2.0], [3.0]],
    "places": [[0.0], [10.0], [20.0], [30.0], [40.0]],
    "weight": [[2.0]],
    "bias": [1.0],
}
SCORE = scenario("score_rows", of=RewardModel.forward)


@pytest.mark.parametrize(
    "input_ids, attention_mask, scores",
    [
        pytest.param([[3, 1, 2]], [[True, True, True]], [59.0], id="reads-the-last-token"),
        pytest.param([[3, 1, 2, 0, 0]], [[True, True, True, False, False]], [59.0], id="padded-on-the-right"),
        pytest.param([[0, 0, 3, 1, 2]], [[False, False, True, True, True]], [59.0], id="padded-on-the-left"),
        pytest.param([[0, 3, 1, 2, 0]], [[False, True, True, True, False]], [59.0], id="padded-on-both-sides"),
        pytest.param([[0, 2, 0]], [[False, True, False]], [5.0], id="one-token"),
        pytest.param([[2]], [[True]], [5.0], id="one-row-of-one-token-is-still-a-row"),
        # Token 0 is padding and also ends a text: e = 3, 60; 60 + 1.5 = 61.5. The mask says what is real, not the id.
        pytest.param([[3, 0, 0, 0]], [[True, True, False, False]], [124.0], id="the-pad-id-may-be-a-real-token"),
        pytest.param([[0, 0, 3, 0]], [[False, False, True, True]], [124.0], id="the-pad-id-may-be-real-on-the-left"),
        # e of the text [1, 3] = 1, 13; 13 + 0.5 = 13.5
        pytest.param(
            [[3, 1, 2, 0], [0, 3, 1, 2], [1, 3, 0, 0], [0, 0, 0, 2]],
            [
                [True, True, True, False],
                [False, True, True, True],
                [True, True, False, False],
                [False, False, False, True],
            ],
            [59.0, 59.0, 28.0, 5.0],
            id="each-row-at-its-own-last-token",
        ),
    ],
)
@worth(4)
def test_reward_model_by_hand(input_ids, attention_mask, scores):
    call(SCORE, input_ids=input_ids, attention_mask=attention_mask, **BODY).equals(scores)


def test_reward_model_gradient():
    # Rows [3, 1] and [2], score = 2 hidden + 1, hidden = e[1] + e[0] / 2 and e[0]. So by a table entry 2 for the last
    # token and 1 for the one before; by the weight the hidden states themselves, 11 + 1.5 = 12.5 and 2; by the bias 1.
    answer = call(
        SCORE,
        input_ids=[[3, 1, 0], [0, 0, 2]],
        attention_mask=[[True, True, False], [False, False, True]],
        **BODY,
        grad_of=("table", "places", "weight", "bias"),
    )
    answer.equals([26.0, 5.0]).gradient_equals(
        table=[[0.0], [2.0], [2.0], [1.0]],
        places=[[3.0], [2.0], [0.0], [0.0], [0.0]],
        weight=[[14.5]],
        bias=[2.0],
    )


@pytest.mark.parametrize(
    "chosen, rejected, margin, loss",
    [
        pytest.param([2.0], [2.0], None, EVEN, id="a-tie-costs-log-2"),
        pytest.param([LOG3], [0.0], None, WON, id="a-pair-won"),
        pytest.param([0.0], [LOG3], None, LOST, id="a-pair-lost"),
        pytest.param([LOG3 - 5.0], [-5.0], None, WON, id="only-the-difference-counts"),
        pytest.param([math.log(7.0)], [0.0], None, math.log(8 / 7), id="a-clear-win-costs-little"),
        pytest.param([LOG3, 0.0], [0.0, LOG3], None, (WON + LOST) / 2, id="the-mean-over-pairs"),
        pytest.param([LOG3, 1.0, 4.0], [0.0, 1.0, 4.0], None, (WON + 2 * EVEN) / 3, id="three-pairs"),
        # 2 log 3 - log 3 = log 3 is left
        pytest.param([2 * LOG3], [0.0], [LOG3], WON, id="the-margin-is-taken-off"),
        pytest.param([0.0], [0.0], [LOG3], LOST, id="a-tie-is-not-enough-with-a-margin"),
        pytest.param(
            [2 * LOG3, LOG3], [0.0, 0.0], [LOG3, 2 * LOG3], (WON + LOST) / 2, id="each-pair-has-its-own-margin"
        ),
    ],
)
@worth(3)
def test_pairwise_loss_by_hand(chosen, rejected, margin, loss):
    call(pairwise_loss, chosen, rejected, margin).equals(loss)


def test_pairwise_loss_gradient():
    # -(1 - sigmoid) / 2 by the chosen score, the opposite by the rejected one: the pair that is lost pulls harder.
    answer = call(pairwise_loss, [LOG3, 0.0], [0.0, LOG3], grad_of=("chosen", "rejected"))
    answer.gradient_equals(chosen=[-0.125, -0.375], rejected=[0.125, 0.375])


def test_pairwise_loss_gradient_with_a_margin():
    answer = call(pairwise_loss, [2 * LOG3, 0.0], [0.0, 0.0], [LOG3, LOG3], grad_of=("chosen", "rejected"))
    answer.gradient_equals(chosen=[-0.125, -0.375], rejected=[0.125, 0.375])


@pytest.mark.parametrize(
    "chosen, loss, slope",
    [
        pytest.param([-200.0], 200.0, [-1.0], id="200-behind"),
        pytest.param([-1000.0], 1000.0, [-1.0], id="1000-behind"),
        pytest.param([1000.0], 0.0, [0.0], id="1000-ahead"),
    ],
)
def test_pairwise_loss_far_apart_is_finite(chosen, loss, slope):
    call(pairwise_loss, chosen, [0.0], grad_of="chosen").equals(loss).gradient_equals(chosen=slope)


@pytest.mark.parametrize("difference, loss", [(-200.0, 200.0), (200.0, 0.0)])
def test_pairwise_loss_far_apart_is_finite_in_float32(difference, loss):
    # In float32 sigmoid(-200) is 0, and its logarithm -infinity.
    call(pairwise_loss, torch.tensor([difference]), torch.tensor([0.0])).equals(torch.tensor(loss))


@pytest.mark.parametrize(
    "scores, loss",
    [
        pytest.param([[LOG3, 0.0]], WON, id="two-responses-are-one-pair"),
        pytest.param([[0.0, LOG3]], LOST, id="the-first-is-the-best"),
        # log 3, 2 log 3 and log 3 apart: sigmoid 3/4, 9/10, 3/4
        pytest.param([[2 * LOG3, LOG3, 0.0]], (2 * WON + math.log(10 / 9)) / 3, id="three-responses-are-three-pairs"),
        pytest.param([[0.0, LOG3, 2 * LOG3]], (2 * LOST + math.log(10.0)) / 3, id="the-wrong-way-round"),
        # pairs of the first with both others are won, the second loses to the third by log 3
        pytest.param([[2 * LOG3, 0.0, LOG3]], (math.log(10 / 9) + WON + LOST) / 3, id="one-pair-the-wrong-way-round"),
        pytest.param([[1.0, 1.0, 1.0, 1.0]], EVEN, id="four-ties"),
        # six pairs: four with a gap of log 3, two ties
        pytest.param([[LOG3, LOG3, 0.0, 0.0]], (4 * WON + 2 * EVEN) / 6, id="four-responses-are-six-pairs"),
        pytest.param([[LOG3, 0.0], [0.0, LOG3], [5.0, 5.0]], (WON + LOST + EVEN) / 3, id="the-mean-over-prompts"),
        # Prompts differ by 100: pairs across prompts would show.
        pytest.param(
            [[100 + LOG3, 100.0, 100.0], [0.0, 0.0, LOG3]],
            (2 * WON + EVEN) / 6 + (EVEN + 2 * LOST) / 6,
            id="prompts-are-not-compared",
        ),
    ],
)
@worth(2)
def test_ranking_loss_by_hand(scores, loss):
    call(ranking_loss, scores).equals(loss)


def test_ranking_loss_gradient():
    # Pairs (0, 1) and (0, 2) won by log 3: -1/4 each; the tie (1, 2): -1/2 on the better one. Over three pairs.
    answer = call(ranking_loss, [[LOG3, 0.0, 0.0]], grad_of="scores")
    answer.gradient_equals(scores=[[-0.5 / 3, (0.25 - 0.5) / 3, (0.25 + 0.5) / 3]])


def test_ranking_loss_far_apart_is_finite():
    # Pairs 1000, 2000 and 1000 the wrong way round.
    call(ranking_loss, [[-1000.0, 0.0, 1000.0]]).equals(4000 / 3)


# Tokens 5, 6, ... are words, 9 is the pad. The prefix [5, 6] is common.
@pytest.mark.parametrize(
    "chosen_scores, rejected_scores, chosen_ids, rejected_ids, loss",
    [
        # Positions 2 and 3 are compared: won by log 3 and lost by log 3.
        pytest.param(
            [[7.0, 3.0, LOG3, 0.0]],
            [[1.0, 4.0, 0.0, LOG3]],
            [[5, 6, 7, 8]],
            [[5, 6, 8, 7]],
            (WON + LOST) / 2,
            id="from-the-first-token-that-differs",
        ),
        pytest.param(
            [[LOG3, 0.0]], [[0.0, LOG3]], [[5, 6]], [[6, 6]], (WON + LOST) / 2, id="they-differ-from-the-start"
        ),
        pytest.param([[4.0, 1.0, LOG3]], [[2.0, 3.0, 0.0]], [[5, 6, 7]], [[5, 6, 8]], WON, id="they-differ-at-the-end"),
        # Once they differ they stay different texts, though the tokens at 2 and 3 are the same again.
        pytest.param(
            [[4.0, LOG3, 0.0, 0.0]],
            [[2.0, 0.0, LOG3, 0.0]],
            [[5, 6, 7, 8]],
            [[5, 7, 7, 8]],
            (WON + LOST + EVEN) / 3,
            id="equal-tokens-after-the-difference-count",
        ),
        # Lengths 3 and 3 of 5: the scores on padding do not count.
        pytest.param(
            [[4.0, LOG3, 0.0, 50.0, 0.0]],
            [[2.0, 0.0, LOG3, 0.0, 50.0]],
            [[5, 6, 7, 9, 9]],
            [[5, 7, 7, 9, 9]],
            (WON + LOST) / 2,
            id="padding-after-both-is-left-out",
        ),
        # Lengths 2 and 4: positions 1, 2, 3 are compared. At 2 and 3 the shorter one is scored on its padding.
        pytest.param(
            [[4.0, LOG3, 0.0, LOG3, 50.0]],
            [[2.0, 0.0, LOG3, 0.0, 0.0]],
            [[5, 6, 9, 9, 9]],
            [[5, 7, 7, 8, 9]],
            (2 * WON + LOST) / 3,
            id="up-to-the-end-of-the-longer-one",
        ),
        pytest.param(
            [[4.0, LOG3, 0.0, LOG3, 50.0]],
            [[2.0, 0.0, LOG3, 0.0, 0.0]],
            [[5, 6, 7, 8, 9]],
            [[5, 7, 9, 9, 9]],
            (2 * WON + LOST) / 3,
            id="the-longer-one-is-the-chosen-one",
        ),
        # One text goes on where the other stops: they differ at 2, where the first has its pad.
        pytest.param(
            [[4.0, 8.0, LOG3]], [[2.0, 1.0, 0.0]], [[5, 6, 9]], [[5, 6, 7]], WON, id="one-continues-the-other"
        ),
        # Each pair is averaged over its own positions (1 and 3), then over the pairs: a long pair weighs no more.
        pytest.param(
            [[4.0, 3.0, LOG3], [LOG3, 0.0, 0.0]],
            [[2.0, 1.0, 0.0], [0.0, LOG3, LOG3]],
            [[5, 6, 7], [5, 6, 7]],
            [[5, 6, 8], [6, 6, 7]],
            (WON + (WON + 2 * LOST) / 3) / 2,
            id="each-pair-counts-once",
        ),
        pytest.param(
            [[4.0, LOG3, 40.0, 40.0], [4.0, 3.0, 2.0, LOG3]],
            [[2.0, 0.0, 3.0, 3.0], [2.0, 1.0, 7.0, 0.0]],
            [[5, 6, 9, 9], [5, 6, 7, 7]],
            [[5, 7, 9, 9], [5, 6, 7, 8]],
            WON,
            id="each-pair-has-its-own-start-and-end",
        ),
    ],
)
@worth(3)
def test_token_pairwise_loss_by_hand(chosen_scores, rejected_scores, chosen_ids, rejected_ids, loss):
    call(token_pairwise_loss, chosen_scores, rejected_scores, chosen_ids, rejected_ids, 9).equals(loss)


def test_token_pairwise_loss_where_the_pad_is_0():
    # Positions 1 and 2 here; token 9 is a word.
    answer = call(
        token_pairwise_loss,
        [[4.0, LOG3, 0.0, 50.0]],
        [[2.0, 0.0, LOG3, 0.0]],
        [[5, 9, 7, 0]],
        [[5, 7, 9, 0]],
        pad_token_id=0,
    )
    answer.equals((WON + LOST) / 2)


def test_token_pairwise_loss_gradient():
    # Positions 1 and 2 of the first pair, 2 of the second; -1/4 where won, -3/4 where lost; each over 2 pairs.
    answer = call(
        token_pairwise_loss,
        [[4.0, LOG3, 0.0, 50.0], [4.0, 1.0, LOG3, 50.0]],
        [[2.0, 0.0, LOG3, 0.0], [2.0, 5.0, 0.0, 0.0]],
        [[5, 6, 7, 9], [5, 6, 7, 9]],
        [[5, 7, 7, 9], [5, 6, 8, 9]],
        9,
        grad_of=("chosen_scores", "rejected_scores"),
    )
    answer.gradient_equals(
        chosen_scores=[[0.0, -0.0625, -0.1875, 0.0], [0.0, 0.0, -0.125, 0.0]],
        rejected_scores=[[0.0, 0.0625, 0.1875, 0.0], [0.0, 0.0, 0.125, 0.0]],
    )


@pytest.mark.parametrize("garbage", [NAN, math.inf], ids=["nan", "infinite"])
def test_token_pairwise_loss_keeps_the_padding_out(garbage):
    answer = call(
        token_pairwise_loss,
        [[4.0, LOG3, garbage]],
        [[2.0, 0.0, garbage]],
        [[5, 6, 9]],
        [[5, 7, 9]],
        9,
        grad_of=("chosen_scores", "rejected_scores"),
    )
    answer.equals(WON).gradient_equals(chosen_scores=[[0.0, -0.25, 0.0]], rejected_scores=[[0.0, 0.25, 0.0]])


def test_token_pairwise_loss_far_apart_is_finite():
    call(token_pairwise_loss, [[-1000.0, 0.0]], [[0.0, 0.0]], [[5, 6]], [[6, 6]], 9).equals((1000 + EVEN) / 2)


@pytest.mark.parametrize(
    "chosen, rejected, accuracy",
    [
        pytest.param([2.0], [1.0], 1.0, id="right"),
        pytest.param([1.0], [2.0], 0.0, id="wrong"),
        pytest.param([1.0], [1.0], 0.0, id="a-tie-is-not-right"),
        pytest.param([-1.0, -3.0, -2.0], [-2.0, -4.0, -9.0], 1.0, id="the-sign-of-a-score-means-nothing"),
        pytest.param([5.0, 1.0, 3.0, 2.0], [4.0, 3.0, 3.0, 0.0], 0.5, id="a-share-of-the-pairs"),
        # One large loss does not outweigh three small wins.
        pytest.param([1.0, 2.0, 3.0, 0.0], [0.0, 1.0, 2.0, 100.0], 0.75, id="by-how-much-does-not-matter"),
        pytest.param([10.0, 1.0], [9.0, 0.0], 1.0, id="each-with-its-own-partner"),
        pytest.param([1.25, 0.0, -3.0], [1.0, -0.25, -3.25], 1.0, id="a-little-is-enough"),
    ],
)
@worth(3)
def test_preference_accuracy_by_hand(chosen, rejected, accuracy):
    call(preference_accuracy, chosen, rejected).equals(accuracy, dtype=torch.float32)


def test_preference_accuracy_is_data():
    call(preference_accuracy, [2.0, 1.0], [1.0, 3.0], grad_of=("chosen", "rejected")).equals(
        0.5, dtype=torch.float32
    ).has_no_gradient()


ROOT2 = math.sqrt(2.0)
CALIBRATE = scenario("calibrate_model", of=calibrate)


# score = 2 feature + 1
@pytest.mark.parametrize(
    "features, sizes, weight, bias",
    [
        # Scores 1, 3, 5: mean 3, squares 4 + 0 + 4 over n - 1 = 2 are 4, deviation 2. 2 / 2 = 1 and (1 - 3) / 2 = -1.
        pytest.param([[0.0], [1.0], [2.0]], (3,), [[1.0]], [-1.0], id="one-batch"),
        pytest.param([[0.0], [1.0], [2.0]], (1, 2), [[1.0]], [-1.0], id="batches-of-one-and-two"),
        pytest.param([[0.0], [1.0], [2.0]], (1, 1, 1), [[1.0]], [-1.0], id="batches-of-one"),
        # Scores 1, 1, 3, 5, 5: mean 3, squares 16 over 4 are 4. The means of the batches are 5/3 and 5, of which the
        # mean is 10/3.
        pytest.param([[0.0], [0.0], [1.0], [2.0], [2.0]], (3, 2), [[1.0]], [-1.0], id="all-rows-together"),
        pytest.param([[2.0], [0.0], [0.0], [1.0], [2.0]], (2, 3), [[1.0]], [-1.0], id="batches-that-differ"),
        # Scores 9, 17, 25: mean 17, deviation 8. 2 / 8 and (1 - 17) / 8
        pytest.param([[4.0], [8.0], [12.0]], (2, 1), [[0.25]], [-2.0], id="far-from-0"),
        # Scores 1 and 1 + 2 sqrt(2): mean 1 + sqrt(2), squares 2 + 2 over 1, deviation 2
        pytest.param([[0.0], [ROOT2]], (1, 1), [[1.0]], [-ROOT2 / 2], id="two-responses-are-enough"),
        # Scores 0.75, 1, 1.25: deviation 0.25: the head grows
        pytest.param([[-0.125], [0.0], [0.125]], (3,), [[8.0]], [0.0], id="a-small-spread-is-stretched"),
    ],
)
@worth(3)
def test_calibrate_by_hand(features, sizes, weight, bias):
    answer = call(CALIBRATE, features=features, sizes=sizes, weight=[[2.0]], bias=[1.0])
    answer.equals(weight=weight, bias=bias)


def test_calibrate_scales_each_weight_of_the_head():
    # Scores 4 a - 2 b + 3 = 1, 3, 5: the offset goes to (3 - 3) / 2 = 0
    answer = call(
        CALIBRATE, features=[[0.0, 1.0], [1.0, 2.0], [1.0, 1.0]], sizes=(2, 1), weight=[[4.0, -2.0]], bias=[3.0]
    )
    answer.equals(weight=[[2.0, -1.0]], bias=[0.0])


def test_calibrate_changes_the_head_in_place_and_nothing_else():
    answer = call(CALIBRATE, features=[[0.0], [1.0], [2.0]], sizes=(3,), weight=[[2.0]], bias=[1.0])
    answer.equals(scale=[1.0]).part("same_parameters").satisfies(
        lambda same: same is True, "the head's own parameters, changed in place: an optimiser may hold them"
    )
    answer.part("trainable").satisfies(lambda yes: yes is True, "parameters that still require a gradient")
    answer.part("training").satisfies(lambda on: on is False, "a model that was in eval mode to be in eval mode still")


TRAIN = scenario("train_on", of=train_reward_model)
# score = feature * scale * weight, scale = 1 and weight = 0 at first. One comparison: 3 against 1, so the difference is
# d = 2 scale weight. Slopes: by the weight -2 scale (1 - sigmoid d), by the scale -2 weight (1 - sigmoid d).
ONE_PAIR = {
    "table": [[3.0], [1.0]],
    "weight": [[0.0]],
    "chosen_ids": [[0]],
    "chosen_mask": [[True]],
    "rejected_ids": [[1]],
    "rejected_mask": [[True]],
}
# AdamW's first step is learning_rate * slope / (|slope| + 1e-8), and the slope is -1.
FIRST = 0.1 / (1 + 1e-8)


@worth(3)
def test_train_reward_model_by_hand():
    # Two steps: a tie, so log 2 and not right; then weight 0.1 on a difference of 2.
    answer = call(TRAIN, **ONE_PAIR, learning_rate=0.1, epochs=2, batch_size=4, max_grad_norm=10.0, seconds=20.0)
    answer.part("history").satisfies(
        lambda history: (
            isinstance(history, list)
            and [sorted(entry) for entry in history] == [["accuracy", "loss"]] * 2
            and all(type(number) is float for entry in history for number in entry.values())
        ),
        "a list with one dict for each step, {'loss': float, 'accuracy': float}",
    )
    answer.equals(losses=[EVEN, nll(2 * FIRST)], accuracies=[0.0, 1.0], learning_rates=[0.1, 0.05])


@worth(2)
def test_train_reward_model_gradient_of_each_step_by_hand():
    # The first slope is -1 by the weight and 0 by the scale. Then both: 2 (1 - sigmoid d) (1, weight).
    left = 2 * (1 - 1 / (1 + math.exp(-2 * FIRST)))
    answer = call(TRAIN, **ONE_PAIR, learning_rate=0.1, epochs=2, batch_size=4, max_grad_norm=10.0, seconds=20.0)
    answer.equals(gradient_norms=[1.0, left * math.hypot(1.0, FIRST)])


@worth(2)
def test_train_reward_model_second_step_by_hand():
    # AdamW after two slopes: mean (0.09 g1 + 0.1 g2) / 0.19, square (0.000999 g1^2 + 0.001 g2^2) / 0.001999.
    left = 2 * (1 - 1 / (1 + math.exp(-2 * FIRST)))

    def move(first: float, second: float) -> float:
        mean = (0.09 * first + 0.1 * second) / 0.19
        square = (0.000999 * first**2 + 0.001 * second**2) / 0.001999
        return -0.05 * mean / (math.sqrt(square) + 1e-8)

    answer = call(TRAIN, **ONE_PAIR, learning_rate=0.1, epochs=2, batch_size=4, max_grad_norm=10.0, seconds=20.0)
    answer.equals(weight=[[FIRST + move(-1.0, -left)]], scale=[1.0 + move(0.0, -left * FIRST)])


@pytest.mark.parametrize(
    "max_grad_norm, norm",
    [
        pytest.param(0.25, 0.25, id="scaled-down"),
        pytest.param(4.0, 1.0, id="a-small-gradient-stays"),
    ],
)
def test_train_reward_model_clips_the_gradient(max_grad_norm, norm):
    # The first slope is 1 long. Torch divides by the norm + 1e-6.
    answer = call(TRAIN, **ONE_PAIR, learning_rate=0.1, max_grad_norm=max_grad_norm, seconds=20.0)
    answer.equals(gradient_norms=[norm], atol=1e-6)


def test_train_reward_model_clips_all_parameters_together():
    # A tie: 6 * 4 - 8 * 3 = 0. Slopes -(3, 4) by the weight and -(12, -12) by the scale: 5 and 17 long, together 17.7.
    answer = call(
        TRAIN,
        **{**ONE_PAIR, "table": [[6.0, 8.0], [0.0, 0.0]], "weight": [[4.0, -3.0]]},
        learning_rate=0.1,
        max_grad_norm=1.0,
        seconds=20.0,
    )
    answer.equals(gradient_norms=[1.0], atol=1e-6)


def test_train_reward_model_decays_no_weight():
    # Both responses have 4 in the second feature: no comparison moves its weight of 8.
    answer = call(
        TRAIN,
        **{**ONE_PAIR, "table": [[3.0, 4.0], [1.0, 4.0]], "weight": [[0.0, 8.0]]},
        learning_rate=0.1,
        max_grad_norm=10.0,
        seconds=20.0,
    )
    answer.equals(weight=[[FIRST, 8.0]])


def test_train_reward_model_reads_each_side_with_its_own_mask():
    # Chosen 3 and rejected 1 + 1; what stands on padding is 100. Before the step: weight 1, difference 1.
    answer = call(
        TRAIN,
        table=[[3.0], [1.0], [100.0]],
        weight=[[1.0]],
        chosen_ids=[[2, 2, 0]],
        chosen_mask=[[False, False, True]],
        rejected_ids=[[1, 1, 2]],
        rejected_mask=[[True, True, False]],
        learning_rate=0.1,
        seconds=20.0,
    )
    answer.equals(losses=[nll(1.0)], accuracies=[1.0])


def test_train_reward_model_mode():
    answer = call(TRAIN, **ONE_PAIR, learning_rate=0.1, seconds=20.0)
    answer.part("train_mode_while_training").satisfies(lambda on: on is True, "train mode during the steps")
    answer.part("train_mode_afterwards").satisfies(lambda on: on is False, "eval mode afterwards")


WATCH = scenario("watch_training", of=train_reward_model)


@pytest.mark.parametrize(
    "pairs, epochs, batch_size, sizes",
    [
        pytest.param(5, 1, 2, [2, 2, 1], id="the-last-batch-is-smaller"),
        pytest.param(5, 2, 2, [2, 2, 1, 2, 2, 1], id="an-epoch-ends-with-its-own-last-batch"),
        pytest.param(4, 3, 4, [4, 4, 4], id="one-batch-an-epoch"),
        pytest.param(3, 1, 64, [3], id="fewer-than-a-batch"),
    ],
)
@worth(2)
def test_train_reward_model_uses_each_pair_once_an_epoch(pairs, epochs, batch_size, sizes):
    answer = call(WATCH, pairs=pairs, epochs=epochs, batch_size=batch_size, seconds=20.0).equals(batch_sizes=sizes)
    answer.part("each_pair_once_an_epoch").satisfies(lambda yes: yes is True, "each comparison once in each epoch")
    answer.part("both_sides_of_a_pair_together").satisfies(
        lambda yes: yes is True, "chosen and rejected of one comparison in one batch"
    )
    answer.part("entries_in_history").satisfies(
        lambda count: count == len(sizes), f"a history of {len(sizes)} entries, one a step"
    )


def test_train_reward_model_decays_the_learning_rate_to_0():
    # Six steps in two epochs: 6/6, 5/6, ... 1/6 of it; after the last one it would be 0.
    answer = call(WATCH, pairs=5, epochs=2, batch_size=2, learning_rate=0.6, seconds=20.0)
    answer.equals(learning_rates=[0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_train_reward_model_shuffles_each_epoch_anew():
    answer = call(WATCH, pairs=30, epochs=3, batch_size=8, seconds=20.0)
    answer.part("in_the_order_given").satisfies(lambda yes: yes is False, "a shuffled order")
    answer.part("same_order_in_two_epochs").satisfies(lambda yes: yes is False, "a new order in each epoch")


def test_train_reward_model_draws_the_order_from_its_seed():
    answer = call(
        scenario("train_with_seeds", of=train_reward_model), pairs=30, batch_size=8, seeds=(3, 4, 5, 9), seconds=20.0
    )
    answer.part("same_seed_same_order").satisfies(lambda yes: yes is True, "the same order from the same seed")
    answer.part("other_seed_other_order").satisfies(lambda yes: yes is True, "another order from another seed")
    answer.part("global_random_untouched").satisfies(
        lambda yes: yes is True, "no draw from the global random generators, and no seeding of them"
    )
