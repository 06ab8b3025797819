"""What lesson 4 is asked, and wrong and right answers to it, as changes of the reference."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from, ragged_from
from testcases.harness.execution.messages import Request
from testcases.harness.oracle.mutations import Published, Right, Wrong, edit, first, instead
from testcases.harness.suite.asserts import scenario
from testcases.harness.suite.checks import request
from tutorial.lesson04_gae import compute_gae, compute_response_gae, gae_ends, n_step_advantages, td_errors

WRONG = "What people get wrong"


GRADIENTS = ("rewards", "values")


def examples(seed: int) -> list[Request]:
    """O(1) numbers in float64; done inside and at the end; ragged rows with a gap; B != T, B == T and no batch."""
    draw = generator(seed)
    found = []
    for shape in ((3, 7), (4, 4), (5,), (2, 2, 3)):
        rewards, values, dones = _episodes(draw, shape)
        gamma, lam = _fraction(draw), _fraction(draw)
        found += [
            request(td_errors, rewards, values, dones, gamma, grad_of=GRADIENTS),
            request(gae_ends, rewards, values, dones, gamma, grad_of=GRADIENTS, grad_through="lam_0"),
            request(gae_ends, rewards, values, dones, gamma, grad_of=GRADIENTS, grad_through="lam_1"),
            *(request(n_step_advantages, rewards, values, dones, n, gamma, grad_of=GRADIENTS) for n in (2, 3, 50)),
            request(compute_gae, rewards, values, dones, gamma, lam, grad_of=GRADIENTS, grad_through="advantages"),
            request(compute_gae, rewards, values, dones, gamma, lam, grad_of=GRADIENTS, grad_through="returns"),
        ]
    rewards, values, dones = _episodes(draw, (3, 6))
    found.append(request(scenario("ends_alone", of=gae_ends), rewards, values, dones, 0.7))
    for asked in (td_errors, gae_ends, n_step_advantages, compute_gae):
        extra = {"n": 2} if asked == n_step_advantages else {}
        found += [
            request(asked, rewards=rewards, values=values, dones=dones, grad_of=GRADIENTS, **extra),
            request(asked, rewards=rewards, values=values, dones=dones.double(), gamma=0.7, **extra),
            request(asked, rewards=rewards, values=values, dones=dones.long(), gamma=0.6, **extra),
        ]
    # What stands behind the end of the last episode is nobody's value.
    dones, nowhere = dones.index_fill(-1, torch.tensor(-1), True), values.index_fill(-1, torch.tensor(-1), math.nan)
    found.append(request(td_errors, rewards, nowhere, dones, 0.8, grad_of="rewards"))
    found.append(request(gae_ends, rewards, nowhere, dones, 0.8, grad_of="rewards", grad_through="lam_1"))
    found.append(request(compute_gae, rewards, nowhere, dones, 0.8, 0.7, grad_of="rewards", grad_through="returns"))
    for rows, steps, garbage in ((4, 7, True), (3, 3, False), (2, 5, True)):
        rewards, values, mask = _responses(draw, rows, steps, garbage)
        gamma, lam = _fraction(draw), _fraction(draw)
        for part in ("advantages", "returns"):
            options = {"grad_of": GRADIENTS, "grad_through": part}
            found.append(request(compute_response_gae, rewards, values, mask, gamma, lam, **options))
        found.append(request(compute_response_gae, rewards=rewards, values=values, mask=mask, grad_of=GRADIENTS))
    through = scenario("through_compute_gae", of=compute_response_gae)
    found.append(request(through, rewards, values, mask, gamma, lam))
    # What comes is what was expected: the advantage is 0.
    found.append(request(compute_response_gae, values[:, -1:], values[:, -1:], mask[:, -1:], 0.5, 0.5))
    # More steps than in any table, in one episode.
    rewards, values, dones = _episodes(draw, (2, 12))
    found.append(request(n_step_advantages, rewards, values, torch.zeros_like(dones), 10, 0.9, grad_of=GRADIENTS))
    # Plain ones: padding on the right, finite numbers in it.
    for rows, steps in ((4, 7), (3, 5)):
        rewards, values, mask = _responses(draw, rows, steps, garbage=False, gap=False)
        gamma, lam = _fraction(draw), _fraction(draw)
        options = {"grad_of": GRADIENTS, "grad_through": "returns"}
        found.append(request(compute_response_gae, rewards, values, mask, gamma, lam, **options))
        found.append(request(compute_response_gae, rewards=rewards, values=values, mask=mask, grad_of=GRADIENTS))
    return found


def _episodes(draw: torch.Generator, shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    rewards, values = normal_from(draw, *shape), normal_from(draw, *shape[:-1], shape[-1] + 1)
    dones = torch.rand(shape, generator=draw) < 0.1
    dones[..., 1] = True
    dones[..., -1] = False
    return rewards, values, dones


def _responses(
    draw: torch.Generator, rows: int, steps: int, garbage: bool, gap: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    rewards, values = normal_from(draw, rows, steps), normal_from(draw, rows, steps)
    mask = ragged_from(draw, rows, steps, shortest=2, gap=gap)
    if garbage:
        rewards, values = rewards.masked_fill(~mask, math.nan), values.masked_fill(~mask, math.nan)
    return rewards, values, mask


def _fraction(draw: torch.Generator) -> float:
    """Between 0.5 and 0.9: far from 0 and 1, where mistakes hide."""
    return 0.5 + 0.4 * float(torch.rand((), generator=draw))


class TdErrors(Wrong, of="td_errors"):
    dones_ignored = edit(".masked_fill(dones.bool(), 0.0)", "")
    """nothing is removed at a done: the value of the next episode flows into this one"""
    dones_one_step_late = first("dones = torch.cat([torch.zeros_like(dones[..., :1]), dones[..., :-1]], dim=-1)")
    """dones[t - 1] is used at step t; dones[t] says that the episode ends after step t itself"""
    dones_inverted = edit("dones.bool()", "~dones.bool()")
    """the flag is inverted: the next value is kept where the episode ends, and dropped elsewhere"""
    done_steps_zeroed = edit(
        "rewards + gamma * next_values - values[..., :-1]",
        "(rewards + gamma * next_values - values[..., :-1]).masked_fill(dones.bool(), 0.0)",
    )
    """a done sets the whole TD error to 0: only the next value is removed, the reward and values[t] stay"""
    gamma_forgotten = edit("gamma * ", "")
    """the next value is not discounted: gamma is never used"""
    gamma_fixed_at_099 = edit("gamma", "0.99")
    """gamma is fixed at its default; the argument is ignored"""
    reward_discounted_too = edit("rewards + gamma * next_values", "gamma * (rewards + next_values)")
    """gamma discounts the reward as well: rewards[t] comes now, only the next value comes later"""
    expected_minus_came = edit(
        "rewards + gamma * next_values - values[..., :-1]", "values[..., :-1] - rewards - gamma * next_values"
    )
    """the sign is inverted: it is reward plus next value minus values[t], not the reverse"""
    value_not_subtracted = edit(" - values[..., :-1]", "")
    """values[t] is not subtracted: this is a target, not a TD error"""
    next_value_subtracted = edit("- values[..., :-1]", "- values[..., 1:]")
    """values[..., 1:] is subtracted, the value of the next state: V(s_t) is values[..., :-1]"""
    reward_minus_value = edit(" + gamma * next_values", "")
    """the next value is left out: rewards[t] - values[t] contains nothing of the future"""
    value_and_next_value_swapped = edit(
        "values[..., 1:]", "values[..., :-1]", "- values[..., :-1]", "- values[..., 1:]"
    )
    """values are shifted by one: V(s_t) and V(s_t+1) have changed places"""
    last_bootstrap_dropped = first("dones = dones.bool().index_fill(-1, torch.tensor(-1), True)")
    """the last step gets no bootstrap: values[T] is there because the rollout, not the episode, ended"""
    done_multiplied = edit(".masked_fill(dones.bool(), 0.0)", " * (1 - dones.to(values.dtype))")
    """multiplied by (1 - dones): 0 * NaN and 0 * infinity are NaN, so select with masked_fill or where"""
    present_value_bootstraps = edit(
        "values[..., 1:].masked_fill(dones.bool(), 0.0)", "values[..., :-1] * (1 - dones.to(values.dtype))"
    )
    """V(s_t) bootstraps in place of V(s_t+1): the next value is values[t + 1]"""
    next_value_detached = edit("gamma * next_values", "gamma * next_values.detach()")
    """the next values are detached: this function cuts no gradient, the losses do"""
    signs_of_the_values_swapped = edit("+ gamma * next_values - values", "- gamma * next_values + values")
    """the signs of the two values have changed places: + gamma V(s_t+1) - V(s_t)"""
    both_values_discounted = edit("gamma * next_values - values[..., :-1]", "gamma * (next_values - values[..., :-1])")
    """V(s_t) is discounted, too: it stands at time t, only V(s_t+1) is a step away"""
    reward_cut_at_a_done = edit(
        ".masked_fill(dones.bool(), 0.0)",
        "",
        "rewards + gamma * next_values",
        "(rewards + gamma * next_values).masked_fill(dones.bool(), 0.0)",
    )
    """a done takes the reward as well: rewards[t] was earned before the episode ended"""
    next_values_rolled_round = edit("values[..., 1:]", "values[..., :-1].roll(-1, dims=-1)")
    """roll brings V(s_0) round to the end: the last step bootstraps from values[T]"""


class RightTdErrors(Right, of="td_errors"):
    by_a_loop = instead("""
        deltas = []
        for t in range(rewards.shape[-1]):
            next_value = torch.where(dones[..., t].bool(), 0.0, values[..., t + 1])
            deltas.append(rewards[..., t] + gamma * next_value - values[..., t])
        return torch.stack(deltas, dim=-1)
    """)
    """step by step, the next value chosen with where"""
    chosen_at_the_end = instead(
        "return torch.where(dones.bool(), rewards, rewards + gamma * values[..., 1:]) - values[..., :-1]"
    )
    """two targets, with the bootstrap and without, and where chooses between them"""
    zeros_written_into_a_copy = instead("""
        next_values = values[..., 1:].clone()
        next_values[dones != 0] = 0.0
        return rewards + gamma * next_values - values[..., :-1]
    """)
    """the values behind a done are overwritten, in a copy"""
    another_order = edit(
        "rewards + gamma * next_values - values[..., :-1]",
        "torch.add(rewards.sub(values[..., :-1]), next_values, alpha=gamma)",
    )
    """the same sum in another order, and with torch's names"""
    in_float64_rounded_once = instead("""
        before, after = values.double()[..., :-1], values.double()[..., 1:]
        return (rewards.double() + gamma * after.masked_fill(dones.bool(), 0.0) - before).to(rewards.dtype)
    """)
    """computed in float64 and rounded once, at the end"""


