"""The part of the course that a worker may see, laid out in a folder: one tree a lesson.

In the tree of lesson N the reference of lesson N is only its stubs, and all other lessons are solved: a student's
lesson runs on them. So code of lesson 9 can read the solution of lesson 4, but not tell anyone: each lesson runs in
a process of its own, without network, a file that outlives it or a lock that another one sees, and what it returns is
compared with the answers of its own exercises. Where scenarios set a student's exercise among the reference's others,
each exercise has a process of its own, with the reference of all but itself. No suite, no expected value, no wrong
answer and no point is in any tree.
"""

import ast
import hashlib
import os
import py_compile
import re
import shutil
from collections.abc import Iterable
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from testcases.harness.catalog import ROOT, SOLUTIONS, TESTCASES, lesson_names
from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.oracle import emptied, stub, stubs_of

from .sandbox import WORKER, Course

GRADER = TESTCASES / "grader"
ENGINE = {
    "catalog": ("encodings", "lessons"),
    "execution": ("capture", "executor", "messages", "overlay", "side_effects", "wire"),
}
"""What a worker's tree has of the engine, by package; the faces are empty there."""
OWN_PROCESS = frozenset({"lesson09_ppo_trainer", "lesson11_scaling"})
"""Lessons whose scenarios set a student's exercise among the reference's others."""
BARE = "bare"
"""The tree for tests that a student writes: the implementations are in another worker, and nothing is solved here."""
APART = OWN_PROCESS | {"lesson10_bug_hunt"}
"""Each exercise of these has a process of its own: in lesson 10 another file could change what the tests see."""
HEAVY = frozenset(
    "lesson02_reward_model lesson07_actor_critic lesson08_rollout lesson09_ppo_trainer lesson11_scaling "
    "lesson12_capstone".split()
)
"""Lessons that need more than torch."""
# torch._dynamo: the first optimizer that is made imports half of torch, for a second.
HEAVY_MODULES = tuple(
    "torch._dynamo torch.func torch.distributed.fsdp torch.utils.tensorboard accelerate.utils huggingface_hub:HfApi "
    "matplotlib.pyplot peft safetensors.torch tokenizers.models tqdm transformers:AutoModel "
    "transformers:AutoModelForCausalLM transformers:AutoModelForSequenceClassification transformers:AutoTokenizer "
    "transformers:GPT2LMHeadModel transformers:LlamaForCausalLM transformers:PreTrainedTokenizerFast".split()
)
"""What those import, "module" or "module:name": before any student comes, so that it costs nobody's time."""
_not_staged = shutil.ignore_patterns("__pycache__", "demo", "contest", "lesson*")


def lay_out(folder: Path, lessons: Iterable[str] = ()) -> Course:
    """Write the trees of these lessons (default: of all) into a new folder, readable for every user."""
    folder.mkdir(parents=True)
    for name in WORKER:
        shutil.copyfile(GRADER / ("" if name == "linux.py" else "sandbox/guest") / name, folder / name)
    shutil.copytree(ROOT / "tiny_models", folder / "tiny_models", ignore=_not_staged)
    for lesson in lessons or lesson_names():
        _lay_out_tree(folder / lesson, lesson, lesson)
        if any((TESTCASES / lesson).glob("scenarios_behind.py")):
            _lay_out_tree(folder / BARE, lesson, "")
        for exercise in read_lesson(lesson).exercises if lesson in OWN_PROCESS else ():
            own = folder / "own" / exercise / lesson
            own.mkdir(parents=True)
            for path in sorted((SOLUTIONS / lesson).glob("*.py")):
                (own / path.name).write_text(emptied(path, [exercise]), "utf-8")
    # What a worker imports by itself, it imports again and again.
    _compile([*folder.glob("own/*/*/*.py"), *folder.glob("*/testcases/*/*.py")])
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return Course(folder, HEAVY, HEAVY_MODULES, OWN_PROCESS, APART, BARE)


def _compile(paths: Iterable[Path]) -> None:
    """Once for all files with the same text."""
    compiled: dict[bytes, Path] = {}
    for path in paths:
        text, target = path.read_bytes(), Path(cache_from_source(str(path)))
        if text in compiled:
            target.parent.mkdir(exist_ok=True)
            os.link(compiled[text], target)
        else:
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(path), str(target), doraise=True, invalidation_mode=mode)
            compiled[text] = target


