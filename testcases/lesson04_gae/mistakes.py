"""Mistakes in lesson 4, as changes of the reference."""

from dataclasses import replace
from typing import Any

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

WRONG = "What people get wrong"


class TdErrors(Wrong, of="td_errors"):
    dones_ignored = edit(".masked_fill(dones.bool(), 0.0) => ")
    """nothing is removed at a done, so the value of the next episode flows into this one"""
    dones_one_step_late = first("dones = torch.cat([torch.zeros_like(dones[..., :1]), dones[..., :-1]], dim=-1)")
    """you use dones[t - 1] at step t; dones[t] says that the episode ends after step t itself"""
    done_steps_zeroed = edit(
        "rewards + gamma * next_values - values[..., :-1] => "
        "(rewards + gamma * next_values - values[..., :-1]).masked_fill(dones.bool(), 0.0)"
    )
    """a done sets your whole TD error to 0, but only the next value should go; the reward and values[t] stay"""
    reward_alone_at_a_done = edit(
        "rewards + gamma * next_values - values[..., :-1] => "
        "torch.where(dones.bool(), rewards, rewards + gamma * next_values - values[..., :-1])"
    )
    """at a done you take the reward alone, but values[t] was expected before the step, so it's still subtracted"""
    reward_discounted_too = edit("rewards + gamma * next_values => gamma * (rewards + next_values)")
    """gamma discounts the reward as well, but rewards[t] comes now and only the next value comes later"""
    value_not_subtracted = edit(" - values[..., :-1] => ")
    """you don't subtract values[t], so this is a target, not a TD error"""
    next_value_subtracted = edit("- values[..., :-1] => - values[..., 1:]")
    """you subtract values[..., 1:], the value of the next state, but V(s_t) is values[..., :-1]"""
    reward_minus_value = edit(" + gamma * next_values => ")
    """you leave the next value out, so rewards[t] - values[t] contains nothing of the future"""
    value_and_next_value_swapped = edit(
        "values[..., 1:] => values[..., :-1]", "- values[..., :-1] => - values[..., 1:]"
    )
    """the values are shifted by one, because V(s_t) and V(s_t+1) have changed places"""
    last_bootstrap_dropped = first("dones = dones.bool().index_fill(-1, torch.tensor(-1), True)")
    """the last step gets no bootstrap, but values[T] is there because the rollout ended, not the episode"""
    done_multiplied = edit(".masked_fill(dones.bool(), 0.0) =>  * (1 - dones.to(values.dtype))")
    """you multiply by (1 - dones), but 0 * NaN and 0 * infinity are NaN; select with masked_fill or where"""
    present_value_bootstraps = edit(
        "values[..., 1:].masked_fill(dones.bool(), 0.0) => values[..., :-1] * (1 - dones.to(values.dtype))"
    )
    """V(s_t) stands where V(s_t+1) should, and the next value is values[t + 1]"""
    next_value_detached = edit("gamma * next_values => gamma * next_values.detach()")
    """the next values are detached, but cutting gradients is left to the losses"""
    both_values_discounted = edit("gamma * next_values - values[..., :-1] => gamma * (next_values - values[..., :-1])")
    """V(s_t) is discounted as well, but it stands at time t and only V(s_t+1) is a step away"""
    next_values_rolled_round = edit("values[..., 1:] => values[..., :-1].roll(-1, dims=-1)")
    """roll brings V(s_0) round to the end, but the last step bootstraps from values[T]"""


