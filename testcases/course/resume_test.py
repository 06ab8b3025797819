"""Interrupted runs: killed at any update and resumed they equal the undisturbed run, bit for bit; a file that was cut
off, a full disk and another run's checkpoint are each one clear sentence."""

import json
import random
import shutil
import warnings
from pathlib import Path

import numpy
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

from ppo_by_hand.core.checkpoints import CHECKPOINT_FILE
from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel, make_reference
from solutions.lesson09_ppo_trainer import CheckpointFolder, DivergedError, PPOConfig, PPOTrainer
from testcases.course.memory_test import PROMPTS, small_policy
from testcases.course.scaling_run import Numbers

UPDATES = 5


class Killed(BaseException):
    """Ends a run where it stands; nothing catches it."""


def moody_reward(prompts: list[str], responses: list[str]) -> list[float]:
    """Draws from every source of random numbers that a user's function may use."""
    noise = random.random() + numpy.random.rand() + torch.rand(()).item()
    return [noise + len(response) / 10 for response in responses]


def trainer(log_dir: Path | None = None, schedule=None, optimizer=None, **settings) -> PPOTrainer:
    policy = small_policy()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        critic = ValueModel(make_reference(policy).base_model.requires_grad_(True))
    options = {"num_updates": UPDATES, "batch_size": 4, "max_new_tokens": 5, "num_minibatches": 2, "num_epochs": 2}
    options |= {"kl_target": 0.5, "kl_horizon": 20, "missing_stop_penalty": 0.0, **settings}
    config = PPOConfig(
        stop_token_ids=(1, 2), pad_token_id=0, log_dir=None if log_dir is None else str(log_dir), **options
    )
    model, reference = PolicyAndValue(policy, critic), make_reference(policy)
    return PPOTrainer(model, moody_reward, reference, config, Numbers(), optimizer=optimizer, schedule=schedule)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture(scope="module")
def undisturbed() -> PPOTrainer:
    seed_everything(3)
    run = trainer()
    run.train(PROMPTS)
    return run


def same_state(first: PPOTrainer, second: PPOTrainer) -> bool:
    one, other = first._state(), second._state()
    tensors = all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])
    moments = str(one["optimizer"]) == str(other["optimizer"])
    generators = all(str(one["generators"][name]) == str(other["generators"][name]) for name in one["generators"])
    rest = all(one[name] == other[name] for name in ("kl_coef", "prompts_waiting", "updates_done", "history"))
    return tensors and moments and generators and rest


def killed_after(updates: int, folder: CheckpointFolder, **settings) -> None:
    """A run that dies after so many updates, when its checkpoint (if one was due) is written."""
    seed_everything(3)

    def on_update(run: PPOTrainer) -> None:
        folder.save(run)
        if run.updates_done == updates:
            raise Killed

    with pytest.raises(Killed):
        trainer(**settings).train(PROMPTS, on_update)


def resumed(folder: CheckpointFolder, **settings) -> PPOTrainer:
    seed_everything(99)
    run = trainer(**settings)
    if not folder.load(run):
        seed_everything(3)
    run.train(PROMPTS, folder.save)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("updates", range(1, UPDATES + 1))
def test_a_run_killed_at_any_update_and_resumed_equals_the_undisturbed_one(updates, tmp_path, undisturbed):
    killed_after(updates, CheckpointFolder(tmp_path, every=2))
    assert same_state(resumed(CheckpointFolder(tmp_path, every=2)), undisturbed)


@pytest.fixture(scope="module")
def a_checkpoint(tmp_path_factory) -> Path:
    """After 4 updates."""
    path = tmp_path_factory.mktemp("run")
    killed_after(4, CheckpointFolder(path, every=2))
    return path


@pytest.fixture
def copied(a_checkpoint, tmp_path) -> Path:
    return Path(shutil.copytree(a_checkpoint, tmp_path / "run"))


def damage(file: Path, how: str) -> None:
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 1
    file.write_bytes(content[:middle] if how == "cut off" else content)


@pytest.mark.parametrize("how", ["cut off", "a flipped bit"])
def test_a_damaged_checkpoint_is_an_error_and_not_a_new_run(how, copied):
    damage(copied / CHECKPOINT_FILE, how)
    with pytest.raises(ValueError, match="expected a whole checkpoint, got .*cut off or damaged; start a new run"):
        CheckpointFolder(copied).load(trainer())


def test_a_checkpoint_without_a_part_is_one_sentence(copied):
    file = copied / CHECKPOINT_FILE
    state = torch.load(file, weights_only=True)
    del state["optimizer"], state["history"]
    torch.save(state, file)
    with pytest.raises(ValueError, match="got none of history, optimizer in"):
        trainer().load_checkpoint(file.parent)


