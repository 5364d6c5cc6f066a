"""`bub validate`: every finding of every pipeline file, without running it; with `--plugins` what a run proves too."""

# Without `from __future__ import annotations`: of texts, Typer would evaluate each four times, at each start.

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bub.base.diagnostics import SEVERITIES, Diagnostic
from bub.base.locate import find_pipeline
from bub.cli.exits import FAILED, in_color, one_line
from bub.cli.options import Options, options_of, pages_of_codes, repository, workspace_of
from bub.cli.progress import progress
from bub.cli.table import ANNOTATIONS, BASELINE, CHANGED, PROOF, REPAIR, REPORT, SARIF, load
from bub.cli.terminal import printable
from bub.errors import BubError, UsageError
from bub.pipeline.check.many import check_many
from bub.pipeline.check.validate import Further
from bub.pipeline.report.summary import summary
from bub.pipeline.source.discovery import Discovered, PipelineFile, discover, resolve_file
from bub.pipeline.source.merge import SHIPPED


class Severity(StrEnum):
    """How much a finding matters, the worst first."""

    error = "error"
    warning = "warning"
    note = "note"


class FindingFormat(StrEnum):
    """How findings are printed."""

    text = "text"
    json = "json"
    github = "github"
    sarif = "sarif"


def validate(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Files, folders with all below them, bub:NAME, or - to read one."),
    ] = None,
    format: Annotated[FindingFormat, typer.Option(help="How findings are printed.")] = FindingFormat.text,  # noqa: A002 (the option)
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail too.")] = False,
    plugins: Annotated[
        bool, typer.Option("--plugins", help="Import the plugins too, and check what a run would check.")
    ] = False,
    severity: Annotated[
        Severity, typer.Option(help="Show findings from this severity on; what is not shown does not fail.")
    ] = Severity.warning,
    pedantic: Annotated[
        bool, typer.Option("--pedantic", help="Show notes too, as --severity note does: you may want it so.")
    ] = False,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Leave out the warnings that this file knows.")
    ] = None,
    write_baseline: Annotated[
        bool, typer.Option("--write-baseline", help="Write the warnings of today to the baseline first.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Repair first what has one sure repair.")] = False,
    fix_all: Annotated[
        bool, typer.Option("--fix-all", help="Repair first what has a sure repair, or one that is probably meant.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Check the pipelines among PATH, and all below here that extend one.")
    ] = False,
) -> int:
    """Check pipeline files, all profiles of each, and print every finding.

    Without PATH, Bub checks the file that `bub run` would use. Without --plugins it runs nothing and imports no plugin,
    so files of strangers are safe to check. Ends with 1 if a file has errors (with --strict: warnings), else with 0.
    """
    options = options_of(ctx)
    fix = fix or fix_all
    if (plugins or fix) and "-" in (paths or ()):
        cannot = "--plugins cannot check" if plugins else "--fix cannot repair"
        raise UsageError(f"{cannot} a pipeline from a pipe", help="save it to a file, and name that file")
    if write_baseline and baseline is None:
        raise UsageError("--write-baseline does not know which file", help="name it: --baseline FILE --write-baseline")
    meant = _meant_files(options, paths, changed=changed)
    profiles = (options.profile,) if options.profile is not None else None
    all_written = _repair(meant.files, profiles, likely=fix_all) if fix else True
    proof = _proof(options, named=bool(paths)) if plugins else None
    with progress("checked", len(meant.files), sys.stderr) as tell:
        checked = check_many(meant.files, profiles=profiles, environ=os.environ, tell=tell, further=proof)
    found = (*meant.findings, *checked.diagnostics)
    if baseline is not None:
        found = _without_known(found, checked.sources, baseline, write=write_baseline, whole=profiles is None)
    least = SEVERITIES.index("note" if pedantic else severity.value)
    findings = [finding for finding in found if SEVERITIES.index(finding.severity) <= least]
    hidden = (*checked.diagnostics, *checked.ignored)
    print(_report(findings, hidden, checked.sources, len(meant.files) + len(meant.findings), format), end="")
    return FAILED if _fails(findings, strict) or not all_written else 0


