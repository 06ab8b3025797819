"""Each shortcut of the trainer gives what the plain way gives, on a real GPT-2 with ragged prompts and responses."""

import copy
from dataclasses import fields, replace

import pytest
import torch

from solutions.lesson01_masked_sequences import position_ids, response_log_probs, truncate_after_stop
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference, response_logits
from solutions.lesson08_rollout import Experience, ExperienceBuffer, generate
from solutions.lesson09_ppo_trainer import PPOConfig, PPOTrainer, encode_prompts
from testcases.course.memory_test import rolled_out
from tiny_models.builders import build_gpt2

VOCABULARY, STOP, PAD = 11, 1, 0
PROMPTS = [[5, 6, 7, 8, 9, 10], [2, 3], [4, 5, 6], [7], [8, 9, 10, 2], [3, 4], [5], [6, 7, 8]]
LONGEST = 12


def close(one, other) -> bool:
    return torch.allclose(one, other, rtol=0, atol=1e-10)


def language_model(seed: int):
    return build_gpt2(
        VOCABULARY, n_layer=2, n_embd=16, n_head=2, eos_token_id=STOP, pad_token_id=PAD, seed=seed
    ).double()


@pytest.fixture
def trainer() -> PPOTrainer:
    torch.manual_seed(0)
    policy = language_model(0)
    model = PolicyAndValue(policy, ValueModel(language_model(1).transformer).double())
    config = PPOConfig(
        stop_token_ids=(STOP,),
        pad_token_id=PAD,
        max_new_tokens=LONGEST,
        num_updates=4,
        batch_size=len(PROMPTS),
        entropy_coef=0.01,
        micro_batch_size=None,
    )
    return PPOTrainer(model, RewardModel(language_model(2).transformer).double(), make_reference(policy), config)


@pytest.fixture
def experience(trainer: PPOTrainer) -> Experience:
    """Ragged on both sides: prompts of 1 to 6 tokens, responses that stop early and one that does not."""
    collected = rolled_out(trainer, PROMPTS)
    lengths = collected.mask.sum(dim=1).tolist()
    assert len(set(lengths)) > 3 and min(lengths) < LONGEST / 2
    return collected


def full_logits(policy, experience: Experience) -> torch.Tensor:
    """The plain pass: every position's distribution, with the cache that nobody reads."""
    return policy(
        input_ids=experience.input_ids,
        attention_mask=experience.attention_mask,
        position_ids=position_ids(experience.attention_mask),
    ).logits


def test_response_logits_are_those_of_the_full_pass(trainer, experience):
    short = response_logits(trainer.policy, experience.input_ids, experience.attention_mask, experience.prompt_length)
    full = full_logits(trainer.policy, experience)[:, experience.prompt_length - 1 : -1]
    assert short.shape == full.shape and close(short[experience.mask], full[experience.mask])


def test_log_probs_and_values_kept_from_the_rollout_are_those_of_a_new_pass(trainer, experience):
    logits = full_logits(trainer.policy, experience)
    again = response_log_probs(logits, experience.input_ids, experience.prompt_length)
    assert close(experience.log_probs[experience.mask], again[experience.mask])
    critic = trainer.model.value_model
    hidden = critic.backbone(
        input_ids=experience.input_ids,
        attention_mask=experience.attention_mask,
        position_ids=position_ids(experience.attention_mask),
        use_cache=True,
    ).last_hidden_state
    values = critic.head(hidden).squeeze(-1)[:, experience.prompt_length - 1 : -1]
    assert close(experience.values[experience.mask], values[experience.mask])


@torch.no_grad()
def test_the_cached_loop_with_early_stop_writes_what_the_plain_loop_writes(trainer):
    input_ids, visible = encode_prompts(PROMPTS, None, PAD)
    for limit in (LONGEST, 40):  # at 40 every row stops by itself, so the cached loop ends early
        cached = generate(
            trainer.policy, input_ids, visible, limit, (STOP,), PAD, generator=torch.Generator().manual_seed(3)
        )
        tokens, mask, generator = input_ids, visible, torch.Generator().manual_seed(3)
        for _ in range(limit):
            logits = trainer.policy(tokens, attention_mask=mask, position_ids=position_ids(mask)).logits[:, -1]
            drawn = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)
            tokens, mask = torch.cat([tokens, drawn], dim=1), torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        plain = truncate_after_stop(tokens[:, input_ids.shape[1] :], (STOP,), PAD)
        length = cached.responses.shape[1]
        assert torch.equal(cached.responses, plain[:, :length]) and (plain[:, length:] == PAD).all()
    assert length < limit, "no early stop was tested"


