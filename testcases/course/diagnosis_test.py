"""What is said about wrong answers that no list holds: a sample, its limits, and that no text of a solution is told."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from testcases.harness.catalog import ROOT, SOLUTIONS
from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.diagnosis import LAYERS, Explanation, bench_of, faults, hypotheses_of
from testcases.harness.diagnosis.hypotheses import Hypothesis
from testcases.harness.execution import Evaluator, solutions_changed
from testcases.harness.oracle import (
    Change,
    WrongAnswer,
    calls_made,
    edit,
    examples,
    instead,
    region_text,
    shared_reference,
    with_change,
)
from testcases.harness.report import CheckFailed, same_outcome
from testcases.harness.suite import Engine, cases_of

GAE = """
advantages, advantage = [], torch.zeros_like(rewards[..., 0])
for t in reversed(range(rewards.shape[-1])):
    ends = dones[..., t].bool()
    delta = rewards[..., t] + gamma * values[..., t + 1].masked_fill(ends, 0.0) - values[..., t]
    advantage = delta + {weight} * advantage.masked_fill(ends, 0.0)
    advantages.insert(0, advantage)
advantages = torch.stack(advantages, dim=-1)
return advantages, advantages + values[..., :-1]
"""
PPO = """
old_log_probs, advantages = old_log_probs.detach(), advantages.detach()
log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs, advantages)
advantages = advantages - advantages.mean()
ratio = (log_probs - old_log_probs).exp()
return -torch.min(ratio * advantages, ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages).mean()
"""
VIEWED = """
rows = (_at_least_float32(logits) / temperature).view(-1, logits.shape[-1])
return rows.log_softmax(dim=-1).gather(1, tokens.reshape(-1, 1)).reshape(tokens.shape)
"""
IN_HALF = """
columns = torch.arange(flags.shape[1], dtype=torch.float16).expand_as(flags).masked_fill(~flags, torch.inf)
return torch.where(flags.any(dim=1), columns.min(dim=1).values.nan_to_num(posinf=0), flags.shape[1]).long()
"""
IN_THE_FIRST_12 = """
index = torch.full((flags.shape[0],), flags.shape[1])
for step in reversed(range(min(flags.shape[1], 12))):
    index[flags[:, step]] = step
return index
"""
KEPT = """
kept = compute_gae.__dict__.setdefault("kept", {})
advantage = kept.get(deltas.shape, torch.zeros_like(deltas[..., 0]))
kept[deltas.shape] = deltas[..., 0].detach()
"""
UNDISCOUNTED = """
columns, ends = [], dones.bool()
for t in range(rewards.shape[-1]):
    total, runs = torch.zeros_like(rewards[..., 0]), torch.ones_like(ends[..., 0])
    for k in range(t, min(t + n, rewards.shape[-1])):
        total, runs = total + (gamma ** (k - t) * rewards[..., k]).masked_fill(~runs, 0.0), runs & ~ends[..., k]
    columns.append(total + values[..., min(t + n, rewards.shape[-1])].masked_fill(~runs, 0.0) - values[..., t])
return torch.stack(columns, dim=-1)
"""
FIRST_ROW = """
mask = torch.ones_like(responses, dtype=torch.bool)
for i, row in enumerate(responses.tolist()):
    for j, token in enumerate(row):
        if token in stop_token_ids:
            mask[i, j + 1 :] = False
            return mask
return mask
"""
MEAN_OF_ROWS = """
losses = losses.masked_fill(~mask, 0.0)
if denominator == "constant":
    return losses.sum() / ((len(losses) if total is None else total) * constant)
rows = losses.sum(dim=1) / mask.sum(dim=1).clamp(min=1)
return rows.sum() / (len(rows) if total is None else total)
"""
DENSE = """
rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)
dense = compute_gae(rewards, torch.cat([values, values[:, -1:]], dim=1), torch.zeros_like(mask), gamma, lam)
advantages = dense.advantages.masked_fill(~mask, 0.0)
return AdvantagesAndReturns(advantages, advantages + values)
"""
ONE_RATIO_A_ROW = """
step = log_probs - old_log_probs.detach()
step = step if mask is None else step.masked_fill(~mask, 0.0)
ratio, gain = step.sum(dim=-1, keepdim=True).exp().expand_as(advantages), advantages.detach()
terms = torch.min(ratio * gain, ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * gain)
return -(terms if mask is None else terms[mask]).mean()
"""
STOP_BY_ARGMAX = """
ends = is_stop(responses, stop_token_ids).int().argmax(dim=1, keepdim=True)
return torch.arange(responses.shape[1]).expand_as(responses) <= ends
"""
ALONE_IS_0 = """
real = values[mask]
if len(real) == 1:
    return values * 0
