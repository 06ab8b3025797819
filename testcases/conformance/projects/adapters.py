"""Each project's functions behind the operations' names: what its trainer does around a call is done here, too.

An adapter reads the names of a case, prepares them as the trainer does (masked values set to 0, masks as numbers, time
first), and calls code that was cut from the project's sources.
"""

import math
import types
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

import numpy as np
import torch
import torch.nn.functional as F

from .sources import Sources

TORCH = {"torch": torch, "F": F, "nn": torch.nn, "np": np, "math": math, "defaultdict": defaultdict}
DATA = ("differentiable=no",)
"""Computed under no_grad, or in numpy."""
FREE = ("padding=any",)
TIME_LIMITS = ((*DATA, "bootstrap=at ends"), ("nan behind an end",))
"""The conventions of a function to which every end was told as a truncation, and what it reads."""
TRL = "trl/experimental/ppo/ppo_trainer.py", "PPOTrainer.train"
TRL_FILLS = "the trainer fills padding before the call"
TRL_VALUES = (
    "we fill padding from its first token on, while the trainer leaves that one, which has the score and one value more"
)
Namespace = types.SimpleNamespace
Adapters = dict[str, "Adapter"]


@dataclass(frozen=True)
class Adapter:
    """A function that takes an operation's arguments, and what the project declares of it."""

    function: Callable[..., Any]
    conventions: tuple[str, ...] = ()
    not_supported: tuple[str, ...] = ()
    framework: str = "torch"
    around: str = ""
    """What the trainer does before the call, where that matters."""
    dtype: str = "float64"


def _steps(function: Callable[..., Any]) -> Callable[..., Any]:
    """GAE with time first: rewards (T, B), values (T + 1, B), dones (T, B) go in; (T, B) come back."""

    def asked(rewards, values, dones, gamma, lam):
        return tuple(one.T for one in function(rewards.T, values.T, dones.T, gamma, lam))

    return asked


def _rows(function: Callable[..., Any], stack: Callable[..., Any] = torch.stack) -> Callable[..., Any]:
    """GAE of one row at a time."""

    def asked(rewards, values, dones, gamma, lam):
        rows = [function(*row, gamma, lam) for row in zip(rewards, values, dones, strict=True)]
        return tuple(stack(list(part)) for part in zip(*rows, strict=True))

    return asked


def _of_real(function: Callable[..., Any], *conventions: str, framework: str = "torch") -> Adapter:
    """A loss without a mask, function(clip, ...): the real tokens alone are handed on."""

    def asked(mask, clip_epsilon, **columns):
        return function(clip_epsilon, **{name: one[mask] for name, one in columns.items()})

    around = "it has no padding, so it gets only the real tokens"
    return Adapter(asked, conventions, framework=framework, around=around)


def _in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """The project has other names for the same arguments."""
    return lambda **given: function(*given.values())


def _scaled(function: Callable[..., Any]) -> Adapter:
    """The caller divides the logits by the temperature."""
    return Adapter(lambda logits, temperature, **tokens: function(logits / temperature, *tokens.values()))


def _unscaled(function: Callable[..., Any]) -> Adapter:
    return Adapter(lambda logits, temperature, **tokens: function(logits, *tokens.values()), (), ("temperature",))


def trl(sources: Sources) -> Adapters:
    of = sources.cut(TRL[0], "masked_mean", "masked_var", "masked_whiten", **TORCH)
    return {
        **_trl_tokens(sources),
        "masked_mean": Adapter(of["masked_mean"]),
        "masked_whiten": Adapter(of["masked_whiten"], FREE),
        **_trl_rewards(sources, of),
        **_trl_losses(sources, of),
        **_trl_groups(sources),
    }


def _trl_tokens(sources: Sources) -> Adapters:
    of = sources.cut("trl/trainer/utils.py", "selective_log_softmax", "entropy_from_logits", **TORCH)
    stop = sources.cut("trl/experimental/utils.py", "first_true_indices", **TORCH)
    stop = sources.cut(TRL[0], "truncate_response", **stop)

    def truncated(responses, stop_token_ids, pad_token_id):
        return stop["truncate_response"](*stop_token_ids, pad_token_id, responses)

    return {
        "gather_log_probs": _unscaled(of["selective_log_softmax"]),
        "token_entropy": _unscaled(of["entropy_from_logits"]),
        "truncate_after_stop": Adapter(truncated, (), ("several stops",)),
    }


def _trl_rewards(sources: Sources, of: dict[str, Any]) -> Adapters:
    gae = sources.block(*TRL, "lastgaelam = 0", "advantages = torch.masked_fill(")
    penalty = sources.block(*TRL, "logr = ", "kl = ")
    rewards = sources.block(*TRL, "logprobs = torch.masked_fill(", "rewards[actual_start")

    def gae_response(rewards, values, mask, gamma, lam):
        rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)
        args, none = Namespace(gamma=gamma, lam=lam), lambda: None
        names = {"responses": rewards, "padding_mask": ~mask, "values": values, "rewards": rewards, "args": args}
        found = gae(**of, **names, empty_cache=none)
        return found["advantages"], found["returns"]

    def token_rewards(scores, log_probs, ref_log_probs, mask, kl_coef, clip_score, estimator):
        at, last = torch.arange(mask.shape[1]).repeat(len(mask), 1), mask.sum(1) - 1
        names = {"logprobs": log_probs, "ref_logprobs": ref_log_probs, "values": log_probs, "scores": scores.clone()}
        args = Namespace(kl_estimator=estimator, kl_coef=kl_coef)
        names |= {"padding_mask": at > last[:, None], "response_idxs": at, "sequence_lengths": last, "args": args}
        return rewards(torch=torch, INVALID_LOGPROB=1.0, **names)["rewards"]

    def kl(log_probs, ref_log_probs, estimator):
        args = Namespace(kl_estimator=estimator)
        return penalty(logprobs=log_probs, ref_logprobs=ref_log_probs, args=args)["kl"]

    conventions = (*FREE, *DATA, "score_at=after last")
    return {
        "gae_response": Adapter(
            gae_response, (*FREE, *DATA, "whitening=inside"), ("gaps", "empty rows"), around=TRL_VALUES
        ),
        "kl": Adapter(kl, (), ("k2",)),
        "token_rewards": Adapter(token_rewards, conventions, ("clip score", "gaps", "k2"), around=TRL_FILLS),
    }


