"""What the course consists of: lessons and regions, the handles that tests call, points, sections of the texts."""

from typing import TYPE_CHECKING

from testcases.harness.faces import face

if TYPE_CHECKING:
    from .encodings import strange_encoding, text_of
    from .handles import Exercise, Scenario, asking, exercise_of, target_of
    from .lessons import (
        CAPSTONE,
        END,
        REGION,
        ROOT,
        SOLUTIONS,
        TESTCASES,
        TUTORIAL,
        Lesson,
        Region,
        course_lessons,
        electives,
        lesson,
        lesson_names,
        region_of,
        region_text,
        regions,
    )
    from .points import (
        AGREEMENT,
        DEFAULTS,
        FLOAT32,
        KINDS,
        REFUSALS,
        Entry,
        case_of,
        entries,
        entry_of,
        function_of,
        is_basic,
        lesson_of,
        made_tests,
        manifest,
        once_written,
        suites,
    )
    from .sections import DEFAULT, headings, section_for, section_of

__getattr__ = face(__name__, __file__)
