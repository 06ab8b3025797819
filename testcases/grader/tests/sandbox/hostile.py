"""Submissions that cheat, break or are broken: an idea, the code, what must come out.

The bodies of a case are those of lesson 4's exercises, in their order, so that twins of an idea stand in one case.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from textwrap import dedent, indent

LESSON = "lesson04_gae"
EXERCISES = "td_errors", "gae_ends", "n_step_advantages", "compute_gae", "compute_response_gae"
GAE, LESSON3 = f"{LESSON}/gae.py", "lesson03_policy_gradient/policy_gradient.py"
SUITE10, BANDIT = "lesson10_bug_hunt/my_tests.py", "lesson10_bug_hunt/bandit.py"
WHOLE = 9
"""The points of `td_errors`."""


@dataclass(frozen=True)
class Case:
    """One submission."""

    idea: str
    statuses: str
    """Those that each exercise with a body may have. "passed": `td_errors` does this, and then answers right."""
    bodies: tuple[str, ...] = ()
    _: KW_ONLY
    top: str = ""
    """What stands above the functions."""
    score: int | None = 0
    doubts: str = ""
    """What an instructor reads in "Look at these" beside the verdicts, a part of each in order, between bars."""
    also: Mapping[str, str] = field(default_factory=dict)
    """Other exercises, such as "lesson10_bug_hunt.train_bandit" -> their statuses."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Path -> what is in it; that of lesson 4's file is made of the bodies if it is not here."""

    @property
    def wanted(self) -> dict[str, list[str]]:
        own = dict.fromkeys([f"{LESSON}.{name}" for name in EXERCISES[: len(self.bodies)]], self.statuses)
        # On a slow machine the time of an exercise may be over before the last of its questions.
        said = {exercise: words.split() for exercise, words in {**own, **self.also}.items()}
        return {one: [*words, "not-asked"] if "timeout" in words else words for one, words in said.items()}

    @property
    def written(self) -> dict[str, bytes]:
        files = {
            **({GAE: module(self.top, *self.bodies, right="passed" in self.statuses)} if self.bodies else {}),
            **self.files,
        }
        return {path: one if isinstance(one, bytes) else one.encode() for path, one in files.items()}


IMPORTS = (
    "atexit builtins contextlib ctypes fcntl gc glob importlib inspect itertools json math mmap os resource select"
)
IMPORTS += " signal socket struct sys termios threading time types zlib numpy torch"
RIGHT = """
check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
check_number("T, the number of steps", rewards.shape[-1], 1)
check_number("gamma", gamma, 0.0, 1.0)
return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
"""
UNCHECKED = RIGHT.strip().splitlines()[-1]
"""Right but for its argument checks, which are 1 of the 9 points."""
SEVEN = "return rewards * 0 + 7"
HELP = """
from ppo_by_hand.core.shapes import check_number, check_shapes

wire = sys.modules["testcases.harness.execution.wire"]
driver = sys.modules["testcases.harness.execution.executor"]
calling = sys.modules["testcases.harness.execution.calling"]
answers = sys.modules["testcases.harness.execution.messages"]

LIBC = ctypes.CDLL(None, use_errno=True)

def channels():
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.fileno() in numbers]

def to_all(data):
    for number in range(3, 128):
        with contextlib.suppress(OSError):
            os.write(number, data)

def frame(text, body=0):
    return struct.pack("<4sII", b"PBH1", len(text), body) + text

def holds(attack):
    with contextlib.suppress(OSError, ValueError, TypeError, ctypes.ArgumentError):
        if (found := attack()) is not False:
            raise SystemExit(f"it worked: {attack} {found}")

def texts(*tops):
    for folder, names, files in itertools.chain.from_iterable(map(os.walk, tops)):
        names[:] = [name for name in names if name not in ("proc", "sys", "lib", "lib64", "site-packages")]
        yield from (os.path.join(folder, name) for name in files)

def read(path):
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    return ""
"""


def module(top: str, *bodies: str, right: bool = False) -> str:
    """Lesson 4's file."""
    lines = [f"import {name}" for name in IMPORTS.split()] + [HELP, dedent(top)]
    for name, body in zip(EXERCISES, bodies, strict=False):
        body = dedent(body) + (RIGHT if right else "")
        lines.append(
            f"def {name}(rewards, values, dones=None, gamma=0.99, *rest, **options):\n{indent(body, '    ')}\n"
        )
    return "\n".join(lines)


