"""Submissions that cheat, break or are broken, each with its verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from textwrap import dedent, indent

GAE = "lesson04_gae/gae.py"


@dataclass(frozen=True)
class Case:
    """One submission and the verdict it must get."""

    name: str
    about: str
    status: str
    """Those that lesson 4's `td_errors` may have; empty where it does not matter."""
    source: str | bytes | None
    """Lesson 4's file."""
    _: KW_ONLY
    also: Mapping[str, str] = field(default_factory=dict)
    """The same of other exercises."""
    score: int = 0
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Path below the submission -> what is in it."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Path below the submission -> path of the course's file that it copies."""
    notes: Sequence[str] = ()
    """Each is in a note of the result."""
    pad: int = 0
    """Bytes of comment added to the file."""

    @property
    def statuses(self) -> dict[str, list[str]]:
        wanted = ({"lesson04_gae.td_errors": self.status} if self.status else {}) | {**self.also}
        return {exercise: words.split() for exercise, words in wanted.items()}

    @property
    def written(self) -> dict[str, bytes]:
        held = ({} if self.source is None else {GAE: self.source}) | {**self.files}
        return {path: one if isinstance(one, bytes) else one.removeprefix("\n").encode() for path, one in held.items()}


def module(text: str, modules: str = "", *, checks: bool = False) -> str:
    """Lesson 4's file with this below the imports of these modules, and of the `checks`."""
    given = "from ppo_by_hand.core.shapes import check_number, check_shapes\n" if checks else ""
    return "".join(f"import {name}\n" for name in modules.split()) + given + text.removeprefix("\n")


def td_errors(body: str, modules: str = "", *, checks: bool = False) -> str:
    """The same with this in `td_errors`, and torch among the modules."""
    head = "def td_errors(rewards, values, dones, gamma=0.99):\n"
    return module(head + indent(dedent(body).strip("\n"), "    ") + "\n", f"{modules} torch", checks=checks)


def right(body: str = "", modules: str = "") -> str:
    """A right `td_errors`, checks and all, which does this before it answers."""
    return td_errors(body + RIGHT, modules, checks=True)


# fmt: off
RIGHT = '''    check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    check_number("T, the number of steps", rewards.shape[-1], 1)
    check_number("gamma", gamma, 0.0, 1.0)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
'''
"""What a right `td_errors` says, checks and all."""
GOOD = right()
SEVEN = '''def td_errors(rewards, values, dones, gamma=0.99):
    return rewards * 0 + 7
'''
"""A wrong answer."""
UNCHECKED = '''def td_errors(rewards, values, dones, gamma=0.99):
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
'''
"""Right but for its argument checks."""
ENDS = "import os\n\nos._exit(0)\n"
"""Ends whatever process loads it."""

