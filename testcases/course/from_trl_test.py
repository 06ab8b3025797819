"""From other trainers: a configuration of TRL's PPO becomes one of ours, or a sentence says where an option is done."""

import dataclasses
import enum
import inspect
import json
import re
import warnings
from typing import Any

import pytest

from ppo_by_hand import DistributedPPOTrainer, PPOTrainer
from ppo_by_hand.core.config import NO_CLIP, PPOConfig
from ppo_by_hand.core.counterparts import ARGUMENTS, OF_THE_SCRIPT, OLDER, TRL, TRL_DEFAULTS, done_in
from ppo_by_hand.core.settings import RENAMED
from ppo_by_hand.hub.options import parse_settings, that_decide
from testcases.course.memory_test import PROMPTS, small_trainer
from testcases.harness.catalog import ROOT

TOKENS = {"stop_token_ids": (1,), "pad_token_id": 0}
RECORDED = json.loads((ROOT / "testcases/course/trl_values.json").read_text("utf-8"))
OPTIONS = RECORDED["options"]
INNER = tuple(
    "autocast call_model compute_loss_context create_accelerator current_flos end floating get_batch get_cp get_decay "
    "get_num_trainable get_optimizer get_sp get_total get_tp hp_ hyperparameter is_deepspeed is_fsdp is_peft local_ "
    "loss_is model_adapter num_examples optimizer_cls ref_adapter sample_generations set_initial store_flos".split()
)
"""How the names of TRL's trainer begin that no script calls."""
OF_THE_TRAINER = set(
    "self args processing_class model ref_model reward_model train_dataset value_model data_collator eval_dataset "
    "optimizers callbacks peft_config".split()
)
PAGE = (ROOT / "book/pages/from_trl.md").read_text("utf-8")


def test_an_empty_configuration_has_the_defaults_of_trl():
    assert {name: OPTIONS[name] for name in TRL_DEFAULTS} == TRL_DEFAULTS
    config = PPOConfig.from_trl(**TOKENS, total_episodes=20)
    assert (config.max_new_tokens, config.temperature, config.learning_rate) == (53, 0.7, 3e-6)
    assert (config.batch_size, config.micro_batch_size, config.micro_rollout_batch_size) == (8, 8, 8)
    assert (config.num_updates, config.num_minibatches, config.warmup_updates) == (3, 1, 0)
    assert (config.clip_score, config.missing_stop_penalty) == (NO_CLIP, 0.0)
    assert (config.adam_epsilon, config.seed) == (1e-8, 42)


def test_the_script_of_the_page_is_what_its_comments_say():
    """Each line of its PPOConfig names TRL's option in a comment: the same options give the same settings."""
    body = PAGE[PAGE.index("config = PPOConfig(") :].partition("\n)\n")[0]
    ours = eval(body.partition("= ")[2] + ")", {"PPOConfig": PPOConfig, "tokenizer": _Tokenizer})
    theirs = PPOConfig.from_trl(
        stop_token_id=1, pad_token_id=0, response_length=8, missing_eos_penalty=1.0, total_episodes=16,
        per_device_train_batch_size=4, gradient_accumulation_steps=2, local_rollout_forward_batch_size=4,
    )  # fmt: skip
    assert theirs == dataclasses.replace(ours, adam_epsilon=1e-8, seed=42)


class _Tokenizer:
    eos_token_id, pad_token_id = 1, 0


def test_settings_of_ours_stand_among_them_and_win(monkeypatch):
    config = PPOConfig.from_trl(**TOKENS, num_updates=3, total_episodes=5, kl_target=6.0, warmup_steps=0.5)
    assert (config.num_updates, config.kl_target, config.warmup_updates) == (3, 6.0, 2)
    assert PPOConfig.from_trl(**TOKENS, total_episodes=8, stop_token="eos").stop_token_ids == (1,)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert PPOConfig.from_trl(**TOKENS, total_episodes=32).batch_size == 16


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - TRL_DEFAULTS.keys() - OF_THE_TRAINER - {*OF_THE_SCRIPT}))
def test_an_option_that_no_setting_decides_is_refused_with_its_place(name):
    if name in {field.name for field in dataclasses.fields(PPOConfig)}:
        return  # a size that TRL derives, and we do not
    assert PPOConfig.from_trl(**TOKENS, total_episodes=8, **{name: None})  # switched off
    tokens = {"stop_token_id": 1, "pad_token_id": 0}
    with pytest.raises(ValueError, match=rf"got {name} \(") as error:
        PPOConfig.from_trl(**tokens, total_episodes=8, **{name: "x"})
    assert (done_in(name) or "leave it out") in str(error.value)