def gradients(trainer: PPOTrainer, batch: Experience) -> tuple[float, torch.Tensor]:
    trainer.model.zero_grad()
    loss, _ = trainer.compute_loss(batch)
    loss.backward()
    return loss.item(), torch.cat([parameter.grad.flatten() for parameter in trainer.model.parameters()])


def test_a_trimmed_minibatch_has_the_untrimmed_ones_loss_and_gradients(trainer, experience):
    index = experience.mask.sum(dim=1).argsort()[:3]
    trimmed = experience.rows(index)
    untrimmed = Experience(**{one.name: getattr(experience, one.name)[index] for one in fields(experience)})
    assert trimmed.input_ids.shape[1] < untrimmed.input_ids.shape[1]
    moved = replace_log_probs(trimmed, 0.1), replace_log_probs(untrimmed, 0.1)
    (short_loss, short), (long_loss, long) = (gradients(trainer, batch) for batch in moved)
    assert short_loss == pytest.approx(long_loss, rel=0, abs=1e-10) and close(short, long)


def replace_log_probs(batch: Experience, by: float) -> Experience:
    """As if the policy had moved since: ratios of exp(by) instead of 1."""
    return replace(batch, log_probs=batch.log_probs - by)


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_a_whole_minibatch_steps_as_its_microbatches_do(trainer, experience, size):
    whole = steps(trainer, experience, None)
    assert close(whole, steps(trainer, experience, size))


def steps(trainer: PPOTrainer, experience: Experience, size: int | None) -> torch.Tensor:
    """The gradient that one optimizer step hands to AdamW."""
    trainer = copy.copy(trainer)
    trainer.config = replace(trainer.config, micro_batch_size=size)
    handed: list[torch.Tensor] = []
    parameters = list(trainer.model.parameters())
    keep = trainer.optimizer.register_step_pre_hook(
        lambda *_: handed.append(torch.cat([parameter.grad.flatten().clone() for parameter in parameters]))
    )
    before = [parameter.detach().clone() for parameter in parameters]
    trainer.optimizer_step(experience)
    keep.remove()
    with torch.no_grad():
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(old)
    return handed[0]


def test_the_fused_optimizer_steps_as_the_plain_one():
    def trained(fused: bool) -> torch.Tensor:
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 7, dtype=torch.float64))
        optimizer = torch.optim.AdamW([weight], lr=0.1, eps=1e-5, weight_decay=0.0, fused=fused, foreach=False)
        for step in range(5):
            weight.grad = torch.sin(weight.detach() * (step + 1))
            optimizer.step()
        return weight.detach()

    assert close(trained(True), trained(False))


def test_the_buffer_yields_rows_without_copying_the_batch(experience):
    buffer = ExperienceBuffer()
    buffer.append(experience)
    list(buffer.minibatches(3))
    assert buffer._stored[0] is experience


def test_an_update_reads_each_response_once(trainer):
    """generate_responses writes; reference, critic and reward model read once; then only training passes."""
    passes = dict.fromkeys(("policy", "critic", "reference", "reward"), 0)

    def count(name):
        passes[name] += 1

    reward = trainer.score
    trainer.score = lambda *arguments, prompts: (count("reward"), reward(*arguments))[1]
    for name, module in (
        ("policy", trainer.policy),
        ("critic", trainer.model.value_model),
        ("reference", trainer.ref_model),
    ):
        module.register_forward_hook(lambda *_, name=name: count(name))
    written = []
    trainer.training_step(PROMPTS)  # before its first update it also looks whether dropout is off
    passes.update(dict.fromkeys(passes, 0))
    generate_responses = trainer.generate_responses
    trainer.generate_responses = lambda prompts: written.append(generate_responses(prompts)) or written[-1]
    steps = trainer.training_step(PROMPTS)["optimizer_steps"]
    tokens = written[0].responses.shape[1]
    assert len(written) == 1
    assert passes == {"policy": tokens + steps, "critic": 1 + steps, "reference": 1, "reward": 1}
