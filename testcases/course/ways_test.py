"""Ways to start, stop, kill and resume a run in a folder: each ends with its code, and no file of the user is lost."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ppo_by_hand import __main__ as library
from ppo_by_hand.core.checkpoints import CHECKPOINT_FILE, CheckpointFolder
from ppo_by_hand.core.written import MANIFEST, Written
from solutions.demo import hub as preset
from testcases.course import hub
from testcases.course.hub import SET, causal, run


class Killed(BaseException):
    """Ends a run where it stands; nothing catches it."""


KILLED = -9
WAYS = {
    "started-twice": "start 0, start 1",
    "finished-and-resumed": "start 0, resume 1",
    "finished-and-longer": "start 0, mine log/notes.txt, more 0",
    "finished-and-overwritten": "start 0, mine log/notes.txt, mine policy/other.bin, overwrite 0",
    "results-edited-by-hand": "start 0, mine log/metrics.jsonl, mine policy/config.json, overwrite 0",
    "a-folder-of-the-users": "mine data/table.csv, start 1, resume 1, overwrite 1",
    "the-names-of-our-folders": "mine log/a.txt, mine policy/model.safetensors, mine best/b.txt, start 1, overwrite 1",
    "a-file-beside": "start 0, mine diary.txt, overwrite 0, more 0",
    "ctrl-c": "start:ctrl-c 130, start 1, resume 0",
    "ctrl-c-and-overwritten": "start:ctrl-c 130, mine unfinished/a, mine unfinished/ppo/update-000002/b, overwrite 0",
    "sigterm": "start:sigterm 143, mine log/notes.txt, resume 0",
    "killed": "start:kill -9, resume 0",
    "killed-at-the-very-beginning": "begun, start 0",
    "killed-while-the-place-is-made": "start 0, mine log/notes.txt, overwrite:place -9, overwrite 0",
    "killed-twice": "start:kill -9, resume:kill -9, resume 0",
    "killed-with-files-beside": "start:kill -9, mine unfinished/ppo/mine.bin, resume 0",
    "a-copy-of-the-checkpoints": "start:raise 1, copy unfinished/ppo, resume 0, overwrite 0",
    "killed-and-overwritten": "start:kill -9, mine policy/mine.bin, overwrite 0",
    "killed-before-the-first-update": "start:early -9, start 1, resume 0",
    "killed-while-the-policy-is-saved": "start:saving -9, resume 0",
    "the-newest-checkpoint-cut-off": "start:raise 1, cut, resume 0",
    "the-reward-raised": "start:raise 1, resume 0",
    "stopped-by-a-check": "start:check 3, start 1, mine log/notes.txt, overwrite 0",
    "of-an-older-version": "start 0, forget, mine log/notes.txt, start 1, overwrite 1, adopt 0, overwrite 0",
    "unfinished-of-an-older-version": "start:kill -9, forget, resume 1, adopt 0, resume 0",
    "a-damaged-list": "start 0, mine .ppo-by-hand.json, overwrite 1, resume 1",
    "a-link-in-the-place-of-a-folder": "start 0, mine ../elsewhere/model.bin, link policy, overwrite 1, start 1",
    "a-policy-edited-by-hand": "start 0, mine policy/config.json, mine policy/README.md, more 0",
    "the-names-of-what-is-unfinished": "start 0, mine policy.unfinished/a, mine .writable, more 0",
    "a-folder-called-finished": "start:raise 1, mine finished/a.txt, resume 0",
    "a-folder-called-unfinished": "start 0, mine unfinished/a.txt, more 0",
    "killed-between-two-policies": "start 0, between, mine .policy.ppo-by-hand-before/a.txt, more 0",
    "a-list-of-files-elsewhere": "start 0, mine ../victim.txt, listed ../victim.txt, overwrite 1, resume 1",
    "two-at-once": "start 0, held, resume 1, overwrite 1, let-go, overwrite 0",
    "to-go-on-and-to-start-again": "start:kill -9, both 1, resume 0",
    "tables-edited-by-hand": "start:raise 1, mine log/metrics.jsonl, resume 0",
    "a-checkpoint-of-the-users": "start 0, mine finished/ppo/update-mine/trainer.pt, more 0",
    "without-its-last-checkpoint": "start 0, forget finished/ppo/update-000003/trainer.pt, more 1, overwrite 0",
    "other-settings": "start:kill -9, other 1, resume 0",
}
IN_EVERY_TEST = ("finished-and-overwritten", "killed-with-files-beside")
HOW = {"overwrite": ("--overwrite",), "both": ("--overwrite", "--resume")}
HOW |= dict.fromkeys(("resume", "more", "other"), ("--resume",))


class Run:
    """A folder, what the user has written in it, and the command."""

    def __init__(self, path: Path, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.out, self.policy, self.patch = path, path / "out", policy, monkeypatch
        self.mine: set[bytes] = set()
        self.calls = 0

    def step(self, step: str) -> None:
        name, _, rest = step.replace("-go", "_go").partition(" ")
        verb, _, end = name.partition(":")
        if hasattr(self, verb):
            getattr(self, verb)(rest)
        else:
            assert self.command(verb, end) == int(rest), step
        found = {file.read_bytes() for file in self.path.rglob("*") if file.is_file()}
        assert self.mine <= found, f"lost by {step}"

    def command(self, verb: str, end: str) -> int:
        settings = f"{SET} num_updates={4 if verb == 'more' else 3}"
        settings += " kl_coef=0.3" if verb == "other" else ""
        settings += " stop_on=stop_rate" if end == "check" else ""
        self.calls = 0
        with self.patch.context() as patch:
            patch.setattr(hub, "moody", lambda prompts, responses: self.reward(end, responses), raising=False)
            if end == "place":
                patch.setattr(Written, "make_way", raising(Killed))
            if end == "saving":
                patch.setattr(preset, "save_model", self.half_saved)
            try:
                more = (*HOW.get(verb, ()), "--set", settings)
                return run(self.path, self.policy, "moody", more=more)
            except Killed:
                return KILLED

    def reward(self, end: str, responses: list[str]) -> list[float]:
        self.calls += 1
        ends: dict[str, tuple[int, Callable[[], None]]] = {
            "ctrl-c": (3, raising(KeyboardInterrupt)),
            "sigterm": (3, lambda: os.kill(os.getpid(), signal.SIGTERM)),
            "kill": (2, raising(Killed)),
            "early": (1, raising(Killed)),
            "raise": (3, raising(KeyError)),
        }
        if end in ends and self.calls == ends[end][0]:
            ends[end][1]()
        return [float(len(text)) for text in responses]

    def half_saved(self, model, tokenizer, directory: Path) -> None:
        class Half:
            def save_pretrained(self, folder: Path) -> None:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "model.safetensors").write_bytes(b"half of the weights")
                raise Killed

        SAVE(Half(), tokenizer, directory)

    def mine_(self, name: str) -> None:
        file = self.out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = f"{name}: number {len(self.mine)}".encode()
        file.write_bytes(content)
        self.mine.add(content)

    def forget(self, rest: str) -> None:
        (self.out / (rest or MANIFEST)).unlink()

    def begun(self, rest: str) -> None:
        self.out.mkdir()
        (self.out / f".{MANIFEST}.ppo-by-hand-unfinished").touch()

    def copy(self, name: str) -> None:
        made = shutil.copytree(self.out / name, self.out / f"{name}-copy")
        self.mine |= {file.read_bytes() for file in made.rglob(CHECKPOINT_FILE)}

    def cut(self, rest: str) -> None:
        newest = max(self.out.rglob(CHECKPOINT_FILE))
        newest.write_bytes(newest.read_bytes()[:1000])

    def link(self, name: str) -> None:
        shutil.rmtree(self.out / name)
        (self.out / name).symlink_to(self.path / "elsewhere")

    def between(self, rest: str) -> None:
        (self.out / "policy").rename(self.out / ".policy.ppo-by-hand-before")

    def listed(self, name: str) -> None:
        content = (self.out / name).read_bytes()
        manifest = json.loads((self.out / MANIFEST).read_text())
        manifest["files"][name] = [len(content), hashlib.sha256(content).hexdigest()]
        (self.out / MANIFEST).write_text(json.dumps(manifest))

    def held(self, rest: str) -> None:
        self.other = os.open(self.out, os.O_RDONLY)
        fcntl.flock(self.other, fcntl.LOCK_EX)

    def let_go(self, rest: str) -> None:
        os.close(self.other)

    def adopt(self, code: str) -> None:
        assert library.main(["adopt", str(self.out)]) == int(code)


SAVE = preset.save_model


def raising(error: type[BaseException]) -> Callable[..., None]:
    def end(*arguments: object) -> None:
        raise error

    return end


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> str:
    return causal(tmp_path_factory.mktemp("models") / "llama", "llama")


def way(name: str, policy: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("solutions.demo.journal.CheckpointFolder", lambda folder: CheckpointFolder(folder, every=1))
    one = Run(path, policy, monkeypatch)
    for step in WAYS[name].split(", "):
        one.step(step.replace("mine ", "mine_ ", 1) if step.startswith("mine ") else step)
    return one


def check(name: str, policy: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = way(name, policy, path, monkeypatch)
    last = WAYS[name].split(", ")[-1]
    if last.endswith(" 0"):
        assert (one.out / "policy" / "model.safetensors").is_file() and not (one.out / "unfinished").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WAYS if name not in IN_EVERY_TEST])
def test_no_way_to_run_loses_a_file_of_the_user(name, policy, tmp_path, monkeypatch):
    check(name, policy, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", IN_EVERY_TEST)
def test_two_of_these_ways(name, policy, tmp_path, monkeypatch):
    check(name, policy, tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_run_that_was_killed_or_stopped_ends_with_the_policy_of_one_that_was_not(policy, tmp_path, monkeypatch):
    weights = []
    for name in ("finished-and-resumed", "killed-twice", "sigterm", "the-newest-checkpoint-cut-off", "other-settings"):
        (tmp_path / name).mkdir()
        one = way(name, policy, tmp_path / name, monkeypatch)
        weights.append((one.out / "policy" / "model.safetensors").read_bytes())
    assert len(set(weights)) == 1