@pytest.mark.parametrize(
    "optimizer, sentence",
    [
        pytest.param(
            lambda groups: torch.optim.SGD(groups), "got amsgrad False in .* and None here", id="another-kind"
        ),
        pytest.param(
            lambda groups: torch.optim.AdamW(groups, 1e-3), "got eps 1e-05 in .* and 1e-08", id="other-numbers"
        ),
        pytest.param(
            lambda groups: torch.optim.AdamW([{**groups[0], "params": [one]} for one in groups[0]["params"]]),
            "got parameter groups 1 in .* here; give the optimizer= that its run began with",
            id="other-groups",
        ),
    ],
)
def test_a_checkpoint_of_another_optimizer_is_refused_before_anything_is_replaced(optimizer, sentence, a_checkpoint):
    run = trainer(optimizer=optimizer)
    before = str(run._state())
    with pytest.raises(ValueError, match=f"expected a checkpoint of a run with the same optimizer, {sentence}"):
        run.load_checkpoint(a_checkpoint)
    assert str(run._state()) == before


def test_a_run_that_goes_on_with_fewer_prompts_is_refused(a_checkpoint):
    run = trainer()
    run.load_checkpoint(a_checkpoint)
    run.prompt_queue.waiting = [4]
    with pytest.raises(
        ValueError, match="the prompts of the run that goes on, of which number 4 waits, got only 4; gi"
    ):
        run.train(PROMPTS[:4])


def test_a_run_that_was_stopped_in_the_middle_of_a_step_goes_on_in_the_same_process(tmp_path):
    """As in a notebook: gradients of the half step must not reach the next one."""
    seed_everything(3)
    run = trainer(micro_batch_size=1)
    compute_loss, calls = run.compute_loss, []

    def interrupted(batch):
        calls.append(batch)
        if len(calls) == 12:
            raise Killed
        return compute_loss(batch)

    run.compute_loss = interrupted
    with pytest.raises(Killed):
        run.train(PROMPTS, CheckpointFolder(tmp_path, every=1).save)
    run.load_checkpoint(tmp_path)
    run.train(PROMPTS)
    seed_everything(3)
    whole = trainer(micro_batch_size=1)
    whole.train(PROMPTS)
    assert same_state(run, whole)


def test_a_finished_run_may_have_more_updates_but_not_fewer(tmp_path):
    """At a constant learning rate it is the longer run; another schedule is stretched from then on."""
    longer = {"num_updates": 4, "schedule": lambda updates_done: 1.0}
    seed_everything(3)
    whole = trainer(**longer)
    whole.train(PROMPTS)
    seed_everything(3)
    folder = CheckpointFolder(tmp_path, every=5)
    trainer(**longer | {"num_updates": 2}).train(PROMPTS, folder.save)
    assert same_state(resumed(CheckpointFolder(tmp_path), **longer), whole)
    with pytest.raises(
        ValueError, match="expected num_updates to be at least the 4 that the run in .* got 3; raise it"
    ):
        trainer(**longer | {"num_updates": 3}).load_checkpoint(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, undisturbed):
    folder = CheckpointFolder(tmp_path, every=2)

    def on_update(run: PPOTrainer) -> None:
        if run.updates_done == 3:
            (tmp_path / f"{CHECKPOINT_FILE}.unfinished").symlink_to("/dev/full")
        folder.save(run)

    seed_everything(3)
    with pytest.raises(OSError, match="expected room for a checkpoint in .*, got: "):
        trainer().train(PROMPTS, on_update)
    (tmp_path / f"{CHECKPOINT_FILE}.unfinished").unlink()
    assert torch.load(tmp_path / CHECKPOINT_FILE, weights_only=True)["updates_done"] == 2
    assert same_state(resumed(CheckpointFolder(tmp_path, every=2)), undisturbed)


@pytest.mark.parametrize("every", [1, 5])
def test_a_checkpoint_of_another_run_is_kept(every, tmp_path):
    """From the first update on, also where it would be written over only later."""
    trainer(num_updates=2).train(PROMPTS, CheckpointFolder(tmp_path).save)
    before = (tmp_path / CHECKPOINT_FILE).read_bytes()
    run = trainer(seed=1)
    with pytest.raises(ValueError, match=r"expected a folder without the checkpoint of another run, got .*\.load\("):
        run.train(PROMPTS, CheckpointFolder(tmp_path, every).save)
    assert run.updates_done == 1 and (tmp_path / CHECKPOINT_FILE).read_bytes() == before
    assert resumed(CheckpointFolder(tmp_path), num_updates=UPDATES).updates_done == UPDATES


def test_the_metrics_of_another_run_are_kept(tmp_path):
    for seed in range(2):
        trainer(tmp_path, seed=seed).train(PROMPTS)
    first, second = (
        json.loads((tmp_path / name).read_text().splitlines()[0]) for name in ("metrics-1.jsonl", "metrics.jsonl")
    )
    assert first["score"] != second["score"] and first["update"] == second["update"] == 1