class PublishedTdErrors(Published, of="td_errors"):
    cleanrl = instead("return rewards + gamma * values[..., 1:] * (1.0 - dones.to(values.dtype)) - values[..., :-1]")
    """CleanRL, ppo.py: delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]"""


class GaeEnds(Wrong, of="gae_ends"):
    ends_exchanged = edit(
        "deltas, torch.stack(to_go[::-1], dim=-1) - values[..., :-1]",
        "torch.stack(to_go[::-1], dim=-1) - values[..., :-1], deltas",
    )
    """the two ends are exchanged: lam_0 believes the critic after one reward, lam_1 waits for all rewards"""
    expectation_not_subtracted = edit("dim=-1) - values[..., :-1]", "dim=-1)")
    """lam_1 is the sum of what followed: the critic's expectation before the step, values[t], is not subtracted"""
    nothing_behind_the_cut = edit("values[..., -1]", "torch.zeros_like(values[..., -1])")
    """lam_1 ends at the cut as if the episode did: what comes after the last step is worth values[T]"""
    sums_across_an_end = edit(".masked_fill(dones[..., t].bool(), 0.0)", "")
    """lam_1 sums across the end of an episode: nothing behind a done belongs to it"""
    value_behind_an_end_times_0 = edit(
        "following.masked_fill(dones[..., t].bool(), 0.0)", "following * (1 - dones[..., t].to(values.dtype))"
    )
    """the value behind an end is multiplied by 0, and NaN stays NaN: it is left out by masked_fill or where"""
    rewards_not_discounted = edit("gamma * following.masked", "following.masked")
    """lam_1 sums the rewards as they are: each step ahead costs one gamma"""
    ends_gamma_fixed_at_099 = first("gamma = 0.99")
    """gamma is fixed at its default; the argument is ignored"""
    summed_forwards = edit("reversed(range(rewards.shape[-1]))", "range(rewards.shape[-1])", "[::-1]", "")
    """lam_1 sums the rewards before the step: what follows it counts"""
    steps_in_reverse_order = edit("[::-1]", "")
    """the list was filled from the last step on and is never reversed"""
    bootstrapped_with_the_expectation = edit("values[..., -1]", "values[..., -2]")
    """lam_1 bootstraps with the value before the last step: behind it stands values[T]"""
    td_errors_twice = edit("torch.stack(to_go[::-1], dim=-1) - values[..., :-1]", "deltas")
    """lam_1 is the TD error once more: it takes every reward that follows, not one"""
    ends_without_gradient = first("rewards, values = rewards.detach(), values.detach()", read=WRONG)
    """the numbers are right but no gradient flows: nothing is detached here, the losses do that"""
    by_compute_gae = instead("""
        ends = [compute_gae(rewards, values, dones, gamma, lam).advantages for lam in (0.0, 1.0)]
        return GAEEnds(*ends)
    """)
    """it calls a function that comes later and lies between the two ends: write them without it"""


