"""The results of an exercise, without the points that no work stands behind."""

from testcases.engine.suite import Engine, not_earned

from ..status import PASSED, WRONG, Result


def earned(engine: Engine, results: list[Result]) -> list[Result]:
    """The results of one exercise, those not earned turned to wrong."""
    passed = {result.entry.test: result.requests for result in results if result.status == PASSED}
    if not passed or len(passed) == len(results):
        return results
    lesson, exercise = results[0].entry.lesson, results[0].entry.exercise
    why = not_earned(engine, lesson, exercise, passed)
    head = f"{lesson} · {exercise} · not earned"
    return [
        Result(result.entry, WRONG, f"{head}\n{why[result.entry.test]}") if result.entry.test in why else result
        for result in results
    ]
