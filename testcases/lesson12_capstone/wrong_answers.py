"""Wrong ideas about the three stages, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

import copy
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import nn

from solutions.lesson01_masked_sequences import gather_log_probs, masked_mean, position_ids
from solutions.lesson06_kl_rewards import estimate_kl
from solutions.lesson07_actor_critic import (
    PolicyAndValue,
    ValueModel,
    critic_from_reward_model,
    evaluation_mode,
    freeze,
    make_reference,
    response_logits,
)
from solutions.lesson08_rollout import generate
from solutions.lesson09_ppo_trainer import PPOTrainer, encode_prompts
from solutions.lesson12_capstone.evaluation import EVALUATION_SEED, Evaluation
from solutions.lesson12_capstone.sft import sft_loss as right_sft_loss
from solutions.lesson12_capstone.stages import PPOResult
from testcases.engine import misconception
from tiny_models.gold import gold_score, is_well_formed

LOSS = "sft_loss: the tokens of the response"
SFT = "train_sft: imitate"
EVALUATE = "evaluate_policy: the judge that training never sees"
PPO = "train_policy: the third stage"


# sft_loss


def _token_losses(logits, input_ids):
    return -gather_log_probs(logits[:, :-1], input_ids[:, 1:])


@misconception(
    "sft_loss",
    why="each token is scored by the logits at its own position, which have read it: the one before predicts it",
    read=LOSS,
)
def logits_not_shifted(logits, input_ids, loss_mask):
    return -masked_mean(gather_log_probs(logits, input_ids), loss_mask)


@misconception(
    "sft_loss",
    why="logits and tokens are both shifted, so each token is still scored by logits that have read it: logits[:, :-1]",
    read=LOSS,
)
def logits_shifted_with_the_tokens(logits, input_ids, loss_mask):
    return -masked_mean(gather_log_probs(logits[:, 1:], input_ids[:, 1:]), loss_mask[:, 1:])


@misconception(
    "sft_loss",
    why="shifted twice: token i + 1 is predicted by the logits at i, not by those before that",
    read=LOSS,
)
def logits_shifted_twice(logits, input_ids, loss_mask):
    return -masked_mean(gather_log_probs(logits[:, :-2], input_ids[:, 2:]), loss_mask[:, 2:])


@misconception(
    "sft_loss",
    why="the tokens are shifted, the mask is not: it belongs to the tokens, so it loses its first column",
    read=LOSS,
)
def mask_not_shifted(logits, input_ids, loss_mask):
    return masked_mean(_token_losses(logits, input_ids), loss_mask[:, :-1])


@misconception(
    "sft_loss",
    why="the mask is not used: prompt and padding are learned as well",
    read=LOSS,
)
def every_token_learned(logits, input_ids, loss_mask):
    return _token_losses(logits, input_ids).mean()


@misconception("sft_loss", why="the mean log-likelihood without the minus: minimised, it unlearns", read=LOSS)
def likelihood_minimised(logits, input_ids, loss_mask):
    return -masked_mean(_token_losses(logits, input_ids), loss_mask[:, 1:])


@misconception("sft_loss", why="the sum over the tokens: a long batch then takes larger steps; it is a mean", read=LOSS)
def tokens_summed(logits, input_ids, loss_mask):
    return _token_losses(logits, input_ids)[loss_mask[:, 1:]].sum()


@misconception(
    "sft_loss",
    why="the mean of the rows' means: a token of a short response weighs more than one of a long response",
    read=LOSS,
)
def mean_of_row_means(logits, input_ids, loss_mask):
    losses, mask = _token_losses(logits, input_ids), loss_mask[:, 1:]
    rows = [row[real].mean() for row, real in zip(losses, mask, strict=True) if real.any()]
    return torch.stack(rows).mean()


@misconception(
    "sft_loss",
    why="multiplied by the mask and divided by all positions: padding makes the loss smaller",
    read=LOSS,
)
def divided_by_all_positions(logits, input_ids, loss_mask):
    return (_token_losses(logits, input_ids) * loss_mask[:, 1:]).mean()


@misconception(
    "sft_loss",
    why="multiplied by the mask before the sum: NaN * 0 is NaN, so select with the mask",
    read=LOSS,
)
def multiplied_by_the_mask(logits, input_ids, loss_mask):
    mask = loss_mask[:, 1:]
    return (_token_losses(logits, input_ids) * mask).sum() / mask.sum()


# train_sft


def _fit(
    policy,
    data,
    config,
    *,
    mask="loss_mask",
    order=lambda count, config: torch.randperm(count, generator=torch.Generator().manual_seed(config.seed)),
    drop_last=False,
    epochs=1,
    share=lambda step, count: 1 - step / count,
    clips=lambda weights: nn.utils.clip_grad_norm_(weights, 1.0),
    forgets=True,
    weight_decay=0.0,
    trains=True,
    ends_in_eval=True,
    learns=lambda logits, ids, mask: right_sft_loss(logits, ids, mask),
):
    """The reference's loop with some parts replaced."""
    optimizer = torch.optim.AdamW(policy.parameters(), lr=config.learning_rate, weight_decay=weight_decay)
    batches = []
    for _ in range(epochs):
        batches += order(len(data.input_ids), config).split(config.batch_size)
    if drop_last:
        batches = [batch for batch in batches if len(batch) == config.batch_size]
    losses = []
    policy.train(trains)
    for step, index in enumerate(batches):
        optimizer.param_groups[0]["lr"] = config.learning_rate * share(step, len(batches))
        input_ids, attention_mask = data.input_ids[index], data.attention_mask[index]
        logits = policy(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids(attention_mask),
            use_cache=False,
        ).logits
        loss = learns(logits, input_ids, getattr(data, mask)[index])
        if forgets:
            optimizer.zero_grad()
        loss.backward()
        clips(policy.parameters())
        optimizer.step()
        losses.append(loss.item())
    policy.train(not ends_in_eval)
    return losses


