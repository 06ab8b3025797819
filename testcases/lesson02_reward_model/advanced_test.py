"""Lesson 2, in general: identities, each held against the reference or against a slow loop written here."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from testcases.engine import call, examples_of, reference, scenario, worth
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


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def nll(difference: float) -> float:
    """-log sigmoid(difference), in plain Python and without overflow."""
    return max(-difference, 0.0) + math.log1p(math.exp(-abs(difference)))


@worth(2)
def test_last_token_index_agrees_with_the_reference():
    for answer in examples_of(last_token_index):
        answer.matches_reference()


@worth(2)
def test_reward_model_agrees_with_the_reference():
    for answer in examples_of(RewardModel.forward):
        answer.matches_reference()


@worth(2)
def test_pairwise_loss_agrees_with_the_reference():
    for answer in examples_of(pairwise_loss):
        answer.matches_reference()


@worth(2)
def test_ranking_loss_agrees_with_the_reference():
    for answer in examples_of(ranking_loss):
        answer.matches_reference()


@worth(2)
def test_token_pairwise_loss_agrees_with_the_reference():
    for answer in examples_of(token_pairwise_loss):
        answer.matches_reference()


@worth(2)
def test_preference_accuracy_agrees_with_the_reference():
    for answer in examples_of(preference_accuracy):
        answer.matches_reference()


@worth(2)
def test_calibrate_agrees_with_the_reference():
    for answer in examples_of(calibrate):
        answer.matches_reference()


@worth(2)
def test_train_reward_model_agrees_with_the_reference():
    for answer in examples_of(train_reward_model):
        answer.matches_reference()


def test_last_token_index_of_every_text():
    # All places where a text of 1 to 7 tokens can stand in 7 columns.
    spans = [(start, end) for start in range(7) for end in range(start + 1, 8)]
    mask = torch.tensor([[start <= place < end for place in range(7)] for start, end in spans])
    call(last_token_index, mask).equals([end - 1 for _, end in spans])


@pytest.mark.parametrize(
    "attention_mask, mentions",
    [
        pytest.param([[True, True], [False, False]], ["real token"], id="a-row-of-padding"),
        pytest.param([[0, 0]], ["real token"], id="a-row-of-zeros"),
        pytest.param([True, False], ["attention_mask (2,)"], id="one-dimension"),
    ],
)
def test_last_token_index_refuses_bad_arguments(attention_mask, mentions):
    call(last_token_index, attention_mask).raises(ValueError, mentions)


SCORE = scenario("score_rows", of=RewardModel.forward)


def body(vocabulary: int = 6, length: int = 9, size: int = 3) -> dict[str, Tensor]:
    return {
        "table": normal(vocabulary, size),
        "places": normal(length, size, seed=2),
        "weight": normal(1, size, seed=3),
        "bias": normal(1, seed=4),
    }


@pytest.mark.parametrize("left, right", [(0, 3), (3, 0), (1, 2), (2, 4)])
def test_reward_model_does_not_depend_on_the_padding(left, right):
    text, numbers = torch.tensor([[3, 1, 5, 2], [4, 4, 1, 1]]), body()
    expected = reference(SCORE, input_ids=text, attention_mask=torch.ones_like(text).bool(), **numbers)
    ids = torch.cat([torch.full((2, left), 5), text, torch.full((2, right), 2)], dim=1)[:, :9]
    mask = torch.zeros_like(ids).bool()
    mask[:, left : left + 4] = True
    call(SCORE, input_ids=ids, attention_mask=mask, **numbers).equals(expected)


def test_reward_model_of_a_batch_is_each_row_alone():
    # A score that depends on the batch would change with its size (reward-bench#137).
    ids, numbers = torch.randint(1, 6, (5, 6), generator=torch.Generator().manual_seed(3)), body()
    mask = torch.tensor(
        [
            [True] * 6,
            [False] * 2 + [True] * 4,
            [True] * 3 + [False] * 3,
            [False] + [True] * 4 + [False],
            [False] * 5 + [True],
        ]
    )
    alone = [
        reference(
            SCORE, input_ids=ids[row, real][None], attention_mask=torch.ones(1, int(real.sum())).bool(), **numbers
        )
        for row, real in enumerate(mask)
    ]
    call(SCORE, input_ids=ids, attention_mask=mask, **numbers).equals(torch.cat(alone))


@pytest.mark.parametrize("garbage", [math.nan, math.inf], ids=["nan", "infinite"])
def test_reward_model_keeps_the_padding_out(garbage):
    # Token 0 stands on padding only, and the body gives it NaN: its state must not come near the score.
    numbers = body()
    clean = torch.tensor([[3, 1, 5, 1], [1, 2, 4, 1], [5, 1, 1, 1]])
    mask = torch.tensor([[True, True, True, False], [False, True, True, True], [False, True, True, False]])
    expected = reference(SCORE, input_ids=clean, attention_mask=mask, **numbers)
    numbers["table"][0] = garbage
    call(SCORE, input_ids=clean.masked_fill(~mask, 0), attention_mask=mask, **numbers).equals(expected)


def test_reward_model_of_a_square_batch_gradient():
    # B == L == H: code that mixes up two of them runs through, and is wrong.
    ids = torch.tensor([[3, 1, 2], [1, 2, 0], [0, 4, 5]])
    mask = torch.tensor([[True, True, True], [True, True, False], [False, True, True]])
    call(
        SCORE,
        input_ids=ids,
        attention_mask=mask,
        **body(),
        grad_of=("table", "places", "weight", "bias"),
        grad_weights=normal(3, seed=5),
    ).matches_reference()


def test_reward_model_keeps_float32():
    numbers = {name: number.float() for name, number in body().items()}
    ids, mask = torch.tensor([[3, 1, 2], [0, 2, 4]]), torch.tensor([[True, True, True], [False, True, True]])
    expected = reference(SCORE, input_ids=ids, attention_mask=mask, **numbers)
    call(SCORE, input_ids=ids, attention_mask=mask, **numbers).equals(expected, atol=1e-6)


@pytest.mark.parametrize(
    "changed, mentions",
    [
        pytest.param({"attention_mask": [[True, True]]}, ["attention_mask (1, 2)"], id="a-shorter-mask"),
        pytest.param({"attention_mask": [[True] * 3, [True] * 3]}, ["attention_mask (2, 3)"], id="another-batch"),
        pytest.param({"attention_mask": [[False] * 3]}, ["real token"], id="a-row-of-padding"),
    ],
)
def test_reward_model_refuses_bad_arguments(changed, mentions):
    good = {"input_ids": [[1, 2, 3]], "attention_mask": [[True, True, True]], **body()}
    call(SCORE, **{**good, **changed}).raises(ValueError, mentions)


def test_pairwise_loss_of_one_pair_at_a_time():
    chosen, rejected, margin = 3 * normal(6), 3 * normal(6, seed=2), normal(6, seed=3)
    losses = [nll(c - r - m) for c, r, m in zip(chosen.tolist(), rejected.tolist(), margin.tolist(), strict=True)]
    call(pairwise_loss, chosen, rejected, margin).equals(sum(losses) / 6)


def test_pairwise_loss_does_not_know_the_offset():
    chosen, rejected = normal(5), normal(5, seed=2)
    expected = reference(pairwise_loss, chosen, rejected)
    call(pairwise_loss, chosen + 64.0, rejected + 64.0).equals(expected, atol=1e-12)


def test_pairwise_loss_both_ways_round_differ_by_the_difference():
    # -log sigmoid(-x) = x - log sigmoid(x)
    chosen, rejected = normal(5), normal(5, seed=2)
    expected = reference(pairwise_loss, chosen, rejected) + (chosen - rejected).mean()
    call(pairwise_loss, rejected, chosen).equals(expected)


def test_pairwise_loss_with_a_margin_of_zeros_is_that_without():
    chosen, rejected = normal(5), normal(5, seed=2)
    call(pairwise_loss, chosen, rejected, torch.zeros(5).double()).equals(reference(pairwise_loss, chosen, rejected))


def test_pairwise_loss_keeps_float32():
    call(pairwise_loss, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0])).equals(
        torch.tensor(math.log(2.0)), atol=1e-6
    )


@pytest.mark.parametrize(
    "changed, mentions",
    [
        pytest.param({"rejected": [1.0]}, ["rejected (1,)"], id="rejected-would-broadcast"),
        pytest.param({"margin": [1.0]}, ["margin (1,)"], id="margin-would-broadcast"),
        pytest.param({"chosen": [[1.0], [2.0]]}, ["chosen (2, 1)"], id="a-column-would-compare-all-with-all"),
    ],
)
def test_pairwise_loss_refuses_bad_arguments(changed, mentions):
    good = {"chosen": [1.0, 2.0], "rejected": [0.0, 1.0], "margin": [0.5, 0.5]}
    call(pairwise_loss, **{**good, **changed}).raises(ValueError, mentions)


@pytest.mark.parametrize("rows, count", [(3, 4), (1, 7), (6, 3), (4, 4)])
def test_ranking_loss_of_each_pair_in_turn(rows, count):
    scores = 2 * normal(rows, count)
    losses = [nll(better - worse) for row in scores.tolist() for better, worse in itertools.combinations(row, 2)]
    call(ranking_loss, scores).equals(sum(losses) / len(losses))


def test_ranking_loss_of_two_is_the_pairwise_loss():
    scores = normal(6, 2)
    call(ranking_loss, scores).equals(reference(pairwise_loss, scores[:, 0], scores[:, 1]))


def test_ranking_loss_does_not_know_the_offset_of_a_prompt():
    scores = normal(3, 5)
    expected = reference(ranking_loss, scores)
    call(ranking_loss, scores + torch.tensor([[0.0], [64.0], [-32.0]])).equals(expected)


@pytest.mark.parametrize(
    "scores, mentions",
    [
        pytest.param([[1.0], [2.0]], ["K"], id="nothing-to-compare"),
        pytest.param([1.0, 2.0], ["scores (2,)"], id="one-dimension"),
    ],
)
def test_ranking_loss_refuses_bad_arguments(scores, mentions):
    call(ranking_loss, scores).raises(ValueError, mentions)


def slow_token_loss(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad: int) -> float:
    """The definition, pair by pair and position by position."""
    losses = []
    for cs, rs, c, r in zip(
        chosen_scores.tolist(), rejected_scores.tolist(), chosen_ids.tolist(), rejected_ids.tolist(), strict=True
    ):
        start = next(place for place in range(len(c)) if c[place] != r[place])
        end = max(ids.index(pad) if pad in ids else len(ids) for ids in (c, r))
        losses.append(sum(nll(cs[place] - rs[place]) for place in range(start, end)) / (end - start))
    return sum(losses) / len(losses)


# Prefix of 2, 0, 3 and 1 tokens; lengths 5 and 7, 4 and 2, 4 and 7, 6 and 6.
CHOSEN_IDS = [[1, 2, 3, 4, 5, 9, 9], [1, 2, 3, 4, 9, 9, 9], [5, 5, 5, 1, 9, 9, 9], [4, 1, 1, 1, 1, 1, 9]]
REJECTED_IDS = [[1, 2, 4, 4, 5, 6, 7], [2, 2, 9, 9, 9, 9, 9], [5, 5, 5, 2, 1, 1, 1], [4, 2, 1, 2, 1, 1, 9]]


def test_token_pairwise_loss_of_each_position_in_turn():
    scores = normal(4, 7), normal(4, 7, seed=2)
    ids = torch.tensor(CHOSEN_IDS), torch.tensor(REJECTED_IDS)
    call(token_pairwise_loss, *scores, *ids, 9).equals(slow_token_loss(*scores, *ids, 9))


@pytest.mark.parametrize("extra", [1, 4])
def test_token_pairwise_loss_does_not_depend_on_the_padding(extra):
    scores = normal(4, 7), normal(4, 7, seed=2)
    ids = torch.tensor(CHOSEN_IDS), torch.tensor(REJECTED_IDS)
    expected = slow_token_loss(*scores, *ids, 9)
    scores = [torch.cat([score, 5 * normal(4, extra, seed=3 + i)], dim=1) for i, score in enumerate(scores)]
    ids = [torch.cat([side, torch.full((4, extra), 9)], dim=1) for side in ids]
    call(token_pairwise_loss, *scores, *ids, 9).equals(expected)


def test_token_pairwise_loss_does_not_depend_on_the_prefix():
    scores = normal(4, 7), normal(4, 7, seed=2)
    ids = torch.tensor(CHOSEN_IDS), torch.tensor(REJECTED_IDS)
    expected = slow_token_loss(*scores, *ids, 9)
    prefix = torch.tensor([[8, 7]]).expand(4, -1)
    scores = [torch.cat([5 * normal(4, 2, seed=3 + i), score], dim=1) for i, score in enumerate(scores)]
    call(token_pairwise_loss, *scores, *(torch.cat([prefix, side], dim=1) for side in ids), 9).equals(expected)


def test_token_pairwise_loss_where_the_pad_is_the_stop_token():
    # Each text ends in 9, and 9 is the pad: the text is taken to end before it. Lengths 2 and 3: positions 1 and 2.
    scores = normal(1, 5), normal(1, 5, seed=2)
    first, second = (scores[0] - scores[1])[0, 1:3].tolist()
    answer = call(token_pairwise_loss, *scores, [[1, 2, 9, 9, 9]], [[1, 3, 4, 9, 9]], 9)
    answer.equals((nll(first) + nll(second)) / 2)


def test_token_pairwise_loss_keeps_float32():
    answer = call(token_pairwise_loss, torch.zeros(1, 2), torch.zeros(1, 2), [[1, 2]], [[1, 3]], 9)
    answer.equals(torch.tensor(math.log(2.0)), atol=1e-6)


@pytest.mark.parametrize(
    "changed, mentions",
    [
        pytest.param({"rejected_ids": [[1, 2, 9], [1, 2, 3]]}, ["identical pair"], id="an-identical-pair"),
        pytest.param({"chosen_ids": [[9, 1, 2], [1, 2, 4]]}, ["chosen_ids", "right-padded"], id="left-padded"),
        pytest.param({"rejected_ids": [[1, 3, 9], [1, 9, 3]]}, ["rejected_ids", "right-padded"], id="a-pad-inside"),
        pytest.param({"chosen_scores": [[1.0, 1.0], [1.0, 1.0]]}, ["chosen_scores (2, 2)"], id="scores-too-short"),
        pytest.param({"rejected_scores": [[1.0, 1.0, 1.0]]}, ["rejected_scores (1, 3)"], id="would-broadcast"),
    ],
)
def test_token_pairwise_loss_refuses_bad_arguments(changed, mentions):
    good = {
        "chosen_scores": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
        "rejected_scores": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        "chosen_ids": [[1, 2, 9], [1, 2, 4]],
        "rejected_ids": [[1, 3, 9], [1, 2, 3]],
        "pad_token_id": 9,
    }
    call(token_pairwise_loss, **{**good, **changed}).raises(ValueError, mentions)


def test_preference_accuracy_of_each_pair_in_turn():
    chosen, rejected = normal(32).round(decimals=1), normal(32, seed=2).round(decimals=1)
    right = sum(c > r for c, r in zip(chosen.tolist(), rejected.tolist(), strict=True))
    call(preference_accuracy, chosen, rejected).equals(right / 32, dtype=torch.float32)


def test_preference_accuracy_of_float32_scores():
    call(preference_accuracy, torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])).equals(torch.tensor(0.5))


@pytest.mark.parametrize(
    "chosen, mentions",
    [
        pytest.param([1.0], ["chosen (1,)"], id="would-broadcast"),
        pytest.param([[1.0], [2.0]], ["chosen (2, 1)"], id="a-column"),
    ],
)
def test_preference_accuracy_refuses_bad_arguments(chosen, mentions):
    call(preference_accuracy, chosen, [0.0, 1.0]).raises(ValueError, mentions)


CALIBRATE = scenario("calibrate_model", of=calibrate)


@pytest.mark.parametrize("sizes", [(9,), (1, 8), (4, 4, 1), (1,) * 9], ids=str)
def test_calibrate_gives_mean_0_and_deviation_1(sizes):
    features, weight, bias = normal(9, 3), normal(1, 3, seed=2), normal(1, seed=3)
    scores = (features @ weight[0] + bias).tolist()
    mean = sum(scores) / 9
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / 8)
    answer = call(CALIBRATE, features=features, sizes=sizes, weight=weight, bias=bias)
    answer.equals(weight=weight / deviation, bias=(bias - mean) / deviation)


def test_calibrate_twice_changes_nothing():
    # Scores -1, 0, 1 are calibrated already.
    answer = call(CALIBRATE, features=[[-1.0], [0.0], [1.0]], sizes=(2, 1), weight=[[1.0]], bias=[0.0])
    answer.equals(weight=[[1.0]], bias=[0.0])


def test_calibrate_keeps_float32():
    numbers = [torch.tensor(number) for number in ([[0.0], [1.0], [2.0]], [[2.0]], [1.0])]
    answer = call(CALIBRATE, features=numbers[0], sizes=(2, 1), weight=numbers[1], bias=numbers[2])
    answer.equals(weight=torch.tensor([[1.0]]), bias=torch.tensor([-1.0]))


@pytest.mark.parametrize(
    "features, sizes",
    [
        pytest.param([[1.0]], (1,), id="one-response"),
        pytest.param(torch.zeros(0, 1, dtype=torch.float64), (), id="no-batch"),
        pytest.param([[1.0], [1.0]], (2,), id="two-equal-scores"),
        # The mean of three times 0.1 is not quite 0.1, so their deviation is not quite 0: 1.7e-17.
        pytest.param([[0.1], [0.1], [0.1]], (2, 1), id="equal-scores-that-round"),
    ],
)
def test_calibrate_refuses_scores_that_do_not_differ(features, sizes):
    call(CALIBRATE, features=features, sizes=sizes, weight=[[1.0]], bias=[0.0]).raises(ValueError)


TRAIN = scenario("train_on", of=train_reward_model)


def replay(table: Tensor, weight: Tensor, ids: Tensor, mask: Tensor, batches: list[list[int]], **config: float):
    """The training written out: AdamW by hand on weight and scale, on these batches in turn."""
    rows, n = len(ids) // 2, len(batches)
    features = torch.where(mask.unsqueeze(-1), table[ids], 0.0).sum(dim=1)
    parameters = [weight.flatten().clone(), torch.ones_like(weight.flatten())]
    means, squares = ([torch.zeros_like(parameter) for parameter in parameters] for _ in range(2))
    losses, accuracies, norms = [], [], []
    for k, batch in enumerate(batches):
        better, worse = features[batch], features[[rows + pair for pair in batch]]
        differences = (better - worse) @ (parameters[0] * parameters[1])
        losses.append(sum(nll(x) for x in differences.tolist()) / len(batch))
        accuracies.append(sum(x > 0 for x in differences.tolist()) / len(batch))
        pull = -(torch.sigmoid(-differences) @ (better - worse)) / len(batch)
        slopes = [pull * parameters[1], pull * parameters[0]]
        norm = math.sqrt(sum(float(slope.square().sum()) for slope in slopes))
        norms.append(min(norm, config["max_grad_norm"]))
        rate = config["learning_rate"] * (1 - k / n)
        for i, slope in enumerate(slopes):
            slope = slope * min(1.0, config["max_grad_norm"] / (norm + 1e-6))
            means[i] = 0.9 * means[i] + 0.1 * slope
            squares[i] = 0.999 * squares[i] + 0.001 * slope.square()
            size = (squares[i] / (1 - 0.999 ** (k + 1))).sqrt() + 1e-8
            parameters[i] = parameters[i] - rate * means[i] / (1 - 0.9 ** (k + 1)) / size
    return parameters, losses, accuracies, norms


@pytest.mark.parametrize("batch_size, epochs, max_grad_norm", [(2, 2, 10.0), (3, 3, 0.4), (1, 1, 0.1)])
@worth(2)
def test_train_reward_model_is_adamw_on_its_batches(batch_size, epochs, max_grad_norm):
    table, weight = normal(20, 2), normal(1, 2, seed=2)
    ids = torch.arange(14)[:, None].repeat(1, 3)
    ids[:, 1:] = torch.randint(14, 20, (14, 2), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(3) < torch.tensor([1, 2, 3] * 5)[:14, None]
    config = {"learning_rate": 0.1, "max_grad_norm": max_grad_norm}
    answer = call(
        TRAIN,
        table=table,
        weight=weight,
        chosen_ids=ids[:7],
        chosen_mask=mask[:7],
        rejected_ids=ids[7:],
        rejected_mask=mask[7:],
        epochs=epochs,
        batch_size=batch_size,
        seed=4,
        seconds=20.0,
        **config,
    )
    batches = answer.part("batches").value
    answer.part("batches").satisfies(
        lambda found: sorted(pair for batch in found for pair in batch) == sorted([*range(7)] * epochs),
        "each of the 7 comparisons once in each epoch",
    )
    (weight, scale), losses, accuracies, norms = replay(table, weight, ids, mask, batches, **config)
    answer.equals(losses=losses, weight=weight[None], scale=scale, atol=1e-9)
    answer.equals(accuracies=accuracies, atol=1e-7)
    answer.equals(gradient_norms=norms, atol=1e-6)


@worth(2)
def test_train_reward_model_learns_from_the_last_token():
    # Your RewardModel on a small body, texts padded on either side: the one that ends in the larger token is better.
    answer = call(
        scenario("train_a_reader", of=train_reward_model),
        seed=0,
        pairs=64,
        learning_rate=0.2,
        epochs=6,
        batch_size=8,
        seconds=20.0,
    )
    answer.part("first_loss").satisfies(lambda loss: float(loss) > 0.4, "a loss above 0.4 nats in the first four steps")
    answer.part("last_loss").satisfies(lambda loss: float(loss) < 0.1, "a loss below 0.1 nats in the last four steps")
    answer.part("last_accuracy").satisfies(lambda share: float(share) > 0.97, "an accuracy above 0.97 at the end")


def test_train_reward_model_changes_the_model_it_is_given():
    answer = call(
        TRAIN,
        table=normal(4, 2),
        weight=[[0.5, -0.5]],
        chosen_ids=[[0], [1]],
        chosen_mask=[[True], [True]],
        rejected_ids=[[2], [3]],
        rejected_mask=[[True], [True]],
        learning_rate=0.1,
        seconds=20.0,
    )
    answer.part("same_parameters").satisfies(lambda same: same is True, "the model's own parameters, trained in place")
    answer.part("trainable_afterwards").satisfies(lambda yes: yes is True, "parameters that still require a gradient")


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_train_reward_model_draws_nothing_from_the_global_generator(seed):
    answer = call(
        scenario("watch_training", of=train_reward_model), pairs=6, epochs=2, batch_size=4, seed=seed, seconds=20.0
    )
    answer.leaves_global_random_alone()


def test_train_reward_model_needs_a_pair():
    call(scenario("train_without_pairs", of=train_reward_model)).raises(ValueError, mentions=["pairs"])


def test_pairwise_loss_shows_a_nan():
    call(pairwise_loss, [1.0, math.nan], [0.0, 0.0]).equals(math.nan, equal_nan=True)


def test_ranking_loss_shows_a_nan():
    call(ranking_loss, [[2.0, math.nan, 0.0], [2.0, 1.0, 0.0]]).equals(math.nan, equal_nan=True)


def test_token_pairwise_loss_shows_a_nan_of_a_compared_token():
    answer = call(token_pairwise_loss, [[1.0, math.nan]], [[1.0, 1.0]], [[5, 6]], [[5, 7]], 0)
    answer.equals(math.nan, equal_nan=True)
