"""The library: the wheel holds the solved lessons under one name; the page's scripts run on it in an empty folder."""

import ast
import dataclasses
import email
import os
import pydoc
import re
import runpy
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import ppo_by_hand
from ppo_by_hand.core.config import PPOConfig
from testcases.course import hub
from testcases.grader.tests.forks import Fork
from testcases.harness.catalog import ROOT, lesson_names

LAUNCH = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --main_process_port 0"
PARTS = ("ppo_by_hand", "solutions", "tutorial/lesson11_scaling/configs", "book/pages")
COURSE = ("ppo_by_hand", "solutions", "testcases", "tiny_models", "tutorial")
FILES = ("pyproject.toml", "MANIFEST.in", "CHANGELOG.md", "LICENSE")


def scripts_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "book/pages" / page).read_text("utf-8"), flags=re.DOTALL)


SCRIPTS = scripts_of("library.md")
INDEX_PAGE = (ROOT / "ppo_by_hand/README.md").read_text("utf-8")
REWARD = "def count_words(prompts, responses):\n    return [float(len(response)) for response in responses]\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that nothing is left in the repository; without a network."""
    source = tmp_path_factory.mktemp("source")
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel('dist'), file=sys.stderr)"
    said = subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True, text=True).stderr
    return source / "dist" / said.split()[-1]


@pytest.fixture(scope="module")
def folder(wheel, tmp_path_factory) -> Path:
    """An empty folder with two small models in it; the unpacked wheel lies elsewhere."""
    zipfile.ZipFile(wheel).extractall(wheel.parent / "site")
    made = tmp_path_factory.mktemp("empty")
    words = hub.tokenizer()
    hub.causal(made / "my-policy", "llama", words)
    hub.classifier(made / "my-reward-model", words, "llama")
    hub.prompt_file(made)
    (made / "my_reward.py").write_text(REWARD)
    return made


def run(code: str, folder: Path, wheel: Path) -> str:
    """What a Python that sees the wheel, and nothing of the repository, prints."""
    (folder / "script.py").write_text(code)
    done = Fork(folder.parent / "said", run_script, wheel.parent / "site", folder=folder).ended()
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_script(site: Path) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in COURSE]:
        del sys.modules[name]
    sys.path[:] = [str(site), *(path for path in sys.path if path not in ("", str(ROOT)))]
    runpy.run_path("script.py", run_name="__main__")


def test_the_wheel_holds_the_lessons_under_one_name_and_nothing_else(wheel):
    assert f"-{ppo_by_hand.__version__}-" in wheel.name
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    homes = {"": "ppo_by_hand", "configs/": PARTS[2], **{f"{room}/": f"ppo_by_hand/{room}" for room in ("core", "hub")}}
    homes |= {f"{lesson}/": f"solutions/{lesson}" for lesson in library_lessons()}
    wanted = {home + path.name for home, folder in homes.items() for path in (ROOT / folder).glob("*.*")} - {
        "README.md"
    }
    wanted |= {f"demo/{name}" for name in ("__init__.py", "folder.py", "hub.py")}
    assert {name.removeprefix("ppo_by_hand/") for name in names} == wanted and len(names) == len(wanted)


def mypy(wheel: Path, folder: Path, *codes: str) -> subprocess.CompletedProcess[str]:
    """mypy on a user's files, in an environment in which the wheel is installed and nothing else of the course."""
    home = folder / "environment"
    if not home.is_dir():
        venv.create(home)
        (site,) = home.glob("lib/*/site-packages")
        zipfile.ZipFile(wheel).extractall(site)
    names = [f"script_{number}.py" for number in range(len(codes))]
    for name, code in zip(names, codes, strict=True):
        (folder / name).write_text(code)
    options = ("--strict", "--ignore-missing-imports", "--allow-untyped-calls", "--config-file=", "--cache-dir=cache")
    (environment := dict(os.environ)).pop("MYPYPATH", None)
    command = (sys.executable, "-P", "-m", "mypy", *options, "--python-executable", home / "bin/python", *names)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_type_checker_reads_the_scripts_of_the_pages_and_sees_a_wrong_setting(wheel, tmp_path):
    scripts = [*SCRIPTS, *scripts_of("from_trl.md"), *scripts_of("../../ppo_by_hand/README.md")]
    shown = [script.replace("\ntrainer =", "\nreveal_type(config)\ntrainer =") for script in scripts]
    start = "from ppo_by_hand import PPOConfig\nPPOConfig(stop_token_ids=(1,), pad_token_id=0, "
    samplers = scripts_of("generation.md")[1:]  # the first shows one line
    checked = mypy(wheel, tmp_path, *shown, *samplers, f"{start}clip_score=None, log_dir=None)\n")
    assert checked.returncode == 0, checked.stdout
    # Any, where the wheel has no py.typed
    assert checked.stdout.count("ppo_by_hand.core.config.PPOConfig") == len(scripts), checked.stdout
    wrong = mypy(wheel, tmp_path, f"{start}clip_epsilon='0.2')\n", "from ppo_by_hand import PPOTrainr\n").stdout
    assert "clip_epsilon" in wrong and 'no attribute "PPOTrainr"' in wrong, wrong