@misconception(
    "train_sft",
    why="the prompt is learned too: data.loss_mask marks the response, data.attention_mask all that is no padding",
    read=SFT,
)
def prompts_learned_too(policy, data, config):
    return _fit(policy, data, config, mask="attention_mask")


@misconception("train_sft", why="the learning rate stays the same: it decays linearly to 0 over the steps", read=SFT)
def learning_rate_not_decayed(policy, data, config):
    return _fit(policy, data, config, share=lambda step, count: 1.0)


@misconception(
    "train_sft",
    why="the learning rate is decayed before the step: step k uses 1 - k / n of it, from k = 0, so none is 0",
    read=SFT,
)
def learning_rate_decayed_before_the_step(policy, data, config):
    return _fit(policy, data, config, share=lambda step, count: 1 - (step + 1) / count)


@misconception(
    "train_sft",
    why="the learning rate rises from step to step: it starts at config.learning_rate and falls in a line",
    read=SFT,
)
def learning_rate_rises(policy, data, config):
    return _fit(policy, data, config, share=lambda step, count: (step + 1) / count)


@misconception("train_sft", why="the demonstrations are taken in their order, not shuffled by config.seed", read=SFT)
def demonstrations_not_shuffled(policy, data, config):
    return _fit(policy, data, config, order=lambda count, config: torch.arange(count))


@misconception("train_sft", why="the seed is ignored: every run takes the demonstrations in one order", read=SFT)
def seed_ignored(policy, data, config):
    return _fit(
        policy,
        data,
        config,
        order=lambda count, config: torch.randperm(count, generator=torch.Generator().manual_seed(0)),
    )


@misconception("train_sft", why="the last, smaller batch is dropped: each demonstration is seen once", read=SFT)
def smaller_batch_dropped(policy, data, config):
    return _fit(policy, data, config, drop_last=True)


@misconception("train_sft", why="two passes: each demonstration is seen once, or it is learned by heart", read=SFT)
def every_demonstration_twice(policy, data, config):
    return _fit(policy, data, config, epochs=2)


@misconception("train_sft", why="the gradients are never forgotten: each step takes all earlier ones again", read=SFT)
def sft_gradients_pile_up(policy, data, config):
    return _fit(policy, data, config, forgets=False)


@misconception("train_sft", why="the gradients are not clipped to the norm 1", read=SFT)
def sft_gradients_not_clipped(policy, data, config):
    return _fit(policy, data, config, clips=lambda weights: None)


