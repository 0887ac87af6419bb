"""From what a user wrote to an immutable `Orchestration`, or one error that names everything that is wrong.

Layers, lowest first: built-in defaults, config files, the orchestration's defaults, its requests, arguments. A single
evaluation takes the same way: its arguments become an orchestration of one request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from agentcompass.components import registry
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError
from agentcompass.options import AnyPath, LaunchOptions, RunOptions, RuntimeOptions
from agentcompass.plan import config_files
from agentcompass.plan.arguments import arguments_of, blame_options
from agentcompass.plan.config_files import ConfigFiles
from agentcompass.plan.directories import check_directories
from agentcompass.plan.merge import merge, put
from agentcompass.plan.only import chosen, keep_only
from agentcompass.plan.request import Surroundings, resolve_request
from agentcompass.plan.runtime import check_environments, merged_runtime, resolve_runtime
from agentcompass.secrets import Scrubber
from agentcompass.spec.codec import structure
from agentcompass.spec.document import ARGUMENT_LAYER, check_requests, check_runtime, check_shared
from agentcompass.spec.dump import as_written
from agentcompass.spec.files import LAYER, read_document
from agentcompass.spec.matrix import expand_matrix
from agentcompass.spec.problems import Problems
from agentcompass.spec.references import References
from agentcompass.spec.resolved import Orchestration, Request, RuntimeConfig
from agentcompass.spec.tree import Origin, Written, from_python, mapping, report, text_of
from agentcompass.spec.written import OrchestrationSpec, Price


@frozen(kw_only=True)
class LaunchFlags:
    """What `agentcompass launch` has beside `LaunchOptions`."""

    run_id: str | None = None
    """Name of every request's run directory, whatever the file says."""
    reuse: bool | None = None
    """Whether requests reuse earlier results, unless one says otherwise itself."""


def resolve_run(
    options: RunOptions,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    now: datetime,
    random_suffix: str,
    as_flags: bool = False,
) -> Orchestration:
    """Resolve a single evaluation.

    Args:
        options: The arguments; None means not given.
        cwd: Where relative paths and the search for the project's config file start.
        environ: Values of `${NAME}`, and the home directories.
        now: Goes into ids, as UTC.
        random_suffix: Goes into ids.
        as_flags: Whether messages speak of `--k` or of `argument k`.

    Raises:
        ConfigurationError: Something is wrong; the error names all of it.
    """
    resolver = _Resolver(cwd, environ, now, random_suffix)
    arguments = arguments_of(options, resolver.problems, as_flags=as_flags)
    request = arguments.request
    if options.model is None:
        report(resolver.problems, request, "is required", "model")
    document = merge(
        arguments.shared,
        mapping(request.origin, {"requests": Written(data=(request,), origin=request.origin)}),
    )
    resolver.read_config_files(options.config_path)
    document = resolver.follow(document or request)
    check_shared(document, resolver.problems)
    return resolver.resolve(
        document,
        arguments=None,
        is_single=True,
        finish=lambda problems: blame_options(problems, options, as_flags=as_flags),
    )


def resolve_launch(
    spec: OrchestrationSpec | Path,
    options: LaunchOptions,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    now: datetime,
    random_suffix: str,
    flags: LaunchFlags | None = None,
) -> Orchestration:
    """Resolve an orchestration.

    Args:
        spec: An object, or a file of YAML or JSON.
        options: As for `resolve_run`, like the arguments that follow.
        cwd: Where relative paths start, that of the file included.
        environ: Values of `${NAME}`, and the home directories.
        now: Goes into ids, as UTC.
        random_suffix: Goes into ids.
        flags: What only the command line has, whose messages then speak of `--k`; None otherwise.

    Raises:
        ConfigurationError: Something is wrong; the error names all of it.
    """
    resolver = _Resolver(cwd, environ, now, random_suffix)
    problems = resolver.problems
    if isinstance(spec, OrchestrationSpec):
        origin = Origin(layer=LAYER, where=OrchestrationSpec.__name__)
        document = from_python(spec, origin, problems)
    else:
        path = cwd / spec
        document = read_document(path, config_files.display_name(path, cwd), problems)
    resolver.read_config_files(options.config_path)
    arguments = arguments_of(options, problems, as_flags=flags is not None)
    document = expand_matrix(resolver.follow(document), problems)
    check_shared(document, problems)
    if options.only is not None:
        where = "argument only" if flags is None else "--only"
        document = keep_only(document, options.only, where, problems)
    if flags is not None and flags.reuse is not None:
        document = put(document, "defaults.runtime.reuse", _flag(flags.reuse, "--reuse"))
    if flags is not None and flags.run_id is not None:
        run_id = resolver.follow(_flag(flags.run_id, "--run-id"))
        document = _with_run_id(document, run_id)
    return resolver.resolve(document, arguments=arguments.shared, is_single=False)


