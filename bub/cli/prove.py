"""`bub prove`: every fault at every implementation of a pipeline, on virtual time, held against the laws of a turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bub.base.diagnostics import Diagnostic, sort_diagnostics
from bub.cli.exits import FAILED, in_color
from bub.cli.opening import usual_file
from bub.cli.options import Options, options_of, pages_of_codes, repository
from bub.cli.output import show_json
from bub.cli.progress import progress
from bub.cli.table import SARIF, load
from bub.cli.terminal import printable
from bub.cli.validate import FindingFormat
from bub.errors import UsageError
from bub.pipeline.report.annotations import render_annotations
from bub.pipeline.report.report import render_json, render_text
from bub.pipeline.report.summary import summary
from bub.pipeline.source.discovery import PipelineFile, discover, resolve_file
from bub.pipeline.source.merge import SHIPPED, load_document
from bub.testing.proving.counterexample import Counterexample
from bub.testing.proving.proof import PATIENCE, Proof
from bub.testing.proving.proof import prove as prove_document


class Pairs(StrEnum):
    """Which pairs of faults are tried at once."""

    guards = "guards"
    all = "all"
    none = "none"


def prove(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...", help="Files, folders with all below them, or bub:NAME; Bub loads their plugins."
        ),
    ] = None,
    mocked: Annotated[
        bool, typer.Option("--mocked", help="Call no implementation: Bub answers for all of them.")
    ] = False,
    pairs: Annotated[
        Pairs, typer.Option(help="Two faults at once: with a gate, clean-up or policy among them, all, or none.")
    ] = Pairs.guards,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail too.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of real time that a profile may take.")] = PATIENCE,
    format: Annotated[FindingFormat, typer.Option(help="How findings are printed.")] = FindingFormat.text,  # noqa: A002 (the option)
) -> int:
    """Let every implementation fail in many ways, and prove that no guard gives way.

    Without PATH, Bub proves the file that `bub run` would use. Plugins run in a copy of the workspace, without network
    and other processes. Ends with 1 if a law is broken or a file has errors (with --strict: warnings), else with 0.
    """
    options = options_of(ctx)
    found, files = _files(options, paths)
    findings, proofs = list(found), []
    for file in files:
        with progress(f"{file.name}: faults tried:", None, sys.stderr) as tell:
            proof = prove_document(
                _read(file),
                profiles=(options.profile,) if options.profile is not None else None,
                workspace=options.workspace or (None if file.shipped or file.path is None else _folder_of(file.path)),
                is_mocked=mocked,
                pairs=pairs.value,
                timeout=timeout,
                tell=tell,
            )
        proofs.append(proof)
        findings += proof.findings
    _report(sort_diagnostics(findings), proofs, format)
    return FAILED if _fails(findings, strict) else 0


def _files(options: Options, paths: Sequence[str] | None) -> tuple[tuple[Diagnostic, ...], Sequence[PipelineFile]]:
    """Return the findings about files that cannot be read, and the files that are meant."""
    named = paths or ([str(options.config)] if options.config is not None else None)
    if not named:
        usual = usual_file(options)
        return (), [PipelineFile(str(usual), usual) if usual is not None else resolve_file(f"{SHIPPED}default")]
    if "-" in named:
        raise UsageError("`bub prove` cannot read a pipeline from a pipe", help="save it to a file, and name that file")
    meant = discover(named, sys.stdin.buffer)
    return meant.findings, meant.files


def _folder_of(file: Path) -> Path:
    return file.absolute().parent


def _read(file: PipelineFile) -> Any:
    assert file.path is not None
    return load_document(file.path if file.shipped else file.path.absolute(), display=file.name)


def _report(findings: Sequence[Diagnostic], proofs: Sequence[Proof], format: FindingFormat) -> None:  # noqa: A002 (as above)
    sources = {name: text for proof in proofs for name, text in proof.document.sources.items()}
    if format is FindingFormat.sarif:
        print(str(load(SARIF)(findings, sources, repository(), pages_of_codes())), end="")
        return
    if format is FindingFormat.json:
        document = json.loads(render_json(findings, len(proofs), pages_of_codes()))
        show_json({**document, "proof": _as_dict(proofs)}, indent=2, ensure_ascii=False)
        return
    if format is FindingFormat.github:
        print(render_annotations(findings, repository(), pages_of_codes()), end="")
    elif findings:
        print(render_text(findings, sources, color=in_color(sys.stdout)))
        print("\n".join(_render(proof.counterexamples) for proof in proofs if proof.counterexamples), end="")
    for name in dict.fromkeys(name for proof in proofs for name in proof.unreached):
        print(printable(f"not tried, because no message reaches it: {name}"), file=sys.stderr)
    print(_summary(findings, proofs))


def _render(counterexamples: Iterable[Counterexample]) -> str:
    """The counter-examples as people paste them."""
    told = []
    for one in counterexamples:
        if one.entry is None:
            told.append(f"# {one.law}: no test can describe this counter-example.\n")
        else:
            tried = "`bub test` says that it fails" if one.fails else "`bub test` passes, because it runs mocks"
            told.append(f"# A counter-example; {tried}:\n{one.entry}")
    return printable_lines("\n".join(told)) + "\n"


def printable_lines(text: str) -> str:
    """Return a text of several lines without control characters."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _summary(findings: Sequence[Diagnostic], proofs: Sequence[Proof]) -> str:
    if not all(proof.ran for proof in proofs) or not proofs:
        return summary(findings, len(proofs))
    faults, laws = sum(proof.faults for proof in proofs), max(proof.laws for proof in proofs)
    if all(proof.ok for proof in proofs):
        return f"proved: {faults:,} faults, {laws} laws"
    return f"not proved: {summary(findings, len(proofs))}, after {faults:,} faults, {laws} laws"


def _as_dict(proofs: Sequence[Proof]) -> dict[str, Any]:
    return {
        "proved": all(proof.ran and proof.ok for proof in proofs),
        "faults": sum(proof.faults for proof in proofs),
        "laws": max((proof.laws for proof in proofs), default=0),
        "unreached": [name for proof in proofs for name in proof.unreached],
        "counterexamples": [
            {"law": one.law, "profile": one.profile, "test": one.entry, "fails": one.fails}
            for proof in proofs
            for one in proof.counterexamples
        ],
    }


def _fails(findings: Sequence[Diagnostic], strict: bool) -> bool:
    return any(finding.severity in (("error", "warning") if strict else ("error",)) for finding in findings)
