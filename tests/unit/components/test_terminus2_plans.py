"""How replies of `terminus2` are read, in both forms: what is taken, what is mended, what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentcompass.components.harnesses.terminus2 import plan_json, plan_xml
from agentcompass.components.harnesses.terminus2.plan import LONGEST_WAIT, Command

PARSERS = [plan_json.parse, plan_xml.parse]
LS = Command(keystrokes="ls\n", duration=0.1)
GOOD = {
    "analysis": "a",
    "plan": "p",
    "commands": [{"keystrokes": "ls\n", "duration": 0.1}],
    "task_complete": False,
}


def in_json(**changes):
    return json.dumps({**GOOD, **changes})


def in_xml(commands='<keystrokes duration="0.1">ls\n</keystrokes>', more=""):
    return (
        f"<response>\n<analysis>a</analysis>\n<plan>p</plan>\n<commands>\n{commands}\n</commands>\n"
        f"{more}</response>"
    )


# --- JSON


def test_a_reply_in_json_is_read():
    plan = plan_json.parse(in_json(task_complete=True))
    assert (plan.commands, plan.is_done, plan.analysis) == ((LS,), True, "a")
    assert (plan.warnings, plan.error, plan.is_whole) == ((), None, True)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (f"Well, I think so.\n{json.dumps(GOOD)}", "text before the JSON object"),
        (f"{json.dumps(GOOD)}\nThat is all.", "text after the JSON object"),
        (f"Use {{braces}} like {{}}: {json.dumps(GOOD)}", "text before the JSON object"),
        (in_json(mood="good"), "unknown fields were ignored: mood"),
        (json.dumps(GOOD)[:-1], "was not closed"),
        (in_json(analysis=None), '"analysis" is missing'),
        (in_json(plan=["x"]), '"plan" is no text'),
        (in_json(task_complete="perhaps"), "neither true nor false"),
        (in_json(commands=[{"keystrokes": "ls\n", "duration": 0.1, "x": 1}]), "unknown fields"),
    ],
    ids=["before", "after", "braces", "field", "unclosed", "missing", "type", "truth", "command"],
)
def test_what_is_odd_about_json_is_a_warning_and_done_all_the_same(text, warning):
    plan = plan_json.parse(text)
    assert (plan.commands, plan.error) == ((LS,), None)
    assert [said for said in plan.warnings if warning in said]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no JSON object"),
        ("I am done.", "no JSON object"),
        ('{"analysis": "it said "no"", "commands": []}', "not valid"),
        ("[1, 2]", "no JSON object"),
        (in_json(commands=None), '"commands" is missing'),
        (in_json(commands="ls"), '"commands" is no list'),
        (in_json(commands=["ls"]), "command 1 is no object"),
        (in_json(commands=[{"duration": 1}]), 'command 1 has no text "keystrokes"'),
        ('{"a": ' * 100_000, "nested too deeply"),
    ],
    ids=["empty", "prose", "quotes", "list", "none", "text", "item", "keys", "deep"],
)
def test_what_cannot_be_followed_in_json_is_an_error_and_nothing_is_done(text, error):
    plan = plan_json.parse(text)
    assert error in plan.error
    assert plan.commands == ()


@pytest.mark.parametrize("fence", ["```json\n%s\n```", "```\n%s\n```", "  \n%s\n\n"])
def test_a_fence_around_json_is_nothing_odd(fence):
    assert plan_json.parse(fence % json.dumps(GOOD)).warnings == ()


def test_keys_that_were_cut_in_the_middle_are_not_pressed():
    plan = plan_json.parse('{"analysis": "", "commands": [{"keystrokes": "rm -rf /tm')
    assert plan.error is not None
    assert (plan.commands, plan.is_whole) == ((), False)


def test_line_ends_inside_of_texts_are_taken_as_they_are():
    plan = plan_json.parse(json.dumps(GOOD).replace("\\n", "\n"))
    assert (plan.commands, plan.warnings) == ((LS,), ())


def test_an_object_inside_of_one_that_cannot_be_read_is_not_taken_for_the_reply():
    plan = plan_json.parse('{"plan": "say "hi"", "commands": [{"keystrokes": "ls\\n"}]}')
    assert "not valid" in plan.error


def test_a_finished_task_needs_no_commands():
    plan = plan_json.parse('{"analysis": "a", "plan": "p", "task_complete": "True"}')
    assert (plan.is_done, plan.commands, plan.error) == (True, (), None)


# --- XML


def test_a_reply_in_xml_is_read():
    plan = plan_xml.parse(in_xml(more="<task_complete>true</task_complete>\n"))
    assert (plan.commands, plan.is_done, plan.analysis) == ((LS,), True, "a")
    assert (plan.warnings, plan.error, plan.is_whole) == ((), None, True)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (f"Well.\n{in_xml()}", "text before <response>"),
        (f"{in_xml()} Yes.", "text after <response>"),
        (in_xml().removesuffix("</response>"), "<response> is not closed"),
        (in_xml().replace("<analysis>a</analysis>", ""), "<analysis> is missing"),
        (in_xml().replace("<response>", "").replace("</response>", ""), "<response> is missing"),
    ],
    ids=["before", "after", "unclosed", "analysis", "response"],
)
def test_what_is_odd_about_xml_is_a_warning_and_done_all_the_same(text, warning):
    plan = plan_xml.parse(text)
    assert (plan.commands, plan.error) == ((LS,), None)
    assert [said for said in plan.warnings if warning in said]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no <response>"),
        ("<response><analysis>a</analysis></response>", "<commands> is missing"),
        (in_xml("<keystrokes>ls"), "<keystrokes> is not closed"),
    ],
    ids=["empty", "commands", "keystrokes"],
)
def test_what_cannot_be_followed_in_xml_is_an_error_and_nothing_is_done(text, error):
    plan = plan_xml.parse(text)
    assert error in plan.error
    assert plan.commands == ()


def test_keys_between_tags_are_verbatim():
    keys = "cat <<'EOF' > a.xml\n<commands>\n<plan>&amp; <b>1 < 2</b></plan>\n</commands>\nEOF\n"
    plan = plan_xml.parse(in_xml(f'<keystrokes duration="1">{keys}</keystrokes>'))
    assert [command.keystrokes for command in plan.commands] == [keys]
    assert "XML entities" in plan.warnings[0]


def test_a_duration_may_have_a_tag_of_its_own():
    plan = plan_xml.parse(
        in_xml("<command><keystrokes>ls\n</keystrokes><duration>0.1</duration></command>")
    )
    assert plan.commands == (LS,)


def test_commands_that_are_cut_off_are_no_whole_reply():
    assert not plan_xml.parse(in_xml()[:-40]).is_whole


# --- both


@pytest.mark.parametrize("form", ["json", "xml"])
@pytest.mark.parametrize(
    ("asked", "taken", "warning"),
    [
        ("5", 5.0, None),
        ("61", LONGEST_WAIT, "more than 60 s"),
        ("-1", 0.0, "negative"),
        ("soon", 1.0, "no number"),
        ("NaN", 1.0, "no number"),
        (None, 1.0, "no duration"),
    ],
)
def test_a_wait_is_within_its_bounds(form, asked, taken, warning):
    if form == "json":
        command = {"keystrokes": "ls\n", **({} if asked is None else {"duration": asked})}
        plan = plan_json.parse(in_json(commands=[command]))
    else:
        attribute = "" if asked is None else f' duration="{asked}"'
        plan = plan_xml.parse(in_xml(f"<keystrokes{attribute}>ls\n</keystrokes>"))
    assert plan.commands[0].duration == taken
    assert (warning is None) == (plan.warnings == ())
    assert warning is None or warning in plan.warnings[0]


def test_keys_that_run_into_the_next_command_are_pointed_out():
    listed = [{"keystrokes": keys, "duration": 0} for keys in ("cd /tmp", "C-c", "ls -l\n")]
    (warning,) = plan_json.parse(in_json(commands=listed)).warnings
    assert warning.startswith("command 1 does not end in a newline")


TEXTS = st.text() | st.text(alphabet='{}[]"\\:,<>/ \ntruecomandskyplw', max_size=300)


@pytest.mark.parametrize("parse", PARSERS, ids=["json", "xml"])
@given(text=TEXTS, cut=st.integers(min_value=0, max_value=400))
@example(text='{"commands": [{}]}', cut=0)
@example(text="<response><commands><keystrokes duration=>x</keystrokes>", cut=0)
def test_any_text_gives_a_plan_or_a_reason_but_never_both(parse, text, cut):
    for candidate in (text, in_json()[:cut] + text, in_xml()[:cut] + text):
        plan = parse(candidate)
        assert plan.error is None or plan.commands == ()
        assert all(0 <= command.duration <= LONGEST_WAIT for command in plan.commands)


COMMANDS = st.lists(
    st.tuples(st.text(), st.floats(min_value=0, max_value=LONGEST_WAIT)), max_size=4
)


@given(commands=COMMANDS, done=st.booleans(), prose=st.text(alphabet="abc .\n", max_size=20))
def test_what_is_written_as_json_is_read_back(commands, done, prose):
    listed = [{"keystrokes": keys, "duration": seconds} for keys, seconds in commands]
    plan = plan_json.parse(prose + in_json(commands=listed, task_complete=done) + prose)
    read = [(command.keystrokes, command.duration) for command in plan.commands]
    assert (read, plan.is_done, plan.error) == (commands, done, None)


KEYS = st.text(alphabet=st.characters(exclude_categories=["Cs"])).filter(lambda s: "</" not in s)


@given(commands=st.lists(st.tuples(KEYS, st.integers(0, 60)), max_size=4))
def test_what_is_written_as_xml_is_read_back(commands):
    body = "".join(f'<keystrokes duration="{s}">{keys}</keystrokes>\n' for keys, s in commands)
    plan = plan_xml.parse(in_xml(body))
    assert [(c.keystrokes, c.duration) for c in plan.commands] == commands
