"""Settings at the prompt: help describes each of them, and a wrong name is answered with the closest one."""

import dataclasses
import pydoc

import pytest

import ppo_by_hand
from ppo_by_hand.__main__ import main
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.hub.options import HubOptions, parse_settings

TOKENS = {"stop_token_ids": (1,), "pad_token_id": 0}


@pytest.mark.parametrize("kind", [PPOConfig, HubOptions])
def test_help_describes_every_setting(kind):
    said = pydoc.plain(pydoc.render_doc(kind))
    for field in dataclasses.fields(kind):
        assert f" {field.name}: " in said.partition("Method resolution" if kind is PPOConfig else "Methods")[0]


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
        PPOConfig(**TOKENS, **{name: 1})
    with pytest.raises(ValueError, match=f"^expected SET to have settings, {says}"):
        parse_settings(f"{name}=1")


def test_the_command_says_its_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.split() == ["ppo-by-hand", ppo_by_hand.__version__]