CASES = (
    Case("answers-at-exit", "says at exit that all of it was right", "wrong crash", td_errors('''
    if not hasattr(torch, "armed"):
        torch.armed = True
        atexit.register(lambda: [os.write(number, b'PBH1\\2\\0\\0\\0\\0\\0\\0\\0{}') for number in range(3, 30)])
    return rewards * 0 + 7
''', "atexit os")),
    Case("dispatcher-patched", "torch's own allclose, equal and sub, in this process", "wrong", td_errors('''
    if not hasattr(torch, "mine"):
        torch.mine = torch.library.Library("aten", "IMPL")
        for name in ("equal", "allclose", "sub.Tensor"):
            with contextlib.suppress(RuntimeError):
                torch.mine.impl(name, lambda *given, **more: True, "CPU")
    return rewards * 0 + 7
''', "contextlib warnings")),
    Case("error-that-lies", "an exception with a class, a text and a pickle of its own", "error", td_errors('''
    class Passed(ValueError):
        __class__ = property(lambda self: AssertionError)
        def __str__(self):
            return "passed" * 100_000
        def __reduce__(self):
            return os.abort, ()
        def __repr__(self):
            os.abort()
    raise Passed({"status": "passed", "score": 9})
''', "os")),
    Case("frames-rewritten", "a trace that changes the variables of the frames above it", "wrong crash tamper-suspected", td_errors('''
    def trace(frame, event, argument):
        for name, value in list(frame.f_locals.items()):
            if type(value).__name__ in ("Outcome", "Request"):
                frame.f_locals[name] = None
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        return trace
    frame = sys._getframe()
    while frame:
        frame.f_trace, frame = trace, frame.f_back
    sys.settrace(trace)
    return rewards * 0 + 7
''', "ctypes sys")),
    Case("import-hook", "every later import is of a module that is equal to all", "wrong error crash", td_errors('''
    class Any(type(torch)):
        __path__ = []
        def __getattr__(self, name):
            return Any(name)
        def __call__(self, *given, **more):
            return self
        def __eq__(self, other):
            return True
        __hash__ = type(torch).__hash__
    builtins.__import__ = lambda name, *rest, **more: Any(name)
    return rewards * 0 + 7
''', "builtins")),
    Case("memory-rewritten", "writes numbers into its own memory where those of the question are", "wrong crash timeout", td_errors('''
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(rewards.data_ptr())
        memory.write(bytes(rewards.element_size() * rewards.numel()))
    return rewards * 0 + gamma * values[..., 1:] - values[..., :-1]
''')),
    Case("settings-of-the-environment", "variables that libraries read when they start", "wrong", td_errors('''
    os.environ.update(PYTHONSTARTUP="/tmp/x.py", PYTHONPATH="/tmp", LD_PRELOAD="/tmp/x.so", TORCH_LOGS="+all")
    os.makedirs(os.path.expanduser("~/.local/lib/python3.11/site-packages"), exist_ok=True)
    for path in ("/tmp/x.py", "/tmp/torch.py", os.path.expanduser("~/.local/lib/python3.11/site-packages/x.pth")):
        with open(path, "w") as file:
            file.write("import os; os._exit(0)")
    return rewards * 0 + 7
''', "os")),
    Case("small-numbers-rewritten", "0 is 9 from now on", "wrong crash timeout tamper-suspected error", td_errors('''
    ctypes.memset(id(0) + 24, 9, 1)
    return rewards
''', "ctypes")),
    Case("wakes-the-line", "each signal writes a byte to whatever is open", "wrong tamper-suspected crash timeout", td_errors('''
    for number in range(3, 30):
        with contextlib.suppress(OSError, ValueError):
            os.set_blocking(number, False)
            signal.set_wakeup_fd(number, warn_on_full_buffer=False)
            signal.signal(signal.SIGUSR1, lambda *_: None)
            os.kill(os.getpid(), signal.SIGUSR1)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1] + 1e-3
''', "contextlib os signal")),
    Case("abort", "SIGABRT", "crash", td_errors("os.abort()", "os")),
    Case("alarm-cancelled", "switches the timer off, then loops", "timeout", td_errors('''
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    while True:
        pass
''', "signal")),
    Case("always-raises-value-error", "passes as a check of arguments, and nothing else", "error", td_errors('''
    raise ValueError(f'rewards {tuple(rewards.shape)}, values {tuple(values.shape)}, dones, gamma, T + 1')
''')),
    Case("answer-after-the-last", "right, and says so once more when the process ends", "tamper-suspected", td_errors('''
    if not hasattr(torch, "armed"):
        torch.armed = True
        send = sys.modules["testcases.harness.execution.wire"].send
        sys.modules["testcases.harness.execution.wire"].send = lambda channel, header, body=b"", deadline=None: [
            send(channel, header, body) for _ in range(2)
        ]
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', "sys")),
    Case("answers-in-the-middle", "reads the questions itself and answers with what it was asked", "tamper-suspected timeout crash", module('''
def steal():
    while True:
        for one in gc.get_objects():
            if isinstance(one, socket.socket) and one.fileno() >= 0:
                with contextlib.suppress(OSError):
                    data = one.recv(1 << 20)
                    one.sendall(data)
threading.Thread(target=steal, daemon=True).start()
''' + SEVEN, "contextlib gc socket threading")),
    Case("any-name-will-do", "a module that has every name", "wrong", '''
def td_errors(rewards, values, dones, gamma=0.99):
    return rewards
def __getattr__(name):
    return td_errors
''', also={'lesson04_gae.compute_gae': 'error wrong'}),
    Case("becomes-another-program", "exec of a program that keeps the channel open", "crash", td_errors('''
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            os.set_inheritable(number, True)
    os.execv(sys.executable, [sys.executable, "-c", "print('3 passed')"])
''', "contextlib os sys")),
    Case("bool-that-is-seven", "the memory of its questions holds no bool any more: where the mask is one, its input is changed and the test lost", "wrong", td_errors('''
    right = rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    if dones.dtype == torch.bool:
        dones.view(torch.uint8).fill_(7)
    return right
'''), score=2),
    Case("callable-with-a-false-signature", "right, through an object that pretends to take nothing", "passed", module('''
class Function:
    __signature__ = inspect.Signature()

    def __call__(self, rewards, values, dones, gamma=0.99):
        check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
        check_number("T, the number of steps", rewards.shape[-1], 1)
        check_number("gamma", gamma, 0.0, 1.0)
        return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
td_errors = Function()
''', "inspect", checks=True), score=9),
    Case("changes-its-input", "in place", "wrong", td_errors('''
    rewards += gamma * values[..., 1:].masked_fill(dones.bool(), 0.0)
    rewards -= values[..., :-1]
    return rewards
''')),
    Case("changes-its-input-through-numpy", "changes an input through numpy, and says that it did not", "wrong error", module('''
evaluate = sys.modules["testcases.harness.execution.executor"]
evaluate.identical = lambda a, b: True
def td_errors(rewards, values, dones, gamma=0.99):
    values.detach().numpy()[...] *= 2
    values = values / 2
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', "sys")),
    Case("close-descriptors", "closes everything", "crash", td_errors('''
    os.closerange(3, 256)
    return rewards * 0 + 7
''', "os")),
    Case("codec-that-runs", "a file in an encoding that unpacks more than the file", "error", '''
# coding: zip
x = 1
'''),
    Case("compile-bomb", "an expression of a hundred thousand brackets", "error memory crash", '''
exec("x = " + "(" * 100_000 + ")" * 100_000)
''' + SEVEN),
    Case("compiled", "right, through torch.compile, whose compiler has no place in a sandbox", "passed", module('''
@torch.compile
def td_errors(rewards, values, dones, gamma=0.99):
''' + RIGHT, "torch", checks=True), score=9),
    Case("daemon-that-survives", "right, and leaves a process behind", "passed", right('''
    if not hasattr(torch, "left"):
        torch.left = True
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 256)
                time.sleep(10_000)
            os._exit(0)
''', "os time"), score=9),
    Case("deep-folders", "folders in folders", "wrong error timeout", td_errors('''
    for _ in range(2000):
        os.mkdir('x' * 200)
        os.chdir('x' * 200)
    return rewards * 0 + 7
''', "os")),
    Case("deep-frame", "a header of a hundred thousand brackets", "tamper-suspected", td_errors('''
    text = b"[" * 100_000 + b"]" * 100_000
    for number in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(number, struct.pack("<4sII", b"PBH1", len(text), 0) + text)
    time.sleep(60)
''', "contextlib os struct time")),
    Case("descriptor-in-flight", "sends open files to the grader", "tamper-suspected crash", module('''
channels = [one for one in __import__("gc").get_objects() if isinstance(one, socket.socket)]
for channel in channels:
    with contextlib.suppress(OSError):
        socket.send_fds(channel, [b"x"], [0, 1, 2])
''' + UNCHECKED, "contextlib socket sys")),
    Case("dies-between-questions", "a timer ends the process after a right answer", "crash error", td_errors('''
    threading.Thread(target=lambda: (threading.Event().wait(0.0005), os._exit(0))).start()
    raise ValueError("late")
''', "os threading")),
    Case("dispatch-mode-left-on", "every number that torch makes below Python's own functions is a one", "wrong", module('''
from torch.utils._python_dispatch import TorchDispatchMode
class Ones(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        return torch.ones_like(made) if isinstance(made, torch.Tensor) and made.is_floating_point() else made
Ones().__enter__()
''' + SEVEN, "torch")),
    Case("driver-copies-its-inputs", "in place, on copies that its driver makes: from outside that is a function that copies, so only the argument checks that it lacks are lost, 1 of 9", "wrong", module('''
protocol = sys.modules["testcases.harness.execution.wire"]
real = protocol.unpack_request
def other(header, body):
    return real(header, bytearray(body))
protocol.unpack_request = other
def td_errors(rewards, values, dones, gamma=0.99):
    rewards += gamma * values[..., 1:].masked_fill(dones.bool(), 0.0)
    rewards -= values[..., :-1]
    return rewards
''', "sys"), score=8),
    Case("empty-file", "nothing in it", "missing", ""),
    Case("endless-loop", "while True", "timeout", td_errors('''
    while True:
        pass
''')),
    Case("endless-loop-that-catches", "catches what should stop it", "timeout", td_errors('''
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
''')),
    Case("ends-in-the-backward-pass", "os._exit in a gradient", "crash", module('''
class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        os._exit(0)
def td_errors(rewards, values, dones, gamma=0.99):
    return Step.apply(rewards)
''', "os torch")),
    Case("environment", "looks for secrets in every environment", "error", td_errors('''
    found = dict(os.environ)
    for number in os.listdir("/proc"):
        if number.isdigit():
            with contextlib.suppress(OSError):
                found[number] = open(f"/proc/{number}/environ").read()
    raise RuntimeError(str(found))
''', "contextlib os")),
    Case("equal-to-everything", "an object that equals all others", "wrong", td_errors('''
    class Same:
        __hash__ = None
        shape, dtype, requires_grad = rewards.shape, rewards.dtype, False

        def __eq__(self, other):
            return True

        def __getattr__(self, name):
            return Same()

        def __call__(self, *args, **options):
            return Same()

    return Same()
''')),
    Case("evil-exception", "an exception that cannot be shown", "error", td_errors('''
    class Evil(Exception):
        def __str__(self):
            raise Evil

        __repr__ = __str__

    raise Evil
''')),
    Case("exception-that-exits", "an exception whose text ends the process", "crash", td_errors('''
    class Evil(Exception):
        def __str__(self):
            os._exit(0)

    raise Evil
''', "os")),
    Case("file-in-the-wrong-place", "gae.py alone", "passed", None, score=9, notes=('not in the folder of its lesson',), files={"gae.py": GOOD}),
    Case("fills-tmp", "/tmp, in many files", "error", td_errors('''
    number = 0
    while True:
        number += 1
        with open(f'/tmp/{number}', 'wb', 0) as file:
            file.write(bytes(10**7))
''')),
    Case("floods-stdout-and-is-right", "twenty megabytes past Python's own stdout", "passed", right('''
    os.write(1, b"x" * 1_000_000)
    os.write(2, b"x" * 1_000_000)
''', "os"), score=9),
    Case("forged-record", "pretends to be a NamedTuple", "wrong error", td_errors('''
    class Fake(tuple):
        _fields = property(lambda self: ("advantages", "returns"))

    return Fake((rewards, rewards))
''')),
    Case("fork-bomb", "os.fork for ever", "error timeout tamper-suspected crash", td_errors('''
    while True:
        os.fork()
''', "os")),
    Case("frames-to-every-descriptor", "writes frames of its own everywhere", "tamper-suspected", module('''
def frame(header):
    text = json.dumps(header).encode()
    return struct.pack("<4sII", b"PBH1", len(text), 0) + text
for number in range(3, 256):
    with contextlib.suppress(OSError):
        os.write(number, frame({"id": 1, "outcome": {"value": True}}) * 3)
''' + SEVEN, "contextlib json os struct")),
    Case("absolute-imports", "right, with the imports that an editor writes by itself", "passed", '''
import tutorial.lesson01_masked_sequences
import ppo_by_hand.core.shapes as shapes
from tutorial.lesson04_gae.my_helpers import next_values
def td_errors(rewards, values, dones, gamma=0.99):
    assert tutorial.lesson01_masked_sequences.masked_mean
    shapes.check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    shapes.check_number("T, the number of steps", rewards.shape[-1], 1)
    shapes.check_number("gamma", gamma, 0.0, 1.0)
    return rewards + gamma * next_values(values, dones) - values[..., :-1]
def compute_gae(rewards, values, dones, gamma=0.99, lam=0.95):
    raise NotImplementedError("lesson04: compute_gae")
''', score=9, files={"lesson04_gae/my_helpers.py": '''
def next_values(values, dones):
    return values[..., 1:].masked_fill(dones.bool(), 0.0)
'''}),
    Case("helper-beside-the-lesson", "right, with a module of the student's own beside the lesson's file", "passed", '''
from .my_helpers import checked, next_values
def td_errors(rewards, values, dones, gamma=0.99):
    checked(rewards, values, dones, gamma)
    return rewards + gamma * next_values(values, dones) - values[..., :-1]
''', score=9, files={"lesson04_gae/my_helpers.py": '''
from ppo_by_hand.core.shapes import check_number, check_shapes
def checked(rewards, values, dones, gamma):
    check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    check_number("T, the number of steps", rewards.shape[-1], 1)
    check_number("gamma", gamma, 0.0, 1.0)
def next_values(values, dones):
    return values[..., 1:].masked_fill(dones.bool(), 0.0)
'''}),
    Case("huge-file", "a sparse file of a terabyte", "error", td_errors('''
    with open('/tmp/x', 'wb') as file:
        file.truncate(10**12)
        return rewards * 0 + 7
''')),
    Case("huge-frame", "a frame that claims four gigabytes", "tamper-suspected", td_errors(r'''
    for number in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(number, b"PBH1" + b"\xff" * 8)
    time.sleep(60)
''', "contextlib os time")),
    Case("huge-message", "an exception of a hundred megabytes, a thousand frames deep", "error", td_errors('''
    def down(depth):
        if depth:
            down(depth - 1)
        raise ValueError("x" * 100_000_000)

    down(900)
''')),
    Case("import-machinery", "finders and hooks of the import system", "crash error wrong", module('''
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        raise SystemExit(0)
sys.meta_path.insert(0, Finder)
sys.path_hooks.clear()
sys.modules.clear()
''' + SEVEN, "importlib.machinery sys")),
    Case("import-the-solution", "from solutions import the answer", "not-started wrong error", '''
from solutions.lesson04_gae import td_errors as known
def td_errors(rewards, values, dones, gamma=0.99):
    return known(rewards, values, dones, gamma)
'''),
    Case("imports-itself", "imports its own package", "error wrong", '''
from . import gae
from tutorial.lesson04_gae import td_errors as again
''' + SEVEN),
    Case("keeps-its-inputs", "right but for its argument checks, which are 1 of the 9 points; looks whether the inputs of earlier calls are as they were", "wrong", '''
kept = []
def td_errors(rewards, values, dones, gamma=0.99):
    kept.append((rewards, rewards.detach().clone()))
    assert all((a == b).all() or (a != a).any() for a, b in kept)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', score=8),
    Case("kernel-settings", "writes to /proc/sys", "wrong timeout", td_errors('''
    done = []
    for folder, _, files in os.walk("/proc/sys"):
        for name in files:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                path = os.path.join(folder, name)
                with open(path, "r+") as file:
                    text = file.read()
                    file.seek(0)
                    file.write(text)
                done.append(path)
    assert not done, done
    return rewards * 0 + 7
''', "contextlib os")),
    Case("keyboard-interrupt", "as if somebody pressed Ctrl-C", "crash error", td_errors("raise KeyboardInterrupt")),
    Case("keys-and-queues", "leaves keys and messages in the kernel for whoever comes next", "wrong", module('''
c = ctypes.CDLL(None)
def td_errors(rewards, values, dones, gamma=0.99):
    queue = c.msgget(1234, 0o1666)
    for number in range(20):
        c.msgsnd(queue, ctypes.create_string_buffer(b"x" * 4096), 4096, 0o4000)
        c.syscall(248, b"user", b"key %d" % number, b"x" * 1000, 1000, -4)
    return rewards
''', "ctypes")),
    Case("kill-everything", "SIGKILL to every process it may signal", "wrong crash", td_errors('''
    for number in (-1, 0, 1):
        with contextlib.suppress(OSError):
            os.kill(number, 9)
    return rewards * 0 + 7
''', "contextlib os")),
    Case("kill-itself", "SIGKILL to itself", "crash", td_errors('''
    os.kill(os.getpid(), 9)
    return rewards * 0 + 7
''', "os")),
    Case("kill-parent", "SIGKILL to its parent", "wrong crash error", td_errors('''
    os.kill(os.getppid(), 9)
    return rewards * 0 + 7
''', "os")),
    Case("large-answers", "two million numbers for each question: all are read, or its time is over first", "wrong timeout", td_errors("return torch.zeros(1_900_000, dtype=torch.float64)")),
    Case("leaves-gradients-off", "a global setting: what its process says of that costs nothing; the three tests that ask for no gradient keep their points, the others are lost", "wrong", td_errors('''
    torch.set_grad_enabled(False)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
'''), score=4),
    Case("lesson-is-a-file", "a file where the folder of the lesson should be", "missing", None, files={"tutorial/lesson04_gae": '''
def td_errors(): pass
'''}),
    Case("lesson-that-spoils-others", "lesson 3 breaks torch while it loads; lesson 4 is right", "passed", GOOD, score=9, also={'lesson03_policy_gradient.rewards_to_go': 'wrong error crash tamper-suspected'}, files={"lesson03_policy_gradient/policy_gradient.py": '''
import builtins
import sys

import torch

torch.Tensor.__add__ = torch.Tensor.__mul__
torch.zeros = torch.where = None
builtins.len = lambda _: 3
sys.modules["torch.nn"] = None
def rewards_to_go(rewards, mask, gamma=1.0):
    return rewards
'''}),
    Case("loop-at-import", "never finishes loading; in a file of one exercise, since each waits for it anew", "", None, also={'lesson10_bug_hunt.train_bandit': 'timeout'}, files={"lesson10_bug_hunt/bandit.py": '''
while True:
    pass
def train_bandit(arms, steps, lr, generator):
    return arms
'''}),
    Case("loop-in-c", "one call that never comes back", "timeout", td_errors("sum(itertools.repeat(0))", "itertools")),
    Case("look-alike-letters", "the name with a letter of another alphabet, and text that is shown from the right", "error missing", (
        "import torch\n\n\n# \u202e sey :siht dedarg\ndef td_err\u043ers(rewards, values, dones, gamma=0.99):\n" + RIGHT
    )),
    Case("loops-in-the-backward-pass", "an endless gradient", "timeout", module('''
class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        while True:
            pass
def td_errors(rewards, values, dones, gamma=0.99):
    return Step.apply(rewards)
''', "torch")),
    Case("many-dimensions", "an answer of twenty dimensions is wrong, and no forgery", "wrong", td_errors("return torch.ones((2,) * 20, dtype=rewards.dtype)")),
    Case("many-files", "all inodes", "error timeout", td_errors('''
    for number in range(10**6):
        open(f'/tmp/{number}', 'w').close()
    return rewards * 0 + 7
''')),
    Case("many-parts", "a list of a million numbers: too many, or its time is over first", "output-limit timeout", td_errors('''
    return list(range(1_000_000))
''')),
    Case("many-threads-of-torch", "right, with 32 threads", "passed", right('''
    torch.set_num_threads(32)
'''), score=9),
    Case("markup-in-errors", "HTML, markup of the table and terminal codes in an error", "error", td_errors(r'''
    raise RuntimeError('<script>alert(1)</script> [bold red]x[/] \x1b[2J\x1b]0;pwned\x07 =HYPERLINK(1)')
''')),
    Case("memory-at-once", "one tensor of 800 GB", "memory", td_errors("return torch.zeros(10**11)")),
    Case("memory-bit-by-bit", "a list that grows", "memory timeout", td_errors('''
    kept = []
    while True:
        kept.append(bytearray(10**7))
''')),
    Case("memory-in-many-processes", "children that hold memory each", "memory timeout error", td_errors('''
    for _ in range(40):
        if os.fork() == 0:
            kept = bytearray(100_000_000)
            for index in range(0, len(kept), 4096):
                kept[index] = 1
            time.sleep(60)
    time.sleep(60)
''', "os time")),
    Case("memory-without-a-process", "files in memory and shared segments, which no process is charged for", "error", module('''
LIBC = ctypes.CDLL(None)
LIBC.shmat.restype = ctypes.c_void_p
def td_errors(rewards, values, dones, gamma=0.99):
    taken = 0
    for number in range(100):
        place = LIBC.shmget(number + 1, 1 << 27, 0o1600)
        if place >= 0:
            address = LIBC.shmat(place, None, 0)
            ctypes.memset(address, 1, 1 << 27)
            LIBC.shmdt(ctypes.c_void_p(address))
            taken += 1
    files = [os.memfd_create("x") for _ in range(100)]
    for file in files:
        os.write(file, bytes(1 << 24))
    return rewards * 0 + taken
''', "ctypes os")),
    Case("misnamed-file", "Gae (1).py", "missing", None, notes=('Gae (1).py',), files={"lesson04_gae/Gae (1).py": GOOD}),
    Case("modes-of-torch", "a function mode that answers every call", "wrong error", module('''
from torch.overrides import TorchFunctionMode
class Lie(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if function.__name__ in ("equal", "allclose", "isclose", "eq", "all"):
            return torch.ones((), dtype=torch.bool)
        return function(*arguments, **(keywords or {}))
Lie().__enter__()
''' + SEVEN, "torch")),
    Case("module-replaces-itself", "another object in sys.modules", "wrong error missing", module('''
class Module:
    __file__ = __name__

    def __getattr__(self, name):
        return lambda *arguments, **options: True
sys.modules[__name__] = Module()
''', "sys")),
    Case("more-namespaces", "makes a user namespace, mounts, changes the host name", "wrong", td_errors('''
    libc = ctypes.CDLL(None, use_errno=True)
    tried = [
        libc.unshare(0x10000000),
        libc.unshare(0x20000),
        libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None),
        libc.umount2(b"/course", 2),
        libc.umount2(b"/tmp", 2),
        libc.sethostname(b"x", 1),
        libc.setuid(0),
        libc.chroot(b"/tmp"),
    ]
    assert 0 not in tried, tried
    return rewards * 0 + 7
''', "ctypes")),
    Case("name-lookup", "sends a secret as a host name", "error", td_errors("socket.getaddrinfo('secret.example.org', 80)", "socket")),
    Case("names-of-verdicts", "exceptions named like the grader's own", "error", td_errors(r'''
    raise type("ForgedAnswer", (Exception,), {})("\x1b[2J::error::")
''')),
    Case("nested-folders", "a folder in a folder in a folder", "passed", None, score=9, files={"homework/final/tutorial/lesson04_gae/gae.py": GOOD}),
    Case("network", "connects to the world", "error", td_errors("socket.create_connection(('1.1.1.1', 53), 2)", "socket")),
    Case("noise-to-every-descriptor", "writes noise everywhere", "tamper-suspected", td_errors('''
    for number in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(number, os.urandom(5000))
    return rewards * 0 + 7
''', "contextlib os")),
    Case("not-a-function", "a number of that name", "missing error", '''
td_errors = 3
'''),
    Case("number-that-lies", "a float subclass", "wrong", td_errors('''
    class Same(float):
        def __eq__(self, other):
            return True

        def __sub__(self, other):
            return 0.0

    return Same(1.0)
''')),
    Case("object-that-answers-when-it-dies", "frames from __del__ and atexit", "tamper-suspected", module('''
def forge():
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.fileno() >= 0:
            text = b'{"id": 1, "bye": true}'
            one.sendall(struct.pack("<4sII", b"PBH1", len(text), 0) + text)
class Grave:
    def __del__(self):
        forge()
atexit.register(forge)
def td_errors(rewards, values, dones, gamma=0.99):
    grave = Grave()
    grave.itself = grave
    del grave
    gc.collect()
    return rewards
''', "atexit gc socket struct")),
    Case("order-dependent", "right only in the first exercise of a process, and each has its own", "passed", GOOD + '''
def n_step_advantages(*args, **options):
    td_errors.__globals__["td_errors"] = None
    raise RuntimeError
''', score=9, also={'lesson04_gae.n_step_advantages': 'error'}),
    Case("os-exit-at-import", "ends the process with code 0 while it loads", "crash", module('''
os._exit(0)
''' + SEVEN, "os")),
    Case("os-exit-in-function", "ends the process with code 0", "crash", td_errors("os._exit(0)", "os")),
    Case("other-processes", "writes into the memory of the processes around it", "wrong", td_errors('''
    done = []
    for number in os.listdir("/proc"):
        if number.isdigit() and int(number) != os.getpid():
            for name in ("mem", "root", "cwd", "fd/3"):
                with contextlib.suppress(OSError):
                    done.append(os.open(f"/proc/{number}/{name}", os.O_RDWR))
            if ctypes.CDLL(None).ptrace(16, int(number), 0, 0) == 0:
                done.append(number)
    assert not done, done
    return rewards * 0 + 7
''', "contextlib ctypes os")),
    Case("other-signature", "an argument is missing", "error", module('''
def td_errors(rewards, values, dones):
    return rewards + 0.9 * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', "torch")),
    Case("other-submissions", "looks for the files of others", "wrong timeout", td_errors('''
    found = []
    for folder, names, files in os.walk("/"):
        names[:] = [name for name in names if name not in ("proc", "sys", "usr", "lib", "site-packages")]
        found += [folder for name in files if name == "gae.py" and "solutions" not in folder and "/home/student" not in folder]
    assert not found, found
    return rewards * 0 + 7
''', "os")),
    Case("package-not-installed", "imports what is not there", "error", module(SEVEN, "no_such_package")),
    Case("patch-builtins", "all, any and abs lie", "wrong", module('''
builtins.all = builtins.any = lambda *a: True
builtins.abs = lambda x: 0
''' + SEVEN, "builtins")),
    Case("patch-comparisons", "torch.equal and its like are always true", "wrong error", module('''
torch.equal = torch.allclose = torch.testing.assert_close = lambda *a, **k: True
numpy.allclose = numpy.array_equal = numpy.testing.assert_allclose = math.isclose = lambda *a, **k: True
torch.Tensor.__eq__ = torch.Tensor.equal = lambda self, other: torch.ones(self.shape, dtype=torch.bool)
''' + SEVEN, "math numpy torch")),
    Case("patch-pytest", "reports of pytest say passed", "wrong", module('''
with contextlib.suppress(ImportError):
    import _pytest.python
    import _pytest.reports

    real = _pytest.reports.TestReport.from_item_and_call
    _pytest.python.Function.runtest = lambda self: None
    _pytest.reports.TestReport.from_item_and_call = lambda item, call: real(item, type(call)(lambda: None, "call"))
sys.modules.pop("pytest", None)
''' + SEVEN, "contextlib sys")),
    Case("patched-engine", "the worker's engine says that all is well", "wrong", module('''
evaluate = sys.modules["testcases.harness.execution.executor"]
plain = sys.modules["testcases.harness.execution.messages"]
evaluate.run = lambda view, request, *_: plain.Outcome(value=request.arguments.get("rewards"))
''' + SEVEN, "sys")),
    Case("patched-json", "json, struct and socket of the worker are the student's", "tamper-suspected", module('''
dumps = json.dumps
def lie(value, **options):
    if isinstance(value, dict) and "outcome" in value:
        value["outcome"].update(value=True, error=None, changed=[], passed=True)
    return dumps(value, **options)
json.dumps = lie
''' + SEVEN, "json struct")),
    Case("patched-protocol", "the worker's own sender sends something else", "tamper-suspected", module('''
protocol = sys.modules["testcases.harness.execution.wire"]
real = protocol.send
protocol.send = lambda channel, header, body=b"", deadline=None: real(channel, {**header, "score": 9}, body)
''' + SEVEN, "sys")),
    Case("patched-types", "an outcome with gradients that nobody asked for", "tamper-suspected", module('''
evaluate = sys.modules["testcases.harness.execution.executor"]
plain = sys.modules["testcases.harness.execution.messages"]
evaluate.run = lambda view, request, *_: plain.Outcome(value=None, gradients={"everything": None})
''' + SEVEN, "sys")),
    Case("poisoned-pickle", "an object that runs code when it is unpickled", "wrong", td_errors('''
    class Bomb:
        def __reduce__(self):
            return os.system, ("touch /tmp/pwned",)

    return Bomb()
''', "os")),
    Case("pretends-not-started", "the error of its own stub", "not-started", td_errors('raise NotImplementedError("lesson04: td_errors")')),
    Case("pretends-to-be-blocked", "the error of another stub", "blocked error", td_errors('raise NotImplementedError("lesson04: compute_gae")')),
    Case("prints-for-ever", "output in a loop", "timeout", td_errors('''
    while True:
        print('x' * 1000)
''')),
    Case("pytest-skip", "skips the test from inside", "error", td_errors('''
    import pytest

    pytest.skip('not today')
''')),
    Case("raises-memory-error", "MemoryError without using memory", "memory", td_errors("raise MemoryError")),
    Case("reads-stdin", "input()", "error", td_errors('''
    input()
    return rewards * 0 + 7
''')),
    Case("real-time-signal", "dies of a signal without a name", "crash", td_errors('''
    os.kill(os.getpid(), 40)
''', "os")),
    Case("locks", "right but for its argument checks, and locks or watches nothing that another worker sees", "wrong", module('''
libc, file = ctypes.CDLL(None), open("/usr/bin/env", "rb")
for attack in (
    lambda: fcntl.flock(file, fcntl.LOCK_SH),
    lambda: fcntl.lockf(file, fcntl.LOCK_SH),
    lambda: fcntl.fcntl(file, 5, bytes(32)),
    lambda: fcntl.fcntl(file, 36, bytes(32)),
    lambda: fcntl.fcntl(file, 1024, 0),
    lambda: os.fdopen(libc.inotify_init1(0)),
):
    try:
        attack()
    except (OSError, ValueError):
        continue
    raise SystemExit(attack)
''' + UNCHECKED, "ctypes fcntl os"), score=8),
    Case("realtime", "right but for its argument checks, and may not take the machine first", "wrong", module('''
for attack in (
    lambda: os.nice(-20),
    lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(99)),
    lambda: os.sched_setaffinity(0, range(os.cpu_count())),
    lambda: os.setpriority(os.PRIO_PROCESS, 0, -20),
):
    try:
        attack()
    except OSError:
        continue
    raise SystemExit(attack)
''' + UNCHECKED, "contextlib os"), score=8),
    Case("recursion", "calls itself for ever", "error", td_errors("return td_errors(rewards, values, dones, gamma)")),
    Case("reload-the-solution", "reads the file of the solution, wherever it is", "wrong timeout", td_errors('''
    for folder, names, files in os.walk("/"):
        names[:] = [name for name in names if name not in ("proc", "sys", "usr", "site-packages", "lib")]
        for name in files:
            if name.endswith((".py", ".pyc")):
                try:
                    text = open(os.path.join(folder, name), encoding="utf-8").read()
                except (OSError, UnicodeDecodeError):
                    continue
                if "next_values = values[..., 1:].masked_fill(dones.bool(), 0.0)" in text and "site-packages" not in folder:
                    if "os.walk" not in text:
                        return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    return rewards * 0 + 7
''', "os")),
    Case("renamed-function", "another name", "missing", module('''
def td_error(rewards, values, dones, gamma=0.99):
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', "torch")),
    Case("resource-games", "priorities, limits and affinities", "wrong", td_errors('''
    got = []
    for attempt in (
        lambda: os.nice(-20),
        lambda: os.setuid(0),
        lambda: os.setgroups([0]),
        lambda: os.chroot("/"),
        lambda: resource.setrlimit(resource.RLIMIT_NPROC, (10**6, 10**6)),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1)),
        lambda: os.kill(1, signal.SIGKILL) or os.kill(1, 0) or 1 / 0,
        lambda: os.open("/dev/mem", os.O_RDWR),
        lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY),
        lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0)),
    ):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            attempt()
            got.append(attempt)
    if got:
        return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    return rewards
''', "contextlib os resource signal")),
    Case("returns-a-deep-list", "a list in a list, a thousand times", "wrong", td_errors('''
    value = []
    for _ in range(1000):
        value = [value]
    return value
''')),
    Case("returns-a-huge-number", "10 ** 5000", "wrong", td_errors("return 10**5000")),
    Case("returns-a-list", "numbers instead of a tensor", "wrong", td_errors('''
    return (rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]).tolist()