@misconception(
    "train_sft",
    why="each slope is cut to [-1, 1] by itself, which turns the step: scale all to the norm 1, clip_grad_norm_",
    read=SFT,
)
def each_slope_clipped(policy, data, config):
    return _fit(policy, data, config, clips=lambda weights: nn.utils.clip_grad_value_(weights, 1.0))


@misconception("train_sft", why="AdamW's default weight decay pulls the weights to 0; here it is 0", read=SFT)
def weights_decayed(policy, data, config):
    return _fit(policy, data, config, weight_decay=0.01)


@misconception("train_sft", why="trained in eval mode: dropout, where a model has it, is never used", read=SFT)
def trained_in_eval_mode(policy, data, config):
    return _fit(policy, data, config, trains=False)


@misconception(
    "train_sft",
    why="left in train mode: the next stage samples from it, with dropout on",
    read=SFT,
)
def left_in_train_mode(policy, data, config):
    return _fit(policy, data, config, ends_in_eval=False)


# evaluate_policy


def _has_any(responses, token_ids):
    return torch.isin(responses, torch.tensor(token_ids)).any(dim=1)


def _judge(
    policy,
    reference,
    score,
    prompts,
    tokenizer,
    config,
    *,
    top_k=0,
    generator=lambda policy: torch.Generator(device=policy.device).manual_seed(EVALUATION_SEED),
    pad=lambda config: config.pad_token_id,
    real_tokens=lambda responses, mask, config: mask,
    has_stopped=lambda responses, mask, config: _has_any(responses, config.stop_token_ids),
    reading=evaluation_mode,
    kl_of=lambda log_probs, ref, mask: estimate_kl(log_probs, ref).masked_fill(~mask, 0.0).sum(dim=1).mean(),
    skips_special=True,
    reference_temperature=None,
    valid_only=False,
    mean_gold=lambda gold: sum(gold) / len(gold),
    against=lambda prompts, row: prompts[row],
    proxy_length=None,
):
    """The reference's evaluation with some parts replaced."""
    input_ids, attention_mask = encode_prompts(prompts, tokenizer, pad(config))
    responses, log_probs, mask = generate(
        policy,
        input_ids,
        attention_mask,
        config.max_new_tokens,
        config.stop_token_ids,
        pad(config),
        config.temperature,
        top_k=top_k,
        generator=generator(policy),
    )
    mask = real_tokens(responses, mask, config)
    sequences, visible = torch.cat([input_ids, responses], 1), torch.cat([attention_mask, mask], 1)
    with reading(reference):
        ref_logits = response_logits(reference, sequences, visible, input_ids.shape[1])
    ref = gather_log_probs(ref_logits, responses, reference_temperature or config.temperature)
    texts = [
        tokenizer.decode(row[real], skip_special_tokens=skips_special)
        for row, real in zip(responses, mask, strict=True)
    ]
    stopped = has_stopped(responses, mask, config).tolist()
    valid = [is_well_formed(text) and stop for text, stop in zip(texts, stopped, strict=True)]
    gold = [gold_score(against(prompts, row), text) if valid[row] else 0.0 for row, text in enumerate(texts)]
    if valid_only:
        gold = [one for one, ok in zip(gold, valid, strict=True) if ok] or [0.0]
    return Evaluation(
        gold=mean_gold(gold),
        proxy=score(sequences, visible, input_ids.shape[1] if proxy_length is None else proxy_length).mean().item(),
        valid=sum(valid) / len(valid),
        kl=kl_of(log_probs, ref, mask).item(),
        responses=tuple(texts),
    )


@misconception(
    "evaluate_policy",
    why="a response that was cut counts as valid: it must also have stopped by itself",
    read=EVALUATE,
)
def cut_responses_are_valid(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        has_stopped=lambda responses, mask, config: torch.ones(len(responses), dtype=torch.bool),
    )


@misconception(
    "evaluate_policy",
    why="only the first stop token counts: a response has stopped with any of config.stop_token_ids",
    read=EVALUATE,
)
def one_stop_token_counts(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        has_stopped=lambda responses, mask, config: _has_any(responses, config.stop_token_ids[:1]),
    )