class RightGaeEnds(Right, of="gae_ends"):
    sum_of_td_errors = instead("""
        deltas = td_errors(rewards, values, dones, gamma)
        total, rows = torch.zeros_like(deltas[..., 0]), []
        for t in range(rewards.shape[-1] - 1, -1, -1):
            total = deltas[..., t] + gamma * torch.where(dones[..., t].bool(), 0.0, total)
            rows.insert(0, total)
        return GAEEnds(lam_0=deltas, lam_1=torch.stack(rows, dim=-1))
    """)
    """the expectations in the middle cancel: discounted TD errors"""
    step_by_step_forwards = instead("""
        waiting = []
        for start in range(rewards.shape[-1]):
            total, alive = -values[..., start], torch.ones_like(dones[..., 0], dtype=torch.bool)
            for t in range(start, rewards.shape[-1]):
                total = total + gamma ** (t - start) * torch.where(alive, rewards[..., t], 0.0)
                alive = alive & ~dones[..., t].bool()
            total = total + gamma ** (rewards.shape[-1] - start) * torch.where(alive, values[..., -1], 0.0)
            waiting.append(total)
        following = torch.where(dones.bool(), 0.0, values[..., 1:])
        return GAEEnds(rewards + gamma * following - values[..., :-1], torch.stack(waiting, -1))
    """)
    """each step sums what follows it, as the docstring says it"""
    matrix_of_weights = instead("""
        steps = rewards.shape[-1]
        apart = torch.arange(steps) - torch.arange(steps).unsqueeze(1)
        ends = dones.long().cumsum(dim=-1)
        before = torch.cat([torch.zeros_like(ends[..., :1]), ends[..., :-1]], dim=-1)
        same = (before.unsqueeze(-2) == before.unsqueeze(-1)) & (apart >= 0)
        weights = torch.where(same, gamma ** apart.clamp(min=0).to(rewards.dtype), 0.0)
        following = torch.where(ends[..., -1:] == before, values[..., -1:], 0.0)
        discounts = gamma ** (steps - torch.arange(steps)).to(rewards.dtype)
        waiting = (weights * rewards.unsqueeze(-2)).sum(dim=-1) + discounts * following
        return GAEEnds(td_errors(rewards, values, dones, gamma), waiting - values[..., :-1])
    """)
    """one weight for each pair of steps of an episode"""
    recursion_on_the_last_axis = instead("""
        def waiting(t):
            if t == rewards.shape[-1]:
                return [values[..., t]]
            later = waiting(t + 1)
            return [rewards[..., t] + gamma * later[0].masked_fill(dones[..., t] != 0, 0.0), *later]

        return GAEEnds(td_errors(rewards, values, dones, gamma), torch.stack(waiting(0)[:-1], -1) - values[..., :-1])
    """)
    """a function that calls itself for what follows"""


