"""Anything with the arguments and the answer of `generate` may sample the responses: a scripted one here."""

from __future__ import annotations

import re

import pytest
import torch

from solutions.lesson08_rollout import Generation
from solutions.lesson09_ppo_trainer import PPOTrainer
from solutions.lesson11_scaling import DistributedPPOTrainer
from testcases.engine.catalog import ROOT
from testcases.selfcheck.memory_test import PROMPTS, TokenSum, small_trainer

LOG_PROBS = [[-0.5, -1.0, -1.5], [-2.0, -2.5, torch.nan]]


class Scripted:
    """Says 7 8 1 to the first prompt of a call, 9 1 to the second, and so on in turn."""

    def __init__(self) -> None:
        self.calls: list[dict] = []

    def __call__(self, policy, input_ids, attention_mask, **options) -> Generation:
        self.calls.append({"policy": policy, "ids": input_ids, "visible": attention_mask, **options})
        rows = [(number % 2) for number in range(len(input_ids))]
        responses = torch.tensor([[7, 8, 1], [9, 1, 0]])[rows]
        mask = torch.tensor([[True, True, True], [True, True, False]])[rows]
        return Generation(responses, torch.tensor(LOG_PROBS, dtype=torch.float64)[rows], mask)


def trainer_with(sampler, kind=PPOTrainer, **settings):
    plain = small_trainer(**settings)
    return kind(plain.model, TokenSum(), plain.ref_model, plain.config, sampler=sampler)


@pytest.mark.parametrize("kind", [PPOTrainer, DistributedPPOTrainer])
def test_a_run_is_made_from_what_the_sampler_says(kind):
    scripted = Scripted()
    trainer = trainer_with(scripted, kind, micro_rollout_batch_size=2, temperature=0.7)
    experience = trainer._collect(PROMPTS)
    assert experience.responses.tolist() == [[7, 8, 1], [9, 1, 0], [7, 8, 1], [9, 1, 0], [7, 8, 1]]
    assert experience.log_probs[experience.mask].tolist() == [*LOG_PROBS[0], *LOG_PROBS[1][:2]] * 2 + LOG_PROBS[0]
    assert not experience.log_probs[~experience.mask].any()
    first, second, third = scripted.calls
    assert first["ids"].tolist() == [[5, 6, 7], [0, 8, 9]] and first["visible"].tolist()[1] == [False, True, True]
    assert len(second["ids"]) == 2 and len(third["ids"]) == 1
    expected = {"max_new_tokens": 6, "stop_token_ids": (1, 2), "pad_token_id": 0, "temperature": 0.7}
    assert {name: first[name] for name in expected} == expected
    assert first["generator"] is trainer.sampling and first["policy"] is trainer.policy
    weights = [weight.detach().clone() for weight in trainer.policy.parameters()]
    history = trainer.train(PROMPTS)
    assert history[0]["response_length"] == pytest.approx((3 * 3 + 2 * 2) / 5)
    assert any(not torch.equal(one, two) for one, two in zip(weights, trainer.policy.parameters(), strict=True))
    assert scripted.calls[-1]["policy"] is trainer.policy, "it samples from the weights as they are now"


def test_the_sampler_of_the_page_samples_what_is_trained():
    page = (ROOT / "book/pages/generation.md").read_text("utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "import" in block)
    names: dict = {}
    exec(code, names)
    trainer = trainer_with(names["by_transformers"], temperature=0.7)
    history = trainer.train(PROMPTS)
    assert [metrics["first_ratio_max"] for metrics in history] == pytest.approx([1.0, 1.0], abs=1e-6)
    assert abs(history[0]["kl"]) < 1e-5 < abs(history[1]["kl"])


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"mask": torch.tensor([[True, False, True]] * 5)}, "a real token after a masked one"),
        ({"mask": torch.zeros(5, 3, dtype=torch.bool)}, "at least one True in mask"),
        ({"mask": torch.ones(5, 3)}, "expected a bool mask"),
        ({"log_probs": torch.full((5, 3), torch.nan)}, "expected finite log-probabilities from the sampler"),
        ({"log_probs": torch.ones(5, 3)}, "at most 0"),
        ({"responses": torch.ones(4, 3, dtype=torch.int64)}, "each letter one size"),
        ({name: torch.ones(4, 3) for name in ("responses", "log_probs", "mask")}, "each letter one size"),
    ],
)
def test_a_sampler_that_answers_otherwise_is_one_sentence(change, sentence):
    good = Generation(torch.ones(5, 3, dtype=torch.int64), -torch.ones(5, 3), torch.ones(5, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=sentence):
        trainer_with(lambda *args, **options: good._replace(**change))._collect(PROMPTS)