def _trl_losses(sources: Sources, of: dict[str, Any]) -> Adapters:
    losses = sources.block(*TRL, "vpred = torch.masked_fill(", "pg_loss = ")

    def loss(mask, clip, **names):
        names = {"vpred": 0 * names["mb_advantage"], "mb_values": 0.0, "mb_return": 0.0, **names}
        everywhere = {"padding_mask": ~mask, "padding_mask_p1": ~mask, "micro_batch_inds": slice(None)}
        return losses(**of, **everywhere, **names, args=Namespace(cliprange=clip, cliprange_value=clip))

    def policy_loss(log_probs, old_log_probs, advantages, clip_epsilon, mask):
        new, old = log_probs.masked_fill(~mask, 1.0), old_log_probs.masked_fill(~mask, 1.0)
        advantages = advantages.masked_fill(~mask, 0.0)
        return loss(mask, clip_epsilon, new_logprobs=new, mb_logprobs=old, mb_advantage=advantages)["pg_loss"]

    def value_loss(values, old_values, returns, clip_epsilon, mask):
        old, to = old_values.masked_fill(~mask, 0.0), returns.masked_fill(~mask, 0.0)
        names = {"new_logprobs": 0 * old, "mb_logprobs": 0 * old, "mb_advantage": 0 * old}
        return loss(mask, clip_epsilon, vpred=values, mb_values=old, mb_return=to, **names)["vf_loss"]

    return {"policy_loss": Adapter(policy_loss, around=TRL_FILLS), "value_loss": Adapter(value_loss, around=TRL_VALUES)}


def _trl_groups(sources: Sources) -> Adapters:
    nanstd = sources.cut("trl/trainer/utils.py", "nanstd", **TORCH)["nanstd"]
    score = "Trainer._generate_and_score_completions"
    loo = sources.block("trl/trainer/rloo_trainer.py", f"RLOO{score}", "scorable_counts = ", "if num_generations > 1")
    grpo = sources.block(
        "trl/trainer/grpo_trainer.py", f"GRPO{score}", "mean_grouped_rewards = ", "if self.scale_rewards != "
    )

    def of_groups(block, scores, **names):
        given = {"rewards": scores.flatten(), "grouped_rewards": scores, "num_generations": scores.shape[1], **names}
        return block(torch=torch, nanstd=nanstd, **given)

    return {
        "leave_one_out": Adapter(lambda scores: of_groups(loo, scores)["baselines"].view_as(scores)),
        "group_advantages": Adapter(
            lambda scores: of_groups(grpo, scores, self=Namespace(scale_rewards="group"))["advantages"].view_as(scores),
            ("epsilon=0.0001",),
        ),
    }


def verl(sources: Sources) -> Adapters:
    names = ("masked_sum", "masked_mean", "masked_var", "masked_whiten", "get_response_mask", "clip_by_value")
    names += ("entropy_from_logits", "logprobs_from_logits_v2")
    of = sources.cut("verl/utils/torch_functional.py", *names, **TORCH)
    return {
        "gather_log_probs": _scaled(of["logprobs_from_logits_v2"]),
        "token_entropy": _scaled(of["entropy_from_logits"]),
        "masked_mean": Adapter(of["masked_mean"]),
        "masked_whiten": Adapter(of["masked_whiten"], FREE),
        "response_mask": Adapter(
            lambda responses, stop_token_ids: of["get_response_mask"](responses, stop_token_ids, dtype=torch.bool)
        ),
        **_verl_algorithms(sources, Namespace(**{name: of[name] for name in names})),
    }


def _verl_algorithms(sources: Sources, functional: Namespace) -> Adapters:
    file = "verl/trainer/ppo/core_algos.py"
    cut = ("compute_gae_advantage_return", "agg_loss", "compute_policy_loss", "compute_value_loss", "kl_penalty")
    cut += ("kl_penalty_forward", "compute_reinforce_plus_plus_outcome_advantage", "compute_rloo_outcome_advantage")
    algos = sources.cut(file, *cut, "compute_grpo_outcome_advantage", verl_F=functional, **TORCH)
    rloo = _by_group(algos["compute_rloo_outcome_advantage"])
    return {
        "gae_response": Adapter(
            lambda rewards, values, mask, gamma, lam: algos["compute_gae_advantage_return"](
                rewards, values, mask.to(rewards.dtype), gamma, lam
            ),
            (*FREE, *DATA, "whitening=inside"),
        ),
        "rewards_to_go": Adapter(
            lambda rewards, mask, gamma: algos["compute_reinforce_plus_plus_outcome_advantage"](
                rewards, mask.to(rewards.dtype), Namespace(gamma=gamma)
            )[1],
            (*FREE, *DATA),
            around="it has two results, and we took the returns, as they are before whitening",
        ),
        "policy_loss": Adapter(
            lambda log_probs, old_log_probs, advantages, clip_epsilon, mask: algos["compute_policy_loss"](
                old_log_probs, log_probs, advantages, mask, cliprange=clip_epsilon
            )[0],
            ("dual_clip=3",),
        ),
        "value_loss": Adapter(
            lambda values, old_values, returns, clip_epsilon, mask: algos["compute_value_loss"](
                values, returns, old_values, mask, clip_epsilon
            )[0]
        ),
        "kl": Adapter(_in_order(algos["kl_penalty"]), ("clamp=10 of k3",)),
        "leave_one_out": Adapter(lambda scores: scores - rloo(scores), DATA),
        "group_advantages": Adapter(_by_group(algos["compute_grpo_outcome_advantage"]), DATA),
    }


def _by_group(function: Callable[..., Any]) -> Callable[..., Any]:
    """verl's estimators of whole responses, for scores (groups, responses): one token each, and the group's number."""

    def asked(scores):
        flat, groups = scores.reshape(-1, 1).clone(), np.arange(len(scores)).repeat(scores.shape[1])
        return function(flat, torch.ones_like(flat), groups)[0].reshape(scores.shape)

    return asked