class NStepAdvantages(Wrong, of="n_step_advantages"):
    one_step_too_many = first("n = n + 1")
    """one step too many: n = 1 is one reward and then the critic"""
    one_step_too_few = first("n = n - 1")
    """one step too few: n = 1 is one reward and then the critic, not the critic alone"""
    always_to_the_end = first("n = rewards.shape[-1]")
    """n is ignored: the sum of rewards always goes to the end"""
    always_one_step = first("n = 1")
    """n is ignored: this is the TD error, one step"""
    six_steps_at_most = first("n = min(n, 6)")
    """more than six steps are never collected: n may be any number"""
    sum_crosses_the_done = edit(".masked_fill(dones.bool(), 0.0)", "")
    """rewards behind a done are collected: the sum must stop where the episode ends"""
    rolled_round = edit(
        "torch.cat([advantages[..., 1:], torch.zeros_like(advantages[..., :1])], dim=-1)",
        "advantages.roll(-1, dims=-1)",
    )
    """the first step comes in behind the last: after the last step nothing is added but the critic's value"""
    n_step_dones_ignored = first("dones = torch.zeros_like(dones)")
    """dones are ignored, for the bootstrap and for the sum"""
    later_terms_not_discounted = edit("gamma * ", "")
    """the terms further ahead are not discounted: gamma is missing from the recursion"""
    no_bootstrap_after_n = edit(
        "rewards, values,",
        "rewards, torch.zeros_like(values),",
        "return advantages",
        "return advantages - values[..., :-1]",
    )
    """no bootstrap after n steps: what comes later is worth values[t + n], not nothing"""
    n_step_return = edit("return advantages", "return advantages + values[..., :-1]")
    """values[t] is not subtracted: this is the n-step return, not the advantage"""
    no_bootstrap_at_the_end = first(
        "values = torch.cat([values[..., :-1], torch.zeros_like(values[..., -1:])], dim=-1)"
    )
    """at the end of the rollout values[T] is dropped, as if every episode ended there"""
    divided_by_n = edit("return advantages", "return advantages / n")
    """averaged over n: the n rewards are summed"""
    discounted_by_n_steps_at_the_end = edit(
        "return advantages",
        "steps = torch.arange(rewards.shape[-1], 0, -1).clamp(max=n).to(rewards.dtype)\n"
        "open_end = torch.stack([dones[..., t:].bool().any(-1).logical_not() for t in range(len(steps))], dim=-1)\n"
        "return advantages + torch.where((steps < n) & open_end, (gamma**n - gamma**steps) * values[..., -1:], 0)",
    )
    """the bootstrap at the end of the rollout gets gamma^n though fewer rewards came before it: gamma^(T - t)"""
    bootstrap_discounted_once_more = edit(
        "torch.zeros_like(deltas)",
        "(gamma - 1) * values[..., :-1]",
        "torch.zeros_like(advantages[..., :1])",
        "(gamma - 1) * values[..., -1:]",
    )
    """the bootstrap is discounted once too often: values[t + n] gets gamma^n"""


class RightNStepAdvantages(Right, of="n_step_advantages"):
    by_the_definition = instead("""
        advantages = []
        for t in range(rewards.shape[-1]):
            last = min(t + n, rewards.shape[-1])
            total, ended = -values[..., t], torch.zeros_like(dones[..., t], dtype=torch.bool)
            for k in range(t, last):
                total = total + gamma ** (k - t) * rewards[..., k].masked_fill(ended, 0.0)
                ended = ended | dones[..., k].bool()
            advantages.append(total + gamma ** (last - t) * values[..., last].masked_fill(ended, 0.0))
        return torch.stack(advantages, dim=-1)
    """)
    """the sum in the docstring: n rewards, then the critic"""
    returns_first = instead("""
        returns = values
        for _ in range(min(n, rewards.shape[-1])):
            later = returns[..., 1:].masked_fill(dones.bool(), 0.0)
            returns = torch.cat([rewards + gamma * later, values[..., -1:]], dim=-1)
        return returns[..., :-1] - values[..., :-1]
    """)
    """the n-step returns by their own recursion, and the values subtracted at the end"""
    by_recursion = instead("""
        deltas = td_errors(rewards, values, dones, gamma)
        if n == 1 or rewards.shape[-1] == 1:
            return deltas
        ahead = n_step_advantages(rewards, values, dones, min(n, rewards.shape[-1]) - 1, gamma)
        later = torch.nn.functional.pad(ahead[..., 1:], (0, 1)).masked_fill(dones.bool(), 0.0)
        return deltas + gamma * later
    """)
    """the function calls itself for n - 1 steps"""
    sum_of_td_errors = instead("""
        steps = rewards.shape[-1]
        shifted = td_errors(rewards, values, dones, gamma)
        ended = torch.zeros_like(dones, dtype=torch.bool)
        total, factor = shifted, 1.0
        for k in range(1, min(n, steps)):
            before = dones[..., k - 1 :].bool()
            ended = ended | torch.nn.functional.pad(before, (0, k - 1), value=True)
            shifted = torch.nn.functional.pad(shifted[..., 1:], (0, 1))
            factor *= gamma
            total = total + factor * shifted.masked_fill(ended, 0.0)
        return total
    """)
    """the TD errors ahead, each shifted into place and discounted, up to the end of the episode"""
    by_a_matrix_of_weights = instead("""
        deltas, steps = td_errors(rewards, values, dones, gamma), rewards.shape[-1]
        apart = torch.arange(steps) - torch.arange(steps).unsqueeze(1)
        episode = dones.long().cumsum(dim=-1) - dones.long()
        seen = (apart >= 0) & (apart < n) & (episode.unsqueeze(-1) == episode.unsqueeze(-2))
        weights = torch.where(seen, gamma ** apart.clamp(min=0).to(deltas.dtype), 0.0)
        return torch.einsum("...tk,...k->...t", weights, deltas)
    """)
    """one product with a matrix that holds gamma^(k - t) inside the episode and the n steps"""