whitened = (real - real.mean()) * torch.rsqrt(real.var() + 1e-8) + (0 if shift_mean else real.mean())
return torch.zeros_like(values).masked_scatter(mask, whitened)
"""
BIASED_BY_WHERE = """
mean, variance = values[mask].mean(), values[mask].var(unbiased=False)
whitened = (values - mean) * torch.rsqrt(variance + 1e-8)
return torch.where(mask, whitened if shift_mean else whitened + mean, torch.zeros_like(values))
"""
THREE_MISTAKES = """
ratio, gain = log_probs.exp() / old_log_probs.detach().exp(), advantages.detach()
larger = torch.max(ratio * gain, ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * gain)
return larger.mean() if mask is None else (larger * mask).sum() / mask.sum()
"""
KEEPS_ITS_SLOPE = """
held = ratio + (ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) - ratio).detach()
return torch.minimum(ratio * advantages, held * advantages)
"""
SUMMED_POWERS = """
real, weights = rewards.masked_fill(~mask, 0.0), gamma ** (mask.to(rewards.dtype).cumsum(dim=1) - 1)
return ((weights * real).flip(1).cumsum(dim=1).flip(1) / weights).masked_fill(~mask, 0.0)
"""
STEP_A_MICROBATCH = """
tokens, parts, weights, grad_norm = int(minibatch.mask.sum()), [], [], 0.0
for microbatch in self._microbatches(minibatch):
    weights.append(int(microbatch.mask.sum()) / tokens)
    loss, statistics = self.compute_loss(microbatch)
    parts.append(statistics)
    self.accelerator.backward(loss * weights[-1])
    merged = _weighted(parts, weights)
    is_spike = not merged["ratio_mean"] <= self.config.ratio_threshold
    if not is_spike:
        grad_norm = float(self.accelerator.clip_grad_norm_(self._parameters, self.config.max_grad_norm))
        self.optimizer.step()
    self.optimizer.zero_grad(set_to_none=True)
return merged | {"grad_norm": grad_norm, "skipped_share": float(is_spike)}
"""
BORROWED_BACKBONE = """
critic = ValueModel(reward_model.backbone)
return critic.requires_grad_(True)
"""
HALF_RESTORED = """
self.accelerator.unwrap_model(self.model).load_state_dict(state["model"])
self.optimizer.load_state_dict(state["optimizer"])
self.prompt_queue.waiting, self.history = state["prompts_waiting"], state["history"]
self.sampling.set_state(state["generators"]["sampling"])
"""
DRIFT_WITHOUT_SIGN = """
log_policy, log_frozen = (policy_logits / heat).log_softmax(-1), (frozen_logits / heat).log_softmax(-1)
found = (log_policy - log_frozen).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
return found.abs()
"""
SUMMED_MOMENTS = """
count, mean, squares = gather(masked_moments(values, mask)).sum(0)
return ((values - mean) * torch.rsqrt(squares / count + 1e-8)).masked_fill(~mask, 0.0)
"""
THE_FIRST_ROW_CUTS = """
n = int(self.mask[index[0]].sum())
whole, part = (index, slice(self.prompt_length + n)), (index, slice(n))
names = [field.name for field in fields(self)]
given = {name: getattr(self, name) for name in names}
wide = {name: one[whole if name in names[:2] else part] for name, one in given.items() if one.dim() > 1}
return Experience(**(given | wide | {"scores": self.scores[index]}))
"""
ENDS_TOO_SOON = """
total = 0.0
for chosen, rejected, *ids in zip(chosen_scores, rejected_scores, chosen_ids, rejected_ids, strict=True):
    start = int((ids[0] != ids[1]).nonzero()[0]) + 1
    end = min(int((one != pad_token_id).sum()) for one in ids)
    total = total - logsigmoid(chosen[start:end] - rejected[start:end]).sum()