def openrlhf(sources: Sources) -> Adapters:
    names = ("compute_approx_kl", "compute_reward", "_logsumexp_by_chunk", "log_probs_from_logits", "masked_mean")
    of = sources.cut("openrlhf/models/utils.py", *names, "compute_entropy", KL_IS_WEIGHT_CLIP=10.0, **TORCH)
    file = "openrlhf/trainer/ppo_utils/experience_maker.py"
    names = ("get_advantages_and_returns", "get_cumulative_returns")
    of = sources.cut(file, *(f"RemoteExperienceMaker.{name}" for name in names), **of)

    def kl(log_probs, ref_log_probs, estimator):
        return of["compute_approx_kl"](log_probs, ref_log_probs, kl_estimator=estimator)

    def token_rewards(scores, log_probs, ref_log_probs, mask, kl_coef, clip_score, estimator):
        penalty = kl(log_probs, ref_log_probs, estimator)
        return of["compute_reward"](scores, kl_coef, penalty, mask, (-clip_score, clip_score))

    maker = "RemoteExperienceMaker.compute_advantages_and_returns"
    rloo = sources.block(file, maker, "baseline = ", "baseline = ")
    group = sources.block(file, maker, "rewards = (rewards - rewards.mean(", "rewards = (")
    samples = lambda scores: Namespace(rollout=Namespace(n_samples_per_prompt=scores.shape[1]))  # noqa: E731

    def gae_response(rewards, values, mask, gamma, lam):
        return of["get_advantages_and_returns"](None, values, rewards, mask, gamma, lam)

    def to_go(rewards, mask, gamma):
        return of["get_cumulative_returns"](None, rewards, mask, gamma)

    return {
        "gather_log_probs": Adapter(_in_order(of["log_probs_from_logits"])),
        "token_entropy": _unscaled(of["compute_entropy"]),
        "masked_mean": Adapter(_in_order(of["masked_mean"])),
        "gae_response": Adapter(gae_response, (*FREE, *DATA)),
        "rewards_to_go": Adapter(to_go, (*FREE, *DATA)),
        "kl": Adapter(kl, ("clamp=10",)),
        "token_rewards": Adapter(token_rewards, (*FREE, *DATA, "clamp=10")),
        "leave_one_out": Adapter(lambda scores: rloo(rewards=scores, args=samples(scores))["baseline"]),
        "group_advantages": Adapter(lambda scores: group(rewards=scores)["rewards"]),
        **_openrlhf_losses(sources, of),
    }


def _openrlhf_losses(sources: Sources, of: dict[str, Any]) -> Adapters:
    of = sources.cut("openrlhf/models/loss.py", "aggregate_loss", **of)
    of = sources.cut("openrlhf/models/loss.py", "PolicyLoss", "ValueLoss", "PairWiseLoss", "DPOLoss", **of)
    return {
        "policy_loss": Adapter(
            lambda log_probs, old_log_probs, advantages, clip_epsilon, mask: of["PolicyLoss"](
                clip_epsilon, clip_epsilon
            )(log_probs, old_log_probs, advantages, mask)[0]
        ),
        "value_loss": Adapter(
            lambda values, old_values, returns, clip_epsilon, mask: of["ValueLoss"](clip_epsilon)(
                values, old_values, returns, mask
            )
        ),
        "pairwise_loss": Adapter(lambda chosen, rejected, margin=None: of["PairWiseLoss"]()(chosen, rejected, margin)),
        "dpo_loss": Adapter(lambda beta, **given: of["DPOLoss"](beta)(*given.values())[0]),
    }


def nemo(sources: Sources) -> Adapters:
    names = ("calculate_kl", "masked_mean", "masked_var", "calculate_baseline_and_std_per_prompt")
    of = sources.cut("nemo_rl/algorithms/utils.py", *names, Optional=Optional, **TORCH)
    file, names = (
        "nemo_rl/algorithms/advantage_estimator.py",
        ("_compute_gae", "_reward_whiten", "_build_token_level_rewards"),
    )
    estimator_of = sources.cut(file, *(f"GeneralizedAdvantageEstimator.{name}" for name in names), **of)

    def gae_response(rewards, values, mask, gamma, lam):
        given = Namespace(gae_lambda=lam, gae_gamma=gamma)
        return estimator_of["_compute_gae"](given, rewards, values, mask.to(rewards.dtype))

    def token_rewards(scores, log_probs, ref_log_probs, mask, kl_coef, clip_score, estimator):
        given = Namespace(use_kl_in_reward=True, kl_coef=kl_coef, kl_type=estimator)
        return estimator_of["_build_token_level_rewards"](given, scores, mask.long(), log_probs, ref_log_probs)

    def leave_one_out(scores):
        prompts = torch.arange(len(scores)).repeat_interleave(scores.shape[1])[:, None]
        flat = scores.flatten()
        baseline = of["calculate_baseline_and_std_per_prompt"](prompts, flat, torch.ones_like(flat))
        return baseline[0].reshape(scores.shape)

    return {
        "masked_mean": Adapter(of["masked_mean"]),
        "masked_whiten": Adapter(
            lambda values, mask, shift_mean: estimator_of["_reward_whiten"](None, values, mask, shift_mean), FREE
        ),
        "gae_response": Adapter(gae_response, (*FREE, *DATA)),
        "token_rewards": Adapter(token_rewards, (*FREE, *DATA, "clamp=10"), ("clip score",)),
        "kl": Adapter(_in_order(of["calculate_kl"]), ("clamp=10",)),
        "leave_one_out": Adapter(
            leave_one_out, DATA, around="we call it in float32, because the trainer's rewards are", dtype="float32"
        ),
        "leave_one_out (float64 scores)": Adapter(leave_one_out, DATA),
    }