def override_runtime(
    orchestration: Orchestration,
    options: RuntimeOptions,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    as_flags: bool = False,
) -> Orchestration:
    """Return a resolved orchestration with what is given in `options` instead of its own shared settings, and requests.

    Raises:
        ConfigurationError: An option is wrong; config files make no sense after resolving.
    """
    problems = Problems()
    if options.config_path is not None:
        sentence = "needs an OrchestrationSpec: this orchestration is resolved already"
        problems.add("--config" if as_flags else "argument config_path", "", sentence)
    shared = arguments_of(options, problems, as_flags=as_flags).shared
    section = References(environ).follow(shared).get("runtime")
    changed = None
    if section is not None:
        check_runtime(section, problems, in_config_file=True)
        changed = resolve_runtime(section, cwd=cwd, environ=environ, problems=problems)
        check_environments(changed, section, _environments(orchestration.requests), problems)
    if isinstance(options, LaunchOptions) and options.only is not None:
        where = "--only" if as_flags else "argument only"
        names = [request.name for request in orchestration.requests]
        kept = chosen(names, options.only, where, problems)
        requests = tuple(request for request in orchestration.requests if request.name in kept)
        orchestration = attrs.evolve(orchestration, requests=requests)
    problems.raise_if_any()
    if section is None or changed is None:
        return orchestration
    values = {key: getattr(changed, key) for key, _ in section.items()}
    runtime = attrs.evolve(orchestration.runtime, **values)
    given = dict.fromkeys((*orchestration.given_runtime, *_given(section)))
    return attrs.evolve(
        orchestration, runtime=runtime, written_runtime=None, given_runtime=tuple(given)
    )


def configured_runtime(*, cwd: Path, environ: Mapping[str, str]) -> RuntimeConfig:
    """Return the settings that configuration files and built-in defaults give a run that says nothing itself.

    Raises:
        ConfigurationError: A configuration file is wrong.
    """
    problems = Problems()
    files = config_files.load(
        None, cwd=cwd, environ=environ, references=References(environ), problems=problems
    )
    runtime = resolve_runtime(files.section("runtime"), cwd=cwd, environ=environ, problems=problems)
    problems.raise_if_any()
    return runtime