def _lay_out_tree(tree: Path, lesson: str, first: str) -> None:
    """The lessons of solutions/, those from the first on as stubs; of testcases/ what drives an exercise."""
    engine = [f"testcases/harness/{package}" for package in ENGINE]
    for package in ("testcases", "testcases/harness", *engine, f"testcases/{lesson}"):
        (tree / package).mkdir(parents=True)
        (tree / package / "__init__.py").touch()
    for package, modules in ENGINE.items():
        for name in modules:
            module = f"testcases/harness/{package}/{name}.py"
            shutil.copyfile(ROOT / module, tree / module)
    for path in (TESTCASES / lesson).glob("scenarios*.py"):
        shutil.copyfile(path, tree / "testcases" / lesson / path.name)
    shutil.copytree(TESTCASES / "harness" / "doubles", tree / "testcases/harness/doubles", ignore=_not_staged)
    # The same files under ten names: a worker sees one tree and cannot write to it.
    shutil.copytree(tree.parent / "tiny_models", tree / "tiny_models", copy_function=os.link)
    shutil.copytree(SOLUTIONS, tree / "solutions", ignore=_not_staged)
    # The library's front door would open onto the lessons.
    shutil.copytree(ROOT / "ppo_by_hand/core", tree / "ppo_by_hand/core", ignore=_not_staged)
    (tree / "ppo_by_hand/__init__.py").touch()
    for name in lesson_names():
        # The lessons below are the student's to use; one above may have the answer as a part of its own.
        hidden = name >= first
        for path in sorted((SOLUTIONS / name).glob("*.py")):
            target = tree / "solutions" / name / path.name
            target.parent.mkdir(exist_ok=True)
            target.write_text(stub(path) if hidden else path.read_text("utf-8"), "utf-8")


def fingerprint(*extra: str) -> str:
    """A hash of everything that a mark depends on, but the submission."""
    return hashlib.sha256("\0".join([*extra, *map(fingerprint_of, lesson_names())]).encode()).hexdigest()


@cache
def fingerprint_of(lesson: str) -> str:
    """A hash of all that the marks of one lesson depend on: what is common, its suite and reference, and those of the
    lessons that they name."""
    found = hashlib.sha256()
    folders = [TESTCASES / "harness", ROOT / "tiny_models", ROOT / "ppo_by_hand"]
    folders += [GRADER / "intake", GRADER / "sandbox", GRADER / "marking"]
    paths = [path for folder in folders for path in (*folder.rglob("*.py"), *folder.rglob("*.json"))]
    paths += GRADER.glob("*.py")
    paths += [path for path in SOLUTIONS.rglob("*.py") if not path.relative_to(SOLUTIONS).parts[0].startswith("lesson")]
    needed = sorted(_needed(lesson))
    paths += [path for name in needed for path in (*_files_of(name), *(TESTCASES / name).glob("*.json"))]
    for path in sorted(paths):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _files_of(lesson: str) -> list[Path]:
    return sorted([*(TESTCASES / lesson).glob("*.py"), *(SOLUTIONS / lesson).glob("*.py")])


@cache
def _named_in(lesson: str) -> frozenset[str]:
    """The lessons that the code of a lesson's files names; a comment names none."""
    found: set[str] = set()
    for path in _files_of(lesson):
        text = path.read_text("utf-8")
        named = {name for name in lesson_names() if name in text} - {lesson}
        code = ast.unparse(ast.parse(text)) if named else ""
        found |= {name for name in named if re.search(rf"\b{name}\b", code)}
    return frozenset(found - {lesson})


def _needed(lesson: str) -> set[str]:
    """A lesson and all that it names, and what those name."""
    needed, waiting = {lesson}, [lesson]
    while waiting:
        new = _named_in(waiting.pop()) - needed
        needed |= new
        waiting += new
    return needed


def untouched() -> dict[str, bytes]:
    """Path below `tutorial/` -> the file as it is handed out, for every file with something to fill in."""
    stubs = (one for lesson in lesson_names() for one in stubs_of(lesson).items())
    return {path: text.encode() for path, text in stubs if not path.endswith(("/__init__.py", "/__main__.py"))}