class GaeEnds(Wrong, of="gae_ends"):
    ends_exchanged = edit(
        "deltas, torch.stack(to_go[::-1], dim=-1) - values[..., :-1] => "
        "torch.stack(to_go[::-1], dim=-1) - values[..., :-1], deltas"
    )
    """the two ends are exchanged, but lam_0 should believe the critic after one reward, and lam_1 use all rewards"""
    expectation_not_subtracted = edit("dim=-1) - values[..., :-1] => dim=-1)")
    """lam_1 is the sum of what followed, but the critic's expectation before the step, values[t], has to be
    subtracted"""
    nothing_behind_the_cut = edit("values[..., -1] => torch.zeros_like(values[..., -1])")
    """lam_1 ends at the last step as if the episode ended there, but what comes after it is worth values[T]"""
    sums_across_an_end = edit(".masked_fill(dones[..., t].bool(), 0.0) => ")
    """lam_1 sums across the end of an episode, but it should stop at a done"""
    value_behind_an_end_times_0 = edit(
        "following.masked_fill(dones[..., t].bool(), 0.0) => following * (1 - dones[..., t].to(values.dtype))"
    )
    """you multiply the value behind an end by 0, but NaN stays NaN; leave it out with masked_fill or where"""
    rewards_not_discounted = edit("gamma * following.masked => following.masked")
    """lam_1 sums the rewards as they are, but each further step should cost one gamma"""
    summed_forwards = edit("reversed(range(rewards.shape[-1])) => range(rewards.shape[-1])", "[::-1] => ")
    """lam_1 sums the rewards before the step, but those that follow it count"""
    steps_in_reverse_order = edit("[::-1] => ")
    """you fill the list from the last step on and never reverse it"""
    by_compute_gae = instead("""
        ends = [compute_gae(rewards, values, dones, gamma, lam).advantages for lam in (0.0, 1.0)]
        return GAEEnds(*ends)
    """)
    """you call a function that comes later and lies between the two ends; write them without it"""


class NStepAdvantages(Wrong, of="n_step_advantages"):
    always_to_the_end = first("n = rewards.shape[-1]")
    """n has no effect, because your sum of rewards always goes to the end"""
    always_one_step = first("n = 1")
    """n has no effect, because this is the TD error, which is one step"""
    sum_crosses_the_done = edit(".masked_fill(dones.bool(), 0.0) => ")
    """you collect rewards behind a done, but the sum must stop where the episode ends"""
    later_terms_not_discounted = edit("gamma *  => ")
    """you don't discount the terms further ahead, because gamma is missing from the recursion"""
    no_bootstrap_after_n = edit(
        "rewards, values, => rewards, torch.zeros_like(values),",
        "return advantages => return advantages - values[..., :-1]",
    )
    """after n steps nothing is added, but what comes later is worth values[t + n]"""
    next_advantages_rolled_round = edit(
        "torch.cat([advantages[..., 1:], torch.zeros_like(advantages[..., :1])], dim=-1) => "
        "advantages.roll(-1, dims=-1)"
    )
    """roll brings the first step round to the end, but nothing follows the last step; put 0 there"""
    always_n_discounts = instead("""
        steps, found = rewards.shape[-1], []
        for t in range(steps):
            total, goes_on = torch.zeros_like(rewards[..., t]), torch.ones_like(dones[..., t]).bool()
            for k in range(t, min(t + n, steps)):
                total = total + gamma ** (k - t) * rewards[..., k].masked_fill(~goes_on, 0.0)
                goes_on = goes_on & ~dones[..., k].bool()
            value = values[..., min(t + n, steps)].masked_fill(~goes_on, 0.0)
            found.append(total + gamma**n * value - values[..., t])
        return torch.stack(found, dim=-1)
    """)
    """near the end fewer than n rewards are left, so values[T] is discounted once for each of these, not n times"""
    n_step_return = edit("return advantages => return advantages + values[..., :-1]")
    """you don't subtract values[t], so this is the n-step return, not the advantage"""
    no_bootstrap_at_the_end = first(
        "values = torch.cat([values[..., :-1], torch.zeros_like(values[..., -1:])], dim=-1)"
    )
    """at the end of the rollout values[T] is dropped, as if every episode ended there"""