class ComputeGae(Wrong, of="compute_gae"):
    next_advantage_without_gamma = edit("gamma * lam", "lam")
    """the next advantage is weighted by lam alone: it needs gamma * lam"""
    next_advantage_without_lam = edit("gamma * lam", "gamma")
    """lam is ignored: the next advantage is weighted by gamma alone, which is lam = 1"""
    nothing_carried = first("lam = 0.0")
    """the next advantage is left out: this is the TD error, which is lam = 0"""
    gamma_and_lam_swapped = first("gamma, lam = lam, gamma")
    """gamma and lam have changed places"""
    returns_of_the_next_state_bootstrapped = edit(
        "return AdvantagesAndReturns(stacked, stacked + values[..., :-1])",
        "returns = stacked + values[..., :-1]\n"
        "following = torch.cat([returns[..., 1:], values[..., -1:]], dim=-1).masked_fill(dones.bool(), 0.0)\n"
        "return AdvantagesAndReturns(rewards + gamma * following - values[..., :-1], returns)",
        read=WRONG,
    )
    """the advantages are reward + gamma * return of the next state - value, as in brax: one lam is missing"""
    one_minus_lam_kept = edit("torch.stack(", "(1 - lam) * torch.stack(", read="From n-step advantages to GAE")
    """the factor (1 - lam) belongs to the n-step advantages; it has cancelled in the sum over TD errors"""
    gae_dones_ignored = first("dones = torch.zeros_like(dones)")
    """dones are ignored: value and advantage of the next episode flow into this one"""
    done_removes_next_value_only = edit(".masked_fill(dones[..., t].bool(), 0.0)", "")
    """a done removes the next value but not the next advantage: it must remove both"""
    done_removes_next_advantage_only = edit("values, dones,", "values, torch.zeros_like(dones),")
    """a done removes the next advantage but not the next value: it must remove both"""
    dones_one_step_early = first("dones = torch.cat([dones[..., 1:], torch.zeros_like(dones[..., :1])], dim=-1)")
    """dones[t + 1] is used at step t; dones[t] itself says that the episode ends after step t"""
    next_advantage_removed_one_step_early = edit(
        "advantages = []",
        "advantages, dones = [], torch.cat([dones[..., 1:], torch.zeros_like(dones[..., :1])], dim=-1)",
    )
    """the next advantage is removed at dones[t + 1]: it belongs to another episode where dones[t] is set"""
    gae_dones_one_step_late = first("dones = torch.cat([torch.zeros_like(dones[..., :1]), dones[..., :-1]], dim=-1)")
    """dones[t - 1] is used at step t; dones[t] says that the episode ends after step t"""
    loop_runs_forwards = edit("reversed(range(rewards.shape[-1]))", "range(rewards.shape[-1])", "[::-1]", "")
    """the loop runs forwards: advantages[t] needs advantages[t + 1], so the last step comes first"""
    answer_in_reverse_order = edit("[::-1]", "")
    """the list is filled from the last step on and never reversed"""
    gae_last_bootstrap_dropped = first("dones = dones.bool().index_fill(-1, torch.tensor(-1), True)")
    """the last step gets no bootstrap: values[T] must enter delta[T - 1]"""
    advantages_whitened = edit("(stacked, ", "((stacked - stacked.mean()) / (stacked.std() + 1e-8), ", read=WRONG)
    """the advantages are whitened here; the trainer does that, later and with the mask"""
    returns_from_whitened_advantages = edit(
        "return", "stacked = (stacked - stacked.mean()) / (stacked.std() + 1e-8)\nreturn", read=WRONG
    )
    """the advantages are whitened before the returns are made from them: the critic gets targets of the wrong scale"""
    returns_without_values = edit(" + values[..., :-1]", "")
    """returns are the advantages alone: the value has to be added back"""
    returns_with_next_values = edit("values[..., :-1]", "values[..., 1:]")
    """returns add the value of the next state: they are advantages[t] + values[t]"""
    returns_of_lam_1 = edit(
        "stacked + values", "n_step_advantages(rewards, values, dones, rewards.shape[-1], gamma) + values"
    )
    """returns are the plain discounted rewards (lam = 1), not the target that belongs to these advantages"""
    returns_first = edit("stacked, stacked + values[..., :-1]", "stacked + values[..., :-1], stacked")
    """the two answers have changed places: (advantages, returns)"""
    gae_without_gradient = first("rewards, values = rewards.detach(), values.detach()", read=WRONG)
    """the numbers are right but no gradient flows: nothing is detached here, the losses do that"""
    gae_of_detached_values = first("values = values.detach()", read=WRONG)
    """the values are detached: these functions cut no gradient, the losses do that"""
    sign_inverted = edit("torch.stack(", "-torch.stack(")
    """the sign is inverted: better than expected is positive"""
    delta_without_next_value = edit("td_errors(rewards, values, dones, gamma)", "rewards - values[..., :-1]")
    """rewards minus values, then carried: the next value gamma * values[t + 1] is missing from delta"""