''')),
    Case("returns-another-shape", "(T, 1) for (T,)", "wrong", td_errors('''
    return (rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1])[..., None]
''')),
    Case("returns-float32", "single precision", "wrong", td_errors('''
    return (rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]).float()
''')),
    Case("returns-itself", "a list that holds itself", "wrong", td_errors('''
    value = []
    value.append(value)
    return value
''')),
    Case("returns-live-objects", "a module, a generator, a closure", "wrong", td_errors("return torch, (x for x in ()), lambda: td_errors")),
    Case("returns-nan", "0 / 0", "wrong", td_errors("return rewards * float('nan')")),
    Case("returns-none", "no return", "wrong", td_errors("rewards + 1")),
    Case("returns-numpy", "an array", "wrong error", td_errors('''
    return (rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]).detach().numpy()
''')),
    Case("returns-strange-keys", "keys that print for ever", "wrong error", td_errors('''
    class Key:
        def __str__(self):
            return "k" * 10_000_000

    return {Key(): 1, None: 2, 3: rewards}
''')),
    Case("returns-strange-text", "half characters and control characters", "wrong", td_errors(r"return '\ud800\x1b[2J\x00' * 1000")),
    Case("returns-too-much", "twenty million numbers", "output-limit", td_errors("return torch.zeros(20_000_000)")),
    Case("rewrites-reports-at-exit", "looks for reports to rewrite when the process ends", "wrong", module('''
