"""Settings at the prompt: there are few, and help describes each of them."""

import dataclasses
import pydoc

import ppo_by_hand
from ppo_by_hand.__main__ import main
from ppo_by_hand.core.config import PPOConfig


def test_help_describes_each_of_the_34_settings():
    said = pydoc.plain(pydoc.render_doc(PPOConfig)).partition("Method resolution")[0]
    assert len(dataclasses.fields(PPOConfig)) == 34
    for field in dataclasses.fields(PPOConfig):
        assert f" {field.name}: " in said


def test_the_command_says_its_version_its_folder_of_configurations_and_what_it_knows(capsys):
    for argument, said in (("--version", f"ppo-by-hand {ppo_by_hand.__version__}"), ("configs", "configs")):
        assert main([argument]) == 0
        assert capsys.readouterr().out.strip().endswith(said)
    assert main(["tune"]) == 2 and "ppo-by-hand train --policy gpt2" in capsys.readouterr().err