def roll(sources: Sources) -> Adapters:
    names = ("compute_approx_kl", "log_probs_from_logits", "entropy_from_logits", "agg_loss", "masked_mean")
    names += ("masked_sum", "masked_var", "masked_whiten", "get_eos_mask", "compute_gae_advantage_return")
    of = sources.cut("roll/utils/functionals.py", *names, "compute_reinforce_return", **TORCH)
    first, last = 'values = data.batch["values"].float()', "advantages, returns = compute_gae_advantage_return("
    gae = sources.block("roll/utils/functionals.py", "compute_advantage", first, last)

    def gae_response(rewards, values, mask, gamma, lam):
        names = {"data": Namespace(batch={"values": values}), "response_mask": mask, "gamma": gamma, "lambd": lam}
        found = gae(**of, **names, token_level_rewards=rewards.float() * mask)
        return found["advantages"] * mask, found["returns"]

    def kl(log_probs, ref_log_probs, estimator):
        name = {"k1": "kl", "k2": "mse", "k3": "k3"}[estimator]
        return of["compute_approx_kl"](log_probs, ref_log_probs, kl_penalty=name)

    return {
        "gather_log_probs": _scaled(of["log_probs_from_logits"]),
        "token_entropy": _scaled(of["entropy_from_logits"]),
        "masked_mean": Adapter(_in_order(of["masked_mean"])),
        "masked_whiten": Adapter(of["masked_whiten"], FREE),
        "gae_response": Adapter(
            gae_response, (*FREE, *DATA), around="rewards are masked before the call, and we call it in float32"
        ),
        "rewards_to_go": Adapter(
            lambda rewards, mask, gamma: of["compute_reinforce_return"](rewards * mask, gamma, 1.0)[1], (*FREE, *DATA)
        ),
        "masked_mean (agg_loss, token-mean)": Adapter(lambda values, mask: of["agg_loss"](values, mask, "token-mean")),
        **_roll_losses(sources, of),
        "kl": Adapter(kl, ("clamp=10 of k3",)),
        "response_mask": Adapter(
            lambda responses, stop_token_ids: of["get_eos_mask"](responses, *stop_token_ids), (), ("several stops",)
        ),
    }


def _roll_losses(sources: Sources, of: dict[str, Any]) -> Adapters:
    file = "roll/pipeline/base_worker.py"
    value = sources.block(file, "CriticWorker.loss_func", "if self.pipeline_config.value_clip", "vf_loss = ")

    def policy_loss(log_probs, old_log_probs, advantages, clip_epsilon, mask):
        advantages, ratio = advantages * mask, (log_probs - old_log_probs).exp()
        clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages
        counts = {"batch_num_tokens": mask.sum(), "global_valid_samples": mask.any(dim=1).sum()}
        return of["agg_loss"](-torch.min(ratio * advantages, clipped), mask, "seq-mean-token-mean", **counts)

    def value_loss(values, old_values, returns, clip_epsilon, mask):
        pipeline = Namespace(pipeline_config=Namespace(value_clip=clip_epsilon))
        names = {"values": values, "old_values": old_values, "returns": returns, "response_mask": mask}
        return value(**of, **names, self=pipeline)["vf_loss"]

    return {
        "policy_loss": Adapter(
            policy_loss, ("reduction=row",), around="the trainer sets masked advantages to 0 and counts real rows"
        ),
        "value_loss": Adapter(value_loss, ("reduction=row",)),
    }


def slime(sources: Sources) -> Adapters:
    file = "slime/utils/ppo_utils.py"
    names = ("compute_approx_kl", "compute_policy_loss", "vanilla_gae", "chunked_discounted_returns", "chunked_gae")
    of = sources.cut(file, *names, **TORCH)

    def gae_response(name):
        def asked(rewards, values, mask, gamma, lam):
            places = torch.arange(1, mask.shape[1] + 1)
            inside = places <= (mask * places).amax(1, keepdim=True)  # up to the last real token, a tool's included
            filled = (torch.where(inside, one, 0.0) for one in (rewards, values))
            return of[name](*filled, gamma, lam)

        return Adapter(asked, (*FREE, *DATA), around="a row ends with its last real token, and the rest is 0")

    def policy_loss(clip_epsilon, log_probs, old_log_probs, advantages):
        losses, _ = of["compute_policy_loss"](old_log_probs - log_probs, advantages, clip_epsilon, clip_epsilon)
        return losses.sum() / max(len(losses), 1)

    return {
        "gae_response": gae_response("vanilla_gae"),
        "gae_response (in chunks)": gae_response("chunked_gae"),
        "policy_loss": _of_real(policy_loss),
        "kl": Adapter(_in_order(of["compute_approx_kl"])),
    }


def torchtune(sources: Sources) -> Adapters:
    names = ("get_rewards_ppo", "masked_mean", "masked_var", "whiten", "estimate_advantages")
    of = sources.cut("torchtune/rlhf/rewards.py", *names, **TORCH)
    names = ("truncate_sequence_at_first_stop_token", "logits_to_logprobs")
    of = sources.cut("torchtune/rlhf/sequence_processing.py", *names, **of)

    def gae_response(rewards, values, mask, gamma, lam):
        filled = [one.masked_fill(~mask, 0.0) for one in (values, rewards)]
        return of["estimate_advantages"](*filled, gamma, lam, mask)

    def token_rewards(scores, log_probs, ref_log_probs, mask, kl_coef, clip_score, estimator):
        log_probs, ref_log_probs = (one.masked_fill(~mask, 1.0) for one in (log_probs, ref_log_probs))
        return of["get_rewards_ppo"](scores, log_probs, ref_log_probs, kl_coef, mask.sum(1) - 1)[0]

    short = (
        "we fill padding from its first token on, while the recipe leaves that one, which has the score and one value "
        "more"
    )
    given = "the caller says where the score goes, and we say the last real token; the PPO recipe says the one after it"
    return {
        "gather_log_probs": Adapter(_in_order(of["logits_to_logprobs"])),
        "masked_mean": Adapter(_in_order(of["masked_mean"])),
        "masked_whiten": Adapter(_in_order(of["whiten"]), (*FREE, "flag=adds")),
        "gae_response": Adapter(gae_response, (*FREE, *DATA, "whitening=inside"), ("gaps", "empty rows"), around=short),
        **_torchtune_losses(sources, of, short),
        "token_rewards": Adapter(token_rewards, (*FREE, *DATA), ("clip score", "gaps", "k2", "k3"), around=given),
        "truncate_after_stop": Adapter(
            lambda responses, stop_token_ids, pad_token_id: of["truncate_sequence_at_first_stop_token"](
                responses, torch.tensor(stop_token_ids), pad_token_id
            )[1]
        ),
    }


