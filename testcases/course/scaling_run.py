"""What scaling_test.py does in several processes: `main`, with the name of a job and a folder.

`ddp`, `fsdp` and `zero` write what processes give that hold whole models, parts of them, or parts of the optimizer, to
FOLDER/JOB-N.pt, N the number of processes, and then run the command for models of one's own; `death` trains until the
second process is killed, with a checkpoint after each update.
"""

import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from solutions.lesson07_actor_critic import make_reference
from solutions.lesson08_rollout import Generation, generate
from solutions.lesson11_scaling import DistributedPPOTrainer, enable_gradient_checkpointing, keep_reference_adapter
from testcases.course.trainers import PROMPTS, Numbers, TokenSum, actor_and_critic, small_policy, small_trainer

CASES: dict[str, dict[str, Any]] = {
    "more processes than rows": {"num_minibatches": 5, "num_epochs": 1},
    "whitened, adaptive, stopped early": {
        **{"micro_batch_size": 1, "whiten_rewards": True, "max_update_kl": 1e-4},
        **{"kl_target": 1.0, "kl_horizon": 10},
    },
    "skipped steps": {"ratio_threshold": 1.0 + 1e-5},
    "lora with gradient checkpointing": {"lora": True, "checkpointing": True, "micro_batch_size": 2},
}


def make_trainer(
    reward: Any = None, lora: bool = False, checkpointing: bool = False, kind: Any = DistributedPPOTrainer, **more: Any
) -> Any:
    """A trainer that is the same in each process; its reference is another model, and its learning rate only falls."""
    model = actor_and_critic(small_policy())
    if lora:
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
        torch.manual_seed(0)
        with warnings.catch_warnings():  # peft asks for an attribute that transformers has renamed
            warnings.simplefilter("ignore", FutureWarning)
            model.policy = keep_reference_adapter(get_peft_model(model.policy, config))
    if checkpointing:
        enable_gradient_checkpointing(model)
    dtype = more.pop("dtype", torch.float64)
    settings = {"num_updates": 2, "learning_rate": 1e-2, **more}
    parts = {
        "model": model.to(dtype),
        "reward_model": reward or TokenSum(),
        "ref_model": None if lora else make_reference(small_policy(3).to(dtype)),
        "tokenizer": Numbers(),
        "schedule": lambda done: 1.0 - done / settings["num_updates"],
    }
    return small_trainer(kind, parts, **settings)


def whole_generation(trainer: Any, prompts: list[Any]) -> Generation:
    """Ragged rows, the same for any number of processes: every process samples all of them from one seed."""
    draw = torch.Generator().manual_seed(5)
    with trainer.whole_model() as model:
        return generate(model.policy, *trainer._encode(prompts), 6, trainer.config.stop_token_ids, 0, generator=draw)


def updates(trainer: Any, count: int = 2) -> dict[str, Any]:
    """Metrics and trained weights after updates in which each process evaluates its rows of the same responses."""
    trainer.generate_responses = lambda prompts: whole_generation(trainer, prompts)
    metrics = [trainer.training_step(PROMPTS) for _ in range(count)]
    with trainer.whole_model() as model:
        trained = [weight.detach().clone() for weight in model.parameters() if weight.requires_grad]
    return {"metrics": metrics, "weights": trained, "kl_coef": trainer.kl_controller.value}


FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
}
ZERO = {
    "DS_ACCELERATOR": "cpu",
    "ACCELERATE_USE_CPU": "false",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1",
}
SETTINGS = {"ddp": {"micro_batch_size": 2}, "fsdp": {"micro_batch_size": 2}, "zero": {"dtype": torch.float32}}
"""Of the runs with each engine: DeepSpeed takes no microbatches, and trains in float32."""


