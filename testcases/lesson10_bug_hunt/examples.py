"""Ordinary inputs: they tell the suspects, the wrong repairs and the right answers apart, on fresh numbers."""

import torch

from testcases.harness.doubles.drawing import generator, normal_from, uniform_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example
from tutorial.lesson10_bug_hunt import (
    bounded_error,
    credit_packed,
    diagnose,
    label_replies,
    merge_moments,
    pessimistic_gain,
    read_prompts,
    sampled_drift,
    sum_in_groups,
    train_bandit,
    train_chain,
    train_contexts,
    train_sliced,
)
from tutorial.lesson10_bug_hunt import test_compute_gae as of_gae
from tutorial.lesson10_bug_hunt import test_compute_ppo_loss as of_ppo_loss
from tutorial.lesson10_bug_hunt import test_compute_rewards as of_rewards
from tutorial.lesson10_bug_hunt import test_response_mask as of_mask

from .grading import behind, drawn, function_of
from .runs import FAULTS, clear_run

TRAINING = 10.0
"""Seconds: whoever trains is asked few questions."""
TESTS = of_gae, of_ppo_loss, of_rewards, of_mask


def examples(seed: int) -> list[Call]:
    """Blocks on ragged rows, signs of both kinds and values beyond every bound; trainers on a few updates."""
    draw = generator(seed)
    blocks = [*_packed(draw), *_losses(draw), *_scores(draw), *_rows(draw), *_tables(draw), *_sliced(draw)]
    blocks += [example(diagnose, log=clear_run(fault, seed + 7)) for fault in FAULTS]
    for exercise in TESTS:
        (chosen,) = drawn(function_of(exercise), f"{seed}.example", 1)
        blocks.append(behind(exercise, chosen))
    return blocks


def _packed(draw: torch.Generator) -> list[Call]:
    found = []
    for lengths in ([3, 1, 4], [1, 1, 2], [5], [2, 6]):
        discount, decay = 0.7 + 0.25 * float(uniform_from(draw)), 0.5 + 0.4 * float(uniform_from(draw))
        rewards, critic = normal_from(draw, sum(lengths)), 2 + normal_from(draw, sum(lengths))
        found.append(example(credit_packed, rewards, critic, lengths=tuple(lengths), discount=discount, decay=decay))
    return found


def _losses(draw: torch.Generator) -> list[Call]:
    found = []
    for size in (9, 16, 5):
        ratios, merits = (0.6 * normal_from(draw, size)).exp(), normal_from(draw, size)
        width = 0.1 + 0.2 * float(uniform_from(draw))
        found.append(example(pessimistic_gain, ratios, merits, width, grad_of=("ratios", "merits")))
        anchors = 2 + normal_from(draw, size)
        estimates, targets = anchors + normal_from(draw, size), anchors + normal_from(draw, size)
        room = 0.2 + 0.3 * float(uniform_from(draw))
        triple = (estimates, anchors, targets)
        found.append(example(bounded_error, *triple, room, grad_of=("estimates", "anchors", "targets")))
    return found


def _scores(draw: torch.Generator) -> list[Call]:
    found = []
    for shape, seen in (((4, 3), 1e-4), ((2, 5), 12.0), ((1, 6), 3.0), ((6, 2), 40.0)):
        mean, variance = float(normal_from(draw)), 0.5 + float(uniform_from(draw))
        scores = 3 + 2 * normal_from(draw, *shape)
        found.append(example(merge_moments, seen, mean, variance, scores))
    for (rows, steps, words), heat in (((2, 3, 5), 0.6), ((3, 2, 4), 1.5), ((1, 4, 4), 2.5)):
        policy, frozen = 2 * normal_from(draw, rows, steps, words), 2 * normal_from(draw, rows, steps, words)
        tokens = torch.randint(0, words, (rows, steps), generator=draw)
        both = ("policy_logits", "frozen_logits")
        found.append(example(sampled_drift, policy, frozen, tokens, heat, grad_of=both))
        found.append(example(sampled_drift, policy, policy, tokens, heat))
    return found