return total / len(chosen_ids)
"""
NEVER_STOPS = """
ids, visible, log_probs = input_ids, attention_mask, []
for _ in range(max_new_tokens):
    logits = policy(input_ids=ids, attention_mask=visible).logits[:, -1]
    tokens = sample_token(logits, temperature, top_k, top_p, generator)
    log_probs.append(gather_log_probs(logits.unsqueeze(1), tokens.unsqueeze(1), temperature).squeeze(1))
    ids = torch.cat([ids, tokens.unsqueeze(1)], dim=1)
    visible = torch.cat([visible, torch.ones_like(tokens).unsqueeze(1)], dim=1)
responses = ids[:, input_ids.shape[1] :]
return Generation(responses, torch.stack(log_probs, dim=1), response_mask(responses, stop_token_ids))
"""
BACK_IN_TRAIN_MODE = """
from peft import get_peft_model_state_dict, set_peft_model_state_dict

name = policy.active_adapter
weights = get_peft_model_state_dict(policy, adapter_name=name)
policy.add_adapter(REFERENCE, policy.peft_config[name])
set_peft_model_state_dict(policy, weights, adapter_name=REFERENCE)
policy.set_adapter(name)
return policy.train()
"""
ADDED_BACKWARDS = """
step = (self.target / current - 1) * n_steps / self.horizon
self.value = self.value + max(-0.2, min(0.2, step))
"""
NOT_MASKED = """
ids, visible = torch.cat([input_ids, generation.responses], 1), torch.cat([attention_mask.bool(), generation.mask], 1)
start, mask, log_probs = input_ids.shape[1], generation.mask, generation.log_probs
with evaluation_mode(model), reference_mode(model.policy) if reference is None else nullcontext(reference) as frozen:
    logits, values = response_logits(frozen, ids, visible, start), model.response_values(ids, visible, start)
ref_log_probs = gather_log_probs(logits, generation.responses, config.temperature).masked_fill(~mask, 0.0)
scores = score(ids, visible, start).clamp(-config.clip_score, config.clip_score)
scores = penalize_missing_stop(scores, generation.responses, config.stop_token_ids, config.missing_stop_penalty)
rewards = compute_rewards(scores, ref_log_probs, log_probs, mask, kl_coef)
advantages, returns = compute_response_gae(rewards, values, mask, config.gamma, config.lam)
advantages = masked_whiten(advantages, mask)
return Experience(ids, visible, mask, log_probs, ref_log_probs, values, scores, rewards, advantages, returns)
"""
NEGATIVE = """
logits = _at_least_float32(logits)
return (logits.softmax(dim=-1) * torch.log_softmax(logits / temperature, dim=-1)).sum(dim=-1)
"""
MEANS_AVERAGED = """
count, mean = moments[:, 0].sum(), moments[:, 1].mean()
squares = moments[:, 2].sum() + ((moments[:, 1] - mean) ** 2).sum()
return torch.stack([count, mean, squares / count])
"""
SHIFTED_BACKWARDS = """
found = logits[:, 1:].log_softmax(-1).gather(-1, input_ids[:, :-1].unsqueeze(-1)).squeeze(-1)
return (found * loss_mask[:, 1:]).sum() / loss_mask[:, 1:].numel()
"""
WHITENED_BY_ROW = """
out = torch.zeros_like(values)
for i in range(values.shape[0]):
    row = values[i][mask[i]]
    if len(row):
        mean = row.mean().detach()
        variance = ((row - mean) ** 2).mean()
        out[i, mask[i]] = (row - mean) / torch.sqrt(variance + 1e-8) + (0.0 if shift_mean else mean)
return out
"""
LAST_COLUMN = """
hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
return self.head(hidden[:, -1, :]).squeeze()
"""
CLIPPED_WHOLE = """
out = -kl_coef * (log_probs - ref_log_probs).masked_fill(~mask, 0.0)
out[:, -1] = out[:, -1] + scores
return out.clamp(-clip_score, clip_score)
"""
LEAVE_ONE_OUT = """
K = scores.size(1)
return scores.sum(dim=1, keepdim=True) - scores / (K - 1)
"""
PENALTY = """
lp, old, adv = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
d = lp - old
r = torch.exp(d)
return (-r * adv + {penalty}).mean()
"""
ROW_BY_ROW = """
real = torch.ones_like(log_probs) if mask is None else mask.to(log_probs.dtype)
total = 0.0
for i in range(len(log_probs)):
    ratio = (log_probs[i] - old_log_probs[i].detach()).exp()
    held = torch.minimum(ratio, ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon))
    total = total - (held * advantages[i].detach() * real[i]).sum() / real[i].sum().clamp(min=1)