def library_lessons() -> set[str]:
    """Every lesson but the last, which trains in the toy environment, and those that are all exercise and no block."""
    return {name for name in lesson_names() if name[:8] not in ("lesson10", "lesson12")}


def test_an_index_page_can_show_what_the_wheel_says_of_itself(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    about = email.message_from_bytes(archive.read(name))
    text = about.get_payload()
    assert about["Author"] and about["Summary"] and about["License-Expression"] == "MIT"
    assert about["Description-Content-Type"] == "text/markdown" and text == INDEX_PAGE
    assert not re.search(r"\]\((?!https://)|<img|!\[", text), "an index page has no file beside it"
    assert "Typing :: Typed" in about.get_all("Classifier")
    needed = {re.split("[^a-z-]", one)[0] for one in about.get_all("Requires-Dist") if "extra ==" not in one}
    used = {node.split(".")[0] for node in imported(archive)}
    assert used - {*sys.stdlib_module_names, "ppo_by_hand", "typing_extensions"} <= needed | {"huggingface_hub"}


def imported(archive: zipfile.ZipFile) -> set[str]:
    """Every module that the wheel's files import by an absolute name."""
    trees = [ast.parse(archive.read(name)) for name in archive.namelist() if name.endswith(".py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


def test_every_public_name_is_documented_and_help_describes_each_of_the_34_settings():
    for name in ppo_by_hand.__all__:
        assert getattr(ppo_by_hand, name).__doc__, name
    assert (ppo_by_hand.CONFIGS / "fsdp.yaml").is_file()
    named = set(re.findall(r"`(\w+)`", (ROOT / "book/pages/from_trl.md").read_text("utf-8")))
    said = pydoc.plain(pydoc.render_doc(PPOConfig)).partition("Method resolution")[0]
    assert len(dataclasses.fields(PPOConfig)) == 34
    for field in dataclasses.fields(PPOConfig):
        assert f" {field.name}: " in said and field.name in named


def test_the_scripts_of_the_page_and_the_command_run_in_an_empty_folder(wheel, folder):
    command = "train --policy my-policy --reward my_reward:count_words --prompts prompts.txt --out tuned-by-command"
    assert f"ppo-by-hand {command}" in (ROOT / "book/pages/library.md").read_text("utf-8")
    by_command = f"""
import sys
from ppo_by_hand import __file__ as place
from ppo_by_hand.__main__ import main
assert place.startswith({str(wheel.parent)!r}), place
assert not {set(COURSE[1:])} & set(sys.modules)
sys.exit(main([*{command!r}.split(), "--set", {hub.SET!r}]) or main(["configs"]))
"""
    scripts = *SCRIPTS[:2], *scripts_of("from_trl.md"), *scripts_of("../../ppo_by_hand/README.md"), by_command
    said = run("\n".join(scripts), folder, wheel)
    assert "score " in said and "saved tuned-by-command/policy" in said
    assert Path(said.splitlines()[-1], "ddp.yaml").is_file()
    for result in ("tuned", "tuned-lora", "tuned-by-command/policy"):
        assert (folder / result / "model.safetensors").is_file(), result


@pytest.mark.slow
def test_the_script_for_several_processes_runs_on_two(wheel, folder):
    shown = "{processes.index} {processes.count} {trainer.history[0]['score']}"
    one_write = f'print(f"{shown}\\n", end="")'  # else both may write into one line
    (folder / "script.py").write_text(SCRIPTS[2].replace("processes.leave()", f"{one_write}\nprocesses.leave()"))
    launch = [sys.executable, "-m", "accelerate.commands.launch", *LAUNCH.split(), "script.py"]
    environment = os.environ | {"PYTHONPATH": str(wheel.parent / "site"), "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(launch, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = sorted(done.stdout.splitlines())
    assert first.split()[:2] == ["0", "2"] and second.split()[:2] == ["1", "2"]
    assert first.split()[2:] == second.split()[2:], "the metrics are those of all processes"
    assert (folder / "tuned-by-two" / "model.safetensors").is_file()
