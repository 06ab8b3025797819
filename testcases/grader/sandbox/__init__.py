"""The wall: bubblewrap, limits, users, the course as a worker sees it, and how to ask a worker."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .bubblewrap import NoSandbox, check_sandbox
    from .limits import Limits
    from .sandbox import Sandbox, WorkerError
    from .worker_client import SandboxEvaluator

__getattr__ = face(__name__, __file__)