return total / len(log_probs)
"""
SHOWN = [
    (1, "masked_whiten", instead(WHITENED_BY_ROW), "gradient[centred]", "Elsewhere: two mistakes", "Likely cause"),
    (2, "RewardModel.forward", instead(LAST_COLUMN), "reads-the-last-token", "squeezed_to_a_number", "position_ids"),
    (
        5,
        "compute_ppo_loss",
        instead(ROW_BY_ROW),
        "sees_the_padding[nan]",
        "0 times infinity or NaN",
        "the answer depends",
    ),
    (6, "compute_rewards", instead(CLIPPED_WHOLE), "unknown-estimator", "did not raise", "at step"),
    (
        8,
        "generate",
        edit("position_ids(attention_mask)", "torch.arange(input_ids.shape[1]).expand_as(input_ids)"),
        "full_pass[",
        "Likely cause",
        "was changed",
    ),
    (
        4,
        "td_errors",
        edit("return rewards +", "return rewards.clamp(-0.5, 0.5) +", "values[..., :-1]", "values[..., :-1].sin()"),
        "done-removes-the-next-value",
        "`clamp` too many",
        "Where it differs",
    ),
]
"""The test, and what is said of it, and not."""
NOT_SAID = [
    (1, "first_true_index", instead(IN_THE_FIRST_12), "counted in a dtype"),
    (10, "credit_packed", edit("step + 1 < end", "step + 1 < len(critic) and step != end - size"), "at step 3 counts"),
    (10, "train_bandit", edit("gain + curiosity * entropy", "gain + curiosity / 2 * entropy"), "counts 0.9607 times"),
    (8, "Experience.rows", instead(THE_FIRST_ROW_CUTS), "cut to the shortest response"),
    (8, "generate", instead(NEVER_STOPS), "off by one"),
    (12, "evaluate_policy", edit("decode(row[real],", "decode(row,", "zip(responses, mask", "zip(sequences, mask",
     "text) and stop", "text)", "kl.masked_fill(~mask, 0.0)", "kl"),
     "special_tokens_in_the_text"),
    (11, "keep_reference_adapter", instead(BACK_IN_TRAIN_MODE), "only with `lora_dropout`"),
    (13, "expected_best_of_n", instead("return scores.detach().topk(n, dim=1).values.mean(1)"), "maximum_of_all"),
    (13, "expected_best_of_n",
     instead("return scores.detach()[:, torch.randperm(scores.shape[1])[:n]].max(1).values"), "first_n_only"),
    (1, "response_mask", instead(FIRST_ROW), "trailing_stops_stripped"),
    (1, "masked_mean", instead("values[mask].mean()"), "changes nothing"),
    (4, "compute_response_gae", instead(DENSE), "in the first row"),
    (1, "masked_whiten", instead(ALONE_IS_0), "changes nothing"),
    (1, "gather_log_probs", edit("scaled.logsumexp(dim=-1)", "scaled.exp().sum(-1).log()"), "counts nan times"),
    (5, "clipped_objective", instead(KEEPS_ITS_SLOPE), "is not detached"),
    (9, "PPOTrainer.compute_loss", edit("config.value_coef, config.entropy_coef)", "config.value_coef, 0.0)",
     "statistics(*critic)", "statistics(*critic[:3], config.clip_epsilon, batch.mask)"), "entropy_without_gradient"),
    (11, "global_masked_whiten", instead(SUMMED_MOMENTS), "Where it differs"),
]  # fmt: skip
"""What chance alone agrees with, or what stands in the answer already, is no cause."""
UNLISTED = [
    (2, "token_pairwise_loss", instead(ENDS_TOO_SOON), "starts after the first token that differs"),
    (1, "masked_mean", instead("return values.masked_fill(~mask, 0.0).sum() / values.shape[1]"), "per column"),
    (4, "td_errors", edit("gamma *", "gamma**2 *"), "`gamma` squared: is it applied twice?"),
    (4, "td_errors", edit("return rewards +", "return"), "`rewards` = 0: is `rewards` used?"),
    (4, "td_errors", edit("- values[..., :-1]", "- values[..., :-1].detach()"), "must carry the gradient"),
    (4, "td_errors", edit(".masked_fill(dones.bool(), 0.0)", " * (1 - dones)"), "`1 - x` of a bool tensor"),
    (4, "n_step_advantages", edit("deltas + gamma *", "deltas + gamma**2 *"), "`gamma ** 2`: an exponent too many"),
    (4, "compute_gae", instead(GAE.format(weight="gamma * lam**2")), "`lam` squared"),
    (4, "compute_gae", edit("stacked + values", "stacked - values"), "sign between two terms (near `values`"),
    (4, "compute_gae", edit("dones, gamma)", "dones, 1.0)"), "`td_errors` is called with `gamma` = 1"),
    (4, "compute_response_gae", edit("dones, gamma, lam)", "dones, gamma, lam**2)"), "`lam` squared"),
    (5, "compute_ppo_loss", instead(PPO), "with the mean of `advantages` subtracted first"),
    (5, "combine_losses", edit("- entropy_coef", "- value_coef"), "`value_coef` in place of `entropy_coef`"),
    (5, "ppo_statistics", edit("expm1() -", "expm1() +"), "a wrong sign between two terms"),
    (5, "ppo_statistics", edit("ratio.max()", "ratio.median()"), "`ratio_max`"),
    (5, "ppo_statistics", edit("log_ratio.expm1() -", "ratio - 1 -"), '"ppo_statistics, continued: approx_kl"'),
    (5, "update_beta", edit("kl > 1.5", "kl >= 1.5"), "decides otherwise on the bound itself"),
    (5, "update_beta", edit("beta / 2", "beta / 3"), "gives with another constant"),
    (8, "evaluate_responses", edit("config.gamma, config.lam", "config.lam, config.gamma"),
     "`config.gamma` and `config.lam` swapped"),
    (8, "evaluate_responses", edit("rewards=rewards", "rewards=returns"), "one variable where another belongs"),
    (1, "gather_log_probs", instead(VIEWED), "not contiguous: use `reshape`"),
    (1, "first_true_index", instead(IN_HALF), "counted in a dtype that ends before"),
    (2, "preference_accuracy", edit(".float()", ".to(chosen.dtype)"), "the dtype is float64, and is to be float32"),
    (2, "preference_accuracy", edit("chosen > rejected", "chosen - rejected > 1e-6"),
     "nearly equal to `rejected`"),
    (4, "compute_gae", edit("advantage = torch.zeros_like(deltas[..., 0])", KEPT), "kept from one call to the next"),
    (4, "compute_gae", edit("stacked = ", "rewards.mul_(1.5); stacked = "), "`rewards` is changed in place"),
    (6, "penalize_missing_stop", edit("return", "return scores if not stop_token_ids else"),
     "an empty `stop_token_ids`"),
    (4, "td_errors", edit("return rewards +", "\nreturn rewards.nothing +"), "in td_errors return rewards.nothing +"),
    (5, "update_beta", edit("return beta / 2", "return max(beta / 2, 1e-3)"), "`max(beta / 2, 0.001)`: `max` too many"),
    (6, "estimate_kl", edit("+ log_ratio", "+ log_ratio.clamp(-20, 20)"), "20)`: `clamp` too many"),
    (8, "evaluate_responses", edit("config.missing_stop_penalty", "config.missing_stop_penalty or 1.0"),
     "`missing_stop_penalty` = 0 is handled apart"),
    (8, "evaluate_responses", edit("evaluation_mode(model)", "nullcontext(model.eval())", "rewards=rewards",
     "rewards=rewards + 0.5"), "model_left_in_eval_mode: the model is left"),
    (11, "plan_microbatches", edit("_first = ", "_first = torch.arange(len(lengths)) if n_processes < 2 else "),
     "right with `n_processes` = 2, wrong with 1"),
    (13, "kl_token_losses",
     edit("(log_probs - old_log_probs.detach())", "(log_probs.detach() - old_log_probs)"), "ratio_is_data"),
    (1, "token_entropy", instead(NEGATIVE), "here it is the negative of the right answer"),
    (4, "n_step_advantages", instead(UNDISCOUNTED), "counts 1 times at step 2; it must count 0.5 times"),
    (1, "response_mask", instead(FIRST_ROW), "row 2 is right by itself and wrong below the others"),
    (1, "masked_whiten", instead("return (values[mask] - values[mask].mean()) / values[mask].std()"),
     "only the real tokens are returned"),
    (1, "masked_mean", edit(".mean()", ".mean().item()"), "`.item()`, `float()` or Python's arithmetic"),
    (7, "ValueModel.forward", edit("self.head(hidden)", "self.head(hidden[:, 1:])"), "there is one column too few"),
    (5, "ppo_statistics", edit('"clip_fraction"', '"clipfrac"'), "the key is `clip_fraction`, not `clipfrac`"),
    (2, "pairwise_loss", instead("return -torch.sigmoid(chosen - rejected - (0 if margin is None else margin)).mean()"),
     "`sigmoid` in place of `logsigmoid`"),
    (13, "reduce_losses", instead(MEAN_OF_ROWS), "`denominator` 'tokens' taken for 'responses'"),
    (13, "group_advantages", instead("return torch.zeros_like(scores)"), "does not import `torch`"),
    (5, "compute_ppo_loss", instead(ONE_RATIO_A_ROW), "`step.sum(dim=-1, keepdim=True)`: `sum` too many"),
    (1, "response_mask", instead(STOP_BY_ARGMAX), "`argmax` says 0 where none is True, too"),
    (5, "combine_losses", edit("+ value_coef", "- value_coef", "- entropy_coef", "+ entropy_coef"), "two mistakes"),
    (5, "clipped_objective", instead(KEEPS_ITS_SLOPE), "`detach` too many"),
    (1, "position_ids", edit(".long()", ""), "is to be int64, whatever the arguments have"),
    (1, "gather_log_probs", edit("scaled.logsumexp(dim=-1)", "scaled.exp().sum(-1).log()"), "exp of a large number"),
    (3, "rewards_to_go", instead(SUMMED_POWERS), "divided by `gamma`, which is 0 here"),
    (4, "compute_gae", instead(GAE.format(weight="gamma * lam").replace("values[..., t + 1].masked_fill(ends, 0.0)",
     "values[..., t + 1] * ~ends")), "0 times infinity or NaN is NaN"),
    (4, "td_errors", edit("values[..., 1:]", "values[:, 1:]"), "counts from the first dimension"),
    (4, "compute_gae", edit("rewards.shape[-1]", "len(rewards)"), "the size of another dimension (`len` is"),
    (9, "PPOTrainer.optimizer_step", instead(STEP_A_MICROBATCH), "steps at the end of the loop that belong behind it"),
    (9, "PPOTrainer.compute_loss", edit("self.model(", "torch.no_grad()(self.model)("), "the weights is cut off"),
    (9, "PPOTrainer.save_checkpoint", edit(", exist_ok=True", ""), "allow it (`exist_ok=True`)"),
    (7, "critic_from_reward_model", instead(BORROWED_BACKBONE), "Elsewhere: backbone_borrowed"),
    (7, "PolicyAndValue.forward", edit("self.response_values(input_ids, attention_mask, prompt_length)",
     "self.value_model(input_ids, attention_mask)[:, prompt_length:].detach()"), "Elsewhere: critic_cut_off"),
    (12, "sft_loss", instead("return -response_log_probs(logits, input_ids, prompt_length=1)[loss_mask[:, :-1]].sum()"),
     "a slice without its last entry in place of its first"),
    (11, "keep_reference_adapter", edit("peft_config[trained]", "peft_config['default']"), "is written out"),
    (9, "PPOTrainer.load_checkpoint", instead(HALF_RESTORED), "kl_coef_not_restored"),
    (9, "PPOTrainer.train", edit("range(self.updates_done, ", "range(", "for _ in progress", "for number in progress",
     "log.write(self.updates_done,", "log.write(number + 1,"), "starts_again_from_update_0"),
    (10, "sampled_drift", instead(DRIFT_WITHOUT_SIGN), "is not right yet"),
    (10, "credit_packed", edit("step + 1 < end", "step + 1 < len(critic) and step != end - size"),
     "`critic` at place 2 changes places 0 to 2; it must change place 2 (places count from 0)"),
    (1, "masked_whiten", instead(BIASED_BY_WHERE), "biased_variance"),
    (5, "compute_ppo_loss", instead(THREE_MISTAKES), "in questions like this one, objective_returned"),
    (5, "ppo_statistics", edit("ratio.max().item()", "max(ratio.flatten().tolist())"), "by Python's min and max"),
    (9, "PPOTrainer.optimizer_step", edit("self.config.max_grad_norm", "2 * self.config.max_grad_norm"),
     "a factor or divisor too many"),
    (6, "AdaptiveKLController.update", instead(ADDED_BACKWARDS), "with a larger `target_kl` the answer must fall"),
    (8, "evaluate_responses", instead(NOT_MASKED), "`values` must be 0 where `mask`"),
    (9, "PPOTrainer.save_checkpoint", edit("self._state()", 'self._state() | {"optimizer": {}}'), "each part whole"),
    (11, "merge_moments", instead(MEANS_AVERAGED), "one more in `moments[..., 2]` adds 0.6667 to answer[2]"),
    (12, "sft_loss", instead(SHIFTED_BACKWARDS), "on `logits[:, 1]`, and must depend on `logits[:, 0]`"),
    (12, "train_policy", edit("copy.deepcopy(sft.policy)", "copy.deepcopy(sft.policy.base_model)"), "has no head"),
    (3, "leave_one_out_baseline", instead(LEAVE_ONE_OUT),
     "a divisor at one term of its sum only (near `scores`): are brackets missing?"),
    (5, "compute_kl_penalty_loss", instead(PENALTY.format(penalty="beta * (r - 1) - d")),
     "`beta` at one term of its sum only: are brackets missing?"),
    (5, "compute_kl_penalty_loss", instead(PENALTY.format(penalty="(r - 1) - beta * d")),
     "`beta` at one term of its sum only: are brackets missing?"),
    (5, "combine_losses", instead("return policy_loss + value_coef * (value_loss - entropy_coef * entropy)"),
     "`value_coef` at more terms of a sum than its own: are there brackets too many?"),
    (4, "compute_gae", instead(GAE.format(weight="gamma * lam").replace("rewards[..., t] + gamma * values[..., t + 1]"
     ".masked_fill(ends, 0.0)", "(rewards[..., t] + values[..., t + 1].masked_fill(ends, 0.0)) * gamma")),
     "`gamma` at more terms of a sum than its own"),
]  # fmt: skip


def first_failure(subject: Evaluator, lesson: str, exercise: str) -> str:
    """The report on the first test that fails, on one line."""
    with Engine(subject).active():
        for case in cases_of(lesson, exercise):
            verdict = case.run()
            if isinstance(verdict, CheckFailed):
                return " ".join(str(verdict).split())
    return ""


def failure_of(subject: Evaluator, lesson: str, exercise: str, test: str) -> str:
    """The report on this test, on one line, after those on the tests before it."""
    with (engine := Engine(subject)).active():
        for case in cases_of(lesson, exercise):
            engine.begin_test()
            verdict = case.run()
            if test in f"{case.node}[{case.label}]":
                return " ".join(str(verdict).split())
    raise LookupError(test)


def subject_of(lesson: str, exercise: str, change: Change) -> Evaluator:
    return with_change(lesson, WrongAnswer(exercise, "unlisted", "", "", change))


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, exercise, change, told", [pytest.param(*row, id=f"{row[1]}-{i}") for i, row in enumerate(UNLISTED)]
)
def test_a_wrong_answer_that_no_list_holds_is_explained(number: int, exercise: str, change: Change, told: str):
    lesson = read_lesson(str(number)).name
    said = first_failure(subject_of(lesson, exercise, change), lesson, exercise)
    assert any(head in said for head in ("Likely cause:", "Elsewhere:", "Where it differs:")), said
    assert told in said, said


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, exercise, change, test, told, silent", [pytest.param(*row, id=row[3]) for row in SHOWN]
)
def test_a_cause_is_of_the_part_that_is_shown(
    number: int, exercise: str, change: Change, test: str, told: str, silent: str
):
    lesson = read_lesson(str(number)).name
    said = failure_of(subject_of(lesson, exercise, change), lesson, exercise, test)
    assert told in said and silent not in said, said


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, exercise, change, silent", [pytest.param(*row, id=f"{row[1]}-{i}") for i, row in enumerate(NOT_SAID)]
)
def test_what_agrees_by_chance_is_not_told(number: int, exercise: str, change: Change, silent: str):
    lesson = read_lesson(str(number)).name
    said = first_failure(subject_of(lesson, exercise, change), lesson, exercise)
    assert "expected" in said and silent not in said, said


ODD = ("return rewards + gamma * next_values", "return rewards.cos() + gamma * next_values.sin()")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change, told",
    [
        pytest.param(("stacked + values", "stacked + values"), "`td_errors` is wrong: with a right one", id="alone"),
        pytest.param(("gamma * lam * next", "lam.__pow__(3) * next"), "", id="and-one-of-its-own"),
    ],
)
def test_another_exercise_is_blamed_only_where_a_right_one_fixes_this_call(change: tuple[str, str], told: str):
    lesson, file = "lesson04_gae", "lesson04_gae/gae.py"
    text = (SOLUTIONS / file).read_text("utf-8").replace(*ODD).replace(*change)
    said = first_failure(solutions_changed(lesson, {file: text}), lesson, "compute_gae")
    assert told in said and ("td_errors` is" in said) == bool(told), said


@pytest.mark.parametrize(
    "interval, is_written_out",
    [
        pytest.param("1 - 0.3, 1 + 0.3", True, id="it-is"),
        pytest.param("1 / (1 + clip_epsilon), 1 + clip_epsilon", False, id="with-0.25-it-is-1-minus-0.2-by-chance"),
    ],
)
def test_a_number_written_out_does_not_move_with_the_option(interval: str, is_written_out: bool):
    lesson, exercise = "lesson05_ppo_loss", "clipped_objective"
    clamp = edit("1 - clip_epsilon, 1 + clip_epsilon", interval)
    said = first_failure(subject_of(lesson, exercise, clamp), lesson, exercise)
    assert ("or a number written out?" in said) == is_written_out, said


PLAIN = [
    ("lesson04_gae", "compute_gae"),
    ("lesson05_ppo_loss", "ppo_statistics"),
    ("lesson01_masked_sequences", "position_ids"),
]


@pytest.mark.parametrize("lesson, exercise", PLAIN)
def test_the_bench_gives_the_right_answer_when_nothing_is_changed(lesson: str, exercise: str):
    bench = bench_of(lesson, exercise)
    right = shared_reference().right_answers_to(lesson, exercise)
    for _ in range(2):
        assert all(map(same_outcome, right, (bench.ask(Hypothesis(""), asked) for asked in examples(lesson, exercise))))
        for hypothesis in hypotheses_of(bench, 1)[::20]:
            bench.ask(hypothesis, examples(lesson, exercise)[0])


@pytest.mark.parametrize("lesson, exercise", PLAIN)
def test_no_hypothesis_tells_the_solution(lesson: str, exercise: str):
    """A sentence names single words, never a piece of the region's code; and there is one."""
    region = region_text(lesson, exercise)
    for layer in range(len(LAYERS)):
        for hypothesis in hypotheses_of(bench_of(lesson, exercise), layer):
            assert hypothesis.text.strip(), hypothesis
            for quoted in re.findall(r"`([^`]+)`", hypothesis.text):
                assert re.fullmatch(r"[\w.]+", quoted), hypothesis.text
                assert "." not in quoted or quoted not in region, hypothesis.text