def _torchtune_losses(sources: Sources, of: dict[str, Any], short: str) -> Adapters:
    masked = Namespace(masked_mean=of["masked_mean"])
    of = sources.cut("torchtune/rlhf/loss/ppo.py", "PPOLoss", rlhf=masked, **of)
    of = sources.cut("torchtune/rlhf/loss/dpo.py", "DPOLoss", **of)

    def policy_loss(log_probs, old_log_probs, advantages, clip_epsilon, mask):
        zero = torch.zeros_like(advantages)
        log_probs, old_log_probs = (one.masked_fill(~mask, 1.0) for one in (log_probs, old_log_probs))
        advantages = advantages.masked_fill(~mask, 0.0)
        return of["PPOLoss"](clip_epsilon, 1.0, 0.0)(
            old_log_probs, log_probs, advantages, zero, zero, zero, mask, mask
        )[0]

    def value_loss(values, old_values, returns, clip_epsilon, mask):
        zero = torch.zeros_like(values)
        filled = [one.masked_fill(~mask, 0.0) for one in (old_values, values, returns)]
        return of["PPOLoss"](1.0, clip_epsilon, 1.0)(zero, zero, zero, *filled, mask, mask)[0]

    return {
        "policy_loss": Adapter(policy_loss, around="the recipe fills padding before the call"),
        "value_loss": Adapter(value_loss, around=short),
        "dpo_loss": Adapter(lambda beta, **given: of["DPOLoss"](beta)(*given.values())[0].mean()),
    }


def open_instruct(sources: Sources) -> Adapters:
    file = "open_instruct/rl_utils.py"
    of = sources.cut(file, "calculate_advantages", "calculate_advantages_packed", "masked_mean", **TORCH)
    of = sources.cut("open_instruct/model_utils.py", "entropy_from_logits", "first_true_indices", **of)

    def response_mask(responses, stop_token_ids):
        first = of["first_true_indices"](torch.isin(responses, torch.tensor(stop_token_ids, dtype=torch.long)))
        return torch.arange(responses.shape[1]) <= first[:, None]

    def packed(rewards, values, mask, gamma, lam):
        zero = np.zeros_like(rewards)
        return of["calculate_advantages_packed"](values * mask, rewards * mask, gamma, lam, zero, mask.astype(float))

    return {
        "token_entropy": _scaled(of["entropy_from_logits"]),
        "masked_mean": Adapter(_in_order(of["masked_mean"])),
        "gae_response": Adapter(
            packed, FREE, ("nan under the mask",), "numpy", "we took the packed version, which only its tests call"
        ),
        "response_mask": Adapter(response_mask, around="it gives first_true_indices, and we make the mask up to them"),
    }


def trlx(sources: Sources) -> Adapters:
    file = "trlx/models/modeling_ppo.py"
    of = sources.cut("trlx/utils/modeling.py", "logprobs_of_labels", **TORCH)
    of = sources.cut(file, "PPOConfig.get_advantages_and_returns", **of)
    loss = sources.block(file, "PPOConfig.loss", "values_clipped = ", "pg_loss = ")

    def losses(mask, clip, **names):
        return loss(torch=torch, mask=mask, self=Namespace(cliprange=clip, cliprange_value=clip), **names)

    def policy_loss(log_probs, old_log_probs, advantages, clip_epsilon, mask):
        zero = torch.zeros_like(advantages)
        names = {"logprobs": log_probs, "old_logprobs": old_log_probs, "advantages": advantages}
        return losses(mask, clip_epsilon, values=zero, old_values=zero, returns=zero, **names)["pg_loss"]

    def value_loss(values, old_values, returns, clip_epsilon, mask):
        zero = torch.zeros_like(values)
        names = {"values": values, "old_values": old_values, "returns": returns}
        return losses(mask, clip_epsilon, logprobs=zero, old_logprobs=zero, advantages=zero, **names)["vf_loss"]

    def gae_response(rewards, values, mask, gamma, lam):
        config, results = Namespace(gamma=gamma, lam=lam), tuple(torch.zeros_like(rewards) for _ in range(2))
        for row, real in enumerate(mask):
            one = values[row, real][None], rewards[row, real][None], int(real.sum()), False
            for result, found in zip(results, of["get_advantages_and_returns"](config, *one), strict=True):
                result[row, real] = found[0]
        return results

    return {
        "gather_log_probs": _unscaled(of["logprobs_of_labels"]),
        "gae_response": Adapter(
            gae_response,
            DATA,
            ("gaps", "empty rows"),
            "torch",
            "padding is left to the caller, so we cut rows to their length",
        ),
        "policy_loss": Adapter(policy_loss),
        "value_loss": Adapter(value_loss),
    }


def deepspeed_chat(sources: Sources) -> Adapters:
    file = "applications/DeepSpeed-Chat/dschat/rlhf/ppo_trainer.py"
    names = ("actor_loss_fn", "critic_loss_fn", "get_advantages_and_returns", "compute_rewards")
    of = sources.cut(file, "gather_log_probs", *(f"DeepSpeedPPOTrainer.{name}" for name in names), **TORCH)

    def gae_response(rewards, values, mask, gamma, lam):
        filled = [one.masked_fill(~mask, 0.0) for one in (values, rewards)]
        return of["get_advantages_and_returns"](Namespace(gamma=gamma, lam=lam), *filled, 0)

    def clipped(clip):
        return Namespace(cliprange=clip, cliprange_value=clip, compute_fp32_loss=False)

    def token_rewards(scores, log_probs, ref_log_probs, mask, kl_coef, clip_score, estimator):
        trainer = Namespace(kl_ctl=kl_coef, clip_reward_value=clip_score)
        return of["compute_rewards"](trainer, mask[:, :1], log_probs, ref_log_probs, scores, mask.long())

    around = (
        "we set values and rewards to 0 from the first token without attention on; "
        "train_rlhf leaves that one, which has the score"
    )
    return {
        "gather_log_probs": _unscaled(of["gather_log_probs"]),
        "gae_response": Adapter(gae_response, (*FREE, *DATA), ("gaps",), around=around),
        "policy_loss": Adapter(
            lambda log_probs, old_log_probs, advantages, clip_epsilon, mask: of["actor_loss_fn"](
                clipped(clip_epsilon), log_probs, old_log_probs, advantages, mask
            )
        ),
        "value_loss": Adapter(
            lambda values, old_values, returns, clip_epsilon, mask: of["critic_loss_fn"](
                clipped(clip_epsilon), values, old_values, returns, mask
            )
        ),
        "token_rewards": Adapter(
            token_rewards, (*FREE, *DATA, "score_at=after last"), ("gaps", "k2", "k3"),
            around="action_mask counts the stop token if padding and stop token differ",
        ),
    }  # fmt: skip


