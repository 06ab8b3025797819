"""What a worker is sent of the course: one lesson's tree, as files in memory.

In the tree of lesson N the reference of lesson N is only its stubs, and the lessons below are solved: a student's
lesson runs on them. Where scenarios set a student's exercise among the reference's others, each exercise has a worker
of its own, with the reference of all but itself. No suite, expected value, wrong answer or point is in any tree.
"""

import hashlib
import importlib.util
import marshal
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from testcases.harness.catalog import ROOT, SOLUTIONS, TESTCASES
from testcases.harness.oracle.mutations import emptied, stub

GRADER = TESTCASES / "grader"
DEPENDED_ON = ("ppo_by_hand", "solutions", "testcases", "tiny_models")
NO_MARKS = ("benchmarks", "conformance", "course")
"""Of the folders of testcases/: no mark depends on what is in them."""
ENGINE = ("catalog execution/calling execution/errors execution/executor execution/messages execution/wire").split()
"""What a worker's tree has of the harness."""
OWN_PROCESS = frozenset({"lesson09_ppo_trainer", "lesson11_scaling"})
"""Lessons whose scenarios set a student's exercise among the reference's others."""
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
"""What those import, "module" or "module:name": before a worker is forked, so that it costs nobody's time."""


@cache
def tree(lesson: str, exercise: str = "", solved: bool = True) -> dict[str, bytes]:
    """Path -> file. Without `solved` no lesson is: for tests that a student writes, since what they test is in another
    worker."""
    found: dict[str, str | bytes] = {}
    for package in ("testcases", "testcases/harness", "testcases/harness/execution"):
        found[f"{package}/__init__.py"] = ""
    found |= _read(TESTCASES / f"harness/{name}.py" for name in ENGINE)
    found |= _read([*(TESTCASES / "harness/doubles").glob("*.py"), *(TESTCASES / lesson).glob("scenarios*.py")])
    found[f"testcases/{lesson}/__init__.py"] = ""
    toys = (path for path in (ROOT / "tiny_models").rglob("*") if path.is_file() and path.suffix != ".pyc")
    found |= _read(toys)
    # The library's front door would open onto the lessons.
    found |= {**_read((ROOT / "ppo_by_hand/core").glob("*.py")), "ppo_by_hand/__init__.py": ""}
    found |= _read(SOLUTIONS.glob("*.py"))
    for path in sorted(SOLUTIONS.glob("lesson*/*.py")):
        # The lessons below are the student's to use; one above may have the answer as a part of its own.
        is_solved = solved and path.parent.name < lesson
        if exercise and path.parent.name == lesson and lesson in OWN_PROCESS:
            text = emptied(path, [exercise])
        else:
            text = path.read_text("utf-8") if is_solved else _stub(path)
        found[path.relative_to(ROOT).as_posix()] = text
    return dict(_with_bytecode(found))


def _read(paths: Iterable[Path]) -> dict[str, bytes]:
    return {path.relative_to(ROOT).as_posix(): _bytes_of(path) for path in paths}


@cache
def _stub(path: Path) -> str:
    return stub(path)


@cache
def _bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def _with_bytecode(files: dict[str, str | bytes]) -> Iterator[tuple[str, bytes]]:
    """What a worker imports by itself, it imports again and again."""
    for path, data in files.items():
        data = data.encode() if isinstance(data, str) else data
        yield path, data
        if path.endswith(".py"):
            yield importlib.util.cache_from_source(path), _compiled(path, data)


@cache
def _compiled(path: str, source: bytes) -> bytes:
    """As Python keeps it; the 1 says that it is not held against the file."""
    code = compile(source, path, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + struct.pack("<I8x", 1) + marshal.dumps(code)


@cache
def fingerprint() -> str:
    """A hash of all that marks depend on but the submission: the course, and what of the grader gives them."""
    found = hashlib.sha256()
    apart = {GRADER / "reports", GRADER / "tests", *(TESTCASES / name for name in NO_MARKS)}
    for path in sorted(path for name in DEPENDED_ON for path in (ROOT / name).rglob("*")):
        if path.suffix in (".py", ".json") and apart.isdisjoint(path.parents):
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


@cache
def untouched() -> dict[str, bytes]:
    """Path below `tutorial/` -> the file as it is handed out, for every file with something to fill in."""
    paths = [path for path in SOLUTIONS.glob("lesson*/*.py") if not path.name.startswith("__")]
    return {path.relative_to(SOLUTIONS).as_posix(): _stub(path).encode() for path in paths}


def prepare(exercises: Iterable[tuple[str, str]]) -> None:
    """Make once what the workers of these exercises are sent, and the hash of the course, for the processes that are
    forked from this one: they mark by the code that it has loaded, whatever becomes of the files meanwhile."""
    untouched()
    fingerprint()
    for lesson, exercise in exercises:
        tree(lesson, exercise if lesson in APART else "", solved=True)