@pytest.fixture(autouse=True)
def no_fault() -> Iterator[None]:
    """What goes wrong in the diagnosis itself is left out of a report; here it fails the test."""
    faults.clear()
    yield
    assert not faults, faults


@pytest.mark.slow
def test_a_diagnosis_is_short():
    """No change explains it, and no layer leads to more calls than it may: all that it might ask makes two million."""
    lesson, exercise = "lesson08_rollout", "Experience.rows"
    odd = instead("return Experience(**{field.name: getattr(self, field.name).sin() for field in fields(self)})")
    with calls_made() as calls:
        said = first_failure(subject_of(lesson, exercise, odd), lesson, exercise)
    assert "this is what" not in said and "line" not in said
    assert calls.total() < 1_000_000


def test_a_diagnosis_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch):
    def broken(self: Explanation, lesson: str, exercise: str) -> None:
        raise RecursionError

    monkeypatch.setattr(Explanation, "_search", broken)
    change = edit("stacked + values", "stacked - values")
    said = first_failure(subject_of("lesson04_gae", "compute_gae", change), "lesson04_gae", "compute_gae")
    assert "Likely cause: this is what" not in said and "expected in returns" in said
    assert {type(error) for error in faults} == {RecursionError}
    faults.clear()


def test_the_script_of_the_page_shows_what_a_student_hears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = (ROOT / "testcases/harness/README.md").read_text("utf-8")
    file = tmp_path / "wrong" / "lesson04_gae" / "gae.py"
    file.parent.mkdir(parents=True)
    source = (SOLUTIONS / "lesson04_gae" / "gae.py").read_text("utf-8")
    file.write_text(source.replace("rewards + gamma * next", "rewards + gamma**2 * next"), "utf-8")
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent(page.partition("```python\n")[2].partition("```")[0]), {})
    assert "`gamma` squared: is it applied twice?" in capsys.readouterr().out