@misconception(
    "evaluate_policy",
    why="stopped means followed by padding: the longest response has none, and may have stopped; look for a stop",
    read=EVALUATE,
)
def padding_means_stopped(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        has_stopped=lambda responses, mask, config: (~mask).any(dim=1),
    )


@misconception(
    "evaluate_policy",
    why="a pad in the last column counts as a stop: the policy may have written it itself; look for a stop token",
    read=EVALUATE,
)
def pad_at_the_end_means_stopped(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        has_stopped=lambda responses, mask, config: _has_any(
            responses[:, -1:], (*config.stop_token_ids, config.pad_token_id)
        ),
    )


@misconception(
    "evaluate_policy",
    why="padded with another id than config.pad_token_id: the models have been told of that one",
    read=EVALUATE,
)
def padded_with_another_id(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, pad=lambda config: 0)


@misconception(
    "evaluate_policy",
    why="padding is told by its id: where the stop token pads as well, the stop is lost; generate returns the mask",
    read=EVALUATE,
)
def padding_told_by_its_id(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        real_tokens=lambda responses, mask, config: responses != config.pad_token_id,
    )


@misconception(
    "evaluate_policy",
    why="the reference is read in the mode it is in: with dropout on its KL is noise; use evaluation_mode",
    read=EVALUATE,
)
def reference_read_with_dropout(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, reading=nullcontext)


@misconception(
    "evaluate_policy",
    why="the reference is left in eval mode: an evaluation leaves all as it was; use evaluation_mode",
    read=EVALUATE,
)
def reference_put_into_eval_mode(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, reading=lambda model: nullcontext(model.eval()))


@contextmanager
def _eval_and_back(model):
    was_training = model.training
    model.eval()
    yield
    model.train(was_training)


@misconception(
    "evaluate_policy",
    why="train(was) sets every part of the reference alike: each goes back to its own mode; use evaluation_mode",
    read=EVALUATE,
)
def reference_mode_restored_as_a_whole(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, reading=_eval_and_back)


@misconception(
    "evaluate_policy",
    why="the policy is left in eval mode: its training goes on afterwards; generate restores the mode by itself",
    read=EVALUATE,
)
def policy_left_in_eval_mode(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy.eval(), reference, score, prompts, tokenizer, config)


@misconception(
    "evaluate_policy",
    why="the policy is left in train mode, whatever it was in; generate restores the mode by itself",
    read=EVALUATE,
)
def policy_left_in_train_mode(policy, reference, score, prompts, tokenizer, config):
    found = _judge(policy, reference, score, prompts, tokenizer, config)
    policy.train()
    return found


@misconception(
    "evaluate_policy",
    why="train(was) sets every part of the policy alike: each has its own mode; generate restores them by itself",
    read=EVALUATE,
)
def policy_mode_restored_as_a_whole(policy, reference, score, prompts, tokenizer, config):
    with _eval_and_back(policy):
        return _judge(policy, reference, score, prompts, tokenizer, config)


@misconception(
    "evaluate_policy",
    why="the KL of a token: of a whole response it is the sum over its tokens, then the mean over responses",
    read=EVALUATE,
)
def kl_of_a_token(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        kl_of=lambda log_probs, ref, mask: estimate_kl(log_probs, ref)[mask].mean(),
    )


@misconception(
    "evaluate_policy",
    why="config.kl_estimator is for the rewards of the training: the KL reported here is always the sum of k1",
    read=EVALUATE,
)
def kl_by_the_estimator_of_the_config(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        kl_of=lambda log_probs, ref, mask: (
            estimate_kl(log_probs, ref, config.kl_estimator).masked_fill(~mask, 0.0).sum(dim=1).mean()
        ),
    )


@misconception(
    "evaluate_policy",
    why="the KL is summed over padding as well: mask it first",
    read=EVALUATE,
)
def kl_of_the_padding(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        kl_of=lambda log_probs, ref, mask: estimate_kl(log_probs, ref).sum(dim=1).mean(),
    )


@misconception(
    "evaluate_policy",
    why="reference minus policy: KL(policy || reference) is the mean of policy minus reference, over its samples",
    read=EVALUATE,
)
def kl_reversed(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        kl_of=lambda log_probs, ref, mask: estimate_kl(ref, log_probs).masked_fill(~mask, 0.0).sum(dim=1).mean(),
    )