def summarize(sources: Sources) -> Adapters:
    file = "summarize_from_feedback_details/ppo.py"
    names = ("masked_mean", "masked_var", "masked_whiten", "first_true_indices", "truncate_response")
    of = sources.cut(file, *names, **TORCH)

    loop = sources.block(file, "", "lastgaelam = 0", "returns = advantages + values")

    def gae_response(rewards, values, mask, gamma, lam):
        values, rewards = (one.masked_fill(~mask, 0.0) for one in (values, rewards))
        names = {"rewards": rewards, "values": values, "responses": rewards}
        found = loop(torch=torch, args=Namespace(ppo=Namespace(gamma=gamma, lam=lam)), **names)
        return found["advantages"], found["returns"]

    def truncate(responses, stop_token_ids, pad_token_id):
        return of["truncate_response"](
            Namespace(truncate_token_id=stop_token_ids[0]), Namespace(pad_token_id=pad_token_id), responses
        )

    return {
        "masked_mean": Adapter(of["masked_mean"]),
        "masked_whiten": Adapter(of["masked_whiten"], (*FREE, "variance=n")),
        "gae_response": Adapter(
            gae_response,
            (*FREE, *DATA),
            ("gaps",),
            around="we took it before whitening, and filled padding from its first token on",
        ),
        "truncate_after_stop": Adapter(truncate, (), ("several stops",)),
    }


def cleanrl(sources: Sources) -> Adapters:
    loop = sources.block(
        "cleanrl/ppo.py", "", "advantages = torch.zeros_like(rewards)", "returns = advantages + values"
    )

    def gae(rewards, values, dones, gamma, lam):
        starts = torch.cat([torch.zeros_like(dones[:1]), dones[:-1]]).to(rewards.dtype)
        args = Namespace(num_steps=len(rewards), gamma=gamma, gae_lambda=lam)
        names = {"rewards": rewards, "values": values[:-1], "dones": starts, "args": args, "device": "cpu"}
        found = loop(torch=torch, next_value=values[-1:], next_done=dones[-1].to(rewards.dtype), **names)
        return found["advantages"], found["returns"]

    policy = sources.block("cleanrl/ppo.py", "", "pg_loss1 = ", "pg_loss = ")
    value = sources.block("cleanrl/ppo.py", "", "v_loss_unclipped = ", "v_loss = ")

    def policy_loss(clip, log_probs, old_log_probs, advantages):
        names = {"mb_advantages": advantages, "ratio": (log_probs - old_log_probs).exp()}
        return policy(torch=torch, args=Namespace(clip_coef=clip), **names)["pg_loss"]

    def value_loss(clip, values, old_values, returns):
        names = {"newvalue": values, "b_values": old_values, "b_returns": returns, "mb_inds": slice(None)}
        return value(torch=torch, args=Namespace(clip_coef=clip), **names)["v_loss"]

    return {
        "gae": Adapter(_steps(gae), DATA, around="its dones are those before a step, and next_done"),
        "policy_loss": _of_real(policy_loss),
        "value_loss": _of_real(value_loss),
    }


def ikostrikov(sources: Sources) -> Adapters:
    compute = sources.cut("a2c_ppo_acktr/storage.py", "RolloutStorage.compute_returns", **TORCH)["compute_returns"]

    def gae(rewards, values, dones, gamma, lam):
        masks = torch.cat([torch.ones_like(rewards[:1]), (~dones).to(rewards.dtype)])
        storage = Namespace(rewards=rewards, value_preds=values.clone(), masks=masks, returns=torch.zeros_like(values))
        compute(storage, values[-1], True, gamma, lam, use_proper_time_limits=False)
        return storage.returns[:-1] - values[:-1], storage.returns[:-1]

    file = "a2c_ppo_acktr/algo/ppo.py"
    policy = sources.block(file, "PPO.update", "ratio = ", "action_loss = ")
    value = sources.block(file, "PPO.update", "value_pred_clipped = ", "value_loss = ")

    def policy_loss(clip, log_probs, old_log_probs, advantages):
        names = {"action_log_probs": log_probs, "old_action_log_probs_batch": old_log_probs, "adv_targ": advantages}
        return policy(torch=torch, self=Namespace(clip_param=clip), **names)["action_loss"]

    def value_loss(clip, values, old_values, returns):
        names = {"values": values, "value_preds_batch": old_values, "return_batch": returns}
        return value(torch=torch, self=Namespace(clip_param=clip), **names)["value_loss"]

    losses = {"policy_loss": _of_real(policy_loss), "value_loss": _of_real(value_loss)}
    return {"gae": Adapter(_steps(gae), DATA), **losses}


def rlax(sources: Sources) -> Adapters:
    import chex
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    name = "truncated_generalized_advantage_estimation"
    estimate = sources.cut("rlax/_src/multistep.py", name, jax=jax, jnp=jnp, chex=chex)[name]

    def gae(rewards, values, dones, gamma, lam):
        advantages = np.asarray(estimate(jnp.array(rewards), jnp.array(gamma * (1.0 - dones)), lam, jnp.array(values)))
        return advantages, advantages + values[:-1]

    name = "clipped_surrogate_pg_loss"
    surrogate = sources.cut("rlax/_src/policy_gradients.py", name, jax=jax, jnp=jnp, chex=chex)[name]

    def policy_loss(clip, log_probs, old_log_probs, advantages):
        return np.asarray(surrogate(jnp.exp(log_probs - old_log_probs), jnp.array(advantages), clip))

    return {
        "gae": Adapter(_rows(gae, np.stack), DATA, framework="numpy", around="its discounts are gamma * (1 - dones)"),
        "policy_loss": _of_real(policy_loss, *DATA, framework="numpy"),
    }