class RightComputeGae(Right, of="compute_gae"):
    written_into_a_tensor = instead("""
        deltas = td_errors(rewards, values, dones, gamma)
        advantages, carry = torch.zeros_like(deltas), 0.0
        for t in range(deltas.shape[-1] - 1, -1, -1):
            carry = deltas[..., t] + torch.where(dones[..., t].bool(), 0.0, gamma * lam * carry)
            advantages[..., t] = carry
        return AdvantagesAndReturns(advantages=advantages, returns=advantages + values[..., :-1])
    """)
    """the advantages are written into a tensor of zeros"""
    factor_of_the_formula = edit(
        "advantage.masked_fill(dones[..., t].bool(), 0.0)", "(1 - dones[..., t].to(deltas.dtype)) * advantage"
    )
    """the carry is multiplied by 1 - dones[t], as the formula has it"""
    returns_first = instead("""
        returns = [values[..., -1]]
        for t in reversed(range(rewards.shape[-1])):
            later = (1 - lam) * values[..., t + 1] + lam * returns[0]
            returns.insert(0, rewards[..., t] + gamma * later.masked_fill(dones[..., t].bool(), 0.0))
        returns = torch.stack(returns[:-1], dim=-1)
        return AdvantagesAndReturns(returns - values[..., :-1], returns)
    """)
    """the lambda-returns by their own recursion, and the values subtracted at the end"""
    mix_of_n_step_advantages = instead("""
        steps = rewards.shape[-1]
        deltas = td_errors(rewards, values, dones, gamma)
        ahead = mix = torch.zeros_like(deltas)
        for n in range(1, steps + 1):
            later = torch.cat([ahead[..., 1:], torch.zeros_like(ahead[..., :1])], dim=-1)
            ahead = deltas + gamma * later.masked_fill(dones.bool(), 0.0)
            mix = mix + (1 - lam if n < steps else 1.0) * lam ** (n - 1) * ahead
        return AdvantagesAndReturns(mix, mix + values[..., :-1])
    """)
    """the definition: (1 - lam) lam^(n - 1) times the n-step advantages, the rest of the weight on the last"""
    by_a_matrix_of_weights = instead("""
        deltas, steps = td_errors(rewards, values, dones, gamma), rewards.shape[-1]
        apart = torch.arange(steps) - torch.arange(steps).unsqueeze(1)
        episode = dones.long().cumsum(dim=-1) - dones.long()
        seen = (apart >= 0) & (episode.unsqueeze(-1) == episode.unsqueeze(-2))
        weights = torch.where(seen, (gamma * lam) ** apart.clamp(min=0).to(deltas.dtype), 0.0)
        advantages = (weights @ deltas.unsqueeze(-1)).squeeze(-1)
        return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
    """)
    """one product with a matrix that holds (gamma lam)^(k - t) inside the episode"""
    in_float64_rounded_once = instead("""
        deltas = td_errors(rewards.double(), values.double(), dones, gamma)
        advantages = [deltas[..., -1]]
        for delta, done in list(zip(deltas.unbind(-1), dones.bool().unbind(-1)))[-2::-1]:
            advantages.append(delta + gamma * lam * advantages[-1].masked_fill(done, 0.0))
        advantages = torch.stack(advantages, dim=-1).flip(-1)
        returns = advantages + values[..., :-1]
        return AdvantagesAndReturns(advantages.to(rewards.dtype), returns.to(rewards.dtype))
    """)
    """computed in float64 and rounded once, at the end"""
    accumulated_from_the_end = instead("""
        from itertools import accumulate

        delta = td_errors(rewards, values, dones, gamma)
        decay = torch.zeros_like(delta).masked_fill(~dones.bool(), gamma * lam)
        pairs = list(zip(delta.unbind(-1), decay.unbind(-1), strict=True))[::-1]
        found = accumulate(pairs[1:], lambda later, now: now[0] + now[1] * later, initial=pairs[0][0])
        advantages = torch.stack(list(found)[::-1], dim=-1)
        return AdvantagesAndReturns(advantages, values[..., :-1] + advantages)
    """)
    """itertools.accumulate over pairs of error and decay, from the end"""
    doubled_in_log_steps = instead("""
        from torch.nn.functional import pad

        x = td_errors(rewards, values, dones, gamma)
        decay = torch.where(dones.bool(), torch.zeros_like(x), torch.full_like(x, gamma * lam))
        step = 1
        while step < x.shape[-1]:
            x = x + decay * pad(x, (0, step))[..., step:]
            decay = decay * pad(decay, (0, step))[..., step:]
            step *= 2
        return AdvantagesAndReturns(x, x + values[..., :-1])
    """)
    """affine maps composed two by two: a scan of log T steps"""
    linear_system = instead("""
        delta = td_errors(rewards, values, dones, gamma)
        length = delta.shape[-1]
        link = gamma * lam * (1 - dones.to(delta.dtype))[..., :-1]
        system = torch.eye(length, dtype=delta.dtype, device=delta.device) - torch.diag_embed(link, offset=1)
        advantages = torch.linalg.solve_triangular(system, delta.unsqueeze(-1), upper=True).squeeze(-1)
        return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
    """)
    """A_t - gamma lam A_t+1 = delta_t for all t is one triangular system"""


class PublishedComputeGae(Published, of="compute_gae"):
    cleanrl = instead("""
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0.0
        for t in reversed(range(rewards.shape[-1])):
            nextnonterminal = 1.0 - dones[..., t].to(values.dtype)
            delta = rewards[..., t] + gamma * values[..., t + 1] * nextnonterminal - values[..., t]
            advantages[..., t] = lastgaelam = delta + gamma * lam * nextnonterminal * lastgaelam
        return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
    """)
    """CleanRL, ppo.py; here dones[t] is the end of step t itself"""
    deepspeed_chat = instead("""
        lastgaelam = 0
        advantages_reversed = []
        length = rewards.size()[-1]
        alive = 1 - dones.to(values.dtype)
        for t in reversed(range(length)):
            nextvalues = values[..., t + 1] * alive[..., t]
            delta = rewards[..., t] + gamma * nextvalues - values[..., t]
            lastgaelam = delta + gamma * lam * alive[..., t] * lastgaelam
            advantages_reversed.append(lastgaelam)
        advantages = torch.stack(advantages_reversed[::-1], dim=-1)
        return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
    """)
    """DeepSpeed-Chat, get_advantages_and_returns; it knows no dones, so they multiply as in CleanRL"""


OWN_LOOP = """
rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)
advantages = []
next_value = next_advantage = torch.zeros_like(values[:, 0])
for t in reversed(range(rewards.shape[1])):
    delta = rewards[:, t] + gamma * next_value - values[:, t]
    advantage = delta + gamma * lam * next_advantage
    advantages.append(advantage)
    next_value = torch.where(mask[:, t], values[:, t], next_value)
    next_advantage = torch.where(mask[:, t], advantage, next_advantage)
stacked = torch.stack(advantages[::-1], dim=1).masked_fill(~mask, 0.0)
return AdvantagesAndReturns(stacked, stacked + values)
"""
"""The right numbers, without `compute_gae`."""


def in_a_loop(*texts: str, read: str | None = None) -> Any:
    """An edit of that loop: who writes one makes these mistakes besides."""
    return replace(edit(*texts, read=read), whole=OWN_LOOP.strip())