@misconception(
    "evaluate_policy",
    why="the policy is compared with itself: the KL is measured against the SFT model",
    read=EVALUATE,
)
def kl_from_itself(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, policy, score, prompts, tokenizer, config)


@misconception(
    "evaluate_policy",
    why="the reference is read at temperature 1: both log-probs need config.temperature",
    read=EVALUATE,
)
def evaluation_at_temperature_1(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, reference_temperature=1.0)


@misconception(
    "evaluate_policy",
    why="the stop token stays in the text, so no response is well-formed: decode with skip_special_tokens=True",
    read=EVALUATE,
)
def special_tokens_in_the_text(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, skips_special=False)


@misconception(
    "evaluate_policy",
    why="gold is averaged over the valid responses only: an invalid one counts, with 0",
    read=EVALUATE,
)
def gold_of_the_valid_only(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, valid_only=True)


@misconception(
    "evaluate_policy",
    why="a mean gold below 0 is raised to 0: an unkind review off topic is worse than nothing, and has to show",
    read=EVALUATE,
)
def gold_kept_above_0(policy, reference, score, prompts, tokenizer, config):
    return _judge(
        policy,
        reference,
        score,
        prompts,
        tokenizer,
        config,
        mean_gold=lambda gold: max(0.0, sum(gold) / len(gold)),
    )


@misconception(
    "evaluate_policy",
    why="every response is held against the first prompt: each has its own topic",
    read=EVALUATE,
)
def gold_against_the_first_prompt(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, against=lambda prompts, row: prompts[0])


@misconception(
    "evaluate_policy",
    why="the likeliest token is always taken: PPO trains the distribution, so samples of it are to be judged",
    read=EVALUATE,
)
def evaluated_without_chance(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, top_k=1)


@misconception(
    "evaluate_policy",
    why="sampled with the global generator: evaluating would then change the training, and each policy meet other luck",
    read=EVALUATE,
)
def evaluated_with_the_global_generator(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, generator=lambda policy: None)


@misconception(
    "evaluate_policy",
    why="the scorer is told a prompt length of 0: it gets the padded one, so that it can cut the response out",
    read=EVALUATE,
)
def scorer_told_no_prompt(policy, reference, score, prompts, tokenizer, config):
    return _judge(policy, reference, score, prompts, tokenizer, config, proxy_length=0)


# train_policy


def _tune(
    stage1,
    stage2,
    config,
    tokenizer,
    prompts,
    on_update,
    resume_from,
    policy=None,
    critic=None,
    reference=None,
    reward=None,
):
    policy = copy.deepcopy(stage1.policy).requires_grad_(True) if policy is None else policy
    model = PolicyAndValue(policy, critic_from_reward_model(stage2.reward_model) if critic is None else critic)
    reference = make_reference(stage1.policy) if reference is None else reference
    trainer = PPOTrainer(model, stage2.reward_model if reward is None else reward, reference, config, tokenizer)
    if resume_from is not None:
        trainer.load_checkpoint(resume_from)
    trainer.train(prompts, on_update)
    return PPOResult(trainer.policy, trainer)


@misconception(
    "train_policy",
    why="resume_from is ignored: the updates before the checkpoint are done again; trainer.load_checkpoint comes first",
    read=PPO,
)
def resume_from_ignored(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, None)


@misconception(
    "train_policy",
    why="the SFT model itself is trained: stage 1's policy is the starting point of other runs, so train a copy",
    read=PPO,
)
def sft_model_trained_in_place(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    reference = make_reference(stage1.policy)
    policy = stage1.policy.requires_grad_(True)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, policy=policy, reference=reference)


@misconception(
    "train_policy",
    why="the SFT model itself becomes the reference, so it is frozen for whoever uses it next: make_reference copies",
    read=PPO,
)
def sft_model_becomes_the_reference(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    policy, reference = copy.deepcopy(stage1.policy).requires_grad_(True), freeze(stage1.policy)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, policy=policy, reference=reference)


@misconception(
    "train_policy",
    why="the copy stays frozen where the SFT model was: requires_grad_(True), or the policy never moves",
    read=PPO,
)
def copy_stays_frozen(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    policy = copy.deepcopy(stage1.policy)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, policy=policy)