def _meant_files(options: Options, paths: Sequence[str] | None, *, changed: bool) -> Discovered:
    if changed:
        if not paths:
            raise UsageError(
                "--changed needs the names of files", help="name the files that changed, or leave the option out"
            )
        return load(CHANGED)(paths, sys.stdin.buffer)  # type: ignore[no-any-return]  # what is loaded by name is of any type
    return discover(paths, sys.stdin.buffer) if paths else Discovered((_usual_file(options),))


def _repair(files: Iterable[PipelineFile], profiles: Sequence[str] | None, *, likely: bool) -> bool:
    """Repair files one by one and say what became of each; False if one that is to be repaired cannot be written."""
    repair, all_written = load(REPAIR), True
    for file in files:
        try:
            said = str(repair(file.path, profiles=profiles, likely=likely))
        except UsageError:
            raise
        except BubError as error:
            said, all_written = one_line(error), False
        if said:
            print(printable(said), file=sys.stderr)
    return all_written


def _without_known(
    found: Sequence[Diagnostic], sources: Iterable[str], baseline: Path, *, write: bool, whole: bool
) -> tuple[Diagnostic, ...]:
    """Return what a baseline does not know; with `write`, it comes to know all warnings first.

    What a `whole` check, of all profiles, no longer finds is mended.
    """
    if write:
        number = load(f"{BASELINE}write_baseline")(baseline, found)
        print(printable(f"{baseline} knows {number} warning{'' if number == 1 else 's'}"), file=sys.stderr)
    sifted = load(f"{BASELINE}sift")(baseline, found, sources)
    if sifted.gone and whole:
        are = "warning is" if sifted.gone == 1 else "warnings are"
        print(printable(f"{sifted.gone} {are} mended: --write-baseline takes them out of {baseline}"), file=sys.stderr)
    return tuple(sifted.told)


def _report(
    findings: Sequence[Diagnostic],
    hidden: Iterable[Diagnostic],
    sources: Mapping[str, str],
    files: int,
    format: FindingFormat,  # noqa: A002 (as above)
) -> str:
    if format is FindingFormat.json:
        return str(load(f"{REPORT}render_json")(findings, files, pages_of_codes()))
    if format is FindingFormat.sarif:
        return str(load(SARIF)(findings, sources, repository(), pages_of_codes()))
    if format is FindingFormat.github:
        text = load(ANNOTATIONS)(findings, repository(), pages_of_codes())
    elif findings:
        text = load(f"{REPORT}render_text")(findings, sources, color=in_color(sys.stdout), hidden=hidden) + "\n"
    else:
        text = ""
    return f"{text}{summary(findings, files)}\n"


def _fails(findings: Sequence[Diagnostic], strict: bool) -> bool:
    return any(finding.severity in (("error", "warning") if strict else ("error",)) for finding in findings)


def _usual_file(options: Options) -> PipelineFile:
    if options.config is not None and str(options.config).startswith(SHIPPED):
        return resolve_file(str(options.config))
    found = find_pipeline(options.config, workspace_of(options), os.environ)
    if found.path is not None:
        return PipelineFile(str(found.path), found.path)
    return resolve_file(f"{SHIPPED}default")


def _proof(options: Options, *, named: bool) -> Further:
    """Return the check that `--plugins` adds. A file that nobody named is looked for again, since it needs trust."""
    prove = load(PROOF)

    def further(file: PipelineFile, profiles: Sequence[str]) -> list[Diagnostic]:
        config: Path | str | None = options.config
        if named:
            config = file.name if file.shipped else file.path
        found: list[Diagnostic] = prove(config, workspace_of(options), profiles)
        return found

    return further