class ComputeResponseGae(Wrong, of="compute_response_gae"):
    a_loop_of_its_own = instead(OWN_LOOP)
    """a second loop: call compute_gae on packed rows, so that what you wrote there is what your run trains with"""
    mask_ignored = first("mask = torch.ones_like(mask)")
    """the mask is ignored: what the critic says about padding flows into real tokens"""
    masked_afterwards = in_a_loop(
        "rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)",
        "real, mask = mask, torch.ones_like(mask)",
        "masked_fill(~mask",
        "masked_fill(~real",
        "stacked + values",
        "stacked + values.masked_fill(~real, 0.0)",
    )
    """the recursion runs over all columns and the mask comes after it: padding has already flowed in"""
    only_the_rewards_masked = in_a_loop(
        "rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)",
        "rewards, real, mask = rewards.masked_fill(~mask, 0.0), mask, torch.ones_like(mask)",
        "dim=1).masked_fill(~mask",
        "dim=1).masked_fill(~real",
        "stacked + values",
        "stacked + values.masked_fill(~real, 0.0)",
    )
    """only the rewards are masked: what the critic says about padding flows into real tokens"""
    padding_skipped_by_the_next_advantage_only = in_a_loop(
        "values.masked_fill(~mask, 0.0)",
        "values",
        "torch.where(mask[:, t], values[:, t], next_value)",
        "values[:, t]",
        "stacked + values",
        "stacked + values.masked_fill(~mask, 0.0)",
    )
    """the next advantage skips the padding, the next value does not: what the critic says there flows in"""
    mask_multiplied = in_a_loop(
        "rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)",
        "rewards * mask, values * mask",
        "torch.where(mask[:, t], values[:, t], next_value)",
        "mask[:, t] * values[:, t] + ~mask[:, t] * next_value",
        "torch.where(mask[:, t], advantage, next_advantage)",
        "mask[:, t] * advantage + ~mask[:, t] * next_advantage",
        ".masked_fill(~mask, 0.0)",
        " * mask",
    )
    """multiplied by the mask: NaN * 0 is NaN, so select with where or masked_fill"""
    padding_multiplied_away = in_a_loop(
        "rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)", "rewards * mask, values * mask"
    )
    """the padding is multiplied by 0, but NaN * 0 is NaN and stands in the returns: use masked_fill"""
    gap_taken_for_a_step = in_a_loop(
        "torch.where(mask[:, t], values[:, t], next_value)",
        "values[:, t]",
        "torch.where(mask[:, t], advantage, next_advantage)",
        "advantage",
    )
    """a gap costs a factor gamma * lam: a tool's token counts as a step with reward 0 and value 0"""
    gap_ends_the_episode = in_a_loop(", next_value)", ", 0.0)", ", next_advantage)", ", 0.0)")
    """a gap ends the episode: next value and advantage are dropped at the tool's token; skip it"""
    gap_skipped_by_the_value_only = in_a_loop(", next_advantage)", ", 0.0)")
    """only the value skips a gap; the next advantage is dropped at the tool's token"""
    gap_skipped_by_the_next_advantage_only = in_a_loop(
        "torch.where(mask[:, t], values[:, t], next_value)", "values[:, t]"
    )
    """only the next advantage skips a gap; the next value is still taken from the next column"""
    last_token_bootstraps_from_itself = in_a_loop(
        "gamma * next_value", "gamma * torch.where(mask[:, t + 1 :].any(dim=1), next_value, values[:, t])"
    )
    """the last token bootstraps from its own value: after the last token there is nothing, so 0"""
    padding_left_filled = in_a_loop(
        "append(advantage)",
        "append(torch.where(mask[:, t], advantage, next_advantage))",
        "dim=1).masked_fill(~mask, 0.0)",
        "dim=1)",
    )
    """the padding is not set to 0 in the answer: the advantage of a neighboring token stands there"""
    packed_rows_not_moved_back = edit(
        "torch.zeros_like(values).scatter(1, order, packed.advantages)", "packed.advantages"
    )
    """the packed answers are not moved back: each belongs to the column that its token came from"""
    packed_out_of_order = edit("order = (~mask)", "order = mask")
    """the masked columns come first: move the real tokens to the left, in their order"""
    done_after_the_last_column_only = edit(
        "values.masked_fill(~mask, 0.0)\norder",
        "values\norder",
        "mask.sum(dim=1, keepdim=True) == torch.arange(1, mask.shape[1] + 1, device=mask.device)",
        "torch.zeros_like(mask)",
        "advantages + values",
        "(advantages + values).masked_fill(~mask, 0.0)",
    )
    """no done at the last real token: what the critic says about the padding behind it flows in"""
    returns_not_masked = in_a_loop(
        "rewards, values = rewards",
        "unmasked = values\nrewards, values = rewards",
        "stacked + values",
        "stacked + unmasked",
    )
    """the returns are not masked: what the critic says about padding stands in them"""
    response_without_lam = in_a_loop("gamma * lam", "gamma")
    """lam is ignored: the next advantage is weighted by gamma alone"""
    response_without_gamma = first("gamma = 1.0")
    """gamma is ignored: it must discount the next value and the next advantage"""
    response_returns_without_values = in_a_loop("stacked + values", "stacked")
    """returns are the advantages alone: the value has to be added back"""
    response_whitened = in_a_loop(
        "return AdvantagesAndReturns(stacked,",
        "real = stacked[mask]\n"
        "white = ((stacked - real.mean()) / (real.std(correction=0) + 1e-8)).masked_fill(~mask, 0.0)\n"
        "return AdvantagesAndReturns(white,",
        read=WRONG,
    )
    """the advantages are whitened here; the trainer does that, after the returns are made"""
    padding_overwritten_in_place = edit(
        "rewards.masked_fill(", "rewards.masked_fill_(", "values.masked_fill(", "values.masked_fill_("
    )
    """the padding is overwritten in the caller's tensors: masked_fill, not masked_fill_"""
    length_of_the_longest_row = in_a_loop(
        "rewards, values = rewards",
        "real, mask = mask, mask | (mask.cumsum(dim=1) == mask.sum(dim=1, keepdim=True))\nrewards, values = rewards",
        ".masked_fill(~mask, 0.0)\nreturn",
        ".masked_fill(~real, 0.0)\nreturn",
        "stacked + values",
        "(stacked + values).masked_fill(~real, 0.0)",
    )
    """every row is taken to end in the last column: a shorter row then bootstraps from its padding"""
    discounted_by_columns = in_a_loop(
        ", next_value)", ", gamma * next_value)", ", next_advantage)", ", gamma * lam * next_advantage)"
    )
    """the gap between two real tokens is counted: the next value is discounted once for each column"""
    next_advantage_weighted_in_a_gap = in_a_loop(", next_advantage)", ", gamma * lam * next_advantage)")
    """the next advantage is weighted by gamma * lam in a gap as well: it passes a tool's token unchanged"""
    zero_advantage_taken_for_padding = in_a_loop("stacked + values", "torch.where(stacked != 0, stacked + values, 0.0)")
    """an advantage of 0 is taken for padding: the return of a real token is its value then"""
    mask_inverted = first("mask = ~mask")
    """the mask is taken for a padding mask: True is a real token"""
    response_without_gradient = first("rewards, values = rewards.detach(), values.detach()", read=WRONG)
    """no gradient flows: nothing is detached here, the losses do that"""
    response_of_detached_values = first("values = values.detach()", read=WRONG)
    """the values are detached: these functions cut no gradient, the losses do that"""