@misconception(
    "train_policy",
    why="the trained policy is its own reference: freezing it stops the training, and the KL is always 0",
    read=PPO,
)
def policy_is_the_reference(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    policy = copy.deepcopy(stage1.policy)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, policy=policy, reference=policy)


@misconception(
    "train_policy",
    why="the critic starts from nothing: a copy of the reward model is already right at the last token",
    read=PPO,
)
def critic_from_nothing(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    critic = critic_from_reward_model(stage2.reward_model)
    for weight in critic.parameters():
        nn.init.constant_(weight, 0.5)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, critic=critic)


@misconception(
    "train_policy",
    why="only the reward model's body is taken over, its head is new: copy both",
    read=PPO,
)
def critic_with_a_new_head(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    critic = critic_from_reward_model(stage2.reward_model)
    nn.init.zeros_(critic.head.weight)
    nn.init.zeros_(critic.head.bias)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, critic=critic)


@misconception(
    "train_policy",
    why="the critic shares the reward model's body: frozen with it, or changing the reward while it learns; copy it",
    read=PPO,
)
def critic_shares_the_reward_model(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    critic = ValueModel(stage2.reward_model.backbone)
    critic.head.load_state_dict(stage2.reward_model.head.state_dict())
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, critic=critic)


@misconception(
    "train_policy",
    why="the SFT model is handed back: the tuned policy is trainer.policy",
    read=PPO,
)
def sft_model_handed_back(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    found = _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from)
    return replace(found, policy=stage1.policy)


@misconception(
    "train_policy",
    why="the SFT model is left in eval mode: stage 1 stays as it was; a copy may be put into any mode",
    read=PPO,
)
def sft_model_left_in_eval_mode(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    stage1.policy.eval()
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from)


@misconception(
    "train_policy",
    why="the reward model can be trained again afterwards: it is frozen, and stays so",
    read=PPO,
)
def reward_model_thawed(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    found = _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from)
    stage2.reward_model.requires_grad_(True)
    return found


@misconception(
    "train_policy",
    why="torch.manual_seed resets the caller's random numbers: the trainer has generators of its own, from config.seed",
    read=PPO,
)
def global_generator_seeded(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    torch.manual_seed(config.seed)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from)


@misconception(
    "train_policy",
    why="only the first batch of prompts is trained on: trainer.train takes them all and draws the batches",
    read=PPO,
)
def prompts_of_one_batch(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    return _tune(stage1, stage2, config, tokenizer, prompts[: config.batch_size], on_update, resume_from)


@misconception(
    "train_policy",
    why="a prompt that comes twice is dropped: it counts twice; trainer.train takes the prompts as they are",
    read=PPO,
)
def each_prompt_once(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    return _tune(stage1, stage2, config, tokenizer, list(dict.fromkeys(prompts)), on_update, resume_from)


@misconception("train_policy", why="on_update is not handed on to trainer.train", read=PPO)
def on_update_not_handed_on(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    return _tune(stage1, stage2, config, tokenizer, prompts, None, resume_from)


@misconception(
    "train_policy",
    why="one update on all prompts: trainer.train runs config.num_updates of them, on batches",
    read=PPO,
)
def one_update_on_all_prompts(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    policy = copy.deepcopy(stage1.policy).requires_grad_(True)
    model = PolicyAndValue(policy, critic_from_reward_model(stage2.reward_model))
    trainer = PPOTrainer(model, stage2.reward_model, make_reference(stage1.policy), config, tokenizer)
    trainer.history.append(trainer.training_step(prompts))
    if on_update is not None:
        on_update(trainer)
    return PPOResult(trainer.policy, trainer)


@misconception(
    "train_policy",
    why="the gold score is the reward: the truth is for the evaluation only, training has the reward model",
    read=PPO,
)
def trained_on_the_truth(stage1, stage2, config, tokenizer, prompts, on_update=None, resume_from=None):
    def gold(asked, answers):
        return [gold_score(prompt, text) for prompt, text in zip(asked, answers, strict=True)]

    freeze(stage2.reward_model)
    return _tune(stage1, stage2, config, tokenizer, prompts, on_update, resume_from, reward=gold)
