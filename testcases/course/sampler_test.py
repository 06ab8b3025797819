"""Anything with the arguments and the answer of `generate` may sample the responses: the samplers of the page here."""

import re
import warnings
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model

from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel
from solutions.lesson08_rollout import Generation, generate
from solutions.lesson09_ppo_trainer import PPOTrainer
from testcases.course.trainers import PROMPTS, small_policy, small_trainer
from testcases.harness.catalog import ROOT


def trainer_with(sampler, kind=PPOTrainer, **settings):
    return small_trainer(kind, {"sampler": sampler}, **settings)


def of_the_page(name: str):
    page = (ROOT / "book/pages/generation.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (code,) = (block for block in blocks if f"def {name}(" in block or f"class {name}(" in block)
    names: dict = {}
    exec(code, names)
    return names[name]


@pytest.mark.parametrize("name", ["by_transformers", pytest.param("by_continuous_batching", marks=pytest.mark.slow)])
def test_a_of_the_page_samples_what_is_trained(name):
    trainer = trainer_with(of_the_page(name), temperature=0.7)
    history = trainer.train(PROMPTS)
    assert [metrics["first_ratio_max"] for metrics in history] == pytest.approx([1.0, 1.0], abs=1e-6)
    assert abs(history[0]["kl"]) < 1e-5 < abs(history[1]["kl"])


class Engine:
    """Samples with weights of its own, which somebody has to bring up to date."""

    def __init__(self) -> None:
        self.model = small_policy().double()

    def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        self.model.load_state_dict(weights)

    def __call__(self, policy, *prompts, **options) -> Generation:
        return generate(self.model, *prompts, **options)


@pytest.mark.parametrize("is_lora", [False, True], ids=["whole", "lora"])
def test_an_engine_gets_the_weights_of_each_update_by_the_line_of_the_page(is_lora, capsys):
    page = (ROOT / "book/pages/generation.md").read_text("utf-8")
    lines = page[page.index("from ppo_by_hand import merged_weights") :].partition("```")[0]
    found = {}
    for code in (lines, "trainer.train(prompts)"):
        engine, policy, reference = Engine(), small_policy(), {}
        if is_lora:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an older name
                policy = get_peft_model(policy, LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))
            reference = {"ref_model": None}
        model = PolicyAndValue(policy, ValueModel(small_policy(seed=2).base_model)).double()
        options = {"num_updates": 3, "batch_size": 20, "learning_rate": 0.1, "recompute_log_probs": True}
        trainer = small_trainer(parts={"model": model, "sampler": engine, **reference}, **options)
        exec(code, {"trainer": trainer, "prompts": PROMPTS, "engine": engine})
        found[code] = [metrics["sampler_kl"] for metrics in trainer.history]
    assert found[lines] == pytest.approx([0.0] * 3, abs=1e-9)
    assert found["trainer.train(prompts)"][2] > 1e-3
    assert "it has other weights (those of an update before?)" in capsys.readouterr().err


def test_the_answer_of_an_engine_is_lists():
    made = Generation.from_lists([[7, 8, 1], [9, 1]], [[-0.5, -1.0, -1.5], [-2.0, -2.5]], pad_token_id=0)
    assert made.responses.tolist() == [[7, 8, 1], [9, 1, 0]] and made.mask.tolist()[1] == [True, True, False]
    assert made.log_probs.tolist() == [[-0.5, -1.0, -1.5], [-2.0, -2.5, 0.0]]
    assert Generation.from_lists([[7]], None, 0).log_probs.isnan().all()


def rounding(share: float):
    """generate, whose log-probabilities are rounded by this share."""

    def sampler(*given, **options):
        found = generate(*given, **options)
        noise = torch.randn(found.mask.shape, generator=torch.Generator().manual_seed(int(found.responses.sum())))
        noisy = found.log_probs + share * noise.double()
        return found._replace(log_probs=noisy.masked_fill(~found.mask, 0.0).clamp(max=0.0))

    return sampler


LARGER = {"batch_size": 40, "num_updates": 1, "num_epochs": 1, "num_minibatches": 1}


def said(sampler, capsys, **settings) -> str:
    trainer_with(sampler, **LARGER, **settings).train(PROMPTS)
    return "\n".join(line for line in capsys.readouterr().err.splitlines() if "sampl" in line or "reference" in line)


def test_the_checks_allow_for_the_rounding_of_an_engine_and_not_for_another_policy(capsys):
    for settings in ({}, {"recompute_log_probs": True}):
        assert said(rounding(0.05), capsys, **settings) == ""
    assert "the sampler is 0." in said(rounding(0.3), capsys, recompute_log_probs=True)
    assert "sampling and training disagree" in said(rounding(0.3), capsys)
    (metrics,) = trainer_with(rounding(0.05), **LARGER, recompute_log_probs=True).train(PROMPTS)
    assert 0.0005 < metrics["sampler_kl"] < 0.003 and 1.05 < metrics["sampler_ratio_max"] < 1.5


def test_the_pages_loss_counts_each_token_with_its_truncated_importance_weight():
    """By hand: the gradient is that of an update whose advantages are weighted, and then shuffled, cut and split."""
    settings = LARGER | {"recompute_log_probs": True, "num_minibatches": 3, "num_epochs": 2}
    kind, seen = of_the_page("WeightedPPOTrainer"), []

    class Noted(PPOTrainer):
        def compute_loss(self, batch):
            far = (batch.log_probs - batch.sampler_log_probs)[batch.mask].abs()
            assert 0.0 < far.max() < 1.0, "of the same rows and tokens"
            weights = (batch.log_probs - batch.sampler_log_probs).exp().clamp(max=2.0)
            seen.append(weights[batch.mask])
            return super().compute_loss(replace(batch, advantages=batch.advantages * weights))

    runs = [trainer_with(rounding(0.3), one, **settings) for one in (kind, Noted, PPOTrainer)]
    for run in runs:
        run.train(PROMPTS)
    weighted, by_hand, plain = (list(run.policy.parameters()) for run in runs)
    assert all(torch.equal(one, other) for one, other in zip(weighted, by_hand, strict=True))
    assert not any(torch.equal(one, other) for one, other in zip(weighted[:1], plain[:1], strict=True))
    assert torch.cat(seen).max() == 2.0 > torch.cat(seen).min() > 0.0


def test_an_engine_without_log_probs_needs_them_recomputed():
    def silent(policy, *prompts, **options):
        found = generate(policy, *prompts, **options)
        tokens = [row[real].tolist() for row, real in zip(found.responses, found.mask, strict=True)]
        return Generation.from_lists(tokens, None, options["pad_token_id"])

    run = trainer_with(silent, recompute_log_probs=True)
    history = run.train(PROMPTS)
    assert "sampler_kl" not in history[0] and history[0]["first_ratio_max"] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="with recompute_log_probs it need give none"):
        trainer_with(silent).train(PROMPTS)
