"""PPO for RLHF on one screen. Read it from top to bottom; each part names the lesson that explains it.

B responses of T tokens answer prompts of P tokens; the vocabulary has V tokens, here words and signs."""

from copy import deepcopy

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ppo_by_hand import RewardModel
from tiny_models.checkpoints import REWARD_MODEL, SFT
from tiny_models.gold import gold_score

# Six numbers to change. Write down first what you expect.
KL_COEF = 0.09  # the price of each nat away from the SFT model (supervised fine-tuning), where PPO starts
CLIP_EPSILON = 0.2  # a probability that has moved by more than a fifth earns nothing more
LAM = 0.95  # how far back a surprise is shared: 0 not at all, 1 with every earlier token
EPOCHS = 2  # steps on the same responses
LEARNING_RATE = 1e-3
UPDATES = 30
PROMPTS = [f"review the {topic} :" for topic in ("film", "book", "meal", "hotel")] * 16  # all of one length
P, T = 4, 20
tokenizer = AutoTokenizer.from_pretrained(SFT)


def sample(policy, prompts):  # lesson 8; prompts (B, P)
    texts = prompts
    for _ in range(T):
        next_logits = policy(texts).logits[:, -1]  # (B, V)
        texts = torch.cat([texts, torch.multinomial(next_logits.softmax(-1), num_samples=1)], dim=1)
    stops = (texts[:, P:] == tokenizer.eos_token_id).long()
    mask = stops.cumsum(1) - stops == 0  # (B, T), True up to the first stop token, which counts: lesson 1
    return torch.cat([prompts, texts[:, P:].masked_fill(~mask, tokenizer.pad_token_id)], dim=1), mask


def log_probs_of(policy, texts):  # lesson 1: the logits at position i predict token i + 1
    log_probs = policy(texts).logits[:, P - 1 : -1].log_softmax(-1)  # (B, T, V)
    return log_probs.gather(-1, texts[:, P:, None]).squeeze(-1)  # (B, T)


def values_of(critic, texts):  # lesson 7: what the critic expects before each token, (B, T)
    return critic.head(critic.backbone(texts).last_hidden_state[:, P - 1 : -1]).squeeze(-1)


def gae(rewards, values):  # lesson 4: from the last token back to the first, (B, T)
    advantages, next_value, next_advantage = torch.zeros_like(rewards), 0.0, 0.0
    for t in reversed(range(T)):
        surprise = rewards[:, t] + next_value - values[:, t]
        advantages[:, t] = next_advantage = surprise + LAM * next_advantage
        next_value = values[:, t]
    return advantages


def loss_of(policy, critic, texts, mask, old_log_probs, advantages, returns):  # lesson 5
    ratio = (log_probs_of(policy, texts) - old_log_probs).exp()  # (B, T), 1 before the first step
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP_EPSILON, 1 + CLIP_EPSILON) * advantages)
    return -gain[mask].mean() + 0.05 * (values_of(critic, texts) - returns)[mask].square().mean()  # 0.05: its weight


def update(policy, critic, reference, reward_model, optimizer, texts, mask, kl_coef):  # lesson 9
    with torch.no_grad():
        scores = reward_model(texts, texts != tokenizer.pad_token_id)  # (B,): lesson 2
        unfinished = (texts[:, P:] != tokenizer.eos_token_id).all(1).float()  # a text without an end loses 1
        old_log_probs = log_probs_of(policy, texts)
        kl = (old_log_probs - log_probs_of(reference, texts)) * mask  # (B, T), its mean estimates the KL divergence
        rewards = -kl_coef * kl  # lesson 6: the price on each token, and on the last one the score
        rewards[torch.arange(len(mask)), mask.sum(1) - 1] += (scores - unfinished).clamp(-5, 5)
        values = values_of(critic, texts) * mask
        raw = gae(rewards, values)
        advantages = (raw - raw[mask].mean()) / (raw[mask].var() + 1e-8).sqrt()  # whitened: lesson 1
    for _ in range(EPOCHS):
        loss_of(policy, critic, texts, mask, old_log_probs, advantages, raw + values).backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return scores.mean().item(), kl.sum(1).mean().item()


def train(kl_coef=KL_COEF):
    torch.manual_seed(0)
    policy, reference = (AutoModelForCausalLM.from_pretrained(SFT) for _ in range(2))
    reward_model = RewardModel.from_pretrained(REWARD_MODEL)
    critic = deepcopy(reward_model)  # it knows good words from bad ones already
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=LEARNING_RATE, eps=1e-5)
    for _ in range(UPDATES):
        with torch.no_grad():
            texts, mask = sample(policy, tokenizer(PROMPTS, return_tensors="pt").input_ids)
        proxy, kl = update(policy, critic, reference, reward_model, optimizer, texts, mask, kl_coef)
        responses = tokenizer.batch_decode(texts[:, P:], skip_special_tokens=True)
        yield proxy, sum(map(gold_score, PROMPTS, responses)) / len(responses), kl, responses[0]
