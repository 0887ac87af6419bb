import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.store.layout import MAX_NAME_BYTES, RunPaths, find_run_dirs, run_dir, safe_name

hostile = st.one_of(
    st.text(alphabet=st.characters(), max_size=300),
    st.text("aAbB._-/\\~ \0\n*?:", max_size=12),
    st.text("ab", min_size=100, max_size=200),
)


@given(hostile)
def test_a_name_is_one_visible_path_component_of_bounded_length(text):
    name = safe_name(text)
    assert 1 <= len(name.encode()) <= MAX_NAME_BYTES
    assert name[0] not in ".-"
    assert not name.endswith((".", " "))
    assert not set(name) & set('/\\\0\n\r:*?"<>|')
    assert name.isprintable()


@given(hostile, hostile)
def test_different_texts_give_names_that_differ_on_every_file_system(one, other):
    def folded(text):
        return unicodedata.normalize("NFC", safe_name(text)).casefold()

    assert (folded(one) == folded(other)) == (one == other)


@pytest.mark.parametrize("text", ["django__django-11019", "t1", "a.b-c_d", "sympy_sympy-20590"])
def test_a_good_name_stays_as_it_is(text):
    assert safe_name(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "..",
        ".",
        "",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        ".hidden",
        "-rf",
        "con",
        "NUL.txt",
        "a" * 121,
        "Upper",
        "x~y",
        "a.",
        "line\nbreak",
        "\ud800",
        "..\\..\\x",
    ],
)
def test_any_other_text_is_altered_and_says_so_by_its_hash(text):
    name = safe_name(text)
    readable, tilde, digest = name.rpartition("~")
    assert tilde
    assert readable
    assert len(digest) == 12


def test_a_name_that_was_altered_cannot_be_forged():
    forged = safe_name("HumanEval/0")
    assert safe_name(forged) != forged


def test_other_scripts_stay_readable():
    assert safe_name("任务一").startswith("任务一~")


def test_capitals_of_run_ids_and_namespaces_are_kept(tmp_path):
    found = run_dir(tmp_path, None, "Qwen2.5-7B_humaneval_openai_chat", "Exp1")
    assert found == tmp_path / "Qwen2.5-7B_humaneval_openai_chat" / "Exp1"


def test_no_part_of_a_run_directory_leads_outside(tmp_path):
    found = run_dir(tmp_path, "../up", "/abs/../x", "..")
    assert found.resolve().is_relative_to(tmp_path.resolve())
    assert len(found.relative_to(tmp_path).parts) == 3


def test_a_task_id_with_path_tricks_stays_inside_the_run(tmp_path):
    paths = RunPaths(tmp_path)
    found = paths.attempt_dir("../../../etc/cron.d/x", 1)
    assert found.resolve().is_relative_to(paths.tasks_dir.resolve())
    assert found.parent.parent == paths.tasks_dir


def test_later_executions_have_files_of_their_own(tmp_path):
    paths = RunPaths(tmp_path)
    names = {paths.trajectory_file("t", 1, n).name for n in (1, 2, 3)}
    assert names == {"trajectory.jsonl", "trajectory-2.jsonl", "trajectory-3.jsonl"}
    assert paths.answer_file("t", 1, 2).name == "answer-2.txt"


def test_what_cannot_be_looked_at_hides_no_run_beside_it(tmp_path):
    run = tmp_path / "ns/r1"
    run.mkdir(parents=True)
    (run / "run.json").touch()
    (tmp_path / "notes.txt").touch()
    for name in ("a", "z"):
        (tmp_path / name).symlink_to("x" * 300)  # a name that is too long to be followed
        (tmp_path / "ns" / name).symlink_to("x" * 300)
    assert list(find_run_dirs(tmp_path)) == [run]
    assert list(find_run_dirs(tmp_path / "a")) == []


def test_directories_of_a_run_are_made_where_they_are_missing(tmp_path):
    paths = RunPaths(tmp_path / "r1")
    paths.run_dir.mkdir()
    for attempt in (1, 1, 2):
        paths.make_dir(paths.attempt_dir("t1", attempt))
    assert {path.name for path in (paths.tasks_dir / "t1").iterdir()} == {"attempt-1", "attempt-2"}


def test_a_run_directory_that_is_gone_is_not_made_again(tmp_path):
    paths = RunPaths(tmp_path / "r1")
    with pytest.raises(FileNotFoundError):
        paths.make_dir(paths.attempt_dir("t1", 1))
    assert not paths.run_dir.exists()


def test_run_directories_are_found_at_both_depths_and_never_inside_one(tmp_path):
    shallow, deep = tmp_path / "ns/r1", tmp_path / "name/ns/r2"
    planted = shallow / "tasks/t/attempt-1"
    too_deep = tmp_path / "a/b/c/r3"
    for directory in (shallow, deep, planted, too_deep):
        directory.mkdir(parents=True)
        (directory / "run.json").touch()
    assert set(find_run_dirs(tmp_path)) == {shallow, deep}
    assert list(find_run_dirs(shallow)) == [shallow]
    assert list(find_run_dirs(tmp_path / "missing")) == []