def test_an_option_that_asks_for_what_happens_anyway_is_taken():
    plain = PPOConfig.from_trl(**TOKENS, total_episodes=8)
    options = {"adam_beta1": 0.9, "adam_beta2": 0.999, "weight_decay": 0.0, "optim": "adamw_torch", "fsdp_config": {}}
    options |= {"report_to": "tensorboard", "logging_steps": 1, "do_train": True, "reward_model_path": "a"}
    assert PPOConfig.from_trl(**TOKENS, total_episodes=8, **options) == plain
    for name, other in {"adam_beta1": 0, "optim": "adamw_8bit", "report_to": "wandb", "weight_decay": 0.1}.items():
        with pytest.raises(ValueError, match=rf"got {name} \("):
            PPOConfig.from_trl(**TOKENS, total_episodes=8, **{name: other})


@dataclasses.dataclass
class Arguments:
    """Of TRL's `PPOConfig` what the test needs: its own `__post_init__` decides some fields, too."""

    output_dir: str | None = None
    num_ppo_epochs: int = 4
    total_episodes: int | None = None
    lr_scheduler_type: Any = "linear"
    sft_model_path: str = "EleutherAI/pythia-160m"
    stop_token: str | None = None
    bf16: bool | None = None
    push_to_hub: bool = False

    def __post_init__(self) -> None:
        self.bf16 = True if self.bf16 is None else self.bf16


class Scheduler(enum.Enum):
    COSINE = "cosine"


def test_the_object_of_a_parser_counts_as_the_options_that_it_has_chosen():
    args = Arguments("out", 2, 16, Scheduler.COSINE, "mine", "eos")
    config = PPOConfig.from_trl(args, **TOKENS)
    chosen = {"output_dir": "out", "num_ppo_epochs": 2, "total_episodes": 16, "lr_scheduler_type": "cosine"}
    assert config == PPOConfig.from_trl(**TOKENS, **chosen) and config.log_dir == "out"
    assert PPOConfig.from_trl(args, **TOKENS, num_ppo_epochs=3).num_epochs == 3
    with pytest.raises(ValueError, match=r"got push_to_hub \(trainer.policy"):
        PPOConfig.from_trl(dataclasses.replace(args, bf16=False, push_to_hub=True), **TOKENS)
    for other in ({"num_ppo_epochs": 2}, Arguments, config):
        with pytest.raises(TypeError, match="expected TRL's PPOConfig or its options by name"):
            PPOConfig.from_trl(other, **TOKENS)


def test_a_run_without_a_length_and_an_unknown_name_are_refused():
    with pytest.raises(ValueError, match=r"expected total_episodes \(or num_updates\), got neither"):
        PPOConfig.from_trl(**TOKENS)
    with pytest.raises(ValueError, match=r"got cliprang \(did you mean cliprange\?\); push_to_hub \(trainer.policy"):
        PPOConfig.from_trl(**TOKENS, total_episodes=8, cliprang=0.3, push_to_hub=True)
    with pytest.raises(ValueError, match=r"init_kl_coef \(did you mean kl_coef\?\); warmup_ratio \(warmup_steps"):
        PPOConfig.from_trl(**TOKENS, total_episodes=8, init_kl_coef=0.3, warmup_ratio=0.1)


@pytest.mark.parametrize("name", ["per_device_train_batch_size", "total_episodes", "warmup_steps"])
def test_a_text_in_the_place_of_a_number_is_one_sentence(name):
    with pytest.raises(ValueError, match=f"expected {name} to be a number, got '8'"):
        PPOConfig.from_trl(**TOKENS, **{"total_episodes": 8, name: "8"})


