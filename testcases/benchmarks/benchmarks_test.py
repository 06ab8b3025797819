"""The benchmarks still run: ours and the bare passes, two small updates each. No timing decides anything here."""

import sys

import pytest
import torch

from testcases.benchmarks import gpu, lacking, run_bare, run_ours
from testcases.benchmarks.relay import Child
from testcases.benchmarks.workload import Workload

SMALL = Workload(n_layer=1, n_embd=16, n_head=2, batch=8, prompt=3, response=5, epochs=2, minibatches=2, threads=1)


def test_every_response_of_a_workload_has_all_its_tokens():
    trained = run_ours.make_trainer(SMALL)
    prompts = SMALL.prompts(SMALL.batch)
    experience = trained.compute_rewards(trained.generate_responses(prompts), prompts)
    assert experience.mask.shape == (8, 5) and experience.mask.all() and experience.attention_mask.all()
    metrics = trained.training_step(SMALL.prompts(SMALL.batch))
    assert metrics["optimizer_steps"] == SMALL.epochs * SMALL.minibatches


def test_the_bare_passes_step_both_models_and_leave_the_frozen_ones():
    passes = run_bare.BarePasses(SMALL)
    models = (passes.policy, passes.critic, passes.reference, passes.reward_model)
    before = [next(model.parameters()).clone() for model in models]
    passes.update()
    moved = [not torch.equal(old, next(model.parameters())) for old, model in zip(before, models, strict=True)]
    assert moved == [True, True, False, False]


SLEEPER = """
from testcases.benchmarks.relay import Relay
import time
relay = Relay()
print("this goes to stderr")
relay.wait()
while True:
    time.sleep(0.01)
    relay.update_done()
"""


def test_a_child_answers_each_order_with_its_updates():
    with Child("sleeper", [sys.executable, "-c", SLEEPER], threads=1) as child:
        first, second = child.run(3), child.run(1)
    assert [len(answer["samples"]) for answer in (first, second)] == [3, 1]
    assert all(sample["wall"] >= 0.01 for sample in first["samples"]) and first["before_mib"] <= first["peak_mib"]


def test_a_child_that_dies_is_an_error_with_its_last_words():
    with Child("sleeper", [sys.executable, "-c", SLEEPER.replace("sleep(0.01)", "sleep(None)")], threads=1) as child:
        with pytest.raises(RuntimeError, match=r"to run 1 updates, but it died \(status 1\):\n(.|\n)*TypeError"):
            child.run(1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says so only where there is no GPU")
def test_without_a_gpu_the_third_part_says_so_and_succeeds(capsys):
    assert gpu.main([]) == 0
    assert "no GPU" in capsys.readouterr().out


def test_the_gpu_command_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    done: list[str] = []

    def measured(work, pairs, updates):
        done.append(work.name)
        if len(done) == 2:
            raise gpu.TimeIsUp
        return {"ours": {"tokens_per_second": 1000.0, "memory_mib": {"gpu": 512.0}}}

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(gpu, "LABELS", {gpu.OURS: "ours"})
    monkeypatch.setattr(gpu, "OUT", tmp_path)
    monkeypatch.setattr(gpu, "FILE", tmp_path / "gpu.json")
    monkeypatch.setattr(gpu, "measure", measured)
    monkeypatch.setattr(gpu, "demo", lambda: done.append("demo") or {"seconds": 9, "peak_gpu_mib": 1024})
    assert gpu.main([]) == 0 and "9 minutes are over" in capsys.readouterr().out
    assert gpu.main([]) == 0
    assert done == ["12x768", "24x1280", "24x1280", "24x896", "demo"] and "1,024 MiB" in capsys.readouterr().out
    assert (tmp_path / "gpu.png").is_file()


def test_the_gpu_command_measures_our_trainer_and_says_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(gpu, "trl_python", lambda: None)
    found = gpu.measure(SMALL, pairs=1, updates=1)
    assert found["PPO by Hand"]["tokens_per_second"] > 0 and "ratio" not in found
    monkeypatch.setattr(
        gpu, "compare", lambda *_: (_ for _ in ()).throw(RuntimeError("died:\nOutOfMemoryError: 80 GB"))
    )
    assert gpu.measure(SMALL, pairs=1, updates=1) == {"failed": "OutOfMemoryError: 80 GB"}


def test_an_interpreter_is_asked_only_for_what_it_lacks(monkeypatch):
    monkeypatch.setattr(lacking, "version", {"torch": "2.13.0+cu130", "numpy": "1.26.4"}.__getitem__)
    monkeypatch.setattr(lacking, "PackageNotFoundError", KeyError)
    found = lacking.lacking()
    assert "numpy>=2.0" in found and "peft>=0.18" in found and not [one for one in found if one.startswith("torch")]