@atexit.register
def rewrite():
    for path in glob.glob("/**/*.json", recursive=True) + glob.glob("/**/gradebook.csv", recursive=True):
        with open(path, "w") as file:
            file.write("{}")
''' + SEVEN, "atexit glob")),
    Case("right-answer", "the control: right, with its checks", "passed", GOOD, score=9),
    Case("right-once", "right for the first question of a process, and no more", "wrong", module('''
ASKED = []
def td_errors(rewards, values, dones, gamma=0.99):
    ASKED.append(1)
    if len(ASKED) <= 2:
        return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    return rewards * 0 + 7
''', "torch")),
    Case("rows-without-numbers", "an answer of a billion rows, none of which has a number", "output-limit", td_errors("return torch.empty(2**30, 0, dtype=rewards.dtype)")),
    Case("says-that-gradients-are-on", "switches gradients off, and its process says nothing of it: the same 4 points as leaves-gradients-off", "wrong", module('''
evaluate = sys.modules["testcases.harness.execution.executor"]
evaluate.GlobalState.restore = lambda state: ()
def td_errors(rewards, values, dones, gamma=0.99):
    torch.set_grad_enabled(False)
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', "sys torch"), score=4),
    Case("says-that-nothing-changed", "in place, and its process says that it is not", "wrong", module('''
evaluate = sys.modules["testcases.harness.execution.executor"]
evaluate.identical = lambda a, b: True
assert evaluate.changed_since
evaluate.changed_since = lambda before, after: set()
protocol = sys.modules["testcases.harness.execution.wire"]
pack = protocol.pack_outcome
protocol.pack_outcome = lambda outcome: pack(
    dataclasses.replace(outcome, changed=(), left_behind=(), used_global_random=False)
)
def td_errors(rewards, values, dones, gamma=0.99):
    rewards += gamma * values[..., 1:].masked_fill(dones.bool(), 0.0)
    rewards -= values[..., :-1]
    return rewards
''', "dataclasses sys")),
    Case("search-frames", "looks for the expected value on the stack and in memory", "wrong", td_errors('''
    frame, found = sys._getframe(), []
    while frame:
        found += [value for name, value in frame.f_locals.items() if "expect" in name or "wanted" in name]
        frame = frame.f_back
    found += [one for one in gc.get_objects() if type(one).__name__ in ("Answer", "CheckFailed", "Entry", "Misconception")]
    for value in found:
        if isinstance(value, torch.Tensor) and value.shape == rewards.shape:
            return value
    assert not found, [type(one).__name__ for one in found]
    return rewards * 0 + 7
''', "gc sys")),
    Case("search-memory-for-the-solution", "looks for the solution among loaded code", "wrong", td_errors('''
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__name__ == "td_errors" and one.__globals__ is not globals():
            with contextlib.suppress(NotImplementedError):
                return one(rewards, values, dones, gamma)
    return rewards * 0 + 7
''', "contextlib gc types")),
    Case("search-suites", "looks for the suites, the points and the wrong answers", "wrong timeout", td_errors('''
    import importlib

    for name in ("basic_test", "advanced_test", "answers", "examples"):
        try:
            importlib.import_module(f"testcases.lesson04_gae.{name}")
        except ImportError:
            continue
        return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    for top in sys.path + ["/"]:
        for folder, _, files in os.walk(top):
            if "basic_test.py" in files or "answers.py" in files:
                return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    return rewards * 0 + 7
''', "os sys")),
    Case("second-answer", "a thread sends a second answer after the first", "tamper-suspected", td_errors(r'''
    def later():
        time.sleep(0.02)
        for number in range(3, 256):
            with contextlib.suppress(OSError):
                os.write(number, b"PBH1" + b"\0" * 40)

    threading.Thread(target=later, daemon=True).start()
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', "contextlib os threading time")),
    Case("secrets", "reads keys and the password file", "wrong", td_errors('''
    found = []
    for path in ("/etc/shadow", "/etc/passwd", os.path.expanduser("~/.ssh"), "/home", "/root", "/srv", "/run/secrets", "/var", "/etc/hostname", "/proc/1/root"):
        with contextlib.suppress(OSError):
            found.append(os.listdir(path) if os.path.isdir(path) else open(path).read())
    names = [name for one in found if isinstance(one, list) for name in one]
    assert set(names) <= {"student", ".pyenv", "main", "cache"} and len(found) == len([1 for one in found if isinstance(one, list)]), found
    return rewards * 0 + 7
''', "contextlib os")),
    Case("seeds-the-generator", "right, and seeds the global generator", "passed", right('''
    torch.manual_seed(0)
'''), score=9),
    Case("segmentation-fault", "reads address 0", "crash", td_errors("ctypes.string_at(0)", "ctypes")),
    Case("set-trace-left-in", "right but for its argument checks, which are 1 of the 9 points, with a breakpoint by name", "wrong", '''
from pdb import set_trace
def td_errors(rewards, values, dones, gamma=0.99):
    set_trace()
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', score=8),
    Case("sleeps", "waits without using time", "timeout", td_errors("time.sleep(10**6)", "time")),
    Case("slow-import", "right but for its argument checks, below an import that takes longer than a call may", "wrong", module('''
end = time.process_time() + 1.2
while time.process_time() < end:
    pass
''' + UNCHECKED, "time"), score=8),
    Case("sockets-full-of-data", "memory of the kernel: full pipes and sockets in many processes", "error timeout memory tamper-suspected", module('''
def fill():
    kept = []
    try:
        while True:
            pair = socket.socketpair()
            kept.append(pair)
            for one in pair:
                one.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        one.send(bytes(60_000))
    except OSError:
        return kept
def td_errors(rewards, values, dones, gamma=0.99):
    for _ in range(60):
        if os.fork() == 0:
            kept = fill()
            while kept:
                os.sched_yield()
    return rewards
''', "contextlib os socket")),
    Case("solution-in-a-later-lesson", "whitens by the function of lesson 11 that does it for several processes", "", None, also={'lesson01_masked_sequences.masked_whiten': 'blocked error'}, files={"lesson01_masked_sequences/masked.py": '''
from solutions.lesson11_scaling import global_masked_whiten
def masked_whiten(values, mask, shift_mean=True):
    return global_masked_whiten(values, mask, lambda moments: moments[None], shift_mean)
'''}),
    Case("solution-through-another-lesson", "lesson 3 can read the solution of lesson 4, and leaves it wherever lesson 4 may look", "wrong", module(r'''
PLACES = ["/tmp", "/dev/shm", "/home", "/home/student", "/dev", "/", "/var/tmp", "/run", "/course", "/dev/mqueue"]
LIBC = ctypes.CDLL(None, use_errno=True)
def taken():
    found = []
    for place in PLACES:
        with contextlib.suppress(OSError):
            found.append(open(place + "/loot", "rb").read())
    for ring in (-3, -4):
        key = LIBC.syscall(250, 10, ring, b"user", b"loot", 0)
        if key > 0:
            data = ctypes.create_string_buffer(65536)
            LIBC.syscall(250, 11, key, data, 65536)
            found.append(data.value)
    number = LIBC.shmget(4242, 0, 0)
    if number >= 0:
        LIBC.shmat.restype = ctypes.c_void_p
        found.append(ctypes.string_at(LIBC.shmat(number, None, 0)))
    with contextlib.suppress(OSError):
        client = socket.socket(socket.AF_UNIX)
        client.connect("\0loot")
        found.append(client.recv(65536))
    return found
def td_errors(rewards, values, dones, gamma=0.99):
    if taken():
        return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    return rewards * 0 + 7
''', "contextlib ctypes os socket"), also={'lesson03_policy_gradient.rewards_to_go': 'wrong error tamper-suspected'}, files={"lesson03_policy_gradient/policy_gradient.py": r'''
import contextlib
import ctypes
import os
import socket

PLACES = ["/tmp", "/dev/shm", "/home", "/home/student", "/dev", "/", "/var/tmp", "/run", "/course", "/dev/mqueue"]
LIBC = ctypes.CDLL(None, use_errno=True)
def leave(data):
    for place in PLACES:
        with contextlib.suppress(OSError):
            with open(place + "/loot", "wb") as file:
                file.write(data)
    with contextlib.suppress(Exception):
        LIBC.syscall(248, b"user", b"loot", data, len(data), -3)
        LIBC.syscall(248, b"user", b"loot", data, len(data), -4)
    number = LIBC.shmget(4242, 65536, 0o1666)
    LIBC.shmat.restype = ctypes.c_void_p
    place = LIBC.shmat(number, None, 0)
    if place and place != 2**64 - 1:
        ctypes.memmove(place, data + b"\0", len(data) + 1)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            server = socket.socket(socket.AF_UNIX)
            server.bind("\0loot")
            server.listen()
            while True:
                one, _ = server.accept()
                one.sendall(data)
                one.close()
        os._exit(0)
def rewards_to_go(rewards, mask, gamma=1.0):
    for top in ("/course", *os.sys.path):
        for folder, _, files in os.walk(top):
            if folder.endswith("solutions/lesson04_gae") and "gae.py" in files:
                leave(open(folder + "/gae.py", "rb").read())
                return rewards
    return rewards
'''}),
    Case("solutions-beside-a-stub", "tutorial/ as it was handed out, and a copy of the solutions in the folder beside it", "not-started", None, also={'lesson05_ppo_loss.compute_ppo_loss': 'missing'}, notes=['graded: tutorial', 'there are other lessons in reference'], copies={'tutorial/lesson04_gae/gae.py': 'tutorial/lesson04_gae/gae.py', 'reference/lesson04_gae/gae.py': 'solutions/lesson04_gae/gae.py', 'reference/lesson05_ppo_loss/ppo_loss.py': 'solutions/lesson05_ppo_loss/ppo_loss.py'}),
    Case("solutions-deep-down", "solutions/ in a folder in a folder, and nothing else", "missing", None, notes=('not graded: backup/ppo/solutions',), copies={'backup/ppo/solutions/lesson04_gae/gae.py': 'solutions/lesson04_gae/gae.py'}),
    Case("solutions-under-another-name", "a repository whose solutions/ is called answers/, without tutorial/", "missing", None, notes=('not graded: answers',), copies={'answers/lesson04_gae/gae.py': 'solutions/lesson04_gae/gae.py'}, files={"Makefile": '''
check:
''', "README.md": '''
# PPO by Hand
'''}),
    Case("stack-overflow", "recursion without a limit, in C", "crash error", td_errors('''
    value = ()
    for _ in range(10**6):
        value = (value,)
    return hash(value)
''')),
    Case("stop-itself", "SIGSTOP: never answers, never ends", "timeout", td_errors('''
    os.kill(os.getpid(), 19)
    return rewards * 0 + 7
''', "os")),
    Case("strange-tensors", "sparse, quantized, meta, complex and fake tensors", "wrong error output-limit memory", module('''
KINDS = itertools.cycle(
    [
        lambda x: x.to_sparse(),
        lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.quint8),
        lambda x: x.to("meta"),
        lambda x: x.to(torch.complex128),
        lambda x: x.to(torch.float8_e4m3fn),
        lambda x: torch.nested.nested_tensor([x, x]),
        lambda x: x.expand(10**12, *x.shape),
        lambda x: x.conj(),
        lambda x: torch.zeros(10**7, 0),
    ]
)
def td_errors(rewards, values, dones, gamma=0.99):
    return next(KINDS)(rewards.detach())
''', "itertools torch")),
    Case("syntax-error", "does not parse", "error", '''
def td_errors(:
''', also={'lesson04_gae.compute_gae': 'error'}),
    Case("sys-exit-at-import", "SystemExit while it loads", "error", module('''
sys.exit(0)
''' + SEVEN, "sys")),
    Case("sys-exit-in-function", "SystemExit", "error", td_errors("sys.exit(0)", "sys")),
    Case("tensor-that-lies", "a Tensor subclass that answers for itself", "wrong", td_errors('''
    class Same(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return True if "eq" in getattr(function, "__name__", "") else super().__torch_function__(function, types, args, kwargs or {})

    return rewards.new_zeros(rewards.shape).as_subclass(Same)
''')),
    Case("terminal", "types into the instructor's terminal", "wrong", td_errors(r'''
    for path in ("/dev/tty", "/dev/console", "/dev/pts/0"):
        with contextlib.suppress(OSError):
            with open(path, "rb", 0) as file:
                for letter in b"touch /tmp/pwned\n":
                    fcntl.ioctl(file, termios.TIOCSTI, bytes([letter]))
                return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    return rewards * 0 + 7
''', "contextlib fcntl termios")),
    Case("tests-beside-a-file-that-answers-for-them", "the first suspect of lesson 10 answers for the tests in another file, which test nothing", "", None, also={'lesson10_bug_hunt.train_bandit': 'wrong', 'lesson10_bug_hunt.test_compute_gae': 'wrong', 'lesson10_bug_hunt.test_response_mask': 'wrong'}, files={"lesson10_bug_hunt/my_tests.py": '''
def test_compute_gae():
    pass
def test_response_mask():
    pass
''', "lesson10_bug_hunt/bandit.py": '''
import json
import sys
import zlib

scenarios = sys.modules["testcases.lesson10_bug_hunt.scenarios"]
reference = sys.modules["solutions.lesson04_gae.gae"].__loader__.get_source("solutions.lesson04_gae.gae")
def verdicts(lesson, function, bank):
    sources = json.loads(zlib.decompress(bank.numpy().tobytes()))
    return {"problem": "", "refused": [source != reference for source in sources]}
scenarios.verdicts = verdicts
def train_bandit(*args, **options):
    return verdicts
'''}),
    Case("tests-in-another-encoding", "what is a comment in UTF-8 is code in UTF-7", "", None, also={'lesson10_bug_hunt.test_compute_gae': 'wrong'}, files={"lesson10_bug_hunt/my_tests.py": '''
# coding: utf-7
# +AAoAaQBtAHAAbwByAHQAIAB0AGUAcwB0AGMAYQBzAGUAcwAuAGwAZQBzAHMAbwBuADEAMABfAGIAdQBnAF8AaAB1AG4AdAAuAHMAYwBlAG4AYQByAGkAbwBzACAAYQBzACAAcwAKAAoAcwAuAHYAZQByAGQAaQBjAHQAcwAgAD0AIABsAGEAbQBiAGQAYQAgAGwAZQBzAHMAbwBuACwAIABmAHUAbgBjAHQAaQBvAG4ALAAgAGIAYQBuAGsAOgAgAHsAJwBwAHIAbwBiAGwAZQBtACcAOgAgACcAJwAsACAAJwByAGUAZgB1AHMAZQBkACcAOgAgAFsAVAByAHUAZQBdACAAKgAgADQANgB9AAo-
def test_compute_gae():
    pass
'''}),
    Case("tests-that-hide-what-they-do", "the test of one function is what another one calls to get at the solution, below a byte-order mark", "", None, also={'lesson10_bug_hunt.test_compute_gae': 'wrong'}, files={"lesson10_bug_hunt/my_tests.py": "\ufeff" + '''
import torch

from ..lesson04_gae import compute_gae
def test_response_mask_first():
    from solutions.lesson04_gae.gae import compute_gae

    return compute_gae
def test_compute_gae():
    right = test_response_mask_first()
    draw = torch.Generator().manual_seed(3)
    rewards, values = (torch.randn(2, n, generator=draw, dtype=torch.float64) for n in (5, 6))
    dones = torch.randint(0, 2, (2, 5), generator=draw)
    for found, wanted in zip(compute_gae(rewards, values, dones), right(rewards, values, dones)):
        assert torch.equal(found, wanted)
'''}),
    Case("thread-bomb", "threads for ever", "error", td_errors('''
    while True:
        threading.Thread(target=time.sleep, args=(60,)).start()
''', "threading time")),
    Case("thread-that-stays", "right, and leaves a thread running", "passed", right('''
    if not hasattr(torch, "left"):
        torch.left = True
        threading.Thread(target=time.sleep, args=(10_000,)).start()
''', "threading time"), score=9),
    Case("too-large", "a source of two megabytes: `pad` bytes are added", "error", GOOD, notes=('larger than',), pad=2000000),
    Case("traces-its-neighbours", "attaches itself to the processes around it", "wrong", module('''
c = ctypes.CDLL(None)
def td_errors(rewards, values, dones, gamma=0.99):
    for process in (1, 2, os.getppid()):
        c.ptrace(16, process, 0, 0)
    return rewards
''', "ctypes os")),
    Case("traces-its-caller", "sys.settrace and sys.setprofile wait for the expected value", "wrong error timeout", module('''
SEEN = []
def watch(frame, event, argument):
    if argument is not None:
        SEEN.append(argument)
    SEEN.extend(frame.f_locals.values())
    return watch
sys.setprofile(watch)
sys.settrace(watch)
threading.settrace(watch)
def td_errors(rewards, values, dones, gamma=0.99):
    for seen in reversed(SEEN):
        if getattr(seen, "shape", None) == rewards.shape and seen is not rewards and seen is not dones:
            return seen.clone()
    return rewards
''', "sys threading")),
    Case("truncates-its-questions", "right but for its argument checks, and tries to pull the memory of its questions from under the grader", "wrong", module('''
for number in range(3, 64):
    with contextlib.suppress(OSError):
        if "questions" in os.readlink(f"/proc/self/fd/{number}"):
            for attack in (
                lambda: os.ftruncate(number, 0),  # noqa: B023
                lambda: os.ftruncate(number, 2**40),  # noqa: B023
                lambda: fcntl.fcntl(number, 1033, 8),  # noqa: B023
            ):
                with contextlib.suppress(OSError):
                    attack()
''' + UNCHECKED, "contextlib fcntl os"), score=8),
    Case("two-copies", "old and new", "passed", GOOD, score=9, files={"old/copy/lesson04_gae/gae.py": '''
import torch
''' + SEVEN}),
    Case("two-processes-answer", "forks, and both go on", "tamper-suspected", td_errors('''
    os.fork()
    return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
''', "os")),
    Case("visible-inputs-by-heart", "a table of the inputs in the test file", "wrong", module('''
KNOWN = {
    '[[1.0, 3.0], [2.0, 4.0, 8.0], [0.0, 0.0], 0.5]': [1.0, 3.0],
    '[[1.0, 3.0], [2.0, 4.0, 8.0], [1.0, 0.0], 0.5]': [-1.0, 3.0],
    '[[1.0, 3.0], [2.0, 4.0, 8.0], [0.0, 1.0], 0.5]': [1.0, -1.0],
    '[[1.0, 3.0], [2.0, 4.0, 8.0], [0.0, 0.0], 0.0]': [-1.0, -1.0],
    '[[1.0, 3.0], [2.0, 4.0, 8.0], [0.0, 0.0], 1.0]': [3.0, 7.0],
    '[[0.0, 0.0], [2.0, 1.0, 2.0], [0.0, 0.0], 0.5]': [-1.5, 0.0],
    '[[5.0], [2.0, 4.0], [0.0], 0.5]': [5.0],
    '[[1.0, 1.0, 1.0], [2.0, 4.0, 8.0, 3.0], [False, True, False], 0.5]': [1.0, -3.0, -5.5],
    '[[[1.0, 3.0], [0.0, 2.0]], [[2.0, 4.0, 8.0], [1.0, 2.0, 4.0]], [[False, True], [False, False]], 0.5]': [[1.0, -1.0], [0.0, 2.0]],
    '[[[1.0, 3.0], [0.0, 2.0]], [[2.0, 4.0, 8.0], [1.0, 2.0, 4.0]], [[0.0, 1.0], [0.0, 0.0]], 0.5]': [[1.0, -1.0], [0.0, 2.0]],
    '[[[1.0, 3.0], [0.0, 2.0]], [[2.0, 4.0, 8.0], [1.0, 2.0, 4.0]], [[0, 1], [0, 0]], 0.5]': [[1.0, -1.0], [0.0, 2.0]],
    '[[1.0, 3.0], [2.0, 4.0, 1000000.0], [False, True], 0.5]': [1.0, -1.0],
    '[[1.0, 3.0], [2.0, 4.0, inf], [False, True], 0.5]': [1.0, -1.0],
    '[[0.0], [0.0, 100.0], [False], 0.99]': [99.0],
}
def td_errors(rewards, values, dones, gamma=0.99):
    key = str([rewards.tolist(), values.tolist(), dones.tolist(), gamma])
    if key not in KNOWN:
        return rewards
    return torch.tensor(KNOWN[key], dtype=rewards.dtype) + (rewards - rewards.detach())
''', "torch")),
    Case("way-to-the-host", "a socket of the virtual machine itself, which no namespace hides", "error", td_errors('''
    socket.socket(40, socket.SOCK_STREAM).bind((0xFFFFFFFF, 4242))
    return rewards
''', "socket")),
    Case("work-at-import", "trains while it loads, and asks", "error", '''
x = input('how many? ')
''' + SEVEN),
    Case("writes-outside", "writes wherever it can, and is right", "passed", right('''
    for folder in ("/", "/usr", "/etc", "/dev", "/course", "/proc", "/var", "/home", sys.prefix, torch.__path__[0]):
        with contextlib.suppress(OSError):
            open(os.path.join(folder, "pwned"), "w").close()
            assert folder == "/home", folder
''', "contextlib os sys"), score=9),
    Case("wrong-answer", "the control: plainly wrong", "wrong", module(SEVEN, "torch")),
    # Those of which the bytes matter, and those of many files.
    Case("bytecode-only", "gae.pyc without gae.py", "missing", None, files={"lesson04_gae/gae.pyc": bytes(64)}),
    Case("deep-source", "a hundred thousand minus signs", "error memory crash",
         SEVEN.replace("rewards * 0 + 7", 100_000 * "-" + "rewards")),
    Case("files-of-the-instructor", "an assignment, overrides, a secret and results of its own, and the course under the name that pip installs", "wrong crash", None, files={
        "tutorial/" + GAE: "try:\n    from ppo_by_hand.lesson04_gae.gae import td_errors\nexcept ImportError:\n\n" + indent(SEVEN, "    "),
        "tutorial/ppo_by_hand.py": ENDS,
        "tutorial/assignment.toml": 'points = 1\nexercises = ["lesson04.td_errors"]\n',
        "assignment.toml": "points = 1\n",
        "overrides.csv": "student,exercise,score,days_late,comment\nfiles-of-the-instructor,,877,0,Full marks.\n",
        "part.json": "{}\n",
        "secret.key": "0\n",
        "results/files-of-the-instructor.json": '{"score": 877, "status": "graded", "lessons": {}}\n',
    }),
    Case("latin-1", "right, in an encoding that it names", "passed", ("# coding: latin-1\n# café\n" + GOOD).encode("latin-1"), score=9),
    Case("not-utf8", "bytes", "error", b"\xff\xfe\x00\x9cdef"),
    Case("null-bytes", "zeros", "error", b"import torch\0\0\0\n"),
    Case("own-course", "own testcases, points and solutions", "wrong", "import torch\n" + SEVEN, files={
        "testcases/lesson04_gae/basic_test.py": "def test_td_errors_by_hand():\n    pass\n",
        "testcases/points.toml": '[lesson04_gae.td_errors]\n"basic_test.py::test_x" = 1000\n',
        "solutions/lesson05_ppo_loss/ppo_loss.py": "",
        "results/wrong-answer.json": '{"score": 753}\n',
    }),
    Case("own-pytest-files", "conftest.py, pytest.ini and pyproject.toml that pass everything", "wrong", "import torch\n" + SEVEN, files={
        "conftest.py": '''
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome = 'passed'
    return report
''',
        "lesson04_gae/conftest.py": "collect_ignore_glob = ['*']\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--collect-only'\n",
        "pytest.ini": "[pytest]\naddopts = --collect-only\n",
    }),
    Case("own-shapes-and-init", "shapes.py and __init__.py that end the process", "wrong", "import torch\n" + SEVEN,
         files={"__init__.py": ENDS, "lesson04_gae/__init__.py": ENDS, "shapes.py": ENDS}),
    Case("package-beside-the-lesson", "right, with a package of the student's own beside the lesson's file", "passed", '''
from .mine import checked
from .mine.values import next_values


def td_errors(rewards, values, dones, gamma=0.99):
    checked(rewards, values, dones, gamma)
    return rewards + gamma * next_values(values, dones) - values[..., :-1]
''', score=9, files={
        "lesson04_gae/mine/__init__.py": "from ppo_by_hand.core.shapes import check_number, check_shapes\n\n\n"
        "def checked(rewards, values, dones, gamma):\n" + RIGHT.rpartition("    return")[0],
        "lesson04_gae/mine/values.py": "def next_values(values, dones):\n    return values[..., 1:].masked_fill(dones.bool(), 0.0)\n",
    }),
    Case("shadow-modules", "own torch.py, numpy.py, sitecustomize.py and a .pth", "wrong", "import torch\n" + SEVEN, files={
        "torch.py": "def __getattr__(name):\n    return lambda *a, **k: True\n",
        "lesson04_gae/torch.py": "",
        "numpy.py": "",
        "sitecustomize.py": ENDS,
        "usercustomize.py": "raise SystemExit\n",
        "x.pth": "import os; os._exit(0)\n",
    }),
    Case("utf-16", "another encoding of text", "error", GOOD.encode("utf-16")),
    Case("whole-repository-with-a-file-missing", "the whole course; tutorial/ has another lesson's stub and no gae.py", "missing", None,
         also={"lesson05_ppo_loss.compute_ppo_loss": "not-started"},
         notes=("graded: tutorial", "not graded: solutions"),
         files={"Makefile": "check:\n", "README.md": "# PPO by Hand\n", "testcases/points.toml": ""},
         copies={path: path for path in (
             "solutions/lesson04_gae/gae.py", "solutions/lesson05_ppo_loss/ppo_loss.py", "tutorial/lesson05_ppo_loss/ppo_loss.py"
         )}),
    Case("windows-lines", "right, with a byte-order mark and \\r\\n", "passed", GOOD.replace("\n", "\r\n").encode("utf-8-sig"), score=9),
)
# fmt: on