def tianshou(sources: Sources) -> Adapters:
    one_row = sources.cut("tianshou/algorithm/algorithm_base.py", "_gae", **TORCH)["_gae"]

    def gae(rewards, values, dones, gamma, lam, terminal=True):
        ends = np.append(dones[:-1], True)
        behind = values[1:] * (1.0 - dones * terminal)
        advantages = one_row(values[:-1], behind, rewards, ends.astype(float), gamma, lam)
        return advantages, advantages + values[:-1]

    around = "compute_episodic_return sets the value after a terminal step to 0, and ends the rollout at its last step"
    limits = _rows(partial(gae, terminal=False), np.stack)
    file, update = "tianshou/algorithm/modelfree/ppo.py", "PPO._update_with_batch"
    policy = sources.block(file, update, "surr1 = ", "if self.dual_clip")
    value = sources.block(file, update, *["if self.value_clip"] * 2)

    def policy_loss(clip, log_probs, old_log_probs, advantages):
        names = {"ratios": (log_probs - old_log_probs).exp(), "advantages": advantages}
        return policy(torch=torch, self=Namespace(eps_clip=clip, dual_clip=None), **names)["clip_loss"]

    def value_loss(clip, values, old_values, returns):
        names = {"value": values, "minibatch": Namespace(v_s=old_values, returns=returns)}
        return value(torch=torch, self=Namespace(eps_clip=clip, value_clip=True), **names)["vf_loss"]

    return {
        "gae": Adapter(_rows(gae, np.stack), DATA, framework="numpy", around=around),
        "gae (time limits)": Adapter(limits, *TIME_LIMITS, framework="numpy", around=around),
        "policy_loss": _of_real(policy_loss),
        "value_loss": _of_real(value_loss, "half=1"),
    }


def sb3(sources: Sources) -> Adapters:
    name, collect = "compute_returns_and_advantage", ("OnPolicyAlgorithm.collect_rollouts", *["rewards[idx] +="] * 2)
    compute = sources.cut("stable_baselines3/common/buffers.py", f"RolloutBuffer.{name}", th=torch, **TORCH)[name]
    at_limit = sources.block("stable_baselines3/common/on_policy_algorithm.py", *collect)

    def gae(rewards, values, dones, gamma, lam):
        starts = np.concatenate([np.zeros_like(dones[:1]), dones[:-1]]).astype(np.float32)
        names = {"rewards": rewards.astype(np.float32), "values": values[:-1].astype(np.float32)}
        buffer = Namespace(buffer_size=len(rewards), episode_starts=starts, gamma=gamma, gae_lambda=lam, **names)
        buffer.advantages = np.zeros_like(buffer.rewards)
        compute(buffer, torch.tensor(values[-1], dtype=torch.float32), dones[-1])
        return buffer.advantages, buffer.returns

    def limits(rewards, values, dones, gamma, lam):
        rewards = rewards.copy()
        for idx in zip(*dones.nonzero(), strict=True):
            at_limit(self=Namespace(gamma=gamma), rewards=rewards, idx=idx, terminal_value=values[1:][idx])
        return gae(rewards, values, dones, gamma, lam)

    policy = sources.block("stable_baselines3/ppo/ppo.py", "PPO.train", "policy_loss_1 = ", "policy_loss = ")
    value = sources.block("stable_baselines3/ppo/ppo.py", "PPO.train", "if self.clip_range_vf is", "value_loss = ")

    def policy_loss(clip, log_probs, old_log_probs, advantages):
        names = {"ratio": (log_probs - old_log_probs).exp(), "advantages": advantages}
        return policy(th=torch, clip_range=clip, **names)["policy_loss"]

    def value_loss(clip, values, old_values, returns):
        names = {"values": values, "rollout_data": Namespace(old_values=old_values, returns=returns)}
        return value(th=torch, F=F, self=Namespace(clip_range_vf=clip), clip_range_vf=clip, **names)["value_loss"]

    around = "its buffers are float32, and its dones are those before a step"
    return {
        "gae": Adapter(_steps(gae), DATA, framework="numpy", around=around),
        "gae (time limits)": Adapter(_steps(limits), *TIME_LIMITS, framework="numpy", around=around),
        "policy_loss": _of_real(policy_loss),
        "value_loss": _of_real(value_loss, "half=1"),
    }


def _torchrl(sources: Sources, name: str) -> Adapters:
    utils = "torchrl/objectives/value/utils.py"
    helpers = (
        "_get_num_per_traj",
        "_split_and_pad_sequence",
        "_custom_conv1d",
        "_make_gammas_tensor",
        "_flatten_batch",
    )

    def expand_right(tensor, shape):
        """tensordict's, which is a dependency of torchrl and not fetched."""
        return tensor[(...,) + (None,) * (len(shape) - tensor.ndim)].expand(shape)

    given = {
        **TORCH,
        "SHAPE_ERR": "",
        "TensorDictBase": (),
        "expand_right": expand_right,
        "is_dynamo_compiling": lambda: False,
    }
    of = sources.cut(utils, *helpers, **given)
    names = (
        "_geom_series_like",
        "_fast_vec_gae",
        "generalized_advantage_estimate",
        "vec_generalized_advantage_estimate",
    )
    of = sources.cut("torchrl/objectives/value/functional.py", *names, **of)

    def gae(rewards, values, dones, gamma, lam, terminal=True):
        ends = dones.clone()
        ends[:, -1] = True
        columns = (values[:, :-1], values[:, 1:], rewards, ends, dones & terminal)
        return tuple(one[..., 0] for one in of[name](gamma, lam, *(column[..., None] for column in columns)))

    around = "done also marks the last step of the rollout, and terminated marks only real ends"
    limits = Adapter(partial(gae, terminal=False), *TIME_LIMITS, around=around)
    return {"gae": Adapter(gae, DATA, around=around), "gae (time limits)": limits}


def torchrl(sources: Sources) -> Adapters:
    return _torchrl(sources, "generalized_advantage_estimate")