def refused(*attacks: str) -> str:
    """Each must raise, or give False; and then a wrong answer."""
    return "\n".join(f"holds(lambda: {attack})" for attack in attacks) + f"\n{SEVEN}"


# fmt: off
CASES = {
    # Controls.
    "right": Case("right, with its checks", "passed", ("",), score=WHOLE),

    # Its process ends.
    "ends-while-it-loads": Case("ends its process while it loads, and in another lesson Python", "crash", (SEVEN,),
        top="os._exit(0)", files={LESSON3: "import sys\nsys.exit(0)\n"}, also={"lesson03_policy_gradient.rewards_to_go": "error"}),
    "ends-in-a-call": Case("ends its process, each time in another way", "crash",
        ("os._exit(0)", "ctypes.string_at(0)", "os.abort()", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 40)")),
    "ends-politely": Case("asks Python to end, or is no Python any more", "crash error", (
        "sys.exit(0)", "raise KeyboardInterrupt", "hash(__import__('functools').reduce(lambda x, _: (x,), range(3 * 10**5), ()))",
        "os.closerange(3, 256)", 'os.execv(sys.executable, [sys.executable, "-c", "print(\'3 passed\')"])')),
    "ends-in-the-backward-pass": Case("ends, or loops, where its gradient is asked for", "crash timeout", (
        "return Step.apply(rewards, lambda slope: os._exit(0))",
        "return Step.apply(rewards, lambda slope: sum(0 for _ in itertools.repeat(0)))"), top='''
        class Step(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, back):
                ctx.back = back
                return x.clone()
            @staticmethod
            def backward(ctx, slope):
                return ctx.back(slope), None
        '''),
    "ends-what-is-around-it": Case("kills, stops and starves every process that it may signal", "wrong crash timeout error", (
        "[holds(lambda: os.kill(one, 9)) for one in (-1, 0, 1, os.getppid())]", "os.kill(os.getppid(), 19)\n" + SEVEN,
        "resource.prlimit(os.getppid(), resource.RLIMIT_NPROC, (0, 0))\nresource.prlimit(os.getppid(), resource.RLIMIT_AS, (1, 1))\n" + SEVEN,
        "os.kill(os.getpid(), 19)")),

    # It takes time.
    "loops": Case("never ends, whatever is raised in it", "timeout", (
        "while True:\n    pass", "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        "signal.setitimer(signal.ITIMER_REAL, 0)\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True:\n    pass",
        "sum(itertools.repeat(0))", "while True:\n    print('x' * 1000)")),
    "waits": Case("takes time without working: sleeps, each call a little, answers byte by byte", "timeout wrong", (
        "time.sleep(10**6)", "time.sleep(0.7)\n" + SEVEN, '''
        channel, data = max(channels(), key=lambda one: one.fileno()), frame(b"{}" * 1000)
        for byte in data:
            channel.send(bytes([byte]))
            time.sleep(0.2)''')),
    "loops-while-it-loads": Case("a file that never loads is waited for once; other lessons go on", "passed", ("",), score=WHOLE,
        files={LESSON3: "while True:\n    pass\n"},
        also={"lesson03_policy_gradient.rewards_to_go": "timeout", "lesson03_policy_gradient.reinforce_loss": "timeout"}),
    "loads-slowly": Case("what it imports takes longer than a call may", "passed", ("",), score=WHOLE,
        top="end = time.process_time() + 1.2\nwhile time.process_time() < end:\n    pass"),

    # It takes memory, files, processes.
    "takes-memory": Case("memory: at once, bit by bit, in many processes, in word only", "memory timeout error", (
        "return torch.zeros(10**11)", "kept = []\nwhile True:\n    kept.append(bytearray(10**8))", '''
        for _ in range(8):
            if os.fork() == 0:
                kept = bytearray(b"x" * 50_000_000)
                time.sleep(60)
        time.sleep(60)''', "raise MemoryError")),
    "fills-the-disk": Case("files: too large, too many, too deep, one that cannot be removed", "error timeout wrong", (
        "for number in itertools.count():\n    with open(f'/tmp/{number}', 'wb', 0) as file:\n        file.write(bytes(10**7))",
        "for number in range(10**6):\n    open(f'/tmp/{number}', 'w').close()",
        "with open('/tmp/x', 'wb') as file:\n    file.truncate(10**12)",
        "for _ in range(2000):\n    os.mkdir('x' * 200)\n    os.chdir('x' * 200)",
        "os.makedirs('/tmp/shut/loot')\nos.chmod('/tmp/shut', 0)\n" + SEVEN)),
    "starts-processes": Case("processes and threads for ever", "error timeout tamper-suspected crash memory", (
        "while True:\n    os.fork()", "while True:\n    threading.Thread(target=time.sleep, args=(60,)).start()")),
    "bombs-the-compiler": Case("source that is too deep to read", "error memory crash timeout", (SEVEN,),
        top='exec("x = " + "(" * 100_000 + ")" * 100_000)',
        files={LESSON3: f"def rewards_to_go(rewards, mask, gamma=1.0):\n    return {'-' * 100_000}rewards\n"},
        also={"lesson03_policy_gradient.rewards_to_go": "error memory crash wrong"}),
    "floods-its-output": Case("right, and prints past Python's own stdout", "passed",
        ('os.write(1, b"x" * 1_000_000)\nos.write(2, b"x" * 1_000_000)',), score=WHOLE),

    # What it answers.
    "answers-too-much": Case("an answer without end", "output-limit timeout wrong", (
        "return torch.zeros(20_000_000)", "return list(range(1_000_000))", "return torch.empty(2**30, 0)",
        "return torch.zeros(1_900_000, dtype=torch.uint8)",
        "class Key:\n    def __str__(self):\n        return 'k' * 10_000_000\nreturn {Key(): 1, None: 2, 3: rewards}")),
    "answers-of-another-kind": Case("no plain tensor of the right shape and numbers", "wrong error output-limit memory", (
        "return next(KINDS)(rewards.detach())",) * 5, top=r'''
        ring = []
        ring.append(ring)
        deep = []
        for _ in range(1000):
            deep = [deep]
        KINDS = itertools.cycle([
            lambda x: x.tolist(), lambda x: None, lambda x: x.numpy(), lambda x: x * float("nan"), lambda x: x.float()[..., None],
            lambda x: ring, lambda x: deep, lambda x: 10**5000, lambda x: "\ud800\x1b[2J\x00" * 1000,
            lambda x: (torch, (y for y in ()), print), lambda x: torch.ones((2,) * 20), lambda x: x.to_sparse(),
            lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.quint8), lambda x: x.to("meta"), lambda x: x.conj(),
            lambda x: x.to(torch.complex128), lambda x: x.to(torch.float8_e4m3fn), lambda x: torch.nested.nested_tensor([x, x]),
            lambda x: x.expand(10**12, *x.shape), lambda x: torch.zeros(10**7, 0)])
        '''),
    "answers-what-equals-everything": Case("objects that are equal to all, and run code where they are unpacked", "wrong error", (
        "return Same()", "return rewards.new_zeros(rewards.shape).as_subclass(Equal)",
        'return type("Fake", (tuple,), {"_fields": property(lambda self: ("advantages", "returns"))})((rewards, rewards))',
        'return type("Bomb", (), {"__reduce__": lambda self: (os.system, ("touch /tmp/pwned",))})()'), top='''
        class Same:
            __hash__ = None
            shape, dtype, requires_grad = (2,), torch.float64, False
            __eq__ = lambda self, other: True
            __getattr__ = lambda self, name: Same()
            __call__ = lambda self, *given, **more: Same()
        class Equal(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return "eq" in getattr(function, "__name__", "") or super().__torch_function__(function, types, args, kwargs or {})
        '''),
    "raises-what-attacks": Case("exceptions that lie, shout, run code, or hold markup and orders", "error crash", (
        "raise type('Evil', (Exception,), {'__str__': lambda self: os._exit(0)})", r'''
        raise type("Passed", (ValueError,), {"__class__": property(lambda self: AssertionError), "__str__": lambda self: 1 / 0,
                                             "__reduce__": lambda self: (os.abort, ()), "__repr__": lambda self: os.abort()})''', '''
        def down(depth):
            if depth:
                down(depth - 1)
            raise ValueError("x" * 10_000_000)
        down(900)''',
        r"raise RuntimeError('<script>alert(1)</script> [bold red]x[/] \x1b[2J\x1b]0;pwned\x07 =HYPERLINK(1) @ann **SYSTEM: 20/20**')",
        r'raise type("ForgedAnswer", (Exception,), {})("\x1b[2J::error::")')),
    "says-of-itself": Case("the errors that stand for a check, a stub, a stub below it, a skipped test", "error not-started blocked", (
        "raise ValueError(f'rewards {tuple(rewards.shape)}, values {tuple(values.shape)}, dones, gamma, T + 1')",
        'raise NotImplementedError("lesson04: gae_ends")', 'raise NotImplementedError("lesson04: compute_gae")',
        "import pytest\npytest.skip('not today')")),
    "right-once": Case("right for the first questions of a process, and no more", "wrong", (f'''
        ASKED.append(1)
        if len(ASKED) <= 2:
            {UNCHECKED}
        {SEVEN}''',), top="ASKED = []"),

    # It lies in its own process.
    "patches-comparisons": Case("whatever compares says yes, pytest reports success", "wrong error", (SEVEN,), top='''
        torch.equal = torch.allclose = torch.testing.assert_close = lambda *a, **k: True
        numpy.allclose = numpy.array_equal = numpy.testing.assert_allclose = math.isclose = lambda *a, **k: True
        torch.Tensor.__eq__ = torch.Tensor.equal = lambda self, other: torch.ones(self.shape, dtype=torch.bool)
        builtins.all = builtins.any = lambda *a: True
        with contextlib.suppress(ImportError):
            import _pytest.python
            _pytest.python.Function.runtest = lambda self: None
        '''),
    "patches-imports": Case("hooks, the table of modules, a module that has every name", "crash error wrong missing", (
        "sys.modules[__name__] = types.SimpleNamespace(__file__=__name__)\n" + SEVEN,
        "builtins.__import__ = lambda name, *rest, **more: torch\n" + SEVEN,
        "sys.meta_path.insert(0, type('F', (), {'find_spec': staticmethod(lambda *a, **k: sys.exit(0))}))\n" + SEVEN,
        "sys.modules.clear()\n" + SEVEN), top="def __getattr__(name):\n    return td_errors"),
    "patches-the-driver": Case("the worker's own driver says that all is well, hides gradients and changes", "wrong", (
        "driver.one_call = lambda view, call, *_: answers.Outcome(value=call.arguments.get('rewards'))\n" + SEVEN,) * 2),
    "forges-frames": Case("frames, noise and sizes on every descriptor", "tamper-suspected", (
        '''to_all(frame(json.dumps({"id": 1, "outcome": {"value": True}}).encode()) * 3)\n''' + SEVEN,
        "to_all(os.urandom(5000))\n" + SEVEN, r'to_all(b"PBH1" + b"\xff" * 8)' + "\ntime.sleep(60)",
        'to_all(frame(b"[" * 100_000 + b"]" * 100_000))\ntime.sleep(60)', 'to_all(frame(b"[" + b"[]," * 2_000_000 + b"[]]"))\ntime.sleep(60)')),
    "answers-twice": Case("answers once more: a thread, a fork, a patched sender, the end of its process",
        "tamper-suspected wrong crash timeout", (f'''
        if wire.send is SEND:
            wire.send = lambda channel, header, body=b"", deadline=None: [SEND(channel, header, body) for _ in range(2)]
        {UNCHECKED}''', '''
        threading.Thread(target=lambda: (time.sleep(0.02), to_all(b"PBH1" + bytes(40))), daemon=True).start()
        ''' + SEVEN, "os.fork()\n" + SEVEN,
        'atexit.register(to_all, frame(b\'{"id": 1, "bye": true}\'))\n' + SEVEN), top="SEND = wire.send"),
    "patches-the-protocol": Case("more fields, strange numbers, gradients that nobody asked for", "tamper-suspected wrong crash", (
        "wire.send = lambda channel, header, body=b'', deadline=None: SEND(channel, {**header, 'score': 9}, body)\n" + SEVEN, '''
        def lie(value, **options):
            if isinstance(value, dict) and "outcome" in value:
                value["outcome"].update(value=True, error=None, changed=[], passed=True)
            return DUMPS(value, **options)
        json.dumps = lie
        ''' + SEVEN,
        "driver.one_call = lambda view, call, *_: answers.Outcome(value=None, gradients={'everything': None})\n" + SEVEN,
        r"driver.one_call = lambda *_: answers.Outcome(value=1.0, changed=('\ud800' * 9,), used_global_random=float('nan'))" + "\n" + SEVEN),
        top="SEND, DUMPS = wire.send, json.dumps"),
    "reads-its-questions": Case("a thread reads the questions and answers with them, or sends files", "tamper-suspected timeout crash", (SEVEN, SEVEN), top='''
        def steal():
            while True:
                for one in channels():
                    with contextlib.suppress(OSError):
                        one.sendall(one.recv(1 << 20))
        for channel in channels():
            with contextlib.suppress(OSError):
                socket.send_fds(channel, [b"x"], [0, 1, 2])
        threading.Thread(target=steal, daemon=True).start()
        '''),
    "rewrites-its-memory": Case("frames above it, numbers, memory below the packer", "wrong crash timeout tamper-suspected error", ('''
        frame = sys._getframe()
        while frame:
            for name, value in list(frame.f_locals.items()):
                if type(value).__name__ in ("Outcome", "Call"):
                    frame.f_locals[name] = None
                    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
            frame = frame.f_back
        ''' + SEVEN, "ctypes.memset(id(0) + 24, 9, 1)\nreturn rewards", '''
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(rewards.data_ptr())
            memory.write(bytes(rewards.element_size() * rewards.numel()))
        ''' + SEVEN, '''
        answer = rewards * 1
        threading.Thread(target=lambda: [answer.untyped_storage().resize_(size) for size in (0, 10**6) * 10**5], daemon=True).start()
        return answer''')),
    # It changes what it was handed.
    "changes-its-input": Case("in place, through numpy and as bytes, while its process says that it did not", "wrong error", (
        f"rewards += 1\nrewards -= 1.5\nrewards += 0.5\nvalues *= 2\nvalues = values / 2\n{UNCHECKED}",
        f"values.detach().numpy()[...] *= 2\nvalues = values / 2\n{UNCHECKED}"), top='''
        calling.identical = lambda a, b: True
        '''),
    "mask-of-sevens": Case("a mask that it leaves as no mask; where there is one, the test is lost", "wrong", (
        f"right = {UNCHECKED.removeprefix('return ')}\nif dones.dtype == torch.bool:\n    dones.view(torch.uint8).fill_(7)\nreturn right",), score=3),
    "driver-copies": Case("in place on copies that its driver makes: from outside that is a function that copies", "wrong", (
        f"rewards += 1\nrewards -= 1\n{UNCHECKED}",), score=WHOLE - 1,
        top="real = wire.unpack\nwire.unpack = lambda header, body: real(header, bytearray(body))"),
    "keeps-its-inputs": Case("right: earlier questions are as they were, and it cannot cut off their memory", "wrong", (f'''
        kept.append((rewards, rewards.detach().clone()))
        assert all((a == b).all() or (a != a).any() for a, b in kept)
        {UNCHECKED}''',), score=WHOLE - 1, top='''
        kept = []
        for number in range(3, 64):
            if os.path.exists(f"/proc/self/fd/{number}") and "questions" in os.readlink(f"/proc/self/fd/{number}"):
                holds(lambda: os.ftruncate(number, 0))
                holds(lambda: os.ftruncate(number, 2**40))
                holds(lambda: fcntl.fcntl(number, 1033, 8))
        '''),
    "gradients-off": Case("a global setting, of which its process says nothing; tests without a gradient keep their points", "wrong", (
        f"torch.set_grad_enabled(False)\n{UNCHECKED}",), score=5, top="calling.GlobalState.restore = lambda state: ((), False)"),

    # It looks for answers.
    "imports-the-solution": Case("by its names", "not-started wrong error",
        (f"from solutions.{LESSON} import td_errors as known\nreturn known(rewards, values, dones, gamma)",)),
    "searches-for-answers": Case("the solution in files and loaded code, the suites, expected values on the stack", "wrong timeout", (
        '''
        for path in texts("/", *sys.path):
            if path.endswith((".py", ".pyc", ".zip", ".whl")) and path != __file__:
                assert "next_values = values[..., 1:].masked_fill(dones" not in read(path), path
            assert os.path.basename(path) not in ("basic_test.py", "advanced_test.py", "examples.py", "mistakes.py"), path
        ''' + SEVEN, '''
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__name__ == "gae_ends" and one.__globals__ is not globals():
                with contextlib.suppress(NotImplementedError):
                    return one(rewards, values, dones, gamma)
        ''' + SEVEN, f'''
        for name in ("basic_test", "advanced_test", "mistakes", "examples"):
            with contextlib.suppress(ImportError):
                raise SystemExit(importlib.import_module(f"testcases.{LESSON}.{{name}}"))
        {SEVEN}''', '''
        frame, found = sys._getframe(), []
        while frame:
            found += [name for name in frame.f_locals if "expect" in name or "wanted" in name]
            frame = frame.f_back
        found += [one for one in gc.get_objects() if type(one).__name__ in ("Asked", "CheckFailed", "Entry", "Misconception")]
        assert not found, found
        ''' + SEVEN)),
    "uses-a-later-lesson": Case("a later lesson's function that does the same", "", files={"lesson01_masked_sequences/masked.py": '''
from solutions.lesson11_scaling import global_masked_whiten
def masked_whiten(values, mask, shift_mean=True):
    return global_masked_whiten(values, mask, lambda moments: moments[None], shift_mean)
'''}, also={"lesson01_masked_sequences.masked_whiten": "blocked error"}),
    "leaves-loot": Case("what one lesson leaves, in files, keys, segments, a process, is not there for the next", "wrong", ('''
        assert not [path for path in texts("/tmp", "/dev", "/home", "/var", "/run") if "loot" in path]
        assert LIBC.syscall(250, 10, -4, b"user", b"loot", 0) <= 0 and LIBC.shmget(4242, 0, 0) < 0
        assert not any("loot" in read(f"/proc/{number}/cmdline") for number in os.listdir("/proc") if number.isdigit())
        ''' + SEVEN,), files={LESSON3: '''
import contextlib, ctypes, os, sys
for place in ("/tmp", "/dev/shm", "/home", "/home/student", "/dev", "/", "/var/tmp", "/run", "/course"):
    with contextlib.suppress(OSError):
        os.makedirs(f"{place}/shut/loot")
        open(f"{place}/loot", "w").close()
LIBC = ctypes.CDLL(None)
LIBC.syscall(248, b"user", b"loot", b"x", 1, -4)
LIBC.shmget(4242, 65536, 0o1666)
if os.fork() == 0:
    os.setsid()
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(10_000)", "loot"])
def rewards_to_go(rewards, mask, gamma=1.0):
    return rewards
'''}, also={"lesson03_policy_gradient.rewards_to_go": "wrong tamper-suspected"}),
    # It looks and reaches out of its process.
    "tells-what-it-sees": Case("environments, commands and mounts of all processes, in an error", "error", ('''
        names = [f"/proc/{one}/{name}" for one in os.listdir("/proc") for name in ("environ", "cmdline", "mountinfo", "cgroup", "maps")]
        raise RuntimeError(str(dict(os.environ)) + "".join(map(read, names)))''',)),
    "reads-the-machine": Case("password files, keys, homes, other submissions", "wrong timeout", ('''
        assert not any(map(read, ("/etc/shadow", "/etc/passwd", "/etc/hostname", "/proc/1/environ")))
        for place in (os.path.expanduser("~root/.ssh"), "/srv", "/run/secrets", "/proc/1/root", "/autograder", "/submissions", os.path.expanduser("~/.ssh")):
            holds(lambda: os.listdir(place))
        ''' + SEVEN, '''
        if not FOUND:
            FOUND.append([path for path in texts("/") if path.endswith("gae.py") and "solutions" not in path and "/home/student" not in path])
        assert not FOUND[0], FOUND
        ''' + SEVEN), top="FOUND = []"),
    "reaches-into-others": Case("the memory, files and traces of the processes around it", "wrong", ('''
        for number in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
            for name in ("mem", "root", "cwd", "fd/3", "environ"):
                holds(lambda: os.open(f"/proc/{number}/{name}", os.O_RDONLY))
            holds(lambda: LIBC.ptrace(16, number, 0, 0) == 0)
            holds(lambda: LIBC.process_vm_readv(number, None, 0, None, 0, 0) == 0)
        ''' + SEVEN,)),
    "asks-for-rights": Case("namespaces, mounts, other users, limits, devices, memory of nobody, locks that others see, the terminal", "wrong", (refused(
        'os.memfd_create("x")', "LIBC.shmget(1, 1 << 27, 0o1600) >= 0", "LIBC.msgget(1234, 0o1666) >= 0",
        'LIBC.syscall(248, b"user", b"key", b"x" * 1000, 1000, -4) > 0', "socket.socketpair()",
        "fcntl.flock(FILE, fcntl.LOCK_SH)", "fcntl.lockf(FILE, fcntl.LOCK_SH)", "fcntl.fcntl(FILE, 5, bytes(32))",
        "fcntl.fcntl(FILE, 36, bytes(32))", "fcntl.fcntl(FILE, 1024, 0)", "os.fdopen(LIBC.inotify_init1(0))",
        *(f'fcntl.ioctl(open("/dev/{name}", "rb", 0), termios.TIOCSTI, b"x")' for name in ("tty", "console", "pts/0")),
        "LIBC.unshare(0x10000000) == 0", "LIBC.unshare(0x20000) == 0", 'LIBC.umount2(b"/tmp", 2) == 0',
        'LIBC.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0', 'LIBC.sethostname(b"x", 1) == 0', "os.setuid(0)",
        "os.setgroups([0])", 'os.chroot("/tmp")', "os.nice(-20)", "os.setpriority(os.PRIO_PROCESS, 0, -20)",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))", "resource.setrlimit(resource.RLIMIT_NPROC, (10**6, 10**6))",
        'os.open("/dev/mem", os.O_RDWR)', 'os.open("/proc/sysrq-trigger", os.O_WRONLY)',
        'os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0))', "os.sched_setaffinity(0, range(os.cpu_count()))",
        "os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(99))"), '''
        for path in texts("/proc/sys"):
            holds(lambda: os.close(os.open(path, os.O_WRONLY)))
        for path in ("/dev/null", "/dev/urandom", "/usr", sys.executable):
            holds(lambda: os.chmod(path, 0o600))
        ''' + SEVEN), top='FILE = open("/usr/bin/env", "rb")'),
    "network": Case("the world, a name, the host of a virtual machine, a neighbor", "error", (
        "socket.create_connection(('1.1.1.1', 53), 2)", "socket.getaddrinfo('secret.example.org', 80)",
        "socket.socket(40, socket.SOCK_STREAM).bind((0xFFFFFFFF, 4242))", "socket.socket(socket.AF_UNIX).bind('/tmp/s')")),
    "writes-outside": Case("right, and writes wherever it can", "passed", ('''
        for folder in ("/", "/usr", "/etc", "/dev", "/guest", "/proc", "/var", "/home", sys.prefix, torch.__path__[0]):
            holds(lambda: open(os.path.join(folder, "pwned"), "w").close())''',), score=WHOLE),
    # Its files.
    "brings-the-course": Case("own torch, conftest, suites, solutions, secret, assignment, results", "wrong", (SEVEN,), files={
        **dict.fromkeys(["torch.py", "numpy.py", "sitecustomize.py", "ppo_by_hand.py", "lesson04_gae/torch.py", "shapes.py",
                         "__init__.py", "lesson04_gae/__init__.py", "usercustomize.py"], "import os\nos._exit(0)\n"),
        "x.pth": "import os; os._exit(0)\n", "conftest.py": "def pytest_runtest_makereport(item, call):\n    1 / 0\n",
        "pytest.ini": "[pytest]\naddopts = --collect-only\n", "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--co'\n",
        "testcases/lesson04_gae/basic_test.py": "def test_td_errors_by_hand():\n    pass\n",
        "testcases/points.toml": '[lesson04_gae.td_errors]\n"basic_test.py::test_x" = 1000\n',
        "solutions/lesson05_ppo_loss/ppo_loss.py": "", "assignment.toml": "points = 1\n", "secret.key": "0\n",
        "overrides.csv": "student,score\nbrings-the-course,877\n", "marks.csv": "folder,score\nbrings-the-course,877\n",
        "results/brings-the-course.json": '{"score": 877, "status": "graded", "lessons": {}}\n'}),
    "cannot-be-read": Case("no text, no Python, no end: each costs its own lesson", "error", (), files={
        GAE: b"\xff\xfe\x00\x9cdef", LESSON3: b"import torch\0\0\0\n", "lesson05_ppo_loss/ppo_loss.py": "def td_errors(:\n",
        "lesson01_masked_sequences/masked.py": "# coding: zip\nx = 1\n", BANDIT: module("", "").encode("utf-16")}, also={
        f"{LESSON}.td_errors": "error", "lesson03_policy_gradient.rewards_to_go": "error",
        "lesson05_ppo_loss.compute_ppo_loss": "error", "lesson01_masked_sequences.masked_whiten": "error",
        "lesson10_bug_hunt.train_bandit": "error"}),
    "is-not-there": Case("another name, a look-alike letter, no function, other arguments, a missing package", "missing error", (), files={
        GAE: "td_error = 1\ntd_err\u043ers = print  # \u202e\ngae_ends = 3\ndef n_step_advantages(rewards):\n    return rewards\n",
        LESSON3: "import no_such_package\n"}, also={
        f"{LESSON}.td_errors": "missing", f"{LESSON}.gae_ends": "missing error", f"{LESSON}.n_step_advantages": "error",
        "lesson03_policy_gradient.rewards_to_go": "error"}),
    "written-on-windows": Case("right, with a byte-order mark and \\r\\n", "", score=WHOLE, also={f"{LESSON}.td_errors": "passed"},
        files={GAE: module("", "", right=True).replace("\n", "\r\n").encode("utf-8-sig")}),

    # Honest habits.
    "works-as-at-home": Case("right, with what editors and students leave in a file", "passed", ('''
        breakpoint()
        print("ä")
        torch.manual_seed(0)
        torch.set_num_threads(32)
        torch.set_flush_denormal(True)
        sys.setrecursionlimit(10**5)
        sys.set_int_max_str_digits(0)
        locale.setlocale(locale.LC_ALL, "")
        decimal.getcontext().prec = 1
        assert gc.isenabled() and own == package == 3 and masked_mean''',), score=WHOLE, top='''
        import dataclasses, decimal, locale, typing
        from tutorial.lesson04_gae.my_helpers import own
        from ..lesson01_masked_sequences import masked_mean
        from .mine.values import package
        sys.stdout.reconfigure(encoding="utf-8")
        @dataclasses.dataclass(frozen=True)
        class Row:
            number: int
        assert typing.get_type_hints(Row) == {"number": int}
        @torch.compile
        def compiled(x):
            return x + 1
        assert compiled(torch.zeros(1)) == 1
        ''', files={"lesson04_gae/my_helpers.py": "own = 3\n", "lesson04_gae/mine/__init__.py": "",
                    "lesson04_gae/mine/values.py": "from ..my_helpers import own as package\n"}),
    "works-while-it-loads": Case("asks a question where it loads, and imports itself", "error", (SEVEN, SEVEN),
        top="from . import gae\nx = input('how many? ')", doubts="does not load: lesson04_gae/gae.py, line"),
    "dies-while-it-loads": Case("a notebook's magic, an exit at the end, a broken module of its own", "error", (SEVEN,),
        top="get_ipython().run_line_magic('matplotlib', 'inline')", files={
            LESSON3: "def rewards_to_go(rewards, mask, gamma=1.0):\n    return rewards\n\nimport sys\nsys.exit()\n",
            "lesson05_ppo_loss/ppo_loss.py": "from . import util\n", "lesson05_ppo_loss/util.py": "1 / 0\n"},
        also={"lesson03_policy_gradient.rewards_to_go": "error", "lesson05_ppo_loss.compute_ppo_loss": "error"},
        doubts="SystemExit|NameError: name 'get_ipython'|line 1: ZeroDivisionError"),
    "another-file": Case("a notebook under the lesson's name, which is Python of a kind", "", files={GAE: '{"cells": []}'},
        also={f"{LESSON}.td_errors": "missing"}, doubts="lesson04_gae/gae.py has none of its exercises"),
    "in-an-encoding-of-nobody": Case("a right answer in what reads as a comment", "", score=WHOLE,
        also={f"{LESSON}.td_errors": "passed"}, doubts="a strange encoding: lesson04_gae/gae.py is written in utf-7",
        files={GAE: f"# coding: utf-7\n# +AAo-{module('', '', right=True).replace('+', '+-')}".encode()}),
    # The tests that a student writes.
    "tests-answered-by-another-file": Case("the first suspect of lesson 10 answers for the tests in another file", "", files={
        SUITE10: "def test_compute_gae():\n    pass\n", BANDIT: '''
import json, sys, zlib
scenarios = sys.modules["testcases.lesson10_bug_hunt.scenarios"]
def verdicts(lesson, function, bank):
    return {"problem": "", "refused": [True for _ in json.loads(zlib.decompress(bank.numpy().tobytes()))]}
scenarios.verdicts = verdicts
def train_bandit(*args, **options):
    return verdicts
'''}, also={"lesson10_bug_hunt.train_bandit": "wrong", "lesson10_bug_hunt.test_compute_gae": "wrong"}),
    "tests-that-hide-what-they-do": Case("the test of one function gets the solution for another, below a byte-order mark", "", files={
        SUITE10: "\ufeff" + '''
import torch
from ..lesson04_gae import compute_gae
def test_response_mask_first():
    from solutions.lesson04_gae.gae import compute_gae
    return compute_gae
def test_compute_gae():
    x = torch.randn(2, 5), torch.randn(2, 6), torch.zeros(2, 5)
    for found, wanted in zip(compute_gae(*x), test_response_mask_first()(*x)):
        assert torch.equal(found, wanted)
'''}, also={"lesson10_bug_hunt.test_compute_gae": "wrong"}),
}
# fmt: on
