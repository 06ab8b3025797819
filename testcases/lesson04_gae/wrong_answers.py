"""Wrong ideas about advantages, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

import torch

from testcases.engine import Wrong, edit, first, misconception

TD = "td_errors: one step of surprise"
N_STEP = "n_step_advantages: look n steps ahead"
GAE = "compute_gae: mix all looks ahead"
RESPONSE = "compute_response_gae: GAE over responses"


def _next_values(values, dones):
    return values[..., 1:].masked_fill(dones.bool(), 0.0)


def _deltas(rewards, values, dones, gamma):
    return rewards + gamma * _next_values(values, dones) - values[..., :-1]


def _sweep(deltas, factors):
    """advantages[t] = deltas[t] + factors[t] * advantages[t + 1]."""
    advantages, after = [], torch.zeros_like(deltas[..., 0])
    for t in reversed(range(deltas.shape[-1])):
        after = deltas[..., t] + factors[..., t] * after
        advantages.append(after)
    return torch.stack(advantages[::-1], dim=-1)


def _goes_on(deltas, dones):
    return 1 - dones.to(deltas.dtype)


class TdErrors(Wrong, of="td_errors"):
    dones_ignored = edit(
        ".masked_fill(dones.bool(), 0.0)",
        "",
        why="nothing is cut at a done: the value of the next episode flows into this one",
    )
    dones_one_step_late = first(
        "dones = torch.cat([torch.zeros_like(dones[..., :1]), dones[..., :-1]], dim=-1)",
        why="dones[t - 1] is used at step t; dones[t] says that the episode ends after step t itself",
    )
    dones_inverted = edit(
        "dones.bool()",
        "~dones.bool()",
        why="the flag is read backwards: the bootstrap is kept where the episode ends, and cut elsewhere",
    )
    done_steps_zeroed = edit(
        "rewards + gamma * next_values - values[..., :-1]",
        "(rewards + gamma * next_values - values[..., :-1]).masked_fill(dones.bool(), 0.0)",
        why="a done cuts the whole next step to 0: only the bootstrap is cut, the reward and the forecast stay",
    )
    gamma_forgotten = edit("gamma * ", "", why="the next value is not discounted: gamma is never used")
    gamma_fixed_at_099 = edit("gamma", "0.99", why="gamma is fixed at its default; the argument is ignored")
    reward_discounted_too = edit(
        "rewards + gamma * next_values",
        "gamma * (rewards + next_values)",
        why="gamma discounts the reward as well: rewards[t] comes now, only the next value comes later",
    )
    expected_minus_came = edit(
        "rewards + gamma * next_values - values[..., :-1]",
        "values[..., :-1] - rewards - gamma * next_values",
        why="the sign is turned round: what came minus what was expected, not the reverse",
    )
    value_not_subtracted = edit(
        " - values[..., :-1]", "", why="the forecast of this step is not subtracted: this is a target, not a surprise"
    )
    reward_minus_value = edit(
        " + gamma * next_values",
        "",
        why="the next value is left out: rewards[t] - values[t] looks at no future at all",
    )
    value_and_next_value_swapped = edit(
        "values[..., 1:]",
        "values[..., :-1]",
        "- values[..., :-1]",
        "- values[..., 1:]",
        why="values are shifted by one: V(s_t) and V(s_t+1) have changed places",
    )
    last_bootstrap_dropped = first(
        "dones = dones.bool().index_fill(-1, torch.tensor(-1), True)",
        why="the last step gets no bootstrap: values[T] is there because the recording, not the episode, ended",
    )
    done_multiplied = edit(
        ".masked_fill(dones.bool(), 0.0)",
        " * (1 - dones.to(values.dtype))",
        why="multiplied by (1 - dones): 0 * NaN and 0 * infinity are NaN, so select with masked_fill or where",
    )
    present_value_bootstraps = edit(
        "values[..., 1:].masked_fill(dones.bool(), 0.0)",
        "values[..., :-1] * (1 - dones.to(values.dtype))",
        why="V(s_t) bootstraps in place of V(s_t+1): the next value is values[t + 1]",
    )
    next_value_detached = edit(
        "gamma * next_values",
        "gamma * next_values.detach()",
        why="the next values are detached: this function cuts no gradient, the losses do",
    )
    signs_of_the_values_swapped = edit(
        "+ gamma * next_values - values",
        "- gamma * next_values + values",
        why="the signs of the two values have changed places: + gamma V(s_t+1) - V(s_t)",
    )
    both_values_discounted = edit(
        "gamma * next_values - values[..., :-1]",
        "gamma * (next_values - values[..., :-1])",
        why="V(s_t) is discounted, too: it stands at time t, only V(s_t+1) is a step away",
    )
    reward_cut_at_a_done = edit(
        ".masked_fill(dones.bool(), 0.0)",
        "",
        "rewards + gamma * next_values",
        "(rewards + gamma * next_values).masked_fill(dones.bool(), 0.0)",
        why="a done takes the reward as well: rewards[t] was earned before the episode ended",
    )
    next_values_rolled_round = edit(
        "values[..., 1:]",
        "values[..., :-1].roll(-1, dims=-1)",
        why="roll brings V(s_0) round to the end: the last step bootstraps from values[T]",
    )


def _n_step(rewards, values, dones, n, gamma, keep=None, bootstrap=True):
    deltas = _deltas(
        rewards, values if bootstrap else torch.cat([values[..., :-1], 0 * values[..., -1:]], -1), dones, gamma
    )
    keep = _goes_on(deltas, dones) if keep is None else keep
    advantages = torch.zeros_like(deltas)
    for _ in range(min(n, rewards.shape[-1] + 1)):
        after = torch.cat([advantages[..., 1:], torch.zeros_like(advantages[..., :1])], dim=-1)
        advantages = deltas + gamma * keep * after
    return advantages


@misconception("n_step_advantages", why="one step too many: n = 1 is one reward and then the critic", read=N_STEP)
def one_step_too_many(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, n + 1, gamma)


@misconception(
    "n_step_advantages",
    why="one step too few: n = 1 is one reward and then the critic, not the forecast alone",
    read=N_STEP,
)
def one_step_too_few(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, n - 1, gamma)


@misconception("n_step_advantages", why="n is ignored: the look ahead always goes to the end", read=N_STEP)
def always_to_the_end(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, rewards.shape[-1], gamma)


@misconception("n_step_advantages", why="n is ignored: this is the TD error, one step", read=N_STEP)
def always_one_step(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, 1, gamma)


@misconception(
    "n_step_advantages",
    why="rewards behind a done are collected: the sum must stop where the episode ends",
    read=N_STEP,
)
def sum_crosses_the_done(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, n, gamma, keep=torch.ones_like(rewards))


@misconception("n_step_advantages", why="dones are ignored, for the bootstrap and for the sum", read=N_STEP)
def n_step_dones_ignored(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, torch.zeros_like(dones), n, gamma)


@misconception(
    "n_step_advantages",
    why="the terms further ahead are not discounted: gamma is missing from the recursion",
    read=N_STEP,
)
def later_terms_not_discounted(rewards, values, dones, n, gamma=0.99):
    deltas = _deltas(rewards, values, dones, gamma)
    return _n_step(rewards, values, dones, n, gamma, keep=_goes_on(deltas, dones) / gamma if gamma else None)


@misconception(
    "n_step_advantages",
    why="no bootstrap after n steps: what comes later is worth values[t + n], not nothing",
    read=N_STEP,
)
def no_bootstrap_after_n(rewards, values, dones, n, gamma=0.99):
    zeros = torch.zeros_like(values)
    return _n_step(rewards, zeros, dones, n, gamma) - values[..., :-1]


@misconception(
    "n_step_advantages", why="values[t] is not subtracted: this is the n-step return, not the advantage", read=N_STEP
)
def n_step_return(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, n, gamma) + values[..., :-1]


@misconception(
    "n_step_advantages",
    why="at the end of the recording values[T] is dropped, as if every episode ended there",
    read=N_STEP,
)
def no_bootstrap_at_the_end(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, n, gamma, bootstrap=False)


@misconception("n_step_advantages", why="averaged over n: the n rewards are summed", read=N_STEP)
def divided_by_n(rewards, values, dones, n, gamma=0.99):
    return _n_step(rewards, values, dones, n, gamma) / n


# compute_gae


@misconception(
    "n_step_advantages", why="the bootstrap is discounted once too often: values[t + n] gets gamma^n", read=N_STEP
)
def bootstrap_discounted_once_more(rewards, values, dones, n, gamma=0.99):
    plain = _n_step(rewards, values, dones, n, gamma, bootstrap=True)
    ends = torch.zeros_like(values)
    for t in range(rewards.shape[-1]):
        last = min(t + n, rewards.shape[-1])
        goes_on = (1 - dones[..., t:last].to(values.dtype)).prod(dim=-1)
        ends[..., t] = goes_on * gamma ** (last - t) * values[..., last]
    return plain + (gamma - 1) * ends[..., :-1]


def _gae(rewards, values, dones, gamma, lam):
    deltas = _deltas(rewards, values, dones, gamma)
    return _sweep(deltas, gamma * lam * _goes_on(deltas, dones))


@misconception("compute_gae", why="the carry decays by lam alone: it needs gamma * lam", read=GAE)
def carry_without_gamma(rewards, values, dones, gamma=0.99, lam=0.95):
    deltas = _deltas(rewards, values, dones, gamma)
    advantages = _sweep(deltas, lam * _goes_on(deltas, dones))
    return advantages, advantages + values[..., :-1]


@misconception("compute_gae", why="lam is ignored: the carry decays by gamma alone, which is lam = 1", read=GAE)
def carry_without_lam(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, dones, gamma, 1.0)
    return advantages, advantages + values[..., :-1]


@misconception("compute_gae", why="nothing is carried: this is the TD error, which is lam = 0", read=GAE)
def nothing_carried(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _deltas(rewards, values, dones, gamma)
    return advantages, advantages + values[..., :-1]


@misconception("compute_gae", why="gamma and lam have changed places", read=GAE)
def gamma_and_lam_swapped(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, dones, lam, gamma)
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae",
    why="the factor (1 - lam) belongs to the n-step advantages; it is gone from the sum over deltas",
    read="From looks ahead to GAE",
)
def one_minus_lam_kept(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = (1 - lam) * _gae(rewards, values, dones, gamma, lam)
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae", why="dones are ignored: value and advantage of the next episode flow into this one", read=GAE
)
def gae_dones_ignored(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, torch.zeros_like(dones), gamma, lam)
    return advantages, advantages + values[..., :-1]


@misconception("compute_gae", why="a done cuts the bootstrap but not the carry: it must cut both", read=GAE)
def done_cuts_bootstrap_only(rewards, values, dones, gamma=0.99, lam=0.95):
    deltas = _deltas(rewards, values, dones, gamma)
    advantages = _sweep(deltas, torch.full_like(deltas, gamma * lam))
    return advantages, advantages + values[..., :-1]


@misconception("compute_gae", why="a done cuts the carry but not the bootstrap: it must cut both", read=GAE)
def done_cuts_carry_only(rewards, values, dones, gamma=0.99, lam=0.95):
    deltas = _deltas(rewards, values, torch.zeros_like(dones), gamma)
    advantages = _sweep(deltas, gamma * lam * _goes_on(deltas, dones))
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae", why="dones[t + 1] cuts at step t; dones[t] itself says that the episode ends after step t", read=GAE
)
def dones_one_step_early(rewards, values, dones, gamma=0.99, lam=0.95):
    early = torch.cat([dones[..., 1:], torch.zeros_like(dones[..., :1])], dim=-1)
    advantages = _gae(rewards, values, early, gamma, lam)
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae",
    why="the carry is cut at dones[t + 1]: advantages[t + 1] belongs to another episode at dones[t]",
    read=GAE,
)
def carry_cut_one_step_early(rewards, values, dones, gamma=0.99, lam=0.95):
    deltas = _deltas(rewards, values, dones, gamma)
    next_dones = torch.cat([dones[..., 1:], torch.zeros_like(dones[..., :1])], dim=-1)
    advantages = _sweep(deltas, gamma * lam * _goes_on(deltas, next_dones))
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae", why="dones[t - 1] cuts at step t; dones[t] says that the episode ends after step t", read=GAE
)
def gae_dones_one_step_late(rewards, values, dones, gamma=0.99, lam=0.95):
    late = torch.cat([torch.zeros_like(dones[..., :1]), dones[..., :-1]], dim=-1)
    advantages = _gae(rewards, values, late, gamma, lam)
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae",
    why="the loop runs forwards: advantages[t] needs advantages[t + 1], so the last step comes first",
    read=GAE,
)
def loop_runs_forwards(rewards, values, dones, gamma=0.99, lam=0.95):
    deltas = _deltas(rewards, values, dones, gamma)
    advantages = _sweep(deltas.flip(-1), gamma * lam * _goes_on(deltas, dones).flip(-1)).flip(-1)
    return advantages, advantages + values[..., :-1]


@misconception("compute_gae", why="the list is filled from the last step on and never turned round", read=GAE)
def answer_in_reverse_order(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, dones, gamma, lam).flip(-1)
    return advantages, advantages + values[..., :-1]


@misconception("compute_gae", why="the last step gets no bootstrap: values[T] must enter delta[T - 1]", read=GAE)
def gae_last_bootstrap_dropped(rewards, values, dones, gamma=0.99, lam=0.95):
    ended = dones.bool().clone()
    ended[..., -1] = True
    advantages = _gae(rewards, values, ended, gamma, lam)
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae",
    why="the advantages are whitened here; the trainer does that, later and with the mask",
    read="What people get wrong",
)
def advantages_whitened(rewards, values, dones, gamma=0.99, lam=0.95):
    raw = _gae(rewards, values, dones, gamma, lam)
    return (raw - raw.mean()) / (raw.std() + 1e-8), raw + values[..., :-1]


@misconception(
    "compute_gae",
    why="the advantages are whitened before the returns are made from them: the critic gets targets of the wrong scale",
    read="What people get wrong",
)
def returns_from_whitened_advantages(rewards, values, dones, gamma=0.99, lam=0.95):
    raw = _gae(rewards, values, dones, gamma, lam)
    white = (raw - raw.mean()) / (raw.std() + 1e-8)
    return white, white + values[..., :-1]


@misconception("compute_gae", why="returns are the advantages alone: the value has to be added back", read=GAE)
def returns_without_values(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, dones, gamma, lam)
    return advantages, advantages.clone()


@misconception(
    "compute_gae", why="returns add the value of the next state: they are advantages[t] + values[t]", read=GAE
)
def returns_with_next_values(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, dones, gamma, lam)
    return advantages, advantages + values[..., 1:]


@misconception(
    "compute_gae",
    why="returns are the plain discounted rewards (lam = 1), not the target that belongs to these advantages",
    read=GAE,
)
def returns_of_lam_1(rewards, values, dones, gamma=0.99, lam=0.95):
    return _gae(rewards, values, dones, gamma, lam), _gae(rewards, values, dones, gamma, 1.0) + values[..., :-1]


@misconception("compute_gae", why="the two answers have changed places: (advantages, returns)", read=GAE)
def returns_first(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, dones, gamma, lam)
    return advantages + values[..., :-1], advantages


@misconception(
    "compute_gae",
    why="the numbers are right but the graph is cut: nothing is detached here, the losses do that",
    read="What people get wrong",
)
def gae_without_gradient(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = _gae(rewards, values, dones, gamma, lam)
    return advantages.detach(), (advantages + values[..., :-1]).detach()


@misconception("compute_gae", why="the advantage is subtracted: it has the sign expected minus came", read=GAE)
def sign_turned_round(rewards, values, dones, gamma=0.99, lam=0.95):
    advantages = -_gae(rewards, values, dones, gamma, lam)
    return advantages, advantages + values[..., :-1]


@misconception(
    "compute_gae",
    why="rewards minus values, then carried: the next value gamma * values[t + 1] is missing from delta",
    read=GAE,
)
def delta_without_next_value(rewards, values, dones, gamma=0.99, lam=0.95):
    deltas = rewards - values[..., :-1]
    advantages = _sweep(deltas, gamma * lam * _goes_on(deltas, dones))
    return advantages, advantages + values[..., :-1]


# compute_response_gae


def _response(rewards, values, mask, gamma, lam, *, deltas=None, after_end=0.0, returns=None):
    """The right answer, column by column; `after_end` stands for the value after the last token."""
    rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)
    advantages, next_value = [], torch.full_like(values[:, 0], after_end)
    next_advantage = torch.zeros_like(next_value)
    for t in reversed(range(rewards.shape[1])):
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_value = torch.where(mask[:, t], values[:, t], next_value)
        next_advantage = torch.where(mask[:, t], advantage, next_advantage)
        advantages.append(next_advantage)
    return torch.stack(advantages[::-1], dim=1).masked_fill(~mask, 0.0), values


def _zeroed(rewards, values, mask):
    return rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)


def _columns(rewards, values, gamma, lam):
    """Plain GAE over all columns, 0 after the last."""
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    deltas = rewards + gamma * after - values
    return _sweep(deltas, torch.full_like(deltas, gamma * lam))


@misconception(
    "compute_response_gae",
    why="the mask is ignored: what the critic says about padding flows into real tokens",
    read=RESPONSE,
)
def mask_ignored(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages = _columns(rewards, values, gamma, lam)
    return advantages, advantages + values


@misconception(
    "compute_response_gae",
    why="the recursion runs over all columns and the mask comes after it: padding has already flowed in",
    read=RESPONSE,
)
def masked_afterwards(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages = _columns(rewards, values, gamma, lam)
    return advantages.masked_fill(~mask, 0.0), (advantages + values).masked_fill(~mask, 0.0)


@misconception(
    "compute_response_gae",
    why="multiplied by the mask: NaN * 0 is NaN, so select with where or masked_fill",
    read=RESPONSE,
)
def mask_multiplied(rewards, values, mask, gamma=1.0, lam=0.95):
    keep = mask.to(rewards.dtype)
    rewards, values = rewards * keep, values * keep
    advantages, next_value = [], torch.zeros_like(values[:, 0])
    next_advantage = torch.zeros_like(next_value)
    for t in reversed(range(rewards.shape[1])):
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_value = keep[:, t] * values[:, t] + (1 - keep[:, t]) * next_value
        next_advantage = keep[:, t] * advantage + (1 - keep[:, t]) * next_advantage
        advantages.append(next_advantage * keep[:, t])
    stacked = torch.stack(advantages[::-1], dim=1)
    return stacked, stacked + values


@misconception(
    "compute_response_gae",
    why="a gap is decayed through: a tool's token counts as a step with reward 0 and value 0",
    read=RESPONSE,
)
def gap_decayed_through(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards, values = _zeroed(rewards, values, mask)
    advantages = _columns(rewards, values, gamma, lam).masked_fill(~mask, 0.0)
    return advantages, advantages + values


@misconception(
    "compute_response_gae",
    why="a gap ends the episode: value and carry are cut at the tool's token instead of skipping it",
    read=RESPONSE,
)
def gap_ends_the_episode(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards, values = _zeroed(rewards, values, mask)
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    deltas = (rewards + gamma * after - values).masked_fill(~mask, 0.0)
    advantages = _sweep(deltas, gamma * lam * mask.to(deltas.dtype)).masked_fill(~mask, 0.0)
    return advantages, advantages + values


@misconception(
    "compute_response_gae",
    why="only the value skips a gap; the carry is cut at the tool's token",
    read=RESPONSE,
)
def gap_skipped_by_the_value_only(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards, values = _zeroed(rewards, values, mask)
    advantages, next_value = [], torch.zeros_like(values[:, 0])
    next_advantage = torch.zeros_like(next_value)
    for t in reversed(range(rewards.shape[1])):
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_value = torch.where(mask[:, t], values[:, t], next_value)
        next_advantage = torch.where(mask[:, t], advantage, 0.0)
        advantages.append(next_advantage)
    stacked = torch.stack(advantages[::-1], dim=1)
    return stacked, stacked + values


@misconception(
    "compute_response_gae",
    why="only the carry skips a gap; the next value is still taken from the next column",
    read=RESPONSE,
)
def gap_skipped_by_the_carry_only(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards, values = _zeroed(rewards, values, mask)
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    deltas = rewards + gamma * after - values
    advantages, carry = [], torch.zeros_like(values[:, 0])
    for t in reversed(range(rewards.shape[1])):
        carry = torch.where(mask[:, t], deltas[:, t] + gamma * lam * carry, carry)
        advantages.append(carry)
    stacked = torch.stack(advantages[::-1], dim=1).masked_fill(~mask, 0.0)
    return stacked, stacked + values


@misconception(
    "compute_response_gae",
    why="the last token bootstraps from its own value: after the last token there is nothing, so 0",
    read=RESPONSE,
)
def last_token_bootstraps_from_itself(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards, values = _zeroed(rewards, values, mask)
    seen = torch.zeros_like(mask[:, 0])
    advantages, next_value = [], torch.zeros_like(values[:, 0])
    next_advantage = torch.zeros_like(next_value)
    for t in reversed(range(rewards.shape[1])):
        following = torch.where(seen, next_value, values[:, t])
        advantage = rewards[:, t] + gamma * following - values[:, t] + gamma * lam * next_advantage
        next_value = torch.where(mask[:, t], values[:, t], next_value)
        next_advantage = torch.where(mask[:, t], advantage, next_advantage)
        seen = seen | mask[:, t]
        advantages.append(next_advantage)
    stacked = torch.stack(advantages[::-1], dim=1).masked_fill(~mask, 0.0)
    return stacked, stacked + values


@misconception(
    "compute_response_gae",
    why="the padding is not set to 0 in the answer: the advantage of a neighbour stands there",
    read=RESPONSE,
)
def padding_left_filled(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards, values = _zeroed(rewards, values, mask)
    advantages, next_value = [], torch.zeros_like(values[:, 0])
    next_advantage = torch.zeros_like(next_value)
    for t in reversed(range(rewards.shape[1])):
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_value = torch.where(mask[:, t], values[:, t], next_value)
        next_advantage = torch.where(mask[:, t], advantage, next_advantage)
        advantages.append(next_advantage)
    stacked = torch.stack(advantages[::-1], dim=1)
    return stacked, stacked + values


@misconception(
    "compute_response_gae",
    why="the returns are not masked: what the critic says about padding stands in them",
    read=RESPONSE,
)
def returns_not_masked(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages, _ = _response(rewards, values, mask, gamma, lam)
    return advantages, advantages + values


@misconception("compute_response_gae", why="lam is ignored: the carry decays by gamma alone", read=RESPONSE)
def response_without_lam(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages, values = _response(rewards, values, mask, gamma, 1.0)
    return advantages, advantages + values


@misconception(
    "compute_response_gae", why="gamma is ignored: it must discount the next value and the carry", read=RESPONSE
)
def response_without_gamma(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages, values = _response(rewards, values, mask, 1.0, lam)
    return advantages, advantages + values


@misconception(
    "compute_response_gae", why="returns are the advantages alone: the value has to be added back", read=RESPONSE
)
def response_returns_without_values(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages, _ = _response(rewards, values, mask, gamma, lam)
    return advantages, advantages.clone()


@misconception(
    "compute_response_gae",
    why="the advantages are whitened here; the trainer does that, after the returns are made",
    read="What people get wrong",
)
def response_whitened(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages, values = _response(rewards, values, mask, gamma, lam)
    real = advantages[mask]
    white = ((advantages - real.mean()) / (real.std(correction=0) + 1e-8)).masked_fill(~mask, 0.0)
    return white, advantages + values


@misconception(
    "compute_response_gae",
    why="the padding is overwritten in the caller's tensors: masked_fill, not masked_fill_",
    read=RESPONSE,
)
def padding_overwritten_in_place(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards.masked_fill_(~mask, 0.0)
    values.masked_fill_(~mask, 0.0)
    advantages, values = _response(rewards, values, mask, gamma, lam)
    return advantages, advantages + values


@misconception(
    "compute_response_gae",
    why="every row is taken to end in the last column: a shorter row then bootstraps from its padding",
    read=RESPONSE,
)
def length_of_the_longest_row(rewards, values, mask, gamma=1.0, lam=0.95):
    real = mask | mask.cumsum(dim=1).eq(mask.sum(dim=1, keepdim=True))
    advantages, kept = _response(rewards, values, real, gamma, lam)
    return advantages.masked_fill(~mask, 0.0), (advantages + kept).masked_fill(~mask, 0.0)


@misconception(
    "compute_response_gae",
    why="the gap between two real tokens is counted: the next value is discounted once for each column",
    read=RESPONSE,
)
def discounted_by_columns(rewards, values, mask, gamma=1.0, lam=0.95):
    rewards, values = _zeroed(rewards, values, mask)
    advantages, next_value = [], torch.zeros_like(values[:, 0])
    next_advantage = torch.zeros_like(next_value)
    for t in reversed(range(rewards.shape[1])):
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_advantage
        next_value = torch.where(mask[:, t], values[:, t], gamma * next_value)
        next_advantage = torch.where(mask[:, t], advantage, gamma * lam * next_advantage)
        advantages.append(next_advantage)
    stacked = torch.stack(advantages[::-1], dim=1).masked_fill(~mask, 0.0)
    return stacked, stacked + values


@misconception("compute_response_gae", why="the mask is taken for a padding mask: True is a real token", read=RESPONSE)
def mask_inverted(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages, values = _response(rewards, values, ~mask, gamma, lam)
    return advantages, advantages + values


@misconception(
    "compute_response_gae",
    why="the graph is cut: nothing is detached here, the losses do that",
    read="What people get wrong",
)
def response_without_gradient(rewards, values, mask, gamma=1.0, lam=0.95):
    advantages, values = _response(rewards, values, mask, gamma, lam)
    return advantages.detach(), (advantages + values).detach()
