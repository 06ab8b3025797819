"""Settings of the trainer that no exercise needs: schedules, the critic's own rate, several samples per prompt; what is
refused: settings, models and prompts of another kind."""

from types import SimpleNamespace

import pytest
import torch

from ppo_by_hand.core.checks import faults
from ppo_by_hand.core.processes import Processes
from ppo_by_hand.core.texts import PromptQueue
from solutions.lesson09_ppo_trainer import PPOTrainer
from solutions.lesson11_scaling import DistributedPPOTrainer
from solutions.lesson11_scaling import trainer as scaled
from testcases.course.memory_test import PROMPTS, rolled_out, small_trainer
from testcases.harness.suite.asserts import named


@named(
    "options, rates",
    {
        "up-over-five-updates-and-down-to-0": ({}, [8 / 6, 16 / 6, 4, 4, 8 / 3]),
        "a-schedule-of-ones-own": ({"schedule": lambda done: 0.5**done}, [8, 4, 2, 1, 0.5]),
    },
)
def test_the_learning_rate_of_each_update_by_hand(options, rates):
    trainer = small_trainer(parts=options, num_updates=6, learning_rate=8.0, critic_learning_rate=80.0)
    for rate in rates:
        trainer._set_learning_rate()
        assert [group["lr"] for group in trainer.optimizer.param_groups] == pytest.approx([rate, 10 * rate], abs=1e-12)
        assert trainer._rollout_metrics(rolled_out(trainer, PROMPTS))["learning_rate"] == pytest.approx(rate)
        trainer.updates_done += 1


def weights(model) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


def moved(before: list[torch.Tensor], model) -> bool:
    return any(not torch.equal(one, two) for one, two in zip(before, model.parameters(), strict=True))


def test_only_the_critic_moves_where_the_policy_has_no_learning_rate():
    trainer = small_trainer(critic_learning_rate=1e-2)
    of_the_policy = trainer.optimizer.param_groups[0]
    of_the_policy["initial_lr"] = 0.0
    policy, critic = weights(trainer.policy), weights(trainer.model.value_model)
    metrics = trainer.training_step(PROMPTS)
    assert not moved(policy, trainer.policy) and moved(critic, trainer.model.value_model)
    assert metrics["learning_rate"] == 0.0 and "moves" not in dict(faults([metrics]))
    of_the_policy["initial_lr"] = 1e-3
    assert trainer.training_step(PROMPTS)["learning_rate"] > 0.0
    assert moved(policy, trainer.policy)


def test_each_prompt_of_an_update_is_answered_several_times():
    queue = PromptQueue(0, samples=3)
    taken = queue.take(6, 4) + queue.take(6, 4)
    assert taken[::3] == taken[1::3] == taken[2::3] and sorted(taken[::3]) == [0, 1, 2, 3]
    trainer, seen = small_trainer(batch_size=6, samples_per_prompt=3), []
    update = trainer.training_step
    trainer.training_step = lambda prompts: seen.append(prompts) or update(prompts)
    trainer.train(PROMPTS)
    assert all(batch[0] == batch[1] == batch[2] and batch[3] == batch[4] == batch[5] for batch in seen)
    responses = trainer.generate_responses([[5, 6]] * 6).responses
    assert len(responses.unique(dim=0)) > 1, "the responses are drawn one by one"


@pytest.mark.parametrize("kind", [PPOTrainer, DistributedPPOTrainer])
@pytest.mark.parametrize(
    "name, value, sentence",
    [
        ("ACCELERATE_USE_FSDP", "true", "expected FSDP, which the configuration asks for, got NO"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "expected gradient_accumulation_steps 1 .*, got 4, by which"),
    ],
)
def test_a_configuration_that_would_silently_be_something_else_is_refused(name, value, sentence, kind, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=sentence):
        small_trainer(kind)
    monkeypatch.delenv(name)
    assert small_trainer().accelerator.gradient_accumulation_steps == 1


@pytest.mark.parametrize("stage, micro", [(3, None), (2, 1)], ids=["zero-3", "microbatches"])
def test_deepspeed_that_the_trainer_cannot_use_is_refused(stage, micro, monkeypatch):
    plugin = SimpleNamespace(zero_stage=stage, deepspeed_config={})
    monkeypatch.setattr(scaled, "Accelerator", lambda: SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin)))
    with pytest.raises(ValueError, match=f"expected ZeRO stage 1 or 2 and .* got stage {stage} and"):
        small_trainer(DistributedPPOTrainer, micro_batch_size=micro)
    assert not plugin.deepspeed_config


def test_processes_with_other_settings_are_refused(monkeypatch):
    monkeypatch.setattr(Processes, "collect", lambda self, things: [*things, things[0] | {"seed": 7}])
    with pytest.raises(ValueError, match="got seed 0 in process 0 and 7 in process 1; each samples"):
        small_trainer(DistributedPPOTrainer)


def test_a_log_folder_that_is_a_file_is_refused():
    with pytest.raises(OSError, match="expected log_dir to be a folder that can be written, got .* \\(File exists\\)"):
        small_trainer(log_dir=__file__).train(PROMPTS)