def test_the_tables_of_the_page_have_every_counterpart():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert all(any(f"`{ours}`" in row and f"`{theirs}`" in row for row in rows) for ours, theirs in TRL.items())
    assert {*OLDER.values()} <= {field.name for field in dataclasses.fields(PPOConfig)}
    for name, sentence in {
        "eps_clip": "its counterpart here is clip_epsilon",
        "save_steps": "no setting here: CheckpointFolder",
        "ptx_coef": "no setting here: the page From TRL",
        "entropy_coeff": "did you mean entropy_coef",
    }.items():
        with pytest.raises(TypeError, match=f"got '{name}'; {sentence}"):
            PPOConfig(**TOKENS, **{name: 0.2})


def test_a_trainer_called_as_trls_says_what_its_arguments_are_here():
    for kind in (PPOTrainer, DistributedPPOTrainer):
        with pytest.raises(
            TypeError, match=r"names of TRL's, .*: args \(config=PPOConfig.from_trl\(.*\); train_dataset \(prompts"
        ):
            kind(args=None, model=None, train_dataset=[])
        assert "tokenizer" in inspect.signature(kind).parameters
    assert not ARGUMENTS.keys() & inspect.signature(PPOTrainer).parameters.keys()
    assert all(f"`{name}" in PAGE or f"{name}=" in PAGE for name in ARGUMENTS)


def test_what_a_script_calls_of_trls_trainer_is_here_or_says_what_is():
    run = small_trainer()
    for name in RECORDED["trainer"]:
        if not name.startswith(INNER) and not hasattr(run, name):
            with pytest.raises(AttributeError, match=rf"'PPOTrainer' object has no attribute '{name}', .*; here: \w"):
                getattr(run, name)


def test_an_attribute_of_nobody_and_one_that_a_property_lacks_are_errors_of_their_own():
    class Other(PPOTrainer):
        @property
        def policy(self):
            return self.missing

    run = small_trainer()
    run.__class__ = Other
    for name in ("missing", "policy"):
        with pytest.raises(AttributeError, match="^'Other' object has no attribute 'missing'$"):
            getattr(run, name)
    assert "prompts" in inspect.signature(run.train).parameters


def test_train_called_as_trls_says_what_it_takes():
    run = small_trainer()
    with pytest.raises(TypeError, match="expected train.prompts., got no prompts; TRL's train_dataset goes here"):
        run.train()
    with pytest.raises(TypeError, match=r"got resume_from_checkpoint \(CheckpointFolder and load_checkpoint\)"):
        run.train(PROMPTS, resume_from_checkpoint=True)
    assert run.updates_done == 0


def test_a_renamed_setting_is_taken_with_a_warning_for_one_release():
    with pytest.warns(FutureWarning, match="rollout_batch_size is now micro_rollout_batch_size") as said:
        config = PPOConfig(**TOKENS, rollout_batch_size=8)
    assert said[0].filename == __file__
    assert config.micro_rollout_batch_size == config.rollout_batch_size == 8
    with pytest.warns(FutureWarning):
        assert dataclasses.replace(PPOConfig(**TOKENS), rollout_batch_size=4).micro_rollout_batch_size == 4
    told: list[str] = []
    assert parse_settings("rollout_batch_size=2", told.append) == {"micro_rollout_batch_size": 2}
    assert told == [str(said[0].message)]
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="expected one value for micro_rollout_batch"):
        PPOConfig(**TOKENS, rollout_batch_size=8, micro_rollout_batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PPOConfig(**TOKENS, micro_rollout_batch_size=8) == config
    assert not {*RENAMED} & {field.name for field in dataclasses.fields(PPOConfig)}


def test_what_an_older_journal_says_is_what_it_meant():
    """A renamed setting, one that it lacks, and a clip of 3e38 from before `None` stood for none."""
    today = that_decide({"clip_score": None, "kl_coef": 0.1})
    assert that_decide({"clip_score": 3e38, "kl_coef": 0.1, "rollout_batch_size": 2, "dtype": "float32"}) == today
    assert that_decide({"clip_score": 5, "kl_coef": 0.1}) != today != that_decide({"clip_score": None})


def test_episode_is_explained_once():
    texts = (ROOT / "tutorial/lesson09_ppo_trainer/more.md").read_text("utf-8"), PAGE
    assert ["one pass over all prompts" in " ".join(text.split()) for text in texts] == [True, False]
    assert re.search(r"\[.*episode.*\]\(.*lesson09.*other-trainers-settings", PAGE)
