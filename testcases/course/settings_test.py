"""Settings at the prompt: there are few, help describes each of them, and a wrong name is answered."""

import dataclasses
import pydoc

import pytest

import ppo_by_hand
from ppo_by_hand.__main__ import main
from ppo_by_hand.core.config import PPOConfig
from solutions.demo.hub import closest_setting


def test_help_describes_each_of_the_34_settings():
    said = pydoc.plain(pydoc.render_doc(PPOConfig)).partition("Method resolution")[0]
    assert len(dataclasses.fields(PPOConfig)) == 34
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
def test_a_name_that_is_no_setting_is_refused_and_the_command_knows_the_closest_one(name, closest):
    assert closest_setting(name) == closest
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        PPOConfig(stop_token_ids=(1,), pad_token_id=0, **{name: 1})


def test_the_command_says_its_version_its_folder_of_configurations_and_what_it_knows(capsys):
    for argument, said in (("--version", f"ppo-by-hand {ppo_by_hand.__version__}"), ("configs", "configs")):
        assert main([argument]) == 0
        assert capsys.readouterr().out.strip().endswith(said)
    assert main(["tune"]) == 2 and "ppo-by-hand train --policy gpt2" in capsys.readouterr().err