def _rows(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, steps in ((4, 5), (5, 5), (2, 7)):
        lengths = torch.randint(1, steps, (rows,), generator=draw)
        lengths[0] = steps
        visible = torch.arange(steps).flip(0) < lengths.unsqueeze(1)
        words, places = normal_from(draw, 6, 3), normal_from(draw, steps, 3)
        tokens = torch.randint(0, 6, (rows, steps), generator=draw)
        found.append(example(read_prompts, words, places, tokens, visible, grad_of=("words", "places")))
    for lengths, budget in (([5, 1, 3, 2, 4], 6), ([2, 4, 3, 1], 4), ([3, 1, 2], 100), ([4, 2, 6, 1, 1, 3], 9)):
        numbers = normal_from(draw, len(lengths), 6)
        real = torch.arange(6) < torch.tensor(lengths).unsqueeze(1)
        found.append(example(sum_in_groups, numbers.masked_fill(~real, torch.nan), lengths, budget, grad_of="numbers"))
        found.append(example(sum_in_groups, numbers, lengths, budget))
    end = 2
    pairs = [([5, 6], [7, 8, 2]), ([4, 2], [2]), ([6, 2, 3], [9, 9, 9, 9]), ([3, 3, 3, 3], [2, 5, 2])]
    for chosen in (pairs, pairs[2:], pairs[:2], pairs[::-1]):
        shift = int(torch.randint(0, 9, (1,), generator=draw)) + 10
        prompts, replies = (
            [[t if t == end else t + shift for t in row] for row in side] for side in zip(*chosen, strict=True)
        )
        found.append(example(label_replies, prompts=tuple(prompts), replies=tuple(replies), end=end))
    return found


def _tables(draw: torch.Generator) -> list[Call]:
    found = []
    for updates, walkers, length, actions in ((4, 6, 3, 2), (3, 5, 4, 3)):
        noise, payoff = uniform_from(draw, updates, walkers, length), 1 + normal_from(draw, length, actions)
        start, decay = normal_from(draw, length, actions), 0.4 + 0.5 * float(uniform_from(draw))
        found.append(example(train_chain, noise, payoff, start, 0.3, decay, seconds=TRAINING))
    for updates, size, answers in ((3, 8, 3), (2, 6, 4)):
        noise, payoff, start = uniform_from(draw, updates, size), normal_from(draw, answers), normal_from(draw, answers)
        found.append(example(train_bandit, noise, payoff, start, 0.8, 0.1, 4, curiosity=0.2, seconds=TRAINING))
        found.append(example(train_bandit, noise, payoff, start, 0.8, 0.1, 1, curiosity=0.0, seconds=TRAINING))
        # So curious that good answers become rarer than the clip allows: there the minimum takes what is not clipped.
        found.append(example(train_bandit, noise, payoff, start, 0.8, 0.1, 4, curiosity=5.0, seconds=TRAINING))
    for updates, size, questions, answers in ((3, 12, 2, 4), (2, 8, 3, 2)):
        noise = uniform_from(draw, updates, size, questions)
        payoff, start = normal_from(draw, questions, answers), normal_from(draw, questions, answers)
        found.append(example(train_contexts, noise, payoff, start, 8.0, 0.05, 6, seconds=TRAINING))
    return found


def _sliced(draw: torch.Generator) -> list[Call]:
    found = []
    for lengths, rows in (([5, 1, 2, 4], 2), ([1, 6, 3], 1), ([2, 5, 4, 1, 3], 3), ([4, 1], 5)):
        replies = torch.randint(0, 4, (len(lengths), 6), generator=draw)
        weights, start = normal_from(draw, len(lengths)), normal_from(draw, 4, 4)
        found.append(example(train_sliced, replies, lengths, weights, start, 0.5, 2, rows, seconds=TRAINING))
    return found