def test_weights_of_nan_are_not_saved_as_a_place_to_go_on_from(tmp_path):
    folder = CheckpointFolder(tmp_path, every=2)

    def spoil_the_fourth(run: PPOTrainer) -> None:
        if run.updates_done == 4:
            next(run.policy.parameters()).data[0, 0] = float("nan")
        folder.save(run)

    with pytest.raises(DivergedError, match="stopped at update 4: a weight is NaN or infinite"):
        trainer().train(PROMPTS, spoil_the_fourth)
    assert torch.load(tmp_path / CHECKPOINT_FILE, weights_only=True)["updates_done"] == 2


def test_the_metrics_file_of_a_resumed_run_has_each_update_once(tmp_path):
    folder, log = CheckpointFolder(tmp_path / "checkpoints", every=2), tmp_path / "log"
    killed_after(3, folder, log_dir=log)
    run = resumed(CheckpointFolder(tmp_path / "checkpoints"), log_dir=log)
    lines = [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"update": number, **metrics} for number, metrics in enumerate(run.history, start=1)]


def adapted(tmp_path: Path, quantized: dict | None = None, rank: int = 2) -> PPOTrainer:
    """A run in which adapters are trained, and the critic's head; its base is loaded as a user loads it."""
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = {"vocab_size": 12, "eos_token_id": 1, "pad_token_id": 0, "max_position_embeddings": 64}
    if not (tmp_path / "base").is_dir():
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(**sizes, **tokens)).save_pretrained(tmp_path / "base")
    more = {} if quantized is None else {"quantization_config": BitsAndBytesConfig(**quantized)}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers by an older name
        policy = AutoModelForCausalLM.from_pretrained(tmp_path / "base", **more)
        policy = get_peft_model(policy, LoraConfig(r=rank, target_modules=["q_proj", "down_proj"]))
        critic = ValueModel(AutoModel.from_pretrained(tmp_path / "base", **more).requires_grad_(False))
    options = {"num_updates": 4, "batch_size": 4, "max_new_tokens": 5, "num_minibatches": 2, "num_epochs": 2}
    config = PPOConfig(stop_token_ids=(1,), pad_token_id=0, learning_rate=1e-2, **options)
    return PPOTrainer(PolicyAndValue(policy, critic), moody_reward, None, config, Numbers())


QUANTIZED = {
    "4-bits": {"load_in_4bit": True, "bnb_4bit_compute_dtype": torch.float32},
    "8-bits": {"load_in_8bit": True},
}


@pytest.mark.filterwarnings("ignore:bitsandbytes")  # of a kernel for one row, which needs no gradient
@pytest.mark.parametrize("bits", [None, *QUANTIZED])
def test_a_checkpoint_of_adapters_holds_what_is_trained_and_resumes(bits, tmp_path):
    if bits is not None:
        pytest.importorskip("bitsandbytes", reason="a quantized base needs bitsandbytes")
    whole = adapted(tmp_path, QUANTIZED.get(bits))
    seed_everything(3)
    whole.train(PROMPTS, lambda run: run.updates_done == 2 and run.save_checkpoint(tmp_path))
    saved = torch.load(tmp_path / CHECKPOINT_FILE, weights_only=True)["model"]
    trained = {name for name, weight in whole.model.named_parameters() if weight.requires_grad}
    assert trained == {name for name in saved if "lora" in name or "head" in name} == saved.keys()
    again = adapted(tmp_path, QUANTIZED.get(bits))
    again.load_checkpoint(tmp_path)
    assert again.train(PROMPTS) == whole.history
    with pytest.raises(
        ValueError,
        match=r"of the same models, got .*, in which policy.*lora_A.* is \(2, 64\), and \(3, 64\) here; give",
    ):
        adapted(tmp_path, QUANTIZED.get(bits), rank=3).load_checkpoint(tmp_path)


def test_a_frozen_weight_may_lack_and_a_trained_one_may_not(tmp_path):
    run = adapted(tmp_path)
    run.save_checkpoint(tmp_path)
    run.policy.get_input_embeddings().requires_grad_(True)
    with pytest.raises(ValueError, match=r"of the same models, got .*embed_tokens.* is missing, and \(12, 64\) here; "):
        run.load_checkpoint(tmp_path)


def test_a_checkpoint_of_a_machine_with_other_devices_goes_on(copied):
    """The state of a GPU's generator has 16 bytes, a CPU's 5,056; and each GPU has a global generator of its own."""
    file = copied / CHECKPOINT_FILE
    state = torch.load(file, weights_only=True)
    state["generators"]["sampling"] = torch.zeros(16, dtype=torch.uint8)
    state["generators"]["gpu 0"] = torch.zeros(16, dtype=torch.uint8)
    del state["generators"]["torch"]
    torch.save(state, file)
    run = trainer()
    run.load_checkpoint(file.parent)
    assert run.updates_done == 4 and len(run.train(PROMPTS)) == UPDATES