class ComputeGae(Wrong, of="compute_gae"):
    next_advantage_without_gamma = edit("gamma * lam => lam")
    """the next advantage is weighted by lam alone, but it needs gamma * lam"""
    nothing_carried = first("lam = 0.0")
    """you leave the next advantage out, so this is the TD error, which is lam = 0"""
    gamma_and_lam_swapped = first("gamma, lam = lam, gamma")
    """gamma and lam have changed places"""
    returns_of_the_next_state_bootstrapped = edit(
        "return AdvantagesAndReturns(stacked, stacked + values[..., :-1]) => "
        "returns = stacked + values[..., :-1]\n"
        "following = torch.cat([returns[..., 1:], values[..., -1:]], dim=-1).masked_fill(dones.bool(), 0.0)\n"
        "return AdvantagesAndReturns(rewards + gamma * following - values[..., :-1], returns)",
        read=WRONG,
    )
    """your advantage is reward + gamma * return of the next state - value, as in brax, so one lam is missing"""
    one_minus_lam_kept = edit("torch.stack( => (1 - lam) * torch.stack(", read="From n-step advantages to GAE")
    """you keep the factor (1 - lam), but it belongs to the n-step advantages and cancels in the sum over TD errors"""
    gae_dones_ignored = first("dones = torch.zeros_like(dones)")
    """you ignore dones, so value and advantage of the next episode flow into this one"""
    done_removes_next_value_only = edit(".masked_fill(dones[..., t].bool(), 0.0) => ")
    """a done removes the next value but not the next advantage, and it must remove both"""
    done_removes_next_advantage_only = edit("values, dones, => values, torch.zeros_like(dones),")
    """a done removes the next advantage but not the next value, and it must remove both"""
    dones_one_step_early = first("dones = torch.cat([dones[..., 1:], torch.zeros_like(dones[..., :1])], dim=-1)")
    """you use dones[t + 1] at step t; dones[t] itself says that the episode ends after step t"""
    gae_dones_one_step_late = first("dones = torch.cat([torch.zeros_like(dones[..., :1]), dones[..., :-1]], dim=-1)")
    """you use dones[t - 1] at step t; dones[t] says that the episode ends after step t"""
    loop_runs_forwards = edit("reversed(range(rewards.shape[-1])) => range(rewards.shape[-1])", "[::-1] => ")
    """your loop runs forwards, but advantages[t] needs advantages[t + 1], so the last step comes first"""
    answer_in_reverse_order = edit("[::-1] => ")
    """you fill the list from the last step on and never reverse it"""
    gae_last_bootstrap_dropped = first("dones = dones.bool().index_fill(-1, torch.tensor(-1), True)")
    """the last step gets no bootstrap, but values[T] must enter delta[T - 1]"""
    advantages_whitened = edit("(stacked,  => ((stacked - stacked.mean()) / (stacked.std() + 1e-8), ", read=WRONG)
    """you whiten the advantages here, but the trainer does that, later and with the mask"""
    returns_from_whitened_advantages = edit(
        "return => stacked = (stacked - stacked.mean()) / (stacked.std() + 1e-8)\nreturn", read=WRONG
    )
    """you whiten the advantages before you make the returns, so the critic gets targets of the wrong scale"""
    returns_without_values = edit(" + values[..., :-1] => ")
    """returns are only the advantages, but values[t] has to be added back"""
    returns_with_rewards = edit("values[..., :-1] => rewards")
    """returns add the rewards, which the advantages already hold, but they should be advantages[t] + values[t]"""
    returns_with_next_values = edit("values[..., :-1] => values[..., 1:]")
    """returns add the value of the next state, but they should be advantages[t] + values[t]"""
    returns_of_lam_1 = edit(
        "stacked + values => n_step_advantages(rewards, values, dones, rewards.shape[-1], gamma) + values"
    )
    """returns are the plain discounted rewards (lam = 1), not the target that belongs to these advantages"""
    returns_first = edit("stacked, stacked + values[..., :-1] => stacked + values[..., :-1], stacked")
    """the two answers have changed places; return (advantages, returns)"""
    gae_without_gradient = first("rewards, values = rewards.detach(), values.detach()", read=WRONG)
    """your numbers are right but no gradient flows; detach nothing here, because the losses do that"""


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
    """you wrote a second loop; call compute_gae on packed rows, so that what you wrote there is what your run trains
    with"""
    mask_ignored = first("mask = torch.ones_like(mask)")
    """you ignore the mask, so what the critic says about padding flows into real tokens"""
    # deepspeedai/DeepSpeedExamples#672
    ends_one_token_late = first("mask = mask | torch.nn.functional.pad(mask[:, :-1], (1, 0))")
    """a response ends one token late here, because the first padding token after it counts as its last"""
    masked_afterwards = in_a_loop(
        "rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0) => "
        "real, mask = mask, torch.ones_like(mask)",
        "masked_fill(~mask => masked_fill(~real",
        "stacked + values => stacked + values.masked_fill(~real, 0.0)",
    )
    """your recursion runs over all columns and the mask comes after it, so padding has already flowed in"""
    mask_multiplied = in_a_loop(
        "rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0) => rewards * mask, values * mask",
        "torch.where(mask[:, t], values[:, t], next_value) => mask[:, t] * values[:, t] + ~mask[:, t] * next_value",
        "torch.where(mask[:, t], advantage, next_advantage) => mask[:, t] * advantage + ~mask[:, t] * next_advantage",
        ".masked_fill(~mask, 0.0) =>  * mask",
    )
    """you multiply by the mask, but 0 * NaN is NaN; select with where or masked_fill"""
    gap_taken_for_a_step = in_a_loop(
        "torch.where(mask[:, t], values[:, t], next_value) => values[:, t]",
        "torch.where(mask[:, t], advantage, next_advantage) => advantage",
    )
    """a gap costs a factor gamma * lam, because a tool's token counts as a step here; skip it"""
    gap_ends_the_episode = in_a_loop(", next_value) => , 0.0)", ", next_advantage) => , 0.0)")
    """a gap ends the episode, because next value and advantage are dropped at the tool's token; skip it"""
    gap_skipped_by_the_value_only = in_a_loop(", next_advantage) => , 0.0)")
    """only the value skips a gap, but the next advantage should skip it as well"""
    last_token_bootstraps_from_itself = in_a_loop(
        "gamma * next_value => gamma * torch.where(mask[:, t + 1 :].any(dim=1), next_value, values[:, t])"
    )
    """the last token takes its own value as the next one, but nothing comes after it, so that should be 0"""
    left_packed = edit(
        "advantages = torch.zeros_like(values).scatter(1, order, packed.advantages).masked_fill(~mask, 0.0) => "
        "real = mask.gather(1, order)\nadvantages = packed.advantages.masked_fill(~real, 0.0)",
        "advantages + values => packed.returns.masked_fill(~real, 0.0)",
    )
    """your answers stay packed at the left, but each belongs to its own token; scatter them back by the order"""
    padding_left_filled = in_a_loop(
        "append(advantage) => append(torch.where(mask[:, t], advantage, next_advantage))",
        "dim=1).masked_fill(~mask, 0.0) => dim=1)",
    )
    """padding holds the advantage of a neighboring token in your answer, but it should be 0"""
    packed_rows_not_moved_back = edit(
        "torch.zeros_like(values).scatter(1, order, packed.advantages) => packed.advantages"
    )
    """you don't move the packed answers back, but each belongs to the column that its token came from"""
    moved_back_by_the_same_order = edit(
        "torch.zeros_like(values).scatter(1, order, packed.advantages) => packed.advantages.gather(1, order)",
        "advantages + values) => packed.returns.gather(1, order).masked_fill(~mask, 0.0))",
    )
    """you gather by the same order on the way back, but the way back is its inverse; scatter puts each number where its
    token was"""
    gaps_not_packed = instead("""
        rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)
        dones = mask.sum(dim=1, keepdim=True) == torch.arange(1, mask.shape[1] + 1)
        found = compute_gae(rewards, torch.nn.functional.pad(values, (0, 1)), dones, gamma, lam)
        return AdvantagesAndReturns(*(part.masked_fill(~mask, 0.0) for part in found))
    """)
    """you take the columns as they stand, so a gap counts as a step and moves the end; pack the real tokens first"""
    first_columns_for_the_tokens = instead("""
        lengths = mask.sum(dim=1, keepdim=True)
        dones = lengths == torch.arange(1, mask.shape[1] + 1)
        used = torch.arange(mask.shape[1]) < lengths
        values = torch.nn.functional.pad(values.masked_fill(~used, 0.0), (0, 1))
        found = compute_gae(rewards.masked_fill(~used, 0.0), values, dones, gamma, lam)
        return AdvantagesAndReturns(*(part.masked_fill(~used, 0.0) for part in found))
    """)
    """you take the first columns of a row for its real tokens, which is wrong as soon as there's a gap between them"""
    packed_out_of_order = edit("order = (~mask) => order = mask")
    """you put the masked columns first; move the real tokens to the left, in their order"""
    returns_not_masked = in_a_loop(
        "rewards, values = rewards => unmasked = values\nrewards, values = rewards",
        "stacked + values => stacked + unmasked",
    )
    """you don't mask the returns, so they hold what the critic says about padding"""
    response_returns_without_values = in_a_loop("stacked + values => stacked")
    """returns are only the advantages, but values[t] has to be added back"""
    zero_advantage_taken_for_padding = in_a_loop("stacked + values => torch.where(stacked != 0, stacked + values, 0.0)")
    """you take an advantage of 0 for padding, but the return of such a token is its value"""