def pretend(kind: str) -> None:
    """Let "fsdp" or "zero" split what a process holds. Accelerate has both for GPUs only, so some are pretended."""
    if kind == "ddp":
        return
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    Accelerator()  # The processes meet over gloo.
    os.environ.update(FSDP if kind == "fsdp" else ZERO)
    AcceleratorState._reset_state()
    if kind == "fsdp":
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def three_updates(kind: str, folder: Path) -> dict[str, Any]:
    """All of a seeded run, and its first and its third update again, from the checkpoints that were written before."""
    trainer = make_trainer(num_updates=3, **SETTINGS[kind])
    trainer.save_checkpoint(folder / "start")
    before = updates(trainer)
    trainer.save_checkpoint(folder)
    after = updates(trainer, 1)
    engine = f"{type(trainer.model).__name__}, {type(trainer.optimizer).__name__}"
    from_start = next_update(kind, folder / "start")
    return {"before": before, "after": after, "again": next_update(kind, folder), "first": from_start, "engine": engine}


def next_update(kind: str, folder: Path) -> dict[str, Any] | str:
    """Of a run that left a checkpoint in the folder; or why that was refused, if nothing has changed."""
    trainer = make_trainer(num_updates=3, **SETTINGS[kind])
    with trainer.whole_model() as model:
        weights = [weight.detach().clone() for weight in model.parameters()]
    try:
        trainer.load_checkpoint(folder)
    except (ValueError, RuntimeError) as error:
        with trainer.whole_model() as model:
            is_same = all(map(torch.equal, weights, model.parameters())) and trainer.updates_done == 0
        return str(error) if is_same else "something was replaced"
    return updates(trainer, 1)


def failure() -> str:
    """What each process says when the reward function raises in the last one; and the trainer goes on afterwards."""
    trainer = make_trainer(reward=lambda prompts, responses: _fails_in_the_last(trainer, responses))
    try:
        trainer.training_step(PROMPTS)
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


def _fails_in_the_last(trainer: Any, responses: list[str]) -> list[float]:
    if trainer.processes.index == trainer.processes.count - 1:
        raise KeyError("no such word")
    return [0.0] * len(responses)


def death(folder: Path) -> None:
    """Train, with a checkpoint after each update; the second process is killed in its third rollout."""

    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        if trainer.processes.index == 1 and trainer.updates_done == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return [float(len(response)) for response in responses]

    trainer = make_trainer(reward=reward, num_updates=5)
    trainer.train(PROMPTS, lambda trainer: trainer.save_checkpoint(folder / "kept"))


def hub(folder: Path, out: str) -> None:
    """The preset `hub`, as somebody would start it: a policy, a Python function and a file of prompts."""
    from solutions.demo.hub import main as command
    from tiny_models import checkpoints

    options = {"policy": str(checkpoints.SFT), "reward": "testcases.course.scaling_run:likes_good"}
    options |= {"prompts": str(folder / "prompts.txt"), "out": str(folder / out)}
    options |= {"set": "num_updates=2 batch_size=4 num_minibatches=2 max_new_tokens=6 micro_batch_size=null"}
    sys.exit(command([part for name, value in options.items() for part in (f"--{name}", value)]))


def likes_good(prompts: list[str], responses: list[str]) -> list[float]:
    """A reward for the preset `hub`."""
    return [float(response.split().count("good")) for response in responses]


def main(job: str, folder: Path) -> None:
    torch.set_num_threads(1)
    if job == "death":
        return death(folder)
    pretend(job)
    processes = make_trainer(**SETTINGS[job]).processes
    own = folder / f"in-{processes.count}"
    answer: dict[str, Any] = three_updates(job, own)
    answer["from others"] = {
        other.name: next_update(job, other) for other in sorted(folder.glob("in-*")) if other != own
    }
    if job == "ddp":
        answer |= {name: updates(make_trainer(**settings)) for name, settings in CASES.items()}
        answer |= {"failure": failure(), "responses": make_trainer().generate_responses([[5, 6]] * 4).responses}
    every = processes.collect([answer])
    if processes.is_first:
        torch.save(every, folder / f"{job}-{processes.count}.pt")
    hub(folder, f"out-{processes.count}")