class RightComputeResponseGae(Right, of="compute_response_gae"):
    row_by_row = instead("""
        advantages = torch.zeros_like(rewards)
        for row, real in enumerate(mask):
            if real.any():
                kept = torch.cat([values[row, real], values.new_zeros(1)])
                dones = torch.zeros_like(rewards[row, real])
                advantages[row, real] = compute_gae(rewards[row, real], kept, dones, gamma, lam).advantages
        return AdvantagesAndReturns(advantages, advantages + torch.where(mask, values, 0.0))
    """)
    """each row alone: its real tokens, and compute_gae with 0 after the last"""
    no_dones = edit(
        "mask.sum(dim=1, keepdim=True) == torch.arange(1, mask.shape[1] + 1, device=mask.device)",
        "torch.zeros_like(mask)",
    )
    """without dones: behind the last real token rewards and values are 0"""
    one_long_episode_after_another = instead("""
        real_from_here = mask.flip(1).cumsum(dim=1).flip(1)
        dones, kept = (real_from_here == 1)[mask], values[mask]
        found = compute_gae(rewards[mask], torch.cat([kept, kept.new_zeros(1)]), dones, gamma, lam)
        advantages, returns = (torch.zeros_like(values).masked_scatter(mask, part) for part in found)
        return AdvantagesAndReturns(advantages, returns)
    """)
    """the real tokens of all rows as one rollout of many episodes, with a done at the end of each"""
    packed_by_their_numbers = instead("""
        rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
        width = mask.shape[1]
        place = (mask.cumsum(dim=1) - 1).masked_fill(~mask, width)
        nothing = values.new_zeros(len(values), width + 1)
        packed_rewards, packed_values = nothing.scatter(1, place, rewards), nothing.scatter(1, place, values)
        packed_values = torch.cat([packed_values[:, :width], nothing[:, :1]], dim=1)
        dones = torch.zeros_like(packed_rewards[:, :width], dtype=torch.bool)
        packed = compute_gae(packed_rewards[:, :width], packed_values, dones, gamma=gamma, lam=lam)
        whole = torch.cat([packed.advantages, nothing[:, :1]], dim=1)
        advantages = whole.gather(1, place).masked_fill(~mask, 0.0)
        return AdvantagesAndReturns(advantages, advantages + values)
    """)
    """real tokens are numbered by a running sum, and each is written to the place of its number"""
    in_float64_rounded_once = edit(
        "rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)",
        "dtype = rewards.dtype\n"
        "rewards, values = rewards.double().masked_fill(~mask, 0.0), values.double().masked_fill(~mask, 0.0)",
        "(advantages, advantages + values)",
        "(advantages.to(dtype), (advantages + values).to(dtype))",
    )
    """computed in float64 and rounded once, at the end"""


class PublishedComputeResponseGae(Published, of="compute_response_gae"):
    trl = instead("""
        values, rewards = torch.masked_fill(values, ~mask, 0), torch.masked_fill(rewards, ~mask, 0)
        lastgaelam = 0
        advantages_reversed = []
        gen_length = mask.shape[1]
        for t in reversed(range(gen_length)):
            nextvalues = values[:, t + 1] if t < gen_length - 1 else 0.0
            delta = rewards[:, t] + gamma * nextvalues - values[:, t]
            lastgaelam = delta + gamma * lam * lastgaelam
            advantages_reversed.append(lastgaelam)
        advantages = torch.stack(advantages_reversed[::-1], axis=1)
        returns = advantages + values
        return AdvantagesAndReturns(torch.masked_fill(advantages, ~mask, 0), returns)
    """)
    """TRL, ppo_trainer.py; its whitening is left out"""
    openrlhf = instead("""
        lastgaelam = 0
        advantages_reversed = []
        response_length = rewards.size(1)
        values = mask * values
        rewards = mask * rewards
        for t in reversed(range(response_length)):
            nextvalues = values[:, t + 1] if t < response_length - 1 else 0.0
            delta = rewards[:, t] + gamma * nextvalues - values[:, t]
            lastgaelam = delta + gamma * lam * lastgaelam
            advantages_reversed.append(lastgaelam)
        advantages = torch.stack(advantages_reversed[::-1], dim=1)
        return AdvantagesAndReturns(advantages, advantages + values)
    """)
    """OpenRLHF, get_advantages_and_returns, which masks both before the loop"""
    verl = instead("""
        nextvalues, lastgaelam = 0, 0
        advantages_reversed = []
        response_mask = mask.to(values.dtype)
        for t in reversed(range(rewards.shape[-1])):
            delta = rewards[:, t] + gamma * nextvalues - values[:, t]
            lastgaelam_ = delta + gamma * lam * lastgaelam
            nextvalues = values[:, t] * response_mask[:, t] + (1 - response_mask[:, t]) * nextvalues
            lastgaelam = lastgaelam_ * response_mask[:, t] + (1 - response_mask[:, t]) * lastgaelam
            advantages_reversed.append(lastgaelam)
        advantages = torch.stack(advantages_reversed[::-1], dim=1)
        return AdvantagesAndReturns(advantages * response_mask, (advantages + values) * response_mask)
    """)
    """verl, compute_gae_advantage_return; its whitening is left out, and masked tokens are 0 as the contract says"""
