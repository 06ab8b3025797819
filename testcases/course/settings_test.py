"""Settings at the prompt: each described from one source, TRL's names known, a wrong name answered with the nearest."""

import dataclasses
import json
import pydoc
import re

import pytest

import ppo_by_hand
from ppo_by_hand.__main__ import main
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.settings import LESSONS, OLDER, TRL, nearest, settings_of
from ppo_by_hand.hub.options import HubOptions, parse_settings
from testcases.harness.catalog import ROOT, lesson_names

TOKENS = {"stop_token_ids": (1,), "pad_token_id": 0}
OURS = [field.name for kind in (PPOConfig, HubOptions) for field in dataclasses.fields(kind)]


@pytest.mark.parametrize("kind", [PPOConfig, HubOptions])
def test_each_setting_has_a_text_and_help_shows_it(kind):
    found = settings_of(kind)
    assert [one.name for one in found] == [field.name for field in dataclasses.fields(kind)]
    assert all(one.says for one in found)


def test_help_shows_every_text_of_every_field():
    said = " ".join(pydoc.plain(pydoc.render_doc(PPOConfig)).replace("|", " ").split())
    for one in settings_of(PPOConfig):
        assert " ".join(str(one).replace("|", " ").split()) in said, one.name


def test_the_tables_name_settings_lessons_and_options_that_there_are():
    explained = [name for names in LESSONS.values() for name in names.split()]
    assert len(explained) == len(set(explained)) and {*explained, *TRL, *OLDER.values()} <= set(OURS)
    folders = {int(name[6:8]): ROOT / "tutorial" / name for name in lesson_names()}
    texts = {number: "".join(page.read_text("utf-8") for page in folders[number].glob("*.md")) for number in LESSONS}
    for number, names in LESSONS.items():
        assert [name for name in names.split() if not re.search(rf"\b{name}\b", texts[number])] == [], number
    options = json.loads((ROOT / "testcases/course/trl_values.json").read_text("utf-8"))["options"]
    assert set(TRL.values()) <= options.keys() and not set(TRL.values()) & {*OURS}
    page = (ROOT / "book/pages/from_trl.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert all(any(f"`{ours}`" in row and f"`{trl}`" in row for row in rows) for ours, trl in TRL.items())


@pytest.mark.parametrize(
    "name, says",
    [
        ("cliprange", "its counterpart here is clip_epsilon"),
        ("total_episodes", "its counterpart here is num_updates"),
        ("kl_coeff", "its counterpart here is kl_coef"),
        ("learning_rat", "did you mean learning_rate?"),
        ("zzz", "got 'zzz'; ppo-by-hand settings"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(name, says):
    with pytest.raises(TypeError, match="expected settings of PPOConfig") as error:
        PPOConfig(**TOKENS, **{name: 1})
    assert says in str(error.value)
    with pytest.raises(ValueError, match="expected SET") as refused:
        parse_settings(f"{name}=1")
    assert says.partition("; ppo")[0] in str(refused.value)


def test_a_name_is_never_answered_with_one_that_is_not_there():
    assert nearest("cliprange", ["dtype"]) == "" and nearest("kl_coeff", ["dtype"]) == ""


def test_the_command_describes_settings_and_says_its_version(capsys):
    assert main(["settings"]) == 0
    heads = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert heads == OURS
    assert main(["settings", "clip_epsilon"]) == 0
    said = capsys.readouterr().out
    assert "0.2" in said and "lesson 5" in said and "TRL: cliprange" in said
    assert main(["settings", "cliprange"]) == 1
    assert "its counterpart here is clip_epsilon" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.split() == ["ppo-by-hand", ppo_by_hand.__version__]
