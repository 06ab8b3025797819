"""The secret behind the fresh inputs."""

from testcases.grader.marking import secret


def test_seeds_are_wide_and_differ_by_secret_lesson_and_submission():
    one, other = secret.secret_of("a"), secret.new()
    seeds = {kind.seed(lesson, content) for kind in (one, other) for lesson in "45" for content in ("x", "y")}
    assert len(seeds) == 8 and all(2**90 < seed < 2**128 for seed in seeds)
    assert one.seed("4", "x") == secret.secret_of(" a\n").seed("4", "x")


def test_nothing_that_is_shown_holds_the_secret():
    one = secret.secret_of("a")
    assert "_key" not in repr(one) and one._key.hex() not in one.id
    assert one.id == secret.secret_of("a").id != secret.secret_of("b").id and len(one.id) == 16


def test_it_is_made_once(tmp_path):
    first = secret.kept_in(tmp_path)
    assert secret.kept_in(tmp_path) == first != secret.new()
    assert [path.name for path in tmp_path.iterdir()] == [secret.FILE]
    assert (tmp_path / secret.FILE).stat().st_mode & 0o777 == 0o600