class _Resolver:
    """One resolving, with what all its steps need."""

    def __init__(
        self, cwd: Path, environ: Mapping[str, str], now: datetime, random_suffix: str
    ) -> None:
        self._cwd = cwd
        self._environ = environ
        self._id = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{random_suffix}"
        self._references = References(environ)
        self._config_files = ConfigFiles(files=(), root=None)
        self.problems = Problems()

    def read_config_files(self, named: AnyPath | Sequence[AnyPath] | None) -> None:
        self._config_files = config_files.load(
            named,
            cwd=self._cwd,
            environ=self._environ,
            references=self._references,
            problems=self.problems,
        )

    def follow(self, document: Written) -> Written:
        """Replace references by values, and learn what is secret."""
        return self._references.follow(document)

    def resolve(
        self,
        document: Written,
        *,
        arguments: Written | None,
        is_single: bool,
        finish: Callable[[Problems], None] = lambda _problems: None,
    ) -> Orchestration:
        """Resolve a checked document; `finish` may change the problems before they are raised."""
        check_requests(document, self.problems)
        if arguments is not None:
            arguments = self._references.follow(arguments)
            check_runtime(arguments.get("runtime") or _NOTHING, self.problems, in_config_file=True)
        section = merged_runtime(self._config_files, document, arguments)
        runtime = resolve_runtime(
            section, cwd=self._cwd, environ=self._environ, problems=self.problems
        )
        notes = [f"configuration file read: {name}" for name in self._config_files.files]
        own_recipes = self._own_recipes(runtime, section)
        requests = self._requests(document, runtime, own_recipes, notes)
        prices = _prices(self._config_files, self.problems)
        if section is not None:
            check_environments(runtime, section, _environments(requests), self.problems)
        finish(self.problems)
        scrubber = Scrubber()
        scrubber.register(*self._references.secrets)
        self.problems.raise_if_any(scrubber.scrub)
        return Orchestration(
            id=self._id,
            name=requests[0].name if is_single else text_of(document.get("name")) or self._id,
            requests=requests,
            runtime=runtime,
            secrets=self._references.secrets,
            is_single=is_single,
            prices=prices,
            written_runtime=as_written(runtime, section, self._references.secrets),
            given_runtime=_given(section),
            notes=tuple(notes),
        )

    def _requests(
        self,
        document: Written,
        runtime: RuntimeConfig,
        own_recipes: frozenset[str],
        notes: list[str],
    ) -> tuple[Request, ...]:
        written = document.get("requests")
        if written is None or not isinstance(written.data, tuple):
            return ()
        around = Surroundings(
            config_files=self._config_files,
            defaults=document.get("defaults"),
            references=self._references,
            own_recipes=own_recipes,
            default_run_id=self._id,
            problems=self.problems,
            notes=notes,
        )
        items = [request for request in written.data if request.is_mapping]
        pairs = [(item, resolve_request(item, around)) for item in items]
        good = [(item, request) for item, request in pairs if request is not None]
        check_directories(good, runtime.results_dir, self.problems)
        return tuple(request for _, request in good)

    def _own_recipes(self, runtime: RuntimeConfig, section: Written | None) -> frozenset[str]:
        if section is None or not runtime.recipe_dirs:
            return frozenset()
        try:
            return frozenset(registry.load_recipe_dirs(runtime.recipe_dirs))
        except ConfigurationError as exc:
            report(self.problems, section, str(exc).replace("\n", ". "), "recipe_dirs")
            return frozenset()


_NOTHING: Final = mapping(Origin(layer=ARGUMENT_LAYER, where=""))


def _given(section: Written | None) -> tuple[str, ...]:
    """The settings that somebody wrote; a null is none."""
    items = section.items() if section else ()
    return tuple(name for name, item in items if item.data is not None)


def _flag(value: object, where: str) -> Written:
    return Written(data=value, origin=Origin(layer=ARGUMENT_LAYER, where=where))


def _with_run_id(document: Written, run_id: Written) -> Written:
    requests = document.get("requests")
    if requests is None or not isinstance(requests.data, tuple):
        return document
    data = tuple(
        put(item, "output.run_id", run_id) if item.is_mapping else item for item in requests.data
    )
    changed = attrs.evolve(requests, data=data)
    return attrs.evolve(document, data={**document.data, "requests": changed})


def _environments(requests: tuple[Request, ...]) -> set[str]:
    return {request.environment.id for request in requests}


def _prices(files: ConfigFiles, problems: Problems) -> dict[str, dict[str, float]]:
    """US dollars per million tokens by pattern of model ids."""
    section = files.section("prices")
    known = {}
    for pattern, node in section.items() if section else ():
        price = structure(node, Price, problems) if node.is_mapping else None
        if price is not None:
            known[pattern] = {k: v for k, v in attrs.asdict(price).items() if v is not None}
    return known
