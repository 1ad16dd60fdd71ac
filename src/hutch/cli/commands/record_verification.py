"""`hutch verify`: verify a record offline, on any machine, without an installation."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hutch.cli import exit_codes
from hutch.store.exported_record_verifier import Report, verify_record
from hutch.store.interview_record_bundle import is_bundle, verify_bundle
from hutch.store.receipt_file_reader import read_receipt
from hutch.store.signed_log_head_statements import Statement


def verify_command(
    file: Annotated[Path, typer.Argument(metavar="RECORD", help="A file written by hutch export.")],
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="FINGERPRINT", help="Accept only signatures by this key. May be repeated."),
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A receipt that the record must match. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Check that a record is complete and signed; name the first bad event if it is not."""
    receipts = [read_receipt(path) for path in receipt or ()]
    if is_bundle(file):
        return _verify_interview(file, key or (), receipts, as_json=as_json)
    report = verify_record(file, keys=key or (), receipts=receipts)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(report)))
    else:
        _show(report)
    return exit_codes.OK if report.ok else exit_codes.NO


def _verify_interview(
    file: Path, keys: Sequence[str], receipts: Sequence[Statement], *, as_json: bool
) -> int:
    report = verify_bundle(file, keys=keys, receipts=receipts)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(report)))
        return exit_codes.OK if report.ok else exit_codes.NO
    if report.ok:
        sealed = "complete: its room commits to all workspaces" if report.sealed else "not sealed"
        typer.echo(f"ok: interview {report.interview}, {len(report.records)} records, {sealed}")
        for each in report.records:
            _show(each)
    else:
        typer.echo(f"BAD: {report.problem}")
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return exit_codes.OK if report.ok else exit_codes.NO


def _show(report: Report) -> None:
    if report.ok:
        ended = "ended" if report.ended else "not ended"
        gaps = f", {report.gaps} {'gap' if report.gaps == 1 else 'gaps'}" if report.gaps else ""
        typer.echo(f"ok: {report.events} events of {report.session}, {ended}, {report.erased} erased{gaps}")
        for fingerprint in report.keys:
            typer.echo(f"signed by {fingerprint}{'' if report.pinned else ' (not checked: use --key)'}")
        if report.receipts:
            typer.echo(f"matches {report.receipts} receipt{'' if report.receipts == 1 else 's'}")
    else:
        typer.echo(f"BAD: {report.problem}")
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)
