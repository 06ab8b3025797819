"""Settings at the prompt: help describes each of them, and a wrong name is answered with the closest one."""

import dataclasses
import pydoc

import pytest

import ppo_by_hand
from ppo_by_hand.__main__ import main
from ppo_by_hand.core.config import PPOConfig


def test_help_describes_every_setting():
    said = pydoc.plain(pydoc.render_doc(PPOConfig)).partition("Method resolution")[0]
    for field in dataclasses.fields(PPOConfig):
        assert f" {field.name}: " in said


@pytest.mark.parametrize(
    "name, closest",
    [
        ("learning_rat", "learning_rate"),
        ("kl_coeff", "kl_coef"),
        ("rollout_batch_size", "micro_rollout_batch_size"),
        ("ppo_epochs", "num_epochs"),
        ("missing_eos_penalty", "missing_stop_penalty"),
    ],
)
def test_a_name_that_is_no_setting_hears_the_closest_one(name, closest):
    says = f"got '{name}'; the closest one is {closest}, and help\\(PPOConfig\\)"
    with pytest.raises(TypeError, match=f"^expected settings of PPOConfig, {says}"):
        PPOConfig(stop_token_ids=(1,), pad_token_id=0, **{name: 1})


def test_the_command_says_its_version_its_folder_of_configurations_and_what_it_knows(capsys):
    for argument, said in (("--version", f"ppo-by-hand {ppo_by_hand.__version__}"), ("configs", "configs")):
        assert main([argument]) == 0
        assert capsys.readouterr().out.strip().endswith(said)
    assert main(["tune"]) == 2 and "ppo-by-hand train --policy gpt2" in capsys.readouterr().err