def torchrl_vec(sources: Sources) -> Adapters:
    return _torchrl(sources, "vec_generalized_advantage_estimate")


def rsl_rl(sources: Sources) -> Adapters:
    file = "rsl_rl/algorithms/ppo.py"
    loop = sources.block(file, "PPO.compute_returns", "advantage = 0", "st.advantages = ")
    policy = sources.block(file, "PPO.update", "surrogate = ", "surrogate_loss = ")
    value = sources.block(file, "PPO.update", "value_clipped = ", "value_loss = ")

    def gae(rewards, values, dones, gamma, lam):
        names = {"rewards": rewards, "values": values[:-1], "dones": dones, "returns": torch.zeros_like(rewards)}
        st = Namespace(num_transitions_per_env=len(rewards), **names)
        loop(st=st, last_values=values[-1], self=Namespace(gamma=gamma, lam=lam))
        return st.advantages, st.returns

    def policy_loss(clip, log_probs, old_log_probs, advantages):
        names = {"ratio": (log_probs - old_log_probs).exp(), "batch": Namespace(advantages=advantages)}
        return policy(torch=torch, self=Namespace(clip_param=clip), **names)["surrogate_loss"]

    def value_loss(clip, values, old_values, returns):
        names = {"values": values, "batch": Namespace(values=old_values, returns=returns)}
        return value(torch=torch, self=Namespace(clip_param=clip), **names)["value_loss"]

    return {
        "gae": Adapter(_steps(gae), DATA, around="we took it before the normalization of the whole rollout"),
        "policy_loss": _of_real(policy_loss),
        "value_loss": _of_real(value_loss, "half=1"),
    }


def skrl(sources: Sources) -> Adapters:
    file = "skrl/agents/torch/ppo/ppo.py"
    loop = sources.block(file, "compute_gae", "advantage = 0", "returns = ")

    at_limit = sources.block(file, "PPO.record_transition", *["rewards += self.cfg.discount_factor"] * 2)

    def gae(rewards, values, dones, gamma, lam, limit=False):
        none = torch.zeros_like(dones)
        names = {"rewards": rewards, "terminated": none if limit else dones, "truncated": dones if limit else none}
        options = {"discount_factor": gamma, "lambda_coefficient": lam, "time_limit_bootstrap": limit}
        found = loop(torch=torch, values=values[:-1], last_values=values[-1], **names, **options)
        return found["advantages"], found["returns"]

    def limits(rewards, values, dones, gamma, lam):
        names = {"rewards": rewards.clone(), "next_values": values[1:], "truncated": dones}
        made = at_limit(self=Namespace(cfg=Namespace(discount_factor=gamma)), **names)
        return gae(made["rewards"], values, dones, gamma, lam, True)

    around = "we took it before the normalization inside compute_gae"
    return {
        "gae": Adapter(_steps(gae), DATA, around=f"{around}, with true ends only"),
        "gae (time limits)": Adapter(_steps(limits), *TIME_LIMITS, around=f"{around}, with truncations only"),
    }


def spinningup(sources: Sources) -> Adapters:
    import scipy.signal

    file = "spinup/algos/pytorch/ppo"
    core = sources.cut(f"{file}/core.py", "discount_cumsum", scipy=Namespace(signal=scipy.signal))
    finish = sources.cut(f"{file}/ppo.py", "PPOBuffer.finish_path", core=Namespace(**core), **TORCH)["finish_path"]

    def gae(rewards, values, dones, gamma, lam, terminal=True):
        names = {"rew_buf": rewards, "val_buf": values[:-1], "path_start_idx": 0, "gamma": gamma, "lam": lam}
        buffer = Namespace(adv_buf=np.zeros_like(rewards), ret_buf=np.zeros_like(rewards), **names)
        for t in range(len(rewards)):
            buffer.ptr = t + 1
            if dones[t] or t == len(rewards) - 1:
                finish(buffer, 0.0 if dones[t] and terminal else values[t + 1])
        return buffer.adv_buf, buffer.ret_buf

    around = "finish_path is called at each end, and at the end of the rollout"
    conventions, leaves = TIME_LIMITS
    to_go, limits = ("returns=rewards to go",), _rows(partial(gae, terminal=False), np.stack)
    return {
        "gae": Adapter(_rows(gae, np.stack), (*DATA, *to_go), framework="numpy", around=around),
        "gae (time limits)": Adapter(limits, (*conventions, *to_go), leaves, framework="numpy", around=around),
    }


def minimalrl(sources: Sources) -> Adapters:
    loop = sources.block("ppo.py", "PPO.train_net", "td_target = ", "advantage = torch.tensor(")

    def gae(rewards, values, dones, gamma, lam):
        steps = {"s": values[:-1, None], "s_prime": values[1:, None], "r": rewards[:, None]}
        alive = (~dones).to(rewards.dtype)[:, None]
        names = {**steps, "done_mask": alive, "gamma": gamma, "lmbda": lam, "self": Namespace(v=lambda state: state)}
        advantages = loop(torch=torch, **names)["advantage"][:, 0]
        return advantages, advantages + values[:-1]

    return {"gae": Adapter(_rows(gae), DATA, around="its batches hold the steps of one episode")}


def brax(sources: Sources) -> Adapters:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    compute = sources.cut("brax/training/agents/ppo/losses.py", "compute_gae", jax=jax, jnp=jnp)["compute_gae"]

    def gae(rewards, values, dones, gamma, lam):
        ends = jnp.array(dones.astype(float))
        vs, advantages = compute(jnp.zeros_like(ends), ends, rewards, values[:-1], jnp.array(values[-1]), lam, gamma)
        return np.asarray(advantages), np.asarray(vs)

    return {"gae": Adapter(_steps(gae), DATA, framework="numpy")}


PROJECTS: dict[str, Callable[[Sources], Adapters]] = {
    one.__name__: one
    for one in (
        trl, verl, openrlhf, nemo, roll, slime, torchtune, open_instruct, trlx, deepspeed_chat, summarize, cleanrl,
        ikostrikov, rlax, tianshou, sb3, torchrl, torchrl_vec, rsl_rl, skrl, spinningup, minimalrl, brax,
    )
}  # fmt: skip
